package governance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCallsBeyondTheirBudgetAreRefusedAtOnce: what would take all cores for hours is refused,
// nothing is sent, and the tenant's other calls are served.
func TestCallsBeyondTheirBudgetAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, sharedDev().For(t))
	values := make([]int, 4_000)
	for i := range values {
		values[i] = 100_000 + i
	}
	w.connect(map[string]any{
		"/enum": m{"post": operation("enum", "low", "write", m{"l": m{"type": "array", "items": m{"enum": values}}})},
		"/text": m{"post": operation("text", "low", "write", m{"s": typed("string")})},
	})
	ones := make([]int, 1_000)
	e := refused(t, w.Runtime.Run("bank:enum", m{"l": ones}, "beyond"), http.StatusUnprocessableEntity, "INVALID_ARGS")
	require.Contains(t, string(e.Error.Details), `"complexity"`)
	succeeded(t, w.Runtime.Run("bank:enum", m{"l": []int{100_001}}, "beyond"))

	for i := range 3 {
		w.policy(with(rule(fmt.Sprint("p", i), "block", "bank:text"), m{"conditions": []m{
			{"field": "args.s", "operator": "matches", "value": "(?:.{0,900}b)$"}, {"field": "args.s", "operator": "matches", "value": "(?:.{0,901}b)$"},
		}}))
	}
	e = refused(t, w.Runtime.Run("bank:text", m{"s": strings.Repeat("a", 60_000)}, "long"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Contains(t, e.Error.Message, "too much work to judge")
	succeeded(t, w.Runtime.Run("bank:text", m{"s": "short"}, "long"))
}

// TestPoliciesAreBoundedInBytes: a value that is ignored is not kept, and an evaluation
// answers at most 256 KiB, however many policies match.
func TestPoliciesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	payload := strings.Repeat("A", 20_000)
	for i := range 12 {
		conditions := make([]m, 50)
		for j := range conditions {
			conditions[j] = m{"field": "args.zzz" + strings.Repeat("n", 500), "operator": "not_exists"}
		}
		conditions[0]["value"] = payload
		w.policy(with(rule(fmt.Sprint("p", i), "block", "bank:low_write"), m{"conditions": conditions}))
	}
	a := w.Runtime.Do(http.MethodPost, "/v1/runtime/governance/evaluate", m{"verb": "bank:low_write", "args": m{}})
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	require.Less(t, len(a.Body), 256<<10)
	require.NotContains(t, string(a.Body), payload)
	require.Contains(t, string(a.Body), "Policies that matched and are not shown: ")
	list := w.User.Do(http.MethodGet, "/v1/policies?verb=bank:low_write&limit=5", nil)
	require.Equal(t, http.StatusOK, list.Status, "%s", list.Body)
	require.NotContains(t, string(list.Body), payload)

	costly := m{"field": "args.s", "operator": "matches", "value": "[ab]{900}c"}
	refused(t, w.User.Do(http.MethodPost, "/v1/policies", with(rule("costly", "block", "bank:*"), m{"conditions": []m{costly, costly, costly, costly, costly, costly}})),
		http.StatusBadRequest, "VALIDATION_ERROR")
}
