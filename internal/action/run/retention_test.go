package run_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/fault"
)

const day = 24 * time.Hour

// pass lets so many days go by for the service, and has the job do its work.
func (r *rig) pass(days int) {
	r.t.Helper()
	r.ahead.Add(int64(time.Duration(days) * day))
	require.NoError(r.t, r.EraseOld(r.t.Context()))
}

// expired requires that a repeat of the call is refused, also by a process that has not seen it.
func (r *rig) expired(verbName, id, args string, more ...func(*run.Request)) {
	r.t.Helper()
	req := run.Request{Verb: "shop:" + verbName, Args: json.RawMessage(args), ExecutionID: id, Metadata: json.RawMessage(`{}`)}
	for _, m := range more {
		m(&req)
	}
	for _, s := range []*run.Service{r.Service, r.another()} {
		_, err := s.Do(r.t.Context(), r.caller(), req)
		f := fault.As(err)
		require.NotNil(r.t, f, "%v", err)
		require.Equal(r.t, fault.CodeResultExpired, f.Code)
		require.Equal(r.t, id, f.ExecutionID)
	}
}

func dryRun(q *run.Request) { q.DryRun = true }

func TestOldResultsAreErasedAndTheirRunsNeverRunAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	named := func(q *run.Request) { q.Metadata = json.RawMessage(`{"customer_id":"ada"}`) }
	args := `{"note":"canary"}`
	r.policies(rule(governance.ActionRequireApproval, "keyed"), rule(governance.ActionAllow, "pay"))
	r.must(r.do("pay", "executed", args, named))
	rejected := r.held("keyed", "rejected", args)
	r.decide(rejected, r.user("admin"), "reject")
	require.Equal(t, run.StateRejected, r.wake(rejected).State)
	edited := r.held("keyed", "edited", args)
	r.decide(edited, r.user("admin"), "approve", `{"note":"edited canary"}`)
	edited = r.wake(edited)
	r.decide(edited, r.user("owner"), "approve")
	require.Equal(t, run.StateExecuted, r.wake(edited).State)
	r.loses()
	r.must(r.do("pay", "unknown", args))
	waits := r.held("keyed", "waits", args)
	intercepted := r.held("keyed", "intercepted", args, dryRun)
	r.engine.dead.Store(true)
	r.must(r.do("pay", "claimed", args, hurry))
	before := r.count(`SELECT count(*) FROM audit_records`)
	effects := r.provider.effects.Load()

	r.pass(29)
	require.Zero(t, r.erased(), "they are kept for 30 days")
	r.pass(2)
	for _, id := range []string{"executed", "rejected", "edited", "unknown"} {
		got, err := r.Get(t.Context(), r.caller(), id)
		require.NoError(t, err)
		require.NotNil(t, got.ErasedAt, id)
		require.Nil(t, got.Unreadable)
		shown := r.Shown(t.Context(), got)
		require.Empty(t, shown.Args)
		require.Empty(t, shown.Result)
		require.Empty(t, shown.EditedArgs)
	}
	require.Equal(t, 4, r.erased())
	require.Equal(t, 4, r.count(`SELECT count(*) FROM runs WHERE args = '' AND result IS NULL AND coalesce(edited_args, '') = ''`))
	require.Zero(t, r.count(`SELECT count(*) FROM approvals WHERE execution_id IN ('rejected', 'edited') AND (args <> '{}' OR request IS NOT NULL)`))
	require.Zero(t, r.count(`SELECT count(*) FROM approval_decisions WHERE edited_args IS NOT NULL`))
	r.expired("pay", "executed", args, named)
	r.expired("pay", "executed", `{"note":"another"}`, func(q *run.Request) { q.ExecutionID, q.IdempotencyKey, q.KeyByHeader = "executed", "executed", true })
	r.expired("keyed", "rejected", args)
	r.expired("keyed", "edited", args)
	require.NotNil(t, r.read(edited).EditedArgs, "that it was edited is known")
	r.expired("pay", "unknown", args)
	require.Equal(t, effects, r.provider.effects.Load())
	listed, _, err := r.List(t.Context(), r.caller(), run.Filter{CustomerID: "ada", Status: "executed", Limit: 10})
	require.NoError(t, err)
	require.Len(t, listed, 1)
	require.NotNil(t, listed[0].ErasedAt)
	require.Equal(t, before, r.count(`SELECT count(*) FROM audit_records`), "the audit trail stays as it is")

	// An unknown outcome can still be settled, and what is said of it then is not kept either.
	settled, err := r.Resolve(t.Context(), r.caller(), "unknown", run.Resolution{Executed: true, Result: json.RawMessage(`{"note":"canary"}`), Reason: "seen"})
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, settled.State)
	require.Zero(t, r.count(`SELECT count(*) FROM runs WHERE execution_id = 'unknown' AND result IS NOT NULL`))
	r.expired("pay", "unknown", args)

	// What has not ended is not touched, and goes with what it needs.
	for _, x := range []run.Run{waits, intercepted} {
		require.JSONEq(t, args, string(r.read(x).Args))
		require.Equal(t, x.State, r.read(x).State)
	}
	require.Equal(t, 1, r.count(`SELECT count(*) FROM approvals WHERE execution_id = 'waits' AND args <> '{}'`))
	require.Equal(t, 3, r.count(`SELECT count(*) FROM runs_left`))
	r.engine.dead.Store(false)
	r.answers(200)
	require.NoError(t, r.Sweep(t.Context()))
	require.Eventually(t, func() bool {
		return r.count(`SELECT count(*) FROM runs WHERE execution_id = 'claimed' AND state = 'refused'`) == 1
	}, 20*time.Second, 10*time.Millisecond)
	r.pass(2)
	require.Equal(t, 5, r.erased(), "its time was over, so it ended without a call, and is old by now")
	require.Equal(t, 2, r.count(`SELECT count(*) FROM runs_left`))
}

func TestErasedRunWhoseIDIsFreeRunsAgainAndIsErasedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionBlock, "pay"))
	_, err := r.do("pay", "one", `{"n":1}`)
	require.NoError(t, err)
	r.pass(31)
	require.Equal(t, 1, r.count(`SELECT count(*) FROM runs WHERE erased_at IS NOT NULL AND state = 'blocked'`))

	r.policies(rule(governance.ActionAllow, "pay"))
	out := r.must(r.do("pay", "one", `{"n":2}`))
	require.Equal(t, run.StateExecuted, out.Run.State)
	require.Nil(t, out.Run.ErasedAt)
	require.JSONEq(t, `{"n":2}`, string(r.read(out.Run).Args))
	require.Equal(t, 1, r.count(`SELECT count(*) FROM runs_left`), "the job must look at it again")
	r.pass(31)
	r.expired("pay", "one", `{"n":2}`)
	require.Zero(t, r.count(`SELECT count(*) FROM runs_left`))
	require.Equal(t, int64(1), r.provider.effects.Load())
}

// many makes n runs that have ended, and have texts.
func (r *rig) many(n int) {
	r.t.Helper()
	r.must(r.do("pay", "e0", `{}`))
	for i := 1; i < n; i++ {
		r.admin(`INSERT INTO runs (id, tenant_id, execution_id, claim_key, provider, verb, args, fingerprint, dry_run, metadata, request_id, source_addr, give_up_at, state, finished_at, result, origin, workflow_id)
		         SELECT gen_random_uuid(), tenant_id, $1, $1, provider, verb, args, fingerprint, dry_run, metadata, request_id, source_addr, give_up_at, state, finished_at, result, origin, workflow_id FROM runs WHERE execution_id = 'e0'`,
			fmt.Sprint("e", i))
	}
	r.admin(`UPDATE runs SET id = overlay(id::text placing lpad(substr(execution_id, 2), 4, '0') from 25 for 4)::uuid`)
	r.admin(`UPDATE runs SET id = ((SELECT substr(id::text, 1, 24) FROM runs WHERE execution_id = 'e0') || substr(id::text, 25))::uuid`)
}

func (r *rig) erased() int { return r.count(`SELECT count(*) FROM runs WHERE erased_at IS NOT NULL`) }

func TestCrashBetweenBatchesRepeatsAndLosesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.many(120)
	// The second batch fails at its last statement, once all of it is erased.
	r.admin(`CREATE FUNCTION crash() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT count(*) FROM runs WHERE erased_at IS NOT NULL) > 50 THEN RAISE EXCEPTION 'crash'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER crash BEFORE UPDATE ON run_erasures FOR EACH ROW EXECUTE FUNCTION crash()`)
	r.ahead.Store(int64(31 * day))
	require.ErrorContains(t, r.EraseOld(t.Context()), "crash")
	require.Equal(t, 50, r.erased(), "a batch is all or nothing")
	first := r.text(`SELECT min(erased_at)::text FROM runs`)
	r.admin(`DROP TRIGGER crash ON run_erasures`)

	r.ahead.Add(int64(time.Minute))
	require.NoError(t, r.another().EraseOld(t.Context()))
	require.Equal(t, 120, r.erased())
	require.Equal(t, 50, r.count(`SELECT count(*) FROM runs WHERE erased_at = '`+first+`'`), "what was erased before the crash is not erased again")
	require.Zero(t, r.count(`SELECT count(*) FROM runs_left`))
}

func TestProcessesThatEraseAtOnceShareTheWorkAndSkipWhatIsLocked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.many(120)
	r.ahead.Store(int64(31 * day))
	conn, err := pgx.Connect(t.Context(), r.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM runs WHERE execution_id = 'e7' FOR UPDATE`)
	require.NoError(t, err)
	var group errgroup.Group
	for range 4 {
		s := r.another()
		group.Go(func() error { return s.EraseOld(t.Context()) })
	}
	require.NoError(t, group.Wait())
	require.Equal(t, 119, r.erased())
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, 1, r.count(`SELECT count(*) FROM runs_left`))
	r.pass(2)
	require.Equal(t, 120, r.erased())
}

func TestOperatorSaysHowLongResultsAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.must(r.do("pay", "one", `{}`))
	s, _ := r.process(r.engine, func(c *run.Config) { c.ResultsKept = 90 * day })
	r.ahead.Store(int64(89 * day))
	require.NoError(t, s.EraseOld(t.Context()))
	require.Zero(t, r.erased())
	r.ahead.Store(int64(91 * day))
	require.NoError(t, s.EraseOld(t.Context()))
	require.Equal(t, 1, r.erased())
}

// A Map or a message may last longer than results are kept. It reads those of its calls until its end.
func TestOldResultsStayWhileTheirParentIsOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range []string{"map", "message", "alone"} {
		r.must(r.do("pay", id, `{"note":"`+id+`"}`))
		r.admin("UPDATE runs SET parent_id = 'parent_' || execution_id, step = 'a' WHERE execution_id = $1", id)
	}
	id := uuid.New()
	r.admin(`INSERT INTO map_executions (id, tenant_id, execution_id, map_id, version, map_type, dry_run, fingerprint, payload, metadata, origin, request_id, source_addr, workflow_id, updated_at)
		VALUES ($1, $2, 'parent_map', $1, 1, 'cognitive', false, '', '', '{}', 'key', '', '', '', now())`, id, r.tenant)
	r.admin("INSERT INTO conversations (tenant_id, id, agent_id, created_at, updated_at) VALUES ($2, $1, $1, now(), now())", id, r.tenant)
	r.admin(`INSERT INTO turns (tenant_id, id, execution_id, agent_id, version, conversation, state, status, fingerprint, message, metadata, request_id, source_addr, workflow_id, updated_at)
		VALUES ($2, $1, 'parent_message', $1, 1, $1, 'waiting', 'running', '', '', '{}', '', '', '', now())`, id, r.tenant)
	r.pass(31)
	require.Equal(t, 1, r.erased(), "the one whose parent is not known")
	r.admin("UPDATE map_executions SET finished_at = now(), status = 'failed'")
	r.pass(2)
	require.Equal(t, 1, r.erased(), "a Map that has failed may be retried")
	r.admin("UPDATE map_executions SET erased_at = now()")
	r.pass(2)
	require.Equal(t, 2, r.erased())
	r.admin("UPDATE turns SET state = 'ended', finished_at = now()")
	r.pass(2)
	require.Equal(t, 3, r.erased())
}
