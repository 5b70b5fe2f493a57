package run_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/flow"
)

// A process has checked a call under its approval. Meanwhile another process took the run,
// and an approver edited the call of a new approval. What the first process has in memory is
// not what was approved.
func TestSendOfACallThatWasEditedElsewhereSendsOnlyTheApprovedOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "one", `{"n":1}`)
	first, editor, third := r.user("approver"), r.user("owner"), r.user("admin")
	require.Empty(t, r.decide(x, first, "approve").Code)
	step, err := r.Govern(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateClaimed}, step)

	other := r.another()
	r.admin(`UPDATE users SET role = 'member' WHERE id = $1`, first)
	step, err = other.Govern(t.Context(), ref(x))
	require.NoError(t, err)
	require.NotEmpty(t, step.ApprovalID)
	require.Empty(t, r.decide(r.read(x), editor, "approve", `{"n":2}`).Code)
	require.Empty(t, r.decide(r.read(x), third, "approve").Code)
	_, err = r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	r.wake(x)
	require.EqualValues(t, 1, r.provider.effects.Load())
	require.JSONEq(t, `{"n":2}`, r.provider.last())
}

// A verb is deleted between the judgement and the sending, and the gate is closed for
// another reason. The run must end, and not be tried for ever.
func TestVerbDeletedWhileTheGateIsClosedEndsTheRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.dead.Store(true)
	none := time.Duration(0)
	out, err := r.do("pay", "one", `{}`, func(q *run.Request) { q.Wait = &none })
	require.NoError(t, err)
	_, err = r.Govern(t.Context(), ref(out.Run))
	require.NoError(t, err)
	r.policies(rule(governance.ActionBlock, "read"))
	r.targets.gone.Store(true)
	var step flow.Step
	for range 3 { // as Temporal repeats a step that failed
		if step, err = r.Send(t.Context(), ref(out.Run)); err == nil {
			break
		}
	}
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateRefused, Done: true}, step)
}

// The giver of a grant lost their role while the run waited for the provider.
func TestGrantIsCheckedAgainBeforeEachAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	giver := r.user("approver")
	r.grant("pay", giver, 9)
	r.provider.replies(func(int64) run.Answer {
		return run.Answer{Phase: attempt.Answered, Status: 429, Complete: true, RetryAfter: time.Second}
	})
	r.engine.dead.Store(true)
	out, err := r.do("pay", "one", `{}`, func(q *run.Request) { none := time.Duration(0); q.Wait = &none })
	require.NoError(t, err)
	x := out.Run
	r.admin(`UPDATE runs SET give_up_at = now() + interval '30 seconds' WHERE id = $1`, x.ID)
	for range 2 { // the first goes by the row as it was claimed
		_, err = r.Govern(t.Context(), ref(x))
		require.NoError(t, err)
	}
	step, err := r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateClaimed, After: time.Second}, step)
	r.admin(`UPDATE users SET role = 'member' WHERE id = $1`, giver)
	step, err = r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.NotEmpty(t, step.ApprovalID, "people are asked")
	require.EqualValues(t, 1, r.provider.effects.Load())
}

// A call that may have been sent is sent again only as it was approved, even where its verb
// may be repeated. Another request could have a second effect, or another address.
func TestCallIsNotRepeatedWithAnotherRequestThanTheApprovedOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "keyed"))
	r.provider.replies(func(int64) run.Answer { return run.Answer{Phase: attempt.Answered, Status: 504, Complete: true} })
	x := r.held("keyed", "a", `{}`)
	require.True(t, r.decide(x, r.user("approver"), "approve").Closed)
	_, err := r.Govern(t.Context(), ref(x))
	require.NoError(t, err)
	step, err := r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, run.StateClaimed, step.State)
	r.ahead.Add(int64(step.After))
	step, err = r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, run.StateClaimed, step.State, "as it was approved it is repeated")
	require.EqualValues(t, 2, r.provider.effects.Load())
	r.ahead.Add(int64(step.After))

	hash := "another base address"
	r.targets.schema.Store(&hash)
	step, err = r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateOutcomeUnknown, Done: true}, step)
	require.EqualValues(t, 2, r.provider.effects.Load())
}

// A change of policies closes the gate until it commits. A call that reaches the gate
// meanwhile waits, and finds it closed.
func TestCallThatMeetsAChangeOfPoliciesIsJudgedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.dead.Store(true)
	none := time.Duration(0)
	out, err := r.do("pay", "one", `{}`, func(q *run.Request) { q.Wait = &none })
	require.NoError(t, err)
	_, err = r.Govern(t.Context(), ref(out.Run))
	require.NoError(t, err)

	conn, err := pgx.Connect(t.Context(), r.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, dbsqlc.New().CloseGate(t.Context(), tx, r.tenant.String()))
	_, err = tx.Exec(t.Context(), `INSERT INTO policy_sets (tenant_id, version) VALUES ($1, 1)`, r.tenant)
	require.NoError(t, err)
	r.targets.policies.Store(governance.Compile(1, []governance.Policy{rule(governance.ActionBlock, "pay")}))
	sent := make(chan flow.Step, 1)
	go func() {
		step, err := r.Send(t.Context(), ref(out.Run))
		if err == nil {
			sent <- step
		}
		close(sent)
	}()
	require.Eventually(t, func() bool {
		return r.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	}, time.Minute, time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, flow.Step{State: run.StateBlocked, Done: true}, <-sent)
	require.Zero(t, r.provider.effects.Load())
}

// A change of what a call is made of waits for the runs that are between their last check and
// the commit of their mark, and so it acts on every run after it.
func TestChangeOfAProviderWaitsForRunsAtTheGate(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"the tenant's":   `UPDATE providers SET updated_at = now() WHERE slug = 'shop'`,
		"the platform's": `UPDATE platform_providers SET updated_at = now() WHERE slug = 'shop'`,
		"deleted":        `DELETE FROM platform_providers WHERE slug = 'shop'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.admin(`INSERT INTO platform_providers (slug, name, domain, base_url, auth_type, auth, document_hash, imported, degraded, rejected, created_at, updated_at)
			         VALUES ('shop', 'Shop', 'shop', 'http://shop', 'none', '{"type":"none"}', '\x00', 1, '[]', '[]', now(), now())`)
			changed := make(chan error, 1)
			require.NoError(t, r.db.InTenant(t.Context(), r.tenant, func(tx pgx.Tx) error {
				gate := dbsqlc.EnterGateParams{TenantID: r.tenant.String(), Provider: "shop"}
				require.NoError(t, dbsqlc.New().EnterGate(t.Context(), tx, gate))
				go func() { changed <- r.execute(change) }()
				require.Eventually(t, func() bool {
					return len(changed) > 0 || r.count(`SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'
					                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 1
				}, time.Minute, time.Millisecond)
				require.Empty(t, changed, "the change did not wait")
				return nil
			}))
			require.NoError(t, <-changed)
		})
	}
}

// execute is admin for another goroutine than the test's.
func (r *rig) execute(sql string) error {
	conn, err := pgx.Connect(r.t.Context(), r.db.AdminURL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(r.t.Context()))
	_, err = conn.Exec(r.t.Context(), sql)
	return err
}
