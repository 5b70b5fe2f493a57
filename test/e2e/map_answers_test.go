package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// A write of a dry run without mock, expect and read-back goes on with a value of the schema that the
// document has for its answer. What is built from it says so, and is built again from the real answer.
func TestDryRunInventsWhatTheDocumentSaysOfTheAnswer(t *testing.T) {
	t.Parallel()
	g, tenant := &shelf{things: map[string]string{}}, newTenant(sharedDev().For(t))
	url := rig.Serve(t, g)
	imported := func(id map[string]any) {
		args := []string{"id", "value"}
		thing := map[string]any{"type": "object", "properties": map[string]any{"id": id, "value": map[string]any{"type": "string"}}}
		tenant.Connect(t, "shelf", url, document(bearer(),
			operation{method: http.MethodPost, path: "/things", id: "add_thing", args: args, answer: thing},
			operation{method: http.MethodPut, path: "/things", id: "set_thing", args: args},
		), "bearer", map[string]string{"token": "shelf-token"})
	}
	imported(map[string]any{"type": "string"})
	trigger := publish(t, tenant, "Answers", `[
		{"id":"first","type":"verb","verb":"shelf:add_thing","args":{"value":"real"}},
		{"id":"second","type":"verb","verb":"shelf:set_thing","args":{"id":"${steps.first.output.id}","value":"2"}}]`)
	path, set := dryRunOf(t, tenant, trigger, map[string]any{})
	require.Len(t, set.Changes, 2)
	require.JSONEq(t, `{"value":"real"}`, string(set.Changes[0].Args))
	require.Empty(t, set.Changes[0].DependsOn)
	require.JSONEq(t, `{"id":"invented","value":"2"}`, string(set.Changes[1].Args))
	require.Equal(t, []string{set.Changes[0].ID}, set.Changes[1].DependsOn)
	require.Empty(t, g.writes())
	set = decideAll(t, tenant.User, path, map[string]any{"approve": "all"})
	require.Equal(t, "applied applied", set.statuses())
	require.Equal(t, []string{"made-real=real", "made-real=2"}, g.writes())

	// The next import replaces it. A dry run from before is built again from its own invented value.
	before, _ := dryRunOf(t, tenant, trigger, map[string]any{})
	imported(map[string]any{"type": "string", "example": "thing-7"})
	_, set = dryRunOf(t, tenant, trigger, map[string]any{})
	require.JSONEq(t, `{"id":"thing-7","value":"2"}`, string(set.Changes[1].Args))
	require.Equal(t, "applied applied", decideAll(t, tenant.User, before, map[string]any{"approve": "all"}).statuses())
	require.Equal(t, []string{"made-real=real", "made-real=2"}, g.writes())
}
