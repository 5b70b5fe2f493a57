package governance_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
)

func TestAskingInWords(t *testing.T) {
	t.Parallel()
	user := uuid.MustParse("0199a1ef-7c20-7a11-8f00-5d9e2b6c1a40")
	two := governance.ApprovalRule{Required: 2, Approvers: []governance.Approver{
		{Type: governance.ApproverRole, Value: "approver"}, {Type: governance.ApproverUser, Value: user.String()},
	}}
	for name, c := range map[string]struct {
		asking governance.Asking
		want   []string
	}{
		"by default": {
			governance.Asking{Requirements: []governance.Requirement{{Rule: governance.DefaultApproval()}}},
			[]string{"0 of 1 approvals are there, from: role owner, role admin, role approver (but not for a call of their own)"},
		},
		"one of two": {
			governance.Asking{
				Requirements: []governance.Requirement{{Rule: two}},
				Votes:        []governance.Voter{{UserID: user, Role: actor.RoleMember}},
			},
			[]string{"1 of 2 approvals are there, from: role approver, user " + user.String() + " (but not for a call of their own)"},
		},
		"escalated, their own call too": {
			governance.Asking{Escalated: true, Requirements: []governance.Requirement{{Rule: governance.ApprovalRule{SelfApproval: true}}}},
			[]string{"0 of 1 approvals are there, from: role owner, role admin"},
		},
		"nobody": {
			governance.Asking{Requirements: []governance.Requirement{{Rule: governance.ApprovalRule{Required: 1, SelfApproval: true}}}},
			[]string{"0 of 1 approvals are there, from: nobody who is named"},
		},
		// Rows may have what no policy could be stored with: it must not reach operators.
		"not a role and not an id": {
			governance.Asking{Requirements: []governance.Requirement{{Rule: governance.ApprovalRule{SelfApproval: true, Approvers: []governance.Approver{
				{Type: governance.ApproverRole, Value: "[x](https://evil)"}, {Type: governance.ApproverUser, Value: "ann@example.com"},
			}}}}},
			[]string{"0 of 1 approvals are there, from: nobody who is named"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.asking.InWords())
		})
	}
}

func TestAskingInWordsNamesFewOfManyApprovers(t *testing.T) {
	t.Parallel()
	rule := governance.ApprovalRule{Required: 1, SelfApproval: true}
	for i := range 50 {
		rule.Approvers = append(rule.Approvers, governance.Approver{Type: governance.ApproverUser, Value: fmt.Sprintf("00000000-0000-0000-0000-%012d", i+1)})
	}
	words := governance.Asking{Requirements: []governance.Requirement{{Rule: rule}}}.InWords()
	require.Contains(t, words[0], "44 more")
	require.Less(t, len(words[0]), 500)
}
