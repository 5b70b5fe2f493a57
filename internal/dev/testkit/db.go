// Package testkit gives tests a real Postgres: one private server per test binary,
// one database of its own per test. Only tests import it.
package testkit

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/dev/devserver/postgres"
	"agentruntime/internal/dev/testkit/testdir"
)

// template is the migrated database that each test's is a copy of.
const template = "template_agentruntime"

// appRole is the role that the service logs in with.
const appRole = "agentruntime_app"

// server is shared by the tests of one binary; starting one takes most of a second.
type server struct {
	once sync.Once
	err  error
	pg   *postgres.Server
	dir  string
	// app is the address of the template for the service's role.
	app  *url.URL
	next atomic.Int64
}

//nolint:gochecknoglobals // one Postgres per test binary, stopped by Main
var shared server

// Main runs the tests and stops the Postgres that they started. It compares the events that
// they emit with the schemas. A package that
// uses Database calls it from TestMain.
func Main(m *testing.M) {
	checkEvents()
	code := m.Run()
	if shared.pg != nil {
		if err := shared.pg.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "testkit: stopping Postgres:", err)
		}
		_ = os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

func (s *server) start() error {
	s.once.Do(func() {
		ctx := context.Background()
		if s.dir, s.err = testdir.Make(); s.err != nil {
			return
		}
		s.pg, s.err = postgres.Start(ctx, postgres.Config{Dir: s.dir, Log: Quiet()})
		if s.err != nil {
			return
		}
		if s.err = s.pg.CreateDatabase(ctx, template); s.err != nil {
			return
		}
		if s.err = db.Migrate(ctx, s.pg.SuperuserURL(template)); s.err != nil {
			return
		}
		var login string
		if login, s.err = s.pg.LoginURL(ctx, appRole, template); s.err == nil {
			s.app, s.err = url.Parse(login)
		}
	})
	return s.err
}

// DB is a migrated, empty database that belongs to one test.
type DB struct {
	// Pool is what the service would use: its role is bound by row-level security.
	*db.Pool
	// AppURL is the address for the service's role, AdminURL for a superuser.
	AppURL, AdminURL string
}

// Database makes a database for tb and drops it afterwards.
func Database(tb testing.TB) DB {
	tb.Helper()
	require.NoError(tb, shared.start())
	ctx := context.Background()
	name := fmt.Sprintf("test_%d", shared.next.Add(1))
	require.NoError(tb, shared.pg.CloneDatabase(ctx, template, name))
	tb.Cleanup(func() { _ = shared.pg.DropDatabase(ctx, name) })
	app := *shared.app
	app.Path = "/" + name
	pool, err := db.Open(ctx, db.Config{URL: app.String()})
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	return DB{Pool: pool, AppURL: app.String(), AdminURL: shared.pg.SuperuserURL(name)}
}

// Quiet is a log that nobody reads.
func Quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
