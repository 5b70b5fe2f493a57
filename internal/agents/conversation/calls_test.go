package conversation

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/ended"
)

// desk is the sessions of a tenant, with an engine that only notes what it is asked.
type desk struct {
	*Service
	t      *testing.T
	db     testkit.DB
	tenant uuid.UUID
	engine *notedEngine
	agents *oneAgent
	now    time.Time
}

// oneAgent has the same definition for all agents. meet, where it is not nil, is called by each that
// looks one up.
type oneAgent struct{ meet func() }

func (a *oneAgent) Agent(_ context.Context, _, id uuid.UUID, _ int32) (Agent, error) {
	if a.meet != nil {
		a.meet()
	}
	d := agentdef.Default()
	return Agent{ID: id, Version: 1, Definition: &d}, nil
}

// notedEngine has all workflows open, but those that are closed or unknown.
type notedEngine struct {
	mu                     sync.Mutex
	started, asked, nudged []string
	closed, unknown        map[string]bool
}

func (e *notedEngine) StartTurn(_ context.Context, _ flow.TurnInput, workflowID string, _ flow.Listing) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.started = append(e.started, workflowID)
	return nil
}

func (e *notedEngine) IsOpen(_ context.Context, workflowID string) (open, found bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, workflowID)
	return !e.closed[workflowID], !e.unknown[workflowID], nil
}

func (e *notedEngine) Nudge(_ context.Context, workflowID string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nudged = append(e.nudged, workflowID)
	return true, nil
}

// took returns what the engine was asked since the last call.
func (e *notedEngine) took() (started, asked, nudged int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	started, asked, nudged = len(e.started), len(e.asked), len(e.nudged)
	e.started, e.asked, e.nudged = nil, nil, nil
	return started, asked, nudged
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, db: testkit.Database(t), tenant: uuid.Must(uuid.NewV7()), engine: &notedEngine{closed: map[string]bool{}, unknown: map[string]bool{}}, agents: &oneAgent{}, now: time.Now()}
	notices, err := ended.NewNotices(ended.Config{}, ended.Deps{DB: d.db.Pool, Log: testkit.Quiet()})
	require.NoError(t, err)
	d.Service, err = New(Config{}, Deps{
		DB: d.db.Pool, Agents: d.agents, Customers: noCustomers{}, Engine: d.engine, Keys: testkit.Keys{}, Notices: notices, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return d.now },
	})
	require.NoError(t, err)
	d.exec("INSERT INTO tenants (id, name) VALUES ($1, 'shop')", d.tenant)
	return d
}

func (d *desk) exec(sql string, args ...any) {
	d.t.Helper()
	_, err := d.db.Tenant(d.tenant).Exec(d.t.Context(), sql, args...)
	require.NoError(d.t, err)
}

func (d *desk) number(sql string, args ...any) (n int) {
	d.t.Helper()
	require.NoError(d.t, d.db.Tenant(d.tenant).QueryRow(d.t.Context(), sql, args...).Scan(&n))
	return n
}

// Attempts at one call that do not know of each other, because the worker of one was taken for dead,
// get one message. Only that is noted, once, and a later attempt notes nothing.
func TestAttemptsAtOneCallGetOneMessage(t *testing.T) {
	t.Parallel()
	const attempts = 4
	d := newDesk(t)
	var all sync.WaitGroup
	all.Add(attempts)
	d.agents.meet = func() { all.Done(); all.Wait() } // each has looked for the message, and found none
	call := Call{
		AgentID: uuid.New(), Version: 1, Message: "Look into it", Execution: "exec_above", Workflow: "turn:1", Step: "answers/0/calls/0",
		By: actor.Actor{Kind: actor.Agent, TenantID: d.tenant, ID: uuid.New()}, Chain: agentloop.Chain{Turns: []agentloop.Caller{{ID: uuid.New()}}}, Metadata: []byte(`{}`),
	}
	who := actor.Actor{Kind: actor.Key, TenantID: d.tenant, ID: uuid.New()}
	var mu sync.Mutex
	var noted []string
	var got [attempts]Turn
	var failed [attempts]error
	var done sync.WaitGroup
	for i := range attempts {
		done.Go(func() {
			one := call
			queued := ""
			one.Also = func(_ *db.Batch, executionID string) { queued = executionID }
			got[i], failed[i] = d.Ask(t.Context(), who, one)
			mu.Lock()
			defer mu.Unlock()
			if queued != "" {
				noted = append(noted, queued)
			}
		})
	}
	done.Wait()
	for i := range attempts {
		require.NoError(t, failed[i])
		require.Equal(t, got[0].ID, got[i].ID)
	}
	require.Equal(t, 1, d.number("SELECT count(*) FROM turns"))
	require.Equal(t, 1, d.number("SELECT count(*) FROM conversations"))
	require.Equal(t, []string{got[0].ExecutionID}, noted)
	started, _, _ := d.engine.took()
	require.Equal(t, 1, started)

	d.agents.meet = nil
	call.Also = func(*db.Batch, string) { t.Error("it was noted before") }
	again, err := d.Ask(t.Context(), who, call)
	require.NoError(t, err)
	require.Equal(t, got[0].ID, again.ID)
}
