package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/sandbox"
	"agentruntime/test/rig"
)

// Each change of a policy acts on the next run, in every process. Decisions are counted,
// and a candidate is judged over the recorded runs.
func TestPolicyChangeActsOnTheNextRun(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, lane string) {
		t.Helper()
		tenant := newTenant(s)
		shop, err := sandbox.New(sandbox.Config{APIKey: "k"})
		require.NoError(t, err)
		base := rig.Serve(t, shop)
		tenant.Connect(t, "shop", base, sandbox.Document(base), "api_key", map[string]string{"key": "k"})
		runtime := []*rig.Client{tenant.Runtime}
		if lane == split {
			runtime = append(runtime, &rig.Client{Base: sharedSplit().second.APIURL, Key: tenant.Runtime.Key, HTTP: rig.NewHTTP()})
		}
		policy := func(action, mode string) map[string]any {
			return map[string]any{
				"name": "No lists", "mode": mode, "action": map[string]string{"type": action},
				"verbMatchers": []map[string]string{{"type": "verb", "value": "shop:list_*"}},
			}
		}
		list := func(i int, id string) rig.Answer {
			return runtime[i%len(runtime)].Run("shop:list_orders", map[string]any{"limit": 1}, id)
		}
		requireRun(t, list(0, "before"))
		var p struct{ ID string }
		tenant.User.Do(http.MethodPost, "/v1/policies", policy("block", "enforce")).Data(t, &p)
		one := "/v1/policies/" + p.ID
		for i, id := range ids(4) {
			a := list(i, id)
			require.Equal(t, http.StatusForbidden, a.Status, "%s", a.Body)
			require.Equal(t, "GOVERNANCE_BLOCKED", a.Code(t))
			require.Contains(t, a.Envelope(t).Error.Message, "No lists")
			require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPut, one, policy("block", "shadow")).Status)
			requireRun(t, list(i+1, id)) // a block does not use the id up
			require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPut, one, policy("block", "enforce")).Status)
		}

		var c struct {
			Runs, Matched, Decided int
			WouldHave              map[string]int `json:"would_have"`
		}
		tenant.User.Do(http.MethodGet, one+"/coverage", nil).Data(t, &c)
		require.Equal(t, 5, c.Runs)
		require.Equal(t, 4, c.Matched)
		require.Zero(t, c.Decided, "each run went through in the end")
		require.Equal(t, 4, c.WouldHave["block"])

		var m struct {
			Judged int `json:"runs_judged"`
			Newly  map[string]struct{ Count, Of int }
		}
		tenant.User.Do(http.MethodPost, "/v1/policies/simulate", map[string]any{"policy": map[string]any{
			"id": p.ID, "name": "Tell me", "action": map[string]string{"type": "notify"},
		}}).Data(t, &m)
		require.Equal(t, 5, m.Judged)
		require.Equal(t, 5, m.Newly["notified"].Count)
		require.Equal(t, 5, m.Newly["notified"].Of)
		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, one, nil).Status)
		requireRun(t, list(0, "after"))
	})
}
