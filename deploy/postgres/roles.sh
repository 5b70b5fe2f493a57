#!/bin/sh
# Runs once, when the database volume is new. Three logins, each with the least it
# needs: the owner of the schema (migrate), the service (api and worker: owns nothing,
# does not bypass row-level security), and Temporal, which sees its own databases only.
set -eu

psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
  -v owner_password="$OWNER_DB_PASSWORD" \
  -v app_password="$APP_DB_PASSWORD" \
  -v temporal_password="$TEMPORAL_DB_PASSWORD" <<'SQL'
CREATE ROLE agentruntime_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE agentruntime_app NOLOGIN NOBYPASSRLS;
CREATE ROLE agentruntime_service LOGIN NOBYPASSRLS PASSWORD :'app_password' IN ROLE agentruntime_app;
CREATE ROLE temporal LOGIN PASSWORD :'temporal_password';

CREATE DATABASE agentruntime OWNER agentruntime_owner;
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;

-- Postgres lets everybody connect to every database unless told otherwise.
REVOKE CONNECT, TEMPORARY ON DATABASE agentruntime, temporal, temporal_visibility FROM PUBLIC;
GRANT CONNECT ON DATABASE agentruntime TO agentruntime_app;
SQL
