#!/bin/sh
# Brings Temporal's two databases to the schema of this image's version. Both steps
# may be repeated; deploy/postgres/roles.sh made the databases.
set -eu

for store in temporal visibility; do
  database=temporal
  [ "$store" = temporal ] || database=temporal_visibility
  SQL_DATABASE=$database temporal-sql-tool setup-schema --version 0.0
  SQL_DATABASE=$database temporal-sql-tool update-schema --schema-dir "/etc/temporal/schema/postgresql/v12/$store/versioned"
done
