package customer_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/quota"
	"agentruntime/internal/tenant/customer"
)

// office is a tenant with the service that keeps its customers.
type office struct {
	*customer.Service
	t   *testing.T
	db  testkit.DB
	who actor.Actor
	at  time.Time
	// started are the erasures that were asked for; failing is what the next start returns.
	started []flow.CustomerRef
	failing error
	letters shelf
	notes   shelf
}

// StartErasure implements customer.Workflows.
func (o *office) StartErasure(_ context.Context, ref flow.CustomerRef) error {
	err := o.failing
	if o.failing = nil; err == nil {
		o.started = append(o.started, ref)
	}
	return err
}

// shelf stores so many things about customers.
type shelf struct {
	has   int64
	waits bool
	fails error
	asked time.Time
	names []string // of what came before that
	since int64    // how many have come after that
	late  []string // of those
}

// EraseOf implements customer.Holder.
func (s *shelf) EraseOf(_ context.Context, _ pgx.Tx, _ uuid.UUID, names []string, before time.Time, most int) (int64, bool, error) {
	if err := s.fails; err != nil {
		s.fails = nil
		return 0, false, err
	}
	has := &s.has
	if before.After(s.asked.Add(time.Minute)) {
		s.late, has = names, &s.since
	} else {
		s.names = names
	}
	n := min(*has, int64(most))
	*has -= n
	return n, n == 0 && s.waits, nil
}

func newOffice(t *testing.T) *office {
	t.Helper()
	return newOfficeWith(t, quota.Limits{})
}

func newOfficeWith(t *testing.T, quotas quota.Limits) *office {
	t.Helper()
	o := &office{t: t, db: testkit.Database(t), at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	o.letters.asked, o.notes.asked = o.at, o.at
	var err error
	o.Service, err = customer.New(customer.Deps{
		DB: o.db.Pool, Quotas: quotas, Now: func() time.Time { return o.at }, Workflows: o, Log: slog.New(slog.DiscardHandler),
		Holders: []customer.Held{{Kind: "letters", Holder: &o.letters}, {Kind: "notes", Holder: &o.notes}},
	})
	require.NoError(t, err)
	o.who = o.tenant()
	return o
}

// tenant adds a tenant and returns a user of it.
func (o *office) tenant() actor.Actor {
	o.t.Helper()
	id := uuid.Must(uuid.NewV7())
	o.exec("INSERT INTO tenants (id, name) VALUES ($1, 'shop')", id)
	return actor.Actor{Kind: actor.User, TenantID: id, ID: uuid.Must(uuid.NewV7()), Role: actor.RoleOwner, RequestID: "req", SourceAddr: "192.0.2.1"}
}

// admin runs fn on a connection that row-level security does not bind.
func (o *office) admin(fn func(*pgx.Conn)) {
	o.t.Helper()
	conn, err := pgx.Connect(o.t.Context(), o.db.AdminURL)
	require.NoError(o.t, err)
	defer conn.Close(context.WithoutCancel(o.t.Context()))
	fn(conn)
}

func (o *office) exec(sql string, args ...any) {
	o.t.Helper()
	o.admin(func(conn *pgx.Conn) {
		_, err := conn.Exec(o.t.Context(), sql, args...)
		require.NoError(o.t, err, sql)
	})
}

func (o *office) count(sql string, args ...any) (n int) {
	o.t.Helper()
	o.admin(func(conn *pgx.Conn) { require.NoError(o.t, conn.QueryRow(o.t.Context(), sql, args...).Scan(&n), sql) })
	return n
}

// made creates or changes a customer and fails the test where that is refused.
func (o *office) made(in customer.Identity) customer.Customer {
	o.t.Helper()
	c, _, err := o.Upsert(o.t.Context(), o.who, in)
	require.NoError(o.t, err)
	return c
}

func refused(t *testing.T, code fault.Code, err error) *fault.Error {
	t.Helper()
	f := fault.As(err)
	require.NotNil(t, f, "%v", err)
	require.Equal(t, code, f.Code, "%v", err)
	return f
}
