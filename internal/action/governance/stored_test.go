package governance_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
)

// Policies, approvals and grants store these types as JSON, and the API answers with some of
// them. A test that fails here means that rows which exist can no longer be read: add a
// member, and never rename or remove one.
func TestStoredFormsKeepTheirMembers(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0199a1ef-7c20-7a11-8f00-5d9e2b6c1a40")
	rule := governance.ApprovalRule{
		Required: 2, Approvers: []governance.Approver{{Type: governance.ApproverRole, Value: "admin"}}, SelfApproval: true,
		TimeoutSeconds: 3600, OnTimeout: governance.OnTimeoutEscalate, ReasonRequired: true,
	}
	const ruleJSON = `{"required":2,"approvers":[{"type":"role","value":"admin"}],"self_approval":true,"timeout":3600,` +
		`"on_timeout":"escalate","reason_required":true}`
	for name, c := range map[string]struct {
		value any
		want  string
		empty any // what the JSON is read into
	}{
		"matcher": {
			&governance.Matcher{Type: governance.MatchVerb, Value: "shop:*"},
			`{"type":"verb","value":"shop:*"}`, &governance.Matcher{},
		},
		"matcher of fields": {
			&governance.Matcher{Verb: "shop:*", Provider: "shop", Risk: "low", Operation: "write", Domain: "orders"},
			`{"verb":"shop:*","provider":"shop","risk_level":"low","operation_type":"write","domain":"orders"}`, &governance.Matcher{},
		},
		"narrowing": {
			&governance.Narrowing{All: []governance.Matcher{{Provider: "shop"}}, Except: []governance.Matcher{{Operation: "read"}}},
			`{"all":[{"provider":"shop"}],"except":[{"operation_type":"read"}]}`, &governance.Narrowing{},
		},
		"condition": {
			&governance.Condition{Field: "args.amount", Operator: governance.OpGreater, Value: json.RawMessage(`10`)},
			`{"field":"args.amount","operator":"greater","value":10}`, &governance.Condition{},
		},
		"condition without a value": {
			&governance.Condition{Field: "agent_id", Operator: governance.OpExists},
			`{"field":"agent_id","operator":"exists"}`, &governance.Condition{},
		},
		"approval rule": {&rule, ruleJSON, &governance.ApprovalRule{}},
		"requirement": {
			&governance.Requirement{PolicyID: &id, Version: 3, PolicyName: "Refunds", Rule: rule},
			`{"policy_id":"` + id.String() + `","version":3,"policy_name":"Refunds","rule":` + ruleJSON + `}`, &governance.Requirement{},
		},
		"match": {
			&governance.Match{
				PolicyID: id, PolicyName: "Refunds", Version: 3, Mode: governance.Enforce, Action: governance.ActionBlock, Decided: true,
				Conditions: []governance.ConditionMatch{{
					Field: "args.amount", Operator: governance.OpLess, Value: json.RawMessage(`10`), Actual: json.RawMessage(`null`), Met: true, FailClosed: "the call lacks it",
				}},
			},
			`{"policy_id":"` + id.String() + `","policy_name":"Refunds","version":3,"mode":"enforce","action":"block","conditions":[` +
				`{"field":"args.amount","operator":"less","value":10,"actual":null,"met":true,"fail_closed":"the call lacks it"}],"decided":true}`,
			&governance.Match{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := json.Marshal(c.value)
			require.NoError(t, err)
			require.Equal(t, c.want, string(raw))
			require.NoError(t, json.Unmarshal(raw, c.empty))
			require.Equal(t, c.value, c.empty)
		})
	}
}

// Rows store these texts, and migrations constrain some of the columns.
func TestStoredWordsStayTheSame(t *testing.T) {
	t.Parallel()
	require.Equal(t, []governance.ApprovalStatus{"pending", "approved", "rejected", "expired", "cancelled", "superseded", "blocked"}, governance.ApprovalStatuses())
	require.Equal(t, []governance.ApprovalKind{"hold", "dry_run", "block", "step", "changes"}, governance.ApprovalKinds())
	require.Equal(t, []governance.Decision{"allow", "block", "pending_approval"}, []governance.Decision{governance.Allow, governance.Block, governance.PendingApproval})
	require.Equal(t, []governance.Action{"allow", "notify", "require_approval", "block"},
		[]governance.Action{governance.ActionAllow, governance.ActionNotify, governance.ActionRequireApproval, governance.ActionBlock})
}

// An exception that a later version has narrowed must not exempt more than that version meant.
func TestStoredMatcherWithAnUnknownMemberExemptsNothing(t *testing.T) {
	t.Parallel()
	p := policy("p", allow)
	require.NoError(t, json.Unmarshal([]byte(`{"except":[{"provider":"stripe","tag":"x"}]}`), &p.Match))
	v := governance.Compile(1, []governance.Policy{p}).Evaluate(refund(`{}`))
	require.Equal(t, governance.Block, v.Decision)
	require.Contains(t, v.Reason, "cannot be read")
	require.NotEmpty(t, governance.CheckPolicy(p), "it is not stored again without the member")
}
