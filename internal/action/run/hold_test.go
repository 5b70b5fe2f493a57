package run_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// policies replaces the tenant's policies; each call makes a new version.
func (r *rig) policies(list ...governance.Policy) {
	r.t.Helper()
	version := r.targets.policies.Load().Version() + 1
	r.admin(`INSERT INTO policy_sets (tenant_id, version) VALUES ($1, $2) ON CONFLICT (tenant_id) DO UPDATE SET version = $2`, r.tenant, version)
	r.targets.policies.Store(governance.Compile(version, list))
}

func rule(action governance.Action, verbName string, change ...func(*governance.ApprovalRule)) governance.Policy {
	p := governance.Policy{
		ID: uuid.New(), Version: 1, Name: string(action) + " " + verbName, Enabled: true, Mode: governance.Enforce, Action: action,
		Matchers: []governance.Matcher{{Type: governance.MatchVerb, Value: "shop:" + verbName}}, Approval: governance.DefaultApproval(),
	}
	for _, c := range change {
		c(&p.Approval)
	}
	return p
}

func needs(n int32) func(*governance.ApprovalRule) {
	return func(r *governance.ApprovalRule) { r.Required = n }
}

// user adds a user with a role and returns their id.
func (r *rig) user(role string) uuid.UUID {
	r.t.Helper()
	id := uuid.New()
	r.admin(`INSERT INTO users (id, tenant_id, email, name, password_hash, role, created_at, joined_at)
	         VALUES ($1, $2, $3, 'U', 'x', $4, now(), now())`, id, r.tenant, id.String()+"@b.c", role)
	return id
}

// held makes a call that is held, and returns its run.
func (r *rig) held(verbName, id, args string, more ...func(*run.Request)) run.Run {
	r.t.Helper()
	out, err := r.do(verbName, id, args, more...)
	require.NoError(r.t, err)
	require.NotNil(r.t, out.Run.ApprovalID)
	require.Contains(r.t, []run.State{run.StatePending, run.StateIntercepted}, out.Run.State)
	return out.Run
}

func ref(x run.Run) flow.RunRef {
	return flow.RunRef{TenantID: x.TenantID, RunID: x.ID, Attempt: x.Attempt}
}

// decide proposes a decision about the run's present approval and has it counted.
func (r *rig) decide(x run.Run, user uuid.UUID, decision string, edited ...string) flow.Decided {
	r.t.Helper()
	id := uuid.New()
	var args *string
	if len(edited) > 0 {
		args = &edited[0]
	}
	r.admin(`INSERT INTO approval_decisions (id, tenant_id, approval_id, user_id, decision, reason, edited_args, request_id, source_addr)
	         SELECT $1, tenant_id, approval_id, $3, $4, '', $5, '', '' FROM runs WHERE id = $2`, id, x.ID, user, decision, args)
	d, err := r.Decide(r.t.Context(), ref(x), id)
	require.NoError(r.t, err)
	again, err := r.Decide(r.t.Context(), ref(x), id)
	require.NoError(r.t, err)
	require.Equal(r.t, d.Code, again.Code, "a crash repeats the step, and the decision counts once")
	return d
}

// wake lets the run's workflow continue, and returns the run as it is then.
func (r *rig) wake(x run.Run) run.Run {
	r.t.Helper()
	r.engine.walk(r.t.Context(), ref(x), x.WorkflowID)
	return r.read(x)
}

func (r *rig) read(x run.Run) run.Run {
	r.t.Helper()
	now, err := r.Get(r.t.Context(), actor.SystemOf(r.tenant), x.ExecutionID)
	require.NoError(r.t, err)
	return now
}

func (r *rig) status(approvalID string) (status string) {
	r.t.Helper()
	return r.text(`SELECT status FROM approvals WHERE id = '` + approvalID + `'`)
}

func TestHeldCallRunsOnceItIsApproved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "refund"))
	x := r.held("refund", "one", `{"amount":5}`)
	f := x.Fault()
	require.Equal(t, fault.CodeGovernanceBlocked, f.Code)
	require.Equal(t, "pending_approval", f.Decision)
	require.True(t, f.ApprovalRequired)
	require.Equal(t, *x.ApprovalID, f.ApprovalID)
	require.Zero(t, r.provider.effects.Load())

	again := r.held("refund", "one", `{"amount":5}`)
	require.Equal(t, *x.ApprovalID, *again.ApprovalID, "a repeat while pending asks nobody again")

	require.Empty(t, r.decide(x, r.user("approver"), "approve").Code)
	done := r.wake(x)
	require.Equal(t, run.StateExecuted, done.State)
	require.Equal(t, *x.ApprovalID, *done.ApprovalID, "the run names the approval that released it")
	require.EqualValues(t, 1, r.provider.effects.Load())
	require.Equal(t, "approved", r.status(*x.ApprovalID))
	out, err := r.do("refund", "one", `{"amount":5}`)
	require.NoError(t, err)
	require.True(t, out.Cached)
	require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE action = 'run.allowed' AND details->>'approval_id' <> ''`))
}

func TestIDOfARejectedOrExpiredCallIsFinal(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"rejected", "expired"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.policies(rule(governance.ActionRequireApproval, "pay"))
			x := r.held("pay", "one", `{}`)
			if end == "rejected" {
				require.True(t, r.decide(x, r.user("admin"), "reject").Closed)
			} else {
				r.ahead.Store(int64(25 * time.Hour))
			}
			done := r.wake(x)
			require.Equal(t, end, string(done.State))
			require.Equal(t, end, r.status(*x.ApprovalID))
			r.ahead.Store(0)
			r.policies() // even where nothing would hold the call now
			again, err := r.do("pay", "one", `{}`)
			require.NoError(t, err)
			f := again.Fault()
			require.Equal(t, fault.CodeGovernanceBlocked, f.Code)
			require.Equal(t, "block", f.Decision)
			require.Equal(t, end, f.Status)
			require.False(t, f.ApprovalRequired)
			require.Equal(t, *x.ApprovalID, f.ApprovalID)
			require.Equal(t, "one", f.CachedFrom)
			require.EqualValues(t, 1, again.Run.Attempt)
			require.Zero(t, r.provider.effects.Load())
			require.Equal(t, 1, r.count(`SELECT count(*) FROM approvals`), "nobody is asked again")
		})
	}
}

func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stranger := uuid.New()
	named, removed := r.user("member"), r.user("approver")
	r.admin(`UPDATE users SET removed_at = now(), password_hash = NULL WHERE id = $1`, removed)
	r.policies(rule(governance.ActionRequireApproval, "pay", func(a *governance.ApprovalRule) {
		a.Approvers = append(a.Approvers, governance.Approver{Type: governance.ApproverUser, Value: named.String()})
	}))
	for i, tc := range []struct {
		who  uuid.UUID
		code fault.Code
	}{
		{r.user("owner"), ""},
		{r.user("admin"), ""},
		{r.user("approver"), ""},
		{named, ""},
		{r.user("member"), fault.CodeApproverNotEligible},
		{removed, fault.CodeApproverNotEligible},
		{stranger, fault.CodeApproverNotEligible},
	} {
		for _, decision := range []string{"approve", "reject"} {
			x := r.held("pay", fmt.Sprint(decision, i), `{}`)
			require.Equal(t, tc.code, r.decide(x, tc.who, decision).Code, "%d %s", i, decision)
		}
	}
}

func TestQuorumCountsEachUserOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay", needs(2)))
	x := r.held("pay", "one", `{}`)
	first, second := r.user("approver"), r.user("owner")
	require.False(t, r.decide(x, first, "approve").Closed)
	require.Equal(t, fault.CodeConflict, r.decide(x, first, "approve").Code)
	require.Equal(t, run.StatePending, r.wake(x).State)
	require.True(t, r.decide(x, second, "approve").Closed)
	require.Equal(t, fault.CodeApprovalNotPending, r.decide(x, r.user("admin"), "reject").Code)
	require.Equal(t, run.StateExecuted, r.wake(x).State)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

func TestVoteOfAUserWhoMayNoLongerApproveDoesNotCount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "one", `{}`)
	who := r.user("approver")
	require.Empty(t, r.decide(x, who, "approve").Code)
	r.admin(`UPDATE users SET role = 'member' WHERE id = $1`, who)
	now := r.wake(x)
	require.Equal(t, run.StatePending, now.State)
	require.Equal(t, "superseded", r.status(*x.ApprovalID))
	require.Zero(t, r.provider.effects.Load())
}

func TestApprovalIsSupersededWhenWhatItIsBoundToChanges(t *testing.T) {
	t.Parallel()
	gate := rule(governance.ActionRequireApproval, "pay")
	other := gate
	other.Version = 2
	for name, tc := range map[string]struct {
		change func(*rig)
		state  run.State
	}{
		"policy changed":   {func(r *rig) { r.policies(other) }, run.StatePending},
		"policy gone":      {func(r *rig) { r.policies() }, run.StatePending},
		"block beside it":  {func(r *rig) { r.policies(gate, rule(governance.ActionBlock, "pay")) }, run.StateBlocked},
		"another gate":     {func(r *rig) { r.policies(gate, rule(governance.ActionRequireApproval, "*")) }, run.StatePending},
		"schema changed":   {func(r *rig) { hash := "other"; r.targets.schema.Store(&hash) }, run.StatePending},
		"unrelated policy": {func(r *rig) { r.policies(gate, rule(governance.ActionBlock, "read")) }, run.StateExecuted},
		"key revoked":      {func(r *rig) { r.admin(`UPDATE api_keys SET revoked_at = now() WHERE id = $1`, r.key) }, run.StateRefused},
		"nothing":          {func(*rig) {}, run.StateExecuted},
	} {
		for _, when := range []string{"before the decision", "after it"} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.policies(gate)
				x := r.held("pay", "one", `{}`)
				if when == "before the decision" {
					tc.change(r)
					r.decide(x, r.user("owner"), "approve")
				} else {
					r.decide(x, r.user("owner"), "approve")
					tc.change(r)
				}
				now := r.wake(x)
				require.Equal(t, tc.state, now.State)
				if tc.state != run.StateExecuted {
					require.Zero(t, r.provider.effects.Load())
				}
				if tc.state == run.StatePending {
					require.Equal(t, "superseded", r.status(*x.ApprovalID))
					require.Equal(t, "pending", r.status(*now.ApprovalID))
					r.decide(now, r.user("owner"), "approve")
					require.Equal(t, run.StateExecuted, r.wake(now).State)
					require.EqualValues(t, 1, r.provider.effects.Load())
				}
			})
		}
	}
}

func TestARunIsNotSentUnderPoliciesThatHaveChanged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.dead.Store(true) // steps are taken by hand
	wait := time.Duration(0)
	out, err := r.do("pay", "one", `{}`, func(q *run.Request) { q.Wait = &wait })
	require.NoError(t, err)
	x := out.Run
	step, err := r.Govern(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, run.StateClaimed, step.State)
	r.policies(rule(governance.ActionBlock, "pay"))
	step, err = r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, run.StateBlocked, step.State)
	require.Zero(t, r.provider.effects.Load())
}

func TestDryRunIsSentOnceItIsApproved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dry := func(q *run.Request) { q.DryRun = true }
	x := r.held("pay", "one", `{"n":1}`, dry)
	require.Equal(t, run.StateIntercepted, x.State)
	require.Nil(t, x.Fault())
	require.JSONEq(t, `{"n":1}`, string(x.Result))

	rejected := r.held("pay", "two", `{}`, dry)
	r.decide(rejected, r.user("owner"), "reject")
	require.Equal(t, run.StateIntercepted, r.wake(rejected).State, "what was discarded stays as it was shown")
	require.Equal(t, "rejected", r.status(*rejected.ApprovalID))
	require.Zero(t, r.provider.effects.Load())

	r.decide(x, r.user("owner"), "approve")
	require.Equal(t, run.StateExecuted, r.wake(x).State)
	require.EqualValues(t, 1, r.provider.effects.Load())
	out, err := r.do("pay", "one", `{"n":1}`, dry)
	require.NoError(t, err)
	require.True(t, out.Cached)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

func TestEditAsksForANewApproval(t *testing.T) {
	t.Parallel()
	for _, self := range []bool{false, true} {
		t.Run(fmt.Sprint("self approval ", self), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.policies(rule(governance.ActionRequireApproval, "pay", func(a *governance.ApprovalRule) { a.SelfApproval = self }))
			x := r.held("pay", "one", `{"n":1}`)
			editor := r.user("owner")
			require.Empty(t, r.decide(x, editor, "approve", `{"n":2}`).Code)
			require.Equal(t, "superseded", r.status(*x.ApprovalID))
			now := r.wake(x)
			require.JSONEq(t, `{"n":1}`, string(now.Args))
			require.JSONEq(t, `{"n":2}`, string(now.Effective()))
			if !self {
				require.Equal(t, run.StatePending, now.State)
				require.Equal(t, fault.CodeApproverNotEligible, r.decide(now, editor, "approve").Code)
				require.Empty(t, r.decide(now, r.user("approver"), "approve").Code)
				now = r.wake(now)
			}
			require.Equal(t, run.StateExecuted, now.State)
			require.EqualValues(t, 1, r.provider.effects.Load())
			require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE action = 'approval.edited'
				AND input = '{"n":2}' AND details->'original_args'->>'n' = '1'`), "both versions are in the record")

			y := r.held("pay", "two", `{"n":1}`)
			require.Equal(t, fault.CodeInvalidArgs, r.decide(y, editor, "approve", `{"bad":true}`).Code)
			require.Equal(t, "pending", r.status(*y.ApprovalID), "a refused edit decides nothing")
		})
	}
}

func TestEscalatedApprovalMayBeDecidedByOwnersAndAdmins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	named, admin := r.user("member"), r.user("admin")
	r.policies(rule(governance.ActionRequireApproval, "pay", func(a *governance.ApprovalRule) {
		a.Approvers = []governance.Approver{{Type: governance.ApproverUser, Value: named.String()}}
		a.OnTimeout, a.TimeoutSeconds = governance.OnTimeoutEscalate, 60
	}))
	x, late := r.held("pay", "one", `{}`), r.held("pay", "two", `{}`)
	require.Equal(t, fault.CodeApproverNotEligible, r.decide(x, admin, "approve").Code)
	r.ahead.Store(int64(61 * time.Second))
	require.Equal(t, run.StatePending, r.wake(x).State)
	require.Equal(t, run.StatePending, r.wake(late).State)
	require.Empty(t, r.decide(x, admin, "approve").Code)
	require.Equal(t, run.StateExecuted, r.wake(x).State)
	r.ahead.Store(int64(122 * time.Second))
	require.Equal(t, run.StateExpired, r.wake(late).State)
}

func TestCancelOfAHeldRunCancelsItsApproval(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	for _, dry := range []bool{false, true} {
		x := r.held("pay", strconv.FormatBool(dry), `{}`, func(q *run.Request) { q.DryRun = dry })
		done, err := r.Cancel(t.Context(), actor.Actor{Kind: actor.User, TenantID: r.tenant, ID: r.tenant}, x.ExecutionID)
		require.NoError(t, err)
		require.Equal(t, run.StateCancelled, done.State)
		require.Equal(t, "cancelled", r.status(*x.ApprovalID))
		require.Equal(t, fault.CodeApprovalNotPending, r.decide(x, r.user("owner"), "approve").Code)
		require.Equal(t, run.StateCancelled, r.wake(x).State)
	}
	require.Zero(t, r.provider.effects.Load())
}

func TestApprovalWhoseWorkflowEndedIsClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x, dry := r.held("pay", "one", `{}`), r.held("pay", "two", `{}`, func(q *run.Request) { q.DryRun = true })
	r.engine.open.Store(x.WorkflowID, false)
	r.engine.open.Store(dry.WorkflowID, false)
	r.admin(`UPDATE approvals SET watched_at = now() - interval '1 hour'`)
	require.NoError(t, r.Sweep(t.Context()))
	require.Equal(t, "cancelled", r.status(*x.ApprovalID))
	require.Equal(t, "cancelled", r.status(*dry.ApprovalID))
	require.Equal(t, run.StateRefused, r.read(x).State)
	require.Equal(t, run.StateIntercepted, r.read(dry).State)
}

func TestOperatorAtTemporalCanOnlyReject(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "one", `{}`)
	require.NoError(t, r.RejectByOperator(context.Background(), flow.RunRef{TenantID: r.tenant, RunID: uuid.New(), Attempt: 1}), "of a row that is gone")
	require.NoError(t, r.RejectByOperator(context.Background(), ref(x)))
	require.Equal(t, run.StateRejected, r.wake(x).State)
	require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE action = 'approval.rejected' AND actor_type = 'operator'`))
	again, err := r.do("pay", "one", `{}`)
	require.NoError(t, err)
	require.Equal(t, "Rejected by an operator in the Temporal UI.", again.Fault().Reason, "it is final too")
}

func (r *rig) grant(verbName string, giver uuid.UUID, uses int) uuid.UUID {
	r.t.Helper()
	id := uuid.New()
	r.admin(`INSERT INTO grants (id, tenant_id, provider, verb, conditions, reason, created_by, expires_at, max_uses)
	         VALUES ($1, $2, 'shop', $3, '[]', '', $4, now() + interval '1 hour', $5)`, id, r.tenant, verbName, giver, uses)
	return id
}

func TestGrantLetsLaterCallsThrough(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "refund"))
	before := r.held("refund", "before", `{}`)
	id := r.grant("refund", r.user("approver"), 2)
	for _, call := range []string{"one", "two"} {
		out, err := r.do("refund", call, `{}`)
		require.NoError(t, err)
		require.Equal(t, run.StateExecuted, out.Run.State)
		require.Equal(t, id, *out.Run.GrantID)
	}
	require.Equal(t, run.StatePending, r.held("refund", "three", `{}`).State, "it is used up")
	require.Equal(t, run.StatePending, r.wake(before).State, "a call that was held before is not let through")
	require.Equal(t, 2, r.count(`SELECT count(*) FROM audit_records WHERE action = 'run.allowed' AND details->>'grant_id' <> ''`))
}

func TestGrantDoesNotLetOtherCallsThrough(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*rig){
		"a block": func(r *rig) {
			r.policies(rule(governance.ActionRequireApproval, "pay"), rule(governance.ActionBlock, "pay"))
			r.grant("pay", r.user("owner"), 9)
		},
		"a quorum of two": func(r *rig) {
			r.policies(rule(governance.ActionRequireApproval, "pay", needs(2)))
			r.grant("pay", r.user("owner"), 9)
		},
		"another verb": func(r *rig) {
			r.policies(rule(governance.ActionRequireApproval, "pay"))
			r.grant("refund", r.user("owner"), 9)
		},
		"by a member": func(r *rig) {
			r.policies(rule(governance.ActionRequireApproval, "pay"))
			r.grant("pay", r.user("member"), 9)
		},
		"after its end": func(r *rig) {
			r.policies(rule(governance.ActionRequireApproval, "pay"))
			r.grant("pay", r.user("owner"), 9)
			r.admin(`UPDATE grants SET expires_at = now() - interval '1 second'`)
		},
		"after its revoking": func(r *rig) {
			r.policies(rule(governance.ActionRequireApproval, "pay"))
			r.grant("pay", r.user("owner"), 9)
			r.admin(`UPDATE grants SET revoked_at = now()`)
		},
		"for another key": func(r *rig) {
			r.policies(rule(governance.ActionRequireApproval, "pay"))
			r.grant("pay", r.user("owner"), 9)
			r.admin(`UPDATE grants SET key_id = $1`, uuid.New())
		},
		"for a customer": func(r *rig) {
			r.policies(rule(governance.ActionRequireApproval, "pay"))
			r.grant("pay", r.user("owner"), 9)
			r.admin(`UPDATE grants SET customer_id = 'c1'`)
		},
		"of one who has left": func(r *rig) {
			who := r.user("owner")
			r.policies(rule(governance.ActionRequireApproval, "pay"))
			r.grant("pay", who, 9)
			r.admin(`UPDATE users SET removed_at = now(), password_hash = NULL WHERE id = $1`, who)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			prepare(r)
			out, err := r.do("pay", "one", `{}`)
			require.NoError(t, err)
			require.Contains(t, []run.State{run.StatePending, run.StateBlocked}, out.Run.State)
			require.Zero(t, r.provider.effects.Load())
		})
	}
}

func TestGrantIsNotUsedMoreOftenThanAllowedByRacingCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	r.grant("pay", r.user("owner"), 3)
	done := make(chan run.State)
	for i := range 12 {
		go func() {
			out, err := r.do("pay", fmt.Sprint("call-", i), `{}`)
			if err != nil {
				done <- "error"
				return
			}
			done <- out.Run.State
		}()
	}
	states := map[run.State]int{}
	for range 12 {
		states[<-done]++
	}
	require.Equal(t, map[run.State]int{run.StateExecuted: 3, run.StatePending: 9}, states)
	require.EqualValues(t, 3, r.provider.effects.Load())
}
