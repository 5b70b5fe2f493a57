package execution_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/ended"
	"agentruntime/internal/record/event"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// rig is the executions of a database of its own, with an engine that only notes who was told.
type rig struct {
	*execution.Service

	t      *testing.T
	db     testkit.DB
	tenant uuid.UUID
	engine *engine
	admin  *pgx.Conn
	maps   *definitions
	// results has the results of runs.
	results execution.Results
}

// definitions has one Map, or none, and others by their ids. meet, where it is not nil, is called by each
// that looks one up.
type definitions struct {
	program *stepmachine.Program
	others  map[uuid.UUID]*stepmachine.Program
	meet    func()
}

func (d *definitions) Named(ctx context.Context, tenant, id uuid.UUID, number int32) (execution.Version, error) {
	return d.Version(ctx, tenant, id, number)
}

// LastPublished knows nothing, so each trigger looks the Map up.
func (d *definitions) LastPublished(uuid.UUID, uuid.UUID) (execution.Version, bool) {
	return execution.Version{}, false
}

func (d *definitions) Version(_ context.Context, _, id uuid.UUID, _ int32) (execution.Version, error) {
	if d.meet != nil {
		d.meet()
	}
	program, other := d.others[id]
	if !other {
		program = d.program
	}
	if program == nil {
		return execution.Version{}, fault.New(fault.CodeMapNotFound, "")
	}
	return execution.Version{MapID: id, Number: 1, Program: program, MapType: mapdef.NonCognitive}, nil
}

type engine struct {
	mu      sync.Mutex
	told    []string
	started []string
	// applies are the applies that were started. ended: an operator has ended each workflow. lost: the
	// engine knows none.
	applies     []flow.ApplyRef
	ended, lost bool
}

func (e *engine) StartMap(_ context.Context, _ flow.MapInput, id string, _ flow.Listing) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.started = append(e.started, id)
	return nil
}

// startedSince returns the workflows that were started since the last call.
func (e *engine) startedSince() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	started := e.started
	e.started = nil
	return started
}

func (e *engine) StartApply(_ context.Context, ref flow.ApplyRef, _ flow.Listing) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.applies = append(e.applies, ref)
	return nil
}

// awaitStarted waits until n workflows were started since the last call, and returns them. Those that
// an end has given a place are started beside it.
func (e *engine) awaitStarted(t *testing.T, n int) (started []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		started = append(started, e.startedSince()...)
		return len(started) >= n
	}, time.Minute, time.Millisecond)
	return started
}

func (e *engine) IsOpen(context.Context, string) (open, found bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.ended && !e.lost, !e.lost, nil
}

func (e *engine) Nudge(_ context.Context, id string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, id)
	return true, nil
}

// take returns who was told since.
func (e *engine) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	told := e.told
	e.told = nil
	slices.Sort(told)
	return told
}

// nothing knows no verbs. unmasked: what masks their results cannot be read. asked, where it is not nil,
// gets the calls that are to be masked. secret is what the tenant has stored; "" for nothing. reads: that is
// asked of the database.
type nothing struct {
	unmasked bool
	reads    bool
	asked    *[]execution.ShownCall
	secret   string
	sandbox  expression.Sandbox
}

func (nothing) Result(context.Context, uuid.UUID, uuid.UUID) (json.RawMessage, error) {
	return nil, nil
}

func (n nothing) MaskCalls(_ context.Context, _ uuid.UUID, calls []execution.ShownCall) bool {
	if n.asked != nil {
		*n.asked = calls
	}
	return !n.unmasked
}

func (n nothing) QueueOwn(_ context.Context, b *db.Batch, tenant uuid.UUID, value json.RawMessage) (func() json.RawMessage, error) {
	if n.reads {
		db.QueueExec(b, dbsqlc.New().BecomeTenant, tenant.String())
	}
	return func() json.RawMessage { return redact.MaskValues(value, map[string]bool{n.secret: n.secret != ""}) }, nil
}

func (nothing) Check(context.Context, uuid.UUID, string, json.RawMessage) ([]fault.Detail, error) {
	return nil, nil
}

func (n nothing) For(string) expression.Sandbox { return n.sandbox }

func (n nothing) Briefly(string) expression.Sandbox { return n.sandbox }

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, db: testkit.Database(t), tenant: uuid.New(), engine: &engine{}, maps: &definitions{}, results: nothing{}}
	var err error
	r.admin, err = pgx.Connect(t.Context(), r.db.AdminURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.admin.Close(context.Background()) })
	r.exec(`INSERT INTO tenants (id, name) VALUES ($1, 'x')`, r.tenant)
	r.Service = r.service(nothing{})
	return r
}

// service is a process that knows the verbs.
func (r *rig) service(verbs nothing) *execution.Service {
	t := r.t
	t.Helper()
	notices, err := ended.NewNotices(ended.Config{}, ended.Deps{DB: r.db.Pool, Log: testkit.Quiet()})
	require.NoError(t, err)
	events, err := event.New(event.Deps{DB: r.db.Pool, Keys: testkit.Keys{}, Log: testkit.Quiet()})
	require.NoError(t, err)
	journal, err := audit.NewJournal(audit.JournalConfig{}, audit.JournalDeps{DB: r.db.Pool, Log: testkit.Quiet()})
	require.NoError(t, err)
	s, err := execution.New(execution.Config{}, execution.Deps{
		DB: r.db.Pool, Definitions: r.maps, Results: r.results, Arguments: verbs, Engine: r.engine, Keys: testkit.Keys{}, Events: events, Notices: notices,
		Journal: journal, Sandbox: verbs, Log: testkit.Quiet(),
	})
	require.NoError(t, err)
	return s
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	_, err := r.admin.Exec(context.Background(), sql, args...)
	require.NoError(r.t, err)
}

func (r *rig) number(sql string) (n int) {
	r.t.Helper()
	require.NoError(r.t, r.admin.QueryRow(context.Background(), sql).Scan(&n))
	return n
}

// triggered is an execution that has begun.
func (r *rig) triggered(name string) flow.MapRef {
	r.t.Helper()
	id := uuid.Must(uuid.NewV7())
	r.exec(`INSERT INTO map_executions (id, tenant_id, execution_id, map_id, version, map_type, dry_run, fingerprint, payload, metadata, origin, request_id, source_addr, workflow_id, updated_at)
		VALUES ($1, $2, 'exec_' || $3, $1, 1, 'non_cognitive', false, '', '', '{}', 'key', '', '', $3, now())`, id, r.tenant, name)
	return flow.MapRef{TenantID: r.tenant, ID: id, Attempt: 1}
}

// wait has the execution wait in its step, and returns what came before.
func (r *rig) wait(ref flow.MapRef, path, kind, correlate string) (came []string) {
	r.t.Helper()
	return r.look(ref, nil, stepmachine.AwaitEvent{Ref: stepmachine.Ref{Path: path}, Type: kind, Correlate: correlate})
}

// look reads all news of the execution after the places, which it moves.
func (r *rig) look(ref flow.MapRef, places map[string]string, waits ...stepmachine.Command) (came []string) {
	r.t.Helper()
	if places == nil {
		places = map[string]string{}
	}
	for more := true; more; waits = nil {
		news, err := r.Look(context.Background(), flow.MapLook{MapWrites: flow.MapWrites{MapRef: ref, Waits: waits}, Places: places})
		require.NoError(r.t, err)
		for _, e := range news.Arrived {
			var body struct {
				APIKeyID string `json:"api_key_id"`
			}
			require.NoError(r.t, json.Unmarshal(e.Event.JSON, &body))
			came = append(came, e.Ref.Path+" "+body.APIKeyID)
		}
		maps.Copy(places, news.Places)
		more = news.More
	}
	return came
}

// begin opens a transaction that has an xid and has written nothing.
func (r *rig) begin() pgx.Tx {
	r.t.Helper()
	conn, err := pgx.Connect(context.Background(), r.db.AppURL)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(context.Background())
	require.NoError(r.t, err)
	_, err = tx.Exec(context.Background(), "SELECT set_config('app.tenant_id', $1, true), pg_current_xact_id()", r.tenant.String())
	require.NoError(r.t, err)
	return tx
}

func (r *rig) emitIn(tx pgx.Tx, name string) {
	r.t.Helper()
	b := &db.Batch{}
	event.Queue(b, event.Event{TenantID: r.tenant, Body: event.Revoked{APIKeyID: name}})
	require.NoError(r.t, b.SendIn(context.Background(), tx))
}

// emit commits an event and returns when it is complete.
func (r *rig) emit(name string) {
	r.t.Helper()
	tx := r.begin()
	r.emitIn(tx, name)
	require.NoError(r.t, tx.Commit(context.Background()))
	require.NoError(r.t, tx.Conn().Close(context.Background())) // a server has room for few
}

// settle waits until all events are complete: tests share a server, whose transactions come between.
func (r *rig) settle() {
	r.t.Helper()
	for r.number("SELECT count(*) FROM events WHERE xid >= pg_snapshot_xmin(pg_current_snapshot())") > 0 {
		require.NoError(r.t, r.t.Context().Err())
	}
}

func (r *rig) tell() []string {
	r.t.Helper()
	require.NoError(r.t, r.Tell(context.Background()))
	return r.engine.take()
}

const revoked = "key.revoked"

func TestWaitFindsEventsSinceTheTriggerOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.emit("before the trigger")
	ref := r.triggered("one")
	r.emit("since")
	r.settle()
	require.Equal(t, []string{"/steps/0 since"}, r.wait(ref, "/steps/0", revoked, ""))
	// A repeat of the write after a crash finds the same.
	require.Equal(t, []string{"/steps/0 since"}, r.wait(ref, "/steps/0", revoked, ""))
	require.Equal(t, 1, r.number("SELECT count(*) FROM map_waits"))
}

func TestEventWhoseTransactionCommitsLateIsFoundOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.triggered("one")
	places := map[string]string{}
	require.Empty(t, r.look(ref, places, stepmachine.AwaitEvent{Ref: stepmachine.Ref{Path: "/steps/0"}, Type: revoked}))
	r.emit("first")
	r.settle()
	early := r.begin() // its event has the earlier place and the later commit
	r.emit("quick")
	require.Equal(t, []string{"/steps/0 first"}, r.look(ref, places), "before the quick one, another may still come")
	require.Equal(t, []string{"one"}, r.tell())
	require.Empty(t, r.tell())
	r.emitIn(early, "late")
	require.NoError(t, early.Commit(t.Context()))
	r.settle()
	require.Equal(t, []string{"one"}, r.tell())
	require.Equal(t, []string{"/steps/0 late", "/steps/0 quick"}, r.look(ref, places))
	require.Empty(t, r.look(ref, places))
	require.Empty(t, r.tell(), "each event is told of once")
}

// The registration of a wait, the look after it and the job run beside the transactions of events
// in any order: each event is found.
func TestNoEventIsLostBetweenALookAndTheJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const executions, events = 8, 60
	refs, places := make([]flow.MapRef, executions), make([]map[string]string, executions)
	found := make([][]string, executions)
	for i := range refs {
		refs[i], places[i] = r.triggered("e"+string(rune('a'+i))), map[string]string{}
	}
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for range events / 3 {
				r.emit("n")
			}
		})
	}
	for i := range refs {
		found[i] = r.look(refs[i], places[i], stepmachine.AwaitEvent{Ref: stepmachine.Ref{Path: "/steps/0"}, Type: revoked})
		for _, told := range r.tell() {
			for j := range refs {
				if told == "e"+string(rune('a'+j)) && places[j] != nil {
					found[j] = append(found[j], r.look(refs[j], places[j])...)
				}
			}
		}
	}
	writers.Wait()
	r.settle()
	for _, told := range r.tell() {
		j := int(told[1] - 'a')
		found[j] = append(found[j], r.look(refs[j], places[j])...)
	}
	for i := range refs {
		require.Len(t, found[i], events, "execution %d", i)
	}
}

func TestOnlyThoseThatWaitForTheEventAreTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	waits, other, correlated := r.triggered("waits"), r.triggered("other"), r.triggered("correlated")
	require.Empty(t, r.tell(), "a tenant without waits is not looked at")
	require.Zero(t, r.number("SELECT count(*) FROM map_watches"))
	r.wait(waits, "/steps/0", revoked, "")
	r.wait(other, "/steps/0", "custom.x", "")
	r.wait(correlated, "/steps/0", revoked, "o-1")
	r.wait(other, "/steps/1", "a signal", "")
	require.Equal(t, 3, r.number("SELECT count(*) FROM map_waits"), "no event has the name of a signal")
	r.emit("n")
	r.settle()
	require.Equal(t, []string{"waits"}, r.tell())
	require.Equal(t, 1, r.number("SELECT count(*) FROM map_executions WHERE news_at IS NOT NULL"))

	// A lost signal to the workflow is made up for.
	r.exec("UPDATE map_executions SET news_at = now() - interval '1 minute' WHERE news_at IS NOT NULL")
	require.NoError(t, r.SweepNews(t.Context()))
	require.Equal(t, []string{"waits"}, r.engine.take())
	r.look(waits, nil)
	require.NoError(t, r.SweepNews(t.Context()))
	require.Empty(t, r.engine.take())

	// Nobody waits any longer, so nobody is looked after.
	for _, ref := range []flow.MapRef{waits, other, correlated} {
		r.look(ref, nil, stepmachine.StopAwaiting{Ref: stepmachine.Ref{Path: "/steps/0"}})
	}
	r.tell()
	require.Zero(t, r.number("SELECT count(*) FROM map_watches"))
}

// The row of a wait that has ended stays until a later workflow task. Its events are not read again.
func TestLookReadsNothingForAWaitThatHasEnded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.triggered("one")
	r.wait(ref, "/steps/0", revoked, "")
	for n := range 60 { // more than one look returns
		r.emit(strconv.Itoa(n))
	}
	r.settle()
	look := func(ended ...string) flow.MapNews {
		news, err := r.Look(t.Context(), flow.MapLook{MapWrites: flow.MapWrites{MapRef: ref}, Ended: ended})
		require.NoError(t, err)
		return news
	}
	require.Len(t, look().Arrived, 50)
	require.True(t, look().More)
	news := look("/steps/0")
	require.Empty(t, news.Arrived)
	require.False(t, news.More)
}
