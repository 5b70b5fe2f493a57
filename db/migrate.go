package db

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql functions/*.sql
var files embed.FS

// firstVersion is the version of the first migration. Versions below it are of the time before the first
// release.
const firstVersion = 1001

// ErrTooOld means that the tables are of the time before the first release, and no migration leads from there
// to here.
var ErrTooOld = errors.New("the database is of a version before the first release, which cannot be migrated: make a new database")

// Migrate brings the schema of the database at url to the newest version and replaces the
// functions. url is that of the role that owns the schema. Several processes may call it at
// once: one works, and a session lock makes the others wait. The error is ErrTooOld where the database is
// from before the first release; it stays as it is.
func Migrate(ctx context.Context, url string) error {
	switch version, err := SchemaVersion(ctx, url); {
	case err != nil:
		return err
	case version > 0 && version < firstVersion:
		return ErrTooOld
	}
	p, done, err := provider(url)
	if err != nil {
		return err
	}
	defer done()
	if err := catchUpVersionIDs(ctx, url); err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("db: migrate: %w", err)
	}
	version, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("db: migrate: %w", err)
	}
	if sources := p.ListSources(); version > sources[len(sources)-1].Version {
		// A newer release has migrated the database, and its functions fit its tables.
		return nil
	}
	return replaceFunctions(ctx, url)
}

// catchUpVersionIDs puts the ids of goose's table after those that are taken. Where
// wal_level is minimal, as in development, a crash before the first checkpoint sets a new
// sequence back, and the next migration would take an id a second time.
func catchUpVersionIDs(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return errors.New("db: migrate: cannot connect")
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `DO $$ BEGIN
		IF to_regclass('goose_db_version') IS NOT NULL THEN
			PERFORM setval('goose_db_version_id_seq', greatest((SELECT max(id) FROM goose_db_version), (SELECT last_value FROM goose_db_version_id_seq)));
		END IF;
	END $$`)
	if err != nil {
		return fmt.Errorf("db: migrate: ids of versions: %w", err)
	}
	return nil
}

// replaceFunctions creates or replaces every function of db/functions, all or none.
func replaceFunctions(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return errors.New("db: functions: cannot connect")
	}
	defer conn.Close(ctx)
	var all []string
	// Without the lock, two processes that replace one function at once would fail.
	all = append(all, "SELECT pg_advisory_xact_lock(hashtextextended('db.functions', 0))")
	err = fs.WalkDir(files, "functions", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(path)
		all = append(all, string(text))
		return err
	})
	if err == nil {
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, strings.Join(all, ";\n"), pgx.QueryExecModeSimpleProtocol)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("db: functions: %w", err)
	}
	return nil
}

func provider(url string) (*goose.Provider, func(), error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, nil, errors.New("db: the database URL is not valid")
	}
	conn := stdlib.OpenDB(*cfg)
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("db: migration lock: %w", err)
	}
	dir, err := fs.Sub(files, "migrations")
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("db: migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, conn, dir, goose.WithSessionLocker(locker))
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("db: migrations: %w", err)
	}
	return p, func() { _ = p.Close() }, nil
}
