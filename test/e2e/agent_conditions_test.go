package e2e

import (
	"net/http"
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// printing are the answers of the scripted model to agents whose calls policies judge by what the agents are.
var printing = []string{
	`{"purpose":"reply","turn":0,"contains":["Print the badges"],` + toolCalls(
		toolCall("1", "gate__create_thing", `{"id":"for Support"}`), toolCall("2", "gate__create_thing", `{"id":"for version 2"}`),
		toolCall("3", "gate__create_thing", `{"id":"for conversations"}`), toolCall("4", "gate__create_thing", `{"id":"for goals"}`)) + `}`,
	`{"purpose":"reply","turn":1,"contains":["Print the badges"],"text":"Here they are."}`,
}

// Policies see the name, the version and the mode of the agent that makes a call. What others call
// themselves in metadata is not an agent of the tenant.
func TestPoliciesJudgeCallsByTheirAgent(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, eager))
	for id, condition := range map[string]map[string]any{
		"for Support":       {"field": "agent.name", "operator": "equals", "value": "Support"},
		"for version 2":     {"field": "agent.version", "operator": "equals", "value": 2},
		"for conversations": {"field": "agent.executionMode", "operator": "equals", "value": "conversational"},
		"for goals":         {"field": "agent.executionMode", "operator": "equals", "value": "goal"},
	} {
		tenant.User.NewPolicy(t, map[string]any{
			"name": id, "verbMatchers": []any{map[string]any{"verb": "gate:create_thing"}},
			"conditions": []any{map[string]any{"field": "args.id", "operator": "equals", "value": id}, condition}, "action": map[string]any{"type": "block"},
		})
	}
	seen := 0
	sent := func() (ids []string) {
		for _, h := range g.all()[seen:] {
			ids = append(ids, h.id)
		}
		seen += len(ids)
		slices.Sort(ids)
		return ids
	}
	message, key := agentOf(t, tenant, map[string]any{"name": "Support"})
	require.Equal(t, 2, saidOf(t, key.Do(http.MethodPost, message, write("Print the badges", "")), http.StatusOK).ActionsExecuted)
	require.Equal(t, []string{"for goals", "for version 2"}, sent())

	a := tenant.User.Do(http.MethodPatch, path.Dir(message)+"?publish=true", map[string]any{"name": "Sales"})
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	require.Equal(t, 2, saidOf(t, key.Do(http.MethodPost, message, write("Print the badges", "")), http.StatusOK).ActionsExecuted)
	require.Equal(t, []string{"for Support", "for goals"}, sent())

	a = tenant.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", map[string]any{
		"verb": "gate:create_thing", "args": map[string]any{"id": "for Support"}, "metadata": map[string]any{"agent": map[string]any{"name": "Support"}},
	})
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
}

// A call that a model makes has the mode of its agent, and no other: for a goal, and in a step of the Map of
// an agent of the mode workflow_only.
func TestPoliciesJudgeCallsByTheModeOfTheirAgent(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	for mode, c := range map[string]struct {
		id    string // of the thing that the agent makes
		calls int    // about it, with the one that makes it
		ask   func(*testing.T, *rig.Tenant)
	}{
		"goal": {"medlar", 2, func(t *testing.T, tenant *rig.Tenant) {
			t.Helper()
			_, goals, key := goalAgent(t, tenant, nil)
			pursuedOf(t, key.Do(http.MethodPost, goals, goalOf("Make the medlar", criterion("seen", ""), criterion("made", ""))), http.StatusOK)
		}},
		"workflow_only": {"cup", 1, func(t *testing.T, tenant *rig.Tenant) {
			t.Helper()
			message, key := guided(t, tenant, guidedMap, nil)
			for _, text := range []string{"A cup please", "large", "blue"} {
				saidOf(t, key.Do(http.MethodPost, message, write(text, "s1"), "Prefer: wait=60"), http.StatusOK)
			}
		}},
	} {
		for _, blocked := range []string{"conversational", "workflow_only", "goal"} {
			t.Run(mode+", blocked for "+blocked, func(t *testing.T) {
				t.Parallel()
				g, tenant := connected(t, s)
				tenant.User.NewPolicy(t, map[string]any{
					"name": blocked, "verbMatchers": []any{map[string]any{"verb": "gate:create_thing"}},
					"conditions": []any{map[string]any{"field": "agent.executionMode", "operator": "equals", "value": blocked}}, "action": map[string]any{"type": "block"},
				})
				c.ask(t, tenant)
				calls := c.calls
				if mode == blocked {
					calls--
				}
				require.Len(t, g.of(c.id), calls)
			})
		}
	}
}
