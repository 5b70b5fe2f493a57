package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNotMigrated means that Postgres answers, and its tables are not those of this release.
var ErrNotMigrated = errors.New("the database is not migrated to this release: run `agentruntime migrate`")

// versionQuery reads the version of the schema. Goose keeps it in a table of its own.
const versionQuery = "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied"

// SchemaVersion returns the version of the schema at url, as the role that owns it sees it: 0 where
// nothing was migrated yet.
func SchemaVersion(ctx context.Context, url string) (int64, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, errors.New("db: schema: cannot connect")
	}
	defer conn.Close(ctx)
	var version int64
	err = conn.QueryRow(ctx, versionQuery).Scan(&version)
	if lacksTable(err) {
		return 0, nil
	}
	return version, err
}

// CheckSchema returns ErrNotMigrated where the schema is older than this release. A newer one is
// of a release that this one can run beside.
func (p *Pool) CheckSchema(ctx context.Context) error {
	newest, err := newestMigration()
	if err != nil {
		return err
	}
	var version int64
	err = p.pool.QueryRow(ctx, versionQuery).Scan(&version)
	switch {
	case lacksTable(err), err == nil && version < newest:
		return ErrNotMigrated
	case err != nil:
		return translate(fmt.Errorf("db: version of the schema: %w", err))
	}
	return nil
}

// lacksTable reports that goose's table is not there, or that no migration has let the service's
// role read it yet.
func lacksTable(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pe.Code == "42P01" || pe.Code == "42501")
}

// newestMigration returns the number of the newest file in migrations.
func newestMigration() (newest int64, err error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return 0, fmt.Errorf("db: migrations: %w", err)
	}
	for _, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("db: migrations: %s has no number", name)
		}
		newest = max(newest, version)
	}
	return newest, nil
}
