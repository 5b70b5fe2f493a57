package approvals

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/oracle"
)

// sound is the evidence of one change that needed no approval and was made.
func sound() *evidence {
	at := time.Unix(1000, 0)
	return &evidence{
		past:    &history{},
		effects: func(string) []effect { return []effect{{ID: "run-1", Amount: 7, at: at}} },
		Facts: oracle.Facts{
			Runs:    []oracle.Run{{ID: uuid.New(), ExecutionID: "run-1", State: "executed", Verb: verbRefund, Args: `{"id":"run-1","amount":7}`, SentAt: &at}},
			Records: []oracle.Record{{Action: "run.allowed", ExecutionID: "run-1", Details: json.RawMessage(`{}`)}},
		},
	}
}

// The promises themselves are judged in test/oracle; this is what the suite adds.
func TestEvidenceOneFaultIsFound(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		change func(e *evidence)
		want   string
	}{
		"sound":       {func(*evidence) {}, ""},
		"two effects": {func(e *evidence) { e.effects = func(string) []effect { return make([]effect, 2) } }, "2 effects"},
		"other amount": {func(e *evidence) {
			e.effects = func(string) []effect { return []effect{{ID: "run-1", Amount: 8}} }
		}, `{"amount":8,"id":"run-1"} was sent`},
		"dangerous": {func(e *evidence) { e.Runs[0].Verb = verbWipe }, "without an approval"},
		"policy held it": {func(e *evidence) {
			e.past.events = []event{{"policy x", "hold desk:*", at.Add(-time.Hour), at.Add(-time.Hour), true}}
		}, "required by [x]"},
		"policy blocked": {func(e *evidence) {
			e.past.events = []event{{"policy x", "block " + verbRefund, at.Add(-time.Hour), at.Add(-time.Hour), true}}
		}, "policy x blocks it"},
		"policy came later": {func(e *evidence) {
			e.past.events = []event{{"policy x", "block " + verbRefund, at.Add(time.Hour), at.Add(time.Hour), true}}
		}, ""},
		"still claimed": {func(e *evidence) {
			e.Runs[0].State, e.effects = "claimed", func(string) []effect { return nil }
		}, "has not ended"},
		"still claimed, midway": {func(e *evidence) {
			e.midway, e.Runs[0].State, e.effects = true, "claimed", func(string) []effect { return nil }
		}, ""},
		"answered vote lost": {func(e *evidence) { e.acked = append(e.acked, ack{"appr_1", uuid.NewString(), "reject"}) }, "answered as counted"},
		"cancel lost":        {func(e *evidence) { e.cancelled = []string{"run-1"} }, "answered as cancelled"},
		"grant overused":     {func(e *evidence) { e.Grants = []oracle.Grant{{ID: uuid.New(), MaxUses: 1, Uses: 2}} }, "2 uses of 1"},
		"vote not recorded": {func(e *evidence) {
			e.Approvals = []oracle.Approval{{ID: "appr_1", RunID: e.Runs[0].ID, Status: "approved"}}
		}, "approved by nobody"},
		"noted before": {func(e *evidence) { e.broken = []string{"answered with INTERNAL_ERROR"} }, "INTERNAL_ERROR"},
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

func TestHistoryKnowsRevokedGrants(t *testing.T) {
	t.Parallel()
	h := history{events: []event{{"grant g", "revoked", time.Unix(10, 0), time.Unix(11, 0), true}}}
	require.True(t, h.Revoked("g", time.Unix(20, 0)))
	require.False(t, h.Revoked("g", time.Unix(5, 0)))
	require.False(t, slices.Contains(h.Holding(verbRefund, time.Unix(20, 0)), "g"))
}
