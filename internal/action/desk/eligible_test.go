package desk

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/approval"
)

func TestNotEligibleIsWordedForWhatIsDecided(t *testing.T) {
	t.Parallel()
	role := func(value string) governance.Approver {
		return governance.Approver{Type: governance.ApproverRole, Value: value}
	}
	user := governance.Approver{Type: governance.ApproverUser, Value: uuid.NewString()}
	for name, c := range map[string]struct {
		about     approval.SubjectType
		role      actor.Role
		self      bool
		escalated bool
		approvers [][]governance.Approver
		want      string
	}{
		"an own call":              {about: approval.SubjectRun, role: "owner", self: true, approvers: [][]governance.Approver{{role("owner")}}, want: "You asked for this call, or you wrote a text that its arguments are made of (an edit, a signal, a response, its Map), so another user must decide it. Its policies do not allow self_approval. You may reject it, which ends the call."},
		"an own step":              {about: approval.SubjectMapStep, role: "owner", self: true, approvers: [][]governance.Approver{{role("owner")}}, want: "You started this Map or wrote a text that it goes on with (an edit, a signal, a response), so another user must decide it. The step does not allow self_approval. You may reject it, which fails the step."},
		"own changes":              {about: approval.SubjectMapChanges, role: "owner", self: true, approvers: [][]governance.Approver{{role("owner")}}, want: "You started this dry run or wrote a text that it goes on with, so another user must decide about its changes. You may reject them."},
		"a wrong role":             {about: approval.SubjectMapStep, role: "member", approvers: [][]governance.Approver{{role("admin")}}, want: "You may not decide this approval. It needs the role admin."},
		"a wrong role, own":        {about: approval.SubjectMapStep, role: "member", self: true, approvers: [][]governance.Approver{{role("admin")}}, want: "You may not decide this approval. It needs the role admin."},
		"roles of all":             {about: approval.SubjectRun, role: "member", approvers: [][]governance.Approver{{role("admin"), role("owner")}, {role("admin"), role("approver")}}, want: "You may not decide this approval. It needs the role admin, owner or approver."},
		"roles and users":          {about: approval.SubjectRun, role: "member", approvers: [][]governance.Approver{{role("admin"), user}}, want: "You may not decide this approval. It needs the role admin, or a user whom its requirements list."},
		"users":                    {about: approval.SubjectRun, role: "owner", approvers: [][]governance.Approver{{user}}, want: "You may not decide this approval. It needs a user whom its requirements list."},
		"users, when it escalated": {about: approval.SubjectRun, role: "member", escalated: true, approvers: [][]governance.Approver{{user}}, want: "You may not decide this approval. It needs the role owner or admin, or a user whom its requirements list."},
	} {
		asking := governance.Asking{Escalated: c.escalated}
		for _, list := range c.approvers {
			asking.Requirements = append(asking.Requirements, governance.Requirement{Rule: governance.ApprovalRule{Approvers: list}})
		}
		err := notEligible(c.about, asking, governance.Voter{UserID: uuid.New(), Role: c.role, Self: c.self})
		require.Equal(t, fault.CodeApproverNotEligible, fault.As(err).Code, name)
		require.Equal(t, c.want, fault.As(err).Message, name)
	}
}
