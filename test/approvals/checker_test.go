package approvals

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// sound is the evidence of one refund that two people approved and that was made.
func sound() *evidence {
	at := time.Unix(1000, 0)
	run, first, second, policy := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	approval, counted := "appr_1", at.Add(-time.Minute)
	h := &history{}
	for _, user := range []uuid.UUID{first, second} {
		h.events = append(h.events, event{roleOf(user.String()), "approver", at.Add(-time.Hour), at.Add(-time.Hour), true})
	}
	h.events = append(h.events, event{policyOf(policy.String()), "hold " + verbRefund, at.Add(-time.Hour), at.Add(-time.Hour), true})
	rule := `{"required": 2, "approvers": [{"type": "role", "value": "approver"}], "timeout": 60, "on_timeout": "reject"}`
	return &evidence{
		past:    h,
		effects: func(string) []effect { return []effect{{ID: "run-1", Amount: 7, at: at}} },
		facts: facts{
			runs: []runFact{{ID: run, ExecutionID: "run-1", State: "executed", Verb: verbRefund, Args: `{"id":"run-1","amount":7}`, Held: true, SentAt: &at}},
			approvals: []approvalFact{{
				ID: approval, RunID: run, Status: "approved",
				Requirements: json.RawMessage(`[{"policy_id": "` + policy.String() + `", "version": 1, "rule": ` + rule + `}]`),
			}},
			decisions: []decisionFact{
				{ApprovalID: approval, UserID: &first, Decision: "approve", CountedAt: &counted},
				{ApprovalID: approval, UserID: &second, Decision: "approve", CountedAt: &counted},
			},
			audit: []auditFact{
				{"run.held", approval, "run-1", json.RawMessage(`{}`)},
				{"approval.voted", approval, "run-1", json.RawMessage(`{}`)},
				{"approval.approved", approval, "run-1", json.RawMessage(`{}`)},
				{"run.allowed", "", "run-1", json.RawMessage(`{"approval_id":"appr_1"}`)},
			},
		},
		acked: []ack{{approval, first.String(), "approve"}},
	}
}

// before adds a change to the past.
func before(e *evidence, key, value string, at time.Time) {
	e.past.events = append(e.past.events, event{key, value, at, at, true})
}

func TestTheCheckerFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		change func(e *evidence)
		want   string
	}{
		"sound":             {func(*evidence) {}, ""},
		"two effects":       {func(e *evidence) { e.effects = func(string) []effect { return make([]effect, 2) } }, "2 effects"},
		"no effect":         {func(e *evidence) { e.effects = func(string) []effect { return nil } }, "without an effect"},
		"rejected and sent": {func(e *evidence) { e.runs[0].State = "rejected" }, "its run is rejected"},
		"still claimed": {func(e *evidence) {
			e.runs[0].State, e.effects = "claimed", func(string) []effect { return nil }
		}, "has not ended"},
		"other arguments":   {func(e *evidence) { e.runs[0].Args = `{"amount":8}` }, "7 was sent"},
		"a vote is missing": {func(e *evidence) { e.decisions[1].CountedAt = nil }, "1 of 2 votes"},
		"one voted twice":   {func(e *evidence) { e.decisions[1].UserID = e.decisions[0].UserID }, "counted 2 times"},
		"a voter was demoted": {func(e *evidence) {
			e.past.events = append(e.past.events, event{roleOf(e.decisions[0].UserID.String()), "member", at.Add(-time.Minute), at.Add(-time.Minute), true})
		}, "1 of 2 votes"},
		"a voter edited the call":  {func(e *evidence) { e.approvals[0].EditedBy = e.decisions[0].UserID }, "1 of 2 votes"},
		"approval was superseded":  {func(e *evidence) { e.approvals[0].Status = "superseded" }, "not an approved one"},
		"approval of another run":  {func(e *evidence) { e.approvals[0].RunID = uuid.New() }, "not an approved one"},
		"another policy held it":   {func(e *evidence) { before(e, "policy x", "hold desk:*", at.Add(-time.Hour)) }, "does not know of policy x"},
		"a policy blocked it":      {func(e *evidence) { before(e, "policy x", "block "+verbRefund, at.Add(-time.Hour)) }, "blocks it"},
		"a policy came later":      {func(e *evidence) { before(e, "policy x", "block "+verbRefund, at.Add(time.Hour)) }, ""},
		"no approval":              {func(e *evidence) { e.audit[3].Details = json.RawMessage(`{}`) }, "without an approval"},
		"under an unknown grant":   {func(e *evidence) { e.audit[3].Details = json.RawMessage(`{"grant_id":"g"}`) }, "which is not for it"},
		"no record of the sending": {func(e *evidence) { e.audit = e.audit[:3] }, "no record says so"},
		"no record of the asking":  {func(e *evidence) { e.audit = e.audit[1:] }, "0 records of its asking"},
		"a decision not recorded":  {func(e *evidence) { e.audit[1].Action = "other" }, "2 decisions counted, 1 recorded"},
		"recorded as approved twice": {func(e *evidence) {
			e.audit[1].Action = "approval.approved"
		}, "2 records say so"},
		"escalated without a record": {func(e *evidence) { e.approvals[0].EscalatedAt = &at }, "escalated at"},
		"an answered vote was lost":  {func(e *evidence) { e.acked = append(e.acked, ack{"appr_1", "somebody", "reject"}) }, "answered as counted"},
		"cancelled, they said":       {func(e *evidence) { e.cancelled = []string{"run-1"} }, "answered as cancelled"},
		"a grant used too often": {func(e *evidence) {
			e.grants = []grantFact{{ID: uuid.New(), MaxUses: 1, Uses: 2}}
		}, "2 uses of 1"},
		"a grant used and not counted": {func(e *evidence) {
			e.grants = []grantFact{{ID: uuid.New(), MaxUses: 1}}
			e.runs[0].GrantID = &e.grants[0].ID
		}, "1 runs, 0 uses"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := sound()
			c.change(e)
			got := strings.Join(e.violations(), "\n")
			if c.want == "" {
				require.Empty(t, got)
				return
			}
			require.Contains(t, got, c.want)
		})
	}
}
