package desk_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/approval"
)

// failing is an engine whose workflow task fails while a decision is handed over.
type failing struct {
	*nudges

	tries  int
	decide func(try int, d flow.Decision) (flow.Decided, error)
}

func (f *failing) Decide(_ context.Context, _ string, d flow.Decision) (flow.Decided, bool, error) {
	f.tries++
	out, err := f.decide(f.tries, d)
	return out, true, err
}

func TestDecisionWhoseWorkflowTaskFailedIsAnsweredFromTheRows(t *testing.T) {
	t.Parallel()
	lost := fault.New(fault.CodeServiceUnavailable, "unexpected workflow task failure")
	notPending := flow.Decided{Code: fault.CodeApprovalNotPending}
	// count counts the decision as the workflow's step does.
	count := func(s *subjects, d flow.Decision) {
		_, err := s.sets.Count(t.Context(), s.owner.TenantID, "", d.DecisionID)
		require.NoError(t, err)
	}
	for name, c := range map[string]struct {
		decide func(s *subjects, try int, d flow.Decision) (flow.Decided, error)
		code   fault.Code
		status governance.ApprovalStatus
		tries  int
	}{
		"another decision of the same user was first": {func(s *subjects, _ int, d flow.Decision) (flow.Decided, error) {
			s.exec(`UPDATE approvals SET status = 'rejected'`)
			s.exec(`INSERT INTO approval_decisions (id, tenant_id, approval_id, user_id, decision, reason, request_id, source_addr, counted_at)
				SELECT gen_random_uuid(), tenant_id, approval_id, user_id, 'reject', '', '', '', now() FROM approval_decisions`)
			return flow.Decided{}, lost
		}, fault.CodeApprovalNotPending, governance.ApprovalRejected, 1},
		"the run was cancelled": {func(s *subjects, _ int, _ flow.Decision) (flow.Decided, error) {
			s.exec(`UPDATE approvals SET status = 'cancelled'`)
			return flow.Decided{}, lost
		}, fault.CodeApprovalNotPending, governance.ApprovalCancelled, 1},
		"it was counted": {func(s *subjects, _ int, d flow.Decision) (flow.Decided, error) {
			count(s, d)
			return flow.Decided{}, lost
		}, "", governance.ApprovalApproved, 1},
		"it was counted, and its workflow has ended": {func(s *subjects, try int, d flow.Decision) (flow.Decided, error) {
			count(s, d)
			return notPending, nil
		}, "", governance.ApprovalApproved, 1},
		"it was lost, and counted at the second try": {func(s *subjects, try int, d flow.Decision) (flow.Decided, error) {
			if try == 1 {
				return flow.Decided{}, lost
			}
			count(s, d)
			return flow.Decided{Closed: true}, nil
		}, "", governance.ApprovalApproved, 2},
		"the engine is away": {func(*subjects, int, flow.Decision) (flow.Decided, error) {
			return flow.Decided{}, lost
		}, fault.CodeServiceUnavailable, governance.ApprovalPending, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSubjects(t)
			engine := &failing{nudges: s.told}
			engine.decide = func(try int, d flow.Decision) (flow.Decided, error) { return c.decide(s, try, d) }
			over, err := desk.New(desk.Deps{DB: s.pool, Journal: s.journal, Workflows: engine, Subjects: map[approval.SubjectType]desk.Subjects{changeSet: s.sets}})
			require.NoError(t, err)
			id := s.ask(t, "run:one", 1, time.Now().Add(time.Hour))
			_, err = over.Decide(t.Context(), s.owner, id, desk.Input{Approve: true})
			if c.code == "" {
				require.NoError(t, err)
			} else {
				require.True(t, fault.HasCode(err, c.code), "%v", err)
			}
			a, err := over.Get(t.Context(), s.owner.TenantID, id)
			require.NoError(t, err)
			require.Equal(t, c.status, a.Status)
			require.Equal(t, c.tries, engine.tries)
		})
	}
}
