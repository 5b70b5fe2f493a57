package run_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/approval"
)

const parentWorkflow = "map:exec_parent"

// step claims a step of a Map that acts for the rig's key.
func (r *rig) step(verbName string, iteration, attempt int, change ...func(*run.Request)) run.Claimed {
	r.t.Helper()
	parent, path := "exec_parent", "steps/2"
	req := run.Request{
		Verb: "shop:" + verbName, Args: json.RawMessage(`{}`), Metadata: json.RawMessage(`{}`), StepKey: run.StepKey(parent, path, iteration, attempt),
		Origin: run.Origin{Kind: actor.Map, ParentID: &parent, Step: &path, WorkflowID: parentWorkflow, Driver: flow.DriverMap},
	}
	for _, c := range change {
		c(&req)
	}
	claimed, err := r.Claim(r.t.Context(), r.caller(), req)
	require.NoError(r.t, err)
	return claimed
}

func TestStepClaimedAgainIsTheSameRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.step("pay", 0, 1)
	require.True(t, first.Fresh)
	again := r.step("pay", 0, 1)
	require.False(t, again.Fresh)
	require.Equal(t, first.Ref(), again.Ref())
	for _, other := range []run.Claimed{r.step("pay", 1, 1), r.step("pay", 0, 2)} {
		require.True(t, other.Fresh, "another iteration and another attempt are other runs")
	}
	require.Zero(t, r.engine.starts.Load(), "a claim starts nothing")
}

func TestOriginIsStoredInColumns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	agent, customer := uuid.New(), uuid.New()
	claimed := r.step("pay", 0, 1, func(q *run.Request) { q.Origin.AgentID, q.Origin.CustomerID = &agent, &customer })
	got := r.read(claimed.Run)
	require.Equal(t, actor.Map, got.Kind)
	require.Equal(t, r.key, *got.KeyID, "a step acts for the starter of its execution")
	require.Equal(t, agent, *got.AgentID)
	require.Equal(t, customer, *got.CustomerID)
	require.Equal(t, "exec_parent", *got.ParentID)
	require.Equal(t, "steps/2", *got.Step)
	require.Equal(t, parentWorkflow, got.WorkflowID)

	out, err := r.do("pay", "by a key", `{}`)
	require.NoError(t, err)
	require.Equal(t, actor.Key, out.Run.Kind)
	require.Equal(t, r.workflow("by a key"), out.Run.WorkflowID)
	require.Nil(t, out.Run.ParentID)

	list, _, err := r.List(t.Context(), actor.SystemOf(r.tenant), run.Filter{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, got.Origin, list[len(list)-1].Origin, "a list has the origin too")
}

func TestStepKeyCannotBeClaimedOrReadByCallers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	claimed := r.step("pay", 0, 1)
	key := run.StepKey("exec_parent", "steps/2", 0, 1)
	for name, change := range map[string]func(*run.Request){
		"execution id":    func(q *run.Request) { q.ExecutionID = key },
		"idempotency key": func(q *run.Request) { q.ExecutionID, q.IdempotencyKey = "", key },
	} {
		_, err := r.do("pay", "e1", `{}`, change)
		require.True(t, fault.HasCode(err, fault.CodeInvalidIdempotencyKey), "%s: %v", name, err)
	}
	_, err := r.Get(t.Context(), actor.SystemOf(r.tenant), key)
	require.True(t, fault.HasCode(err, fault.CodeExecutionNotFound))
	got, err := r.Get(t.Context(), actor.SystemOf(r.tenant), claimed.Run.ExecutionID)
	require.NoError(t, err, "its public name reads it")
	require.Equal(t, claimed.Run.ID, got.ID)
}

func TestAwaitReturnsTheEndOfARunThatIsDrivenElsewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	claimed := r.step("pay", 0, 1)
	go r.engine.walk(t.Context(), claimed.Ref(), parentWorkflow)
	done, err := r.Await(t.Context(), claimed.Run, time.Now().Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, done.State)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

// The sweeper must never start an ActionRun beside the workflow that drives a step.
func TestSweeperFollowsTheWorkflowInTheRow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	waiting, sending := r.step("pay", 0, 1), r.step("pay", 1, 1)
	r.admin(`UPDATE runs SET state = 'sending', updated_at = now() - interval '1 minute' WHERE id = $1`, sending.Run.ID)
	r.engine.open.Store(parentWorkflow, true)
	require.NoError(t, r.Sweep(t.Context()))
	require.Equal(t, run.StateClaimed, r.read(waiting.Run).State, "its workflow drives it")
	require.Equal(t, run.StateSending, r.read(sending.Run).State)

	r.engine.open.Store(parentWorkflow, false)
	require.NoError(t, r.Sweep(t.Context()))
	require.Equal(t, run.StateRefused, r.read(waiting.Run).State, "nothing was sent")
	require.Equal(t, run.StateOutcomeUnknown, r.read(sending.Run).State)
	require.Zero(t, r.engine.starts.Load())
	require.Zero(t, r.provider.effects.Load())
}

// The metadata names agent and customer only for a caller's own runs.
func TestConditionsReadAgentAndCustomerFromTheOrigin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	agent := uuid.New()
	p := rule(governance.ActionBlock, "pay")
	p.Conditions = []governance.Condition{{Field: "agent_id", Operator: governance.OpEquals, Value: json.RawMessage(`"` + agent.String() + `"`)}}
	r.policies(p)
	forged := json.RawMessage(`{"agent_id":"` + agent.String() + `"}`)
	for name, tc := range map[string]struct {
		change func(*run.Request)
		want   run.State
	}{
		"set by our own agent":         {func(q *run.Request) { q.Origin.AgentID = &agent }, run.StateBlocked},
		"metadata of our own does not": {func(q *run.Request) { q.Metadata = forged }, run.StateClaimed},
		"without one":                  {func(*run.Request) {}, run.StateClaimed},
	} {
		claimed := r.step("pay", len(name), 1, tc.change)
		step, err := r.Govern(t.Context(), claimed.Ref())
		require.NoError(t, err)
		require.Equal(t, tc.want, step.State, name)
	}
	_, err := r.do("pay", "by a key", `{}`, func(q *run.Request) { q.Metadata = forged })
	require.NoError(t, err)
	require.Equal(t, "blocked", r.text(`SELECT state FROM runs WHERE execution_id = 'by a key'`), "a caller over HTTP names theirs in metadata")
}

func TestCallIsMadeWithTheCustomersCredentialFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	customer := uuid.New()
	_, err := r.Govern(t.Context(), r.step("pay", 0, 1, func(q *run.Request) { q.Origin.CustomerID = &customer }).Ref())
	require.NoError(t, err)
	require.Equal(t, customer.String(), *r.targets.customer.Load())
	_, err = r.do("pay", "e1", `{}`, func(q *run.Request) { q.Metadata = json.RawMessage(`{"customer_id":"cus_1"}`) })
	require.NoError(t, err)
	require.Equal(t, "cus_1", *r.targets.customer.Load())
	_, err = r.do("pay", "e2", `{}`)
	require.NoError(t, err)
	require.Empty(t, *r.targets.customer.Load())
}

func TestRunThatWaitsIsHandedOverWithItsApproval(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	claimed := r.step("pay", 0, 1)
	step, err := r.Govern(t.Context(), claimed.Ref())
	require.NoError(t, err)
	require.NotEmpty(t, step.ApprovalID)
	require.Equal(t, parentWorkflow, r.text(`SELECT workflow_id FROM approvals`))
	own := flow.RunWorkflowID(r.tenant, claimed.Run.ClaimKey)
	for range 2 { // a crash repeats the step
		step, err = r.HandOver(t.Context(), claimed.Ref(), parentWorkflow)
		require.NoError(t, err)
		require.False(t, step.Done)
		require.Equal(t, run.StatePending, step.State)
		require.Equal(t, own, r.read(claimed.Run).WorkflowID)
		require.Equal(t, own, r.text(`SELECT workflow_id FROM approvals`))
	}
	require.EqualValues(t, 1, r.engine.starts.Load())
	in, _ := r.engine.inputs.Load(own)
	require.Equal(t, parentWorkflow, in.(flow.ActionRunInput).Parent, "the end is signalled to the first workflow")

	_, err = r.HandOver(t.Context(), claimed.Ref(), "another workflow")
	require.NoError(t, err)
	require.Equal(t, own, r.read(claimed.Run).WorkflowID, "only the driver gives a run away")

	r.decide(claimed.Run, r.user("owner"), "approve")
	require.Equal(t, run.StateExecuted, r.wake(r.read(claimed.Run)).State)
	step, err = r.LookAt(t.Context(), claimed.Ref())
	require.NoError(t, err)
	require.True(t, step.Done)
	step, err = r.HandOver(t.Context(), claimed.Ref(), parentWorkflow)
	require.NoError(t, err)
	require.True(t, step.Done, "a run that has ended is only read")
}

// The decision can come before the workflow that is to wait for it was started.
func TestDecisionWithoutAWorkflowIsCountedAndStartsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	r.engine.dead.Store(true)
	zero := time.Duration(0)
	out, err := r.do("pay", "e1", `{}`, func(q *run.Request) { q.Wait = &zero })
	require.NoError(t, err)
	_, err = r.Govern(t.Context(), ref(out.Run))
	require.NoError(t, err)
	held := r.read(out.Run)
	require.Equal(t, run.StatePending, held.State)
	r.engine.dead.Store(false)

	proposal := approval.Proposal{
		ID: uuid.Must(uuid.NewV7()), ApprovalID: *held.ApprovalID, Approve: true,
		By: actor.Actor{Kind: actor.User, TenantID: r.tenant, ID: r.user("owner")},
	}
	require.NoError(t, approval.Propose(t.Context(), r.db.Tenant(r.tenant), proposal))
	decided, err := r.Count(t.Context(), r.tenant, held.ID.String(), proposal.ID)
	require.NoError(t, err)
	require.Equal(t, flow.Decided{Closed: true}, decided)
	done, err := r.Await(t.Context(), r.read(held), time.Now().Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, done.State)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

// The sweeper finds an approval whose workflow was never started, and starts it.
func TestApprovalWhoseWorkflowWasNeverStartedGetsOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	claimed := r.step("pay", 0, 1)
	_, err := r.Govern(t.Context(), claimed.Ref())
	require.NoError(t, err)
	r.engine.dead.Store(true)
	_, err = r.HandOver(t.Context(), claimed.Ref(), parentWorkflow)
	require.NoError(t, err)
	r.engine.dead.Store(false)
	r.admin(`UPDATE approvals SET watched_at = now() - interval '1 hour'`)
	require.NoError(t, r.Sweep(t.Context()))
	require.EqualValues(t, 1, r.engine.starts.Load())
	require.Equal(t, "pending", r.status(*r.read(claimed.Run).ApprovalID))
}

// A user who called with their own token cannot approve the call.
func TestUserCannotApproveTheirOwnCall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	owner := r.user("owner")
	who := actor.Actor{Kind: actor.User, TenantID: r.tenant, ID: owner, Role: actor.RoleOwner}
	out, err := r.Do(t.Context(), who, run.Request{Verb: "shop:pay", Args: json.RawMessage(`{}`), ExecutionID: "mine", Metadata: json.RawMessage(`{}`)})
	require.NoError(t, err)
	require.Equal(t, actor.User, out.Run.Kind)
	require.Equal(t, owner, *out.Run.UserID)
	require.Equal(t, fault.CodeApproverNotEligible, r.decide(out.Run, owner, "approve").Code)
	require.Empty(t, r.decide(out.Run, r.user("admin"), "approve").Code)
	require.Equal(t, run.StateExecuted, r.wake(out.Run).State)
}

// A verb of the platform can be claimed by the tenants that have enabled its provider.
func TestClaimFindsTheVerbsOfThePlatform(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.admin(`INSERT INTO platform_providers (slug, name, domain, base_url, auth_type, auth, document_hash, imported, degraded, rejected, created_at, updated_at)
	         VALUES ('crm', 'CRM', 'crm', 'http://crm', 'none', '{"type":"none"}', '\x00', 1, '[]', '[]', now(), now())`)
	r.admin(`INSERT INTO platform_verbs (provider, name, domain, description, risk_level, operation_type, idempotency, schema_hash, plan_hash, search, schema, plan)
	         VALUES ('crm', 'pay', 'crm', '', 'high', 'write', 'none', '\x00', '\x00', '', '{}', '{}')`)
	claim := func(id string) (run.Claimed, error) {
		return r.Claim(t.Context(), r.caller(), run.Request{Verb: "crm:pay", Args: json.RawMessage(`{}`), ExecutionID: id, Metadata: json.RawMessage(`{}`)})
	}
	_, err := claim("before")
	require.True(t, fault.HasCode(err, fault.CodeVerbNotFound), "it is not enabled: %v", err)
	r.admin(`INSERT INTO enabled_providers (tenant_id, slug, enabled_at) VALUES ($1, 'crm', now())`, r.tenant)
	claimed, err := claim("after")
	require.NoError(t, err)
	require.True(t, claimed.Fresh)
	require.Equal(t, verb.RiskHigh, claimed.Run.Risk)

	r.admin(`INSERT INTO providers (tenant_id, slug, name, domain, base_url, auth_type, auth, document_hash, imported, degraded, rejected, created_at, updated_at)
	         VALUES ($1, 'crm', 'Own', 'crm', 'http://own', 'none', '{"type":"none"}', '\x00', 0, '[]', '[]', now(), now())`, r.tenant)
	_, err = claim("hidden")
	require.True(t, fault.HasCode(err, fault.CodeVerbNotFound), "the tenant's own provider hides the platform's: %v", err)
}
