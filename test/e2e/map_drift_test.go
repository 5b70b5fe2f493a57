package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

func TestApplyStopsAtTheFirstChangeThatCannotBeMade(t *testing.T) {
	t.Parallel()
	g, tenant := withShelf(t, sharedDev().For(t))
	for i, c := range []struct {
		name, steps string
		between     func(id string)
		code        string
		statuses    string
		writes      []string
	}{
		{
			"changed by others", `[
			{"id":"one","type":"verb","verb":"shelf:set_thing","args":{"id":"free-${trigger_data.id}","value":"1"}},
			{"id":"two","type":"verb","verb":"shelf:set_thing","args":{"id":"${trigger_data.id}","value":"2"}},
			{"id":"three","type":"verb","verb":"shelf:set_thing","args":{"id":"${trigger_data.id}","value":"3"}}]`,
			func(id string) { g.put(id, "other") }, "DRIFT", "applied drifted not_applied",
			[]string{"free-ID=1"},
		},
		{
			"made by others", `[
			{"id":"one","type":"verb","verb":"shelf:set_thing","args":{"id":"free-${trigger_data.id}","value":"1"}},
			{"id":"two","type":"verb","verb":"shelf:set_thing","args":{"id":"new-${trigger_data.id}","value":"2"}}]`,
			func(id string) { g.put("new-"+id, "other") }, "DRIFT", "applied drifted",
			[]string{"free-ID=1"},
		},
		{
			"no longer read", `[
			{"id":"one","type":"verb","verb":"shelf:set_thing","args":{"id":"free-${trigger_data.id}","value":"1"}},
			{"id":"two","type":"verb","verb":"shelf:set_thing","args":{"id":"new-${trigger_data.id}","value":"2"}}]`,
			func(id string) { g.hide("new-"+id, true) }, "DRIFT", "applied drifted",
			[]string{"free-ID=1"},
		},
		{
			"refused by the provider", `[
			{"id":"one","type":"verb","verb":"shelf:set_thing","args":{"id":"free-${trigger_data.id}","value":"1"}},
			{"id":"two","type":"verb","verb":"shelf:set_thing","args":{"id":"${trigger_data.id}","value":"refused"}},
			{"id":"three","type":"verb","verb":"shelf:set_thing","args":{"id":"${trigger_data.id}","value":"3"}}]`,
			func(string) {}, "PROVIDER_REJECTED", "applied failed not_applied",
			[]string{"free-ID=1"},
		},
		{
			"another way than invented", `[
			{"id":"one","type":"verb","verb":"shelf:add_thing","args":{"value":"${trigger_data.id}"},"mock":{"id":"invented"}},
			{"id":"way","type":"switch","cases":[{"when":"${steps.one.output.id == \"invented\"}","steps":[
				{"id":"two","type":"verb","verb":"shelf:set_thing","args":{"id":"two","value":"${steps.one.output.id}"}}]}],"default":[]},
			{"id":"three","type":"verb","verb":"shelf:set_thing","args":{"id":"three","value":"3"}}]`,
			func(string) {}, "DRIFT", "applied drifted not_applied",
			[]string{"made-ID=ID"},
		},
		{
			"blocked by a policy since", `[
			{"id":"one","type":"verb","verb":"shelf:set_thing","args":{"id":"free-${trigger_data.id}","value":"1"}},
			{"id":"two","type":"verb","verb":"shelf:set_thing","args":{"id":"${trigger_data.id}","value":"blocked"}}]`,
			func(string) {
				a := tenant.User.Do(http.MethodPost, "/v1/policies", map[string]any{
					"name": "Block", "verbMatchers": []any{map[string]any{"type": "verb", "value": "shelf:set_thing"}},
					"conditions": []any{map[string]any{"field": "args.value", "operator": "equals", "value": "blocked"}}, "action": map[string]any{"type": "block"},
				})
				require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
			}, "GOVERNANCE_BLOCKED", "applied failed",
			[]string{"free-ID=1"},
		},
	} {
		id := fmt.Sprintf("thing-%d", i)
		g.put(id, "old")
		path, _ := dryRunOf(t, tenant, publish(t, tenant, c.name, c.steps), map[string]any{"id": id})
		c.between(id)
		set := decideAll(t, tenant.User, path, map[string]any{"approve": "all"})
		require.Equal(t, "stopped", set.Status, c.name)
		require.Equal(t, c.statuses, set.statuses(), c.name)
		require.Equal(t, c.code, set.Changes[1].Code, c.name)
		require.NotEmpty(t, set.Changes[1].Reason, c.name)
		var want []string
		for _, w := range c.writes {
			want = append(want, strings.ReplaceAll(w, "ID", id))
		}
		require.Equal(t, want, g.writes(), c.name)
		require.Equal(t, set, decideAll(t, tenant.User, path, map[string]any{"approve": "all"}), c.name)
		require.Empty(t, g.writes(), c.name)
	}
}

// What a change is about comes from a made-up value. The dry run has looked at another thing, so only
// what the apply has left is compared.
func TestChangeOfAThingThatWasMadeUpIsComparedWithTheRealOne(t *testing.T) {
	t.Parallel()
	g, tenant := withShelf(t, sharedDev().For(t))
	trigger := publish(t, tenant, "Sets what it makes", `[
		{"id":"made","type":"verb","verb":"shelf:add_thing","args":{"value":"${trigger_data.value}"},"mock":{"id":"dark"}},
		{"id":"two","type":"verb","verb":"shelf:set_thing","args":{"id":"${steps.made.output.id}","value":"2"}},
		{"id":"three","type":"verb","verb":"shelf:set_thing","args":{"id":"${steps.made.output.id}","value":"3"}}]`)
	g.hide("dark", true)
	path, set := dryRunOf(t, tenant, trigger, map[string]any{"value": "real"})
	require.Equal(t, "not_read", set.Changes[1].BeforeState)
	set = decideAll(t, tenant.User, path, map[string]any{"approve": "all"})
	require.Equal(t, "applied", set.Status, "%+v", set)
	require.Equal(t, []string{"made-real=real", "made-real=2", "made-real=3"}, g.writes())
	require.JSONEq(t, `{"id":"made-real","value":"3"}`, string(set.Changes[2].After))

	path, _ = dryRunOf(t, tenant, trigger, map[string]any{"value": "lost"})
	g.hide("made-lost", true) // so nobody knows how the second change has left it
	set = decideAll(t, tenant.User, path, map[string]any{"approve": "all"})
	require.Equal(t, "applied applied drifted", set.statuses())
	require.Equal(t, "not_read", set.Changes[1].AfterState)
	require.Equal(t, []string{"made-lost=lost", "made-lost=2"}, g.writes())
}

// The dry run could not read what a change is about. The approver sees that, and does not approve it.
func TestChangeThatCouldNotBeReadIsNotApproved(t *testing.T) {
	t.Parallel()
	g, tenant := withShelf(t, sharedDev().For(t))
	g.put("a", "old")
	g.hide("b", true)
	trigger := publish(t, tenant, "Sets two things", `[
		{"id":"one","type":"verb","verb":"shelf:set_thing","args":{"id":"a","value":"1"}},
		{"id":"two","type":"verb","verb":"shelf:set_thing","args":{"id":"b","value":"2"}}]`)
	path, set := dryRunOf(t, tenant, trigger, map[string]any{})
	require.Equal(t, "not_read", set.Changes[1].BeforeState)
	require.JSONEq(t, `null`, string(set.Changes[1].Before))
	g.hide("b", false)
	for _, a := range []rig.Answer{
		tenant.User.Do(http.MethodPost, path+"/changes/decide", map[string]any{"approve": "all"}),
		tenant.User.Do(http.MethodPost, "/v1/approvals/"+set.ApprovalID+"/approve", map[string]any{}),
	} {
		requireCode(t, a, http.StatusConflict, "CONFLICT")
		require.Contains(t, string(a.Body), set.Changes[1].ID)
	}
	require.Equal(t, "proposed proposed", changesOf(t, tenant.User, path).statuses())
	set = decideAll(t, tenant.User, path, map[string]any{"approve": "all", "reject": set.ids()[1:]})
	require.Equal(t, "applied rejected", set.statuses())
	require.Equal(t, []string{"a=1"}, g.writes())

	path, set = dryRunOf(t, tenant, trigger, map[string]any{})
	require.Equal(t, "not_found", set.Changes[1].BeforeState)
	require.Equal(t, "applied", decideAll(t, tenant.User, path, map[string]any{"approve": "all"}).Status)
}

// An operator terminates the workflow that applies the changes, while people are asked about the second.
// The job says so in the list. People can still decide about the call, which is a run of its own.
func TestApplyWhoseWorkflowIsTerminatedIsStopped(t *testing.T) {
	t.Parallel()
	s := sharedDev().For(t)
	g, tenant := withShelf(t, s)
	tenant.User.NewPolicy(t, rig.RequireApproval("Gate", "shelf:add_thing", map[string]any{"self_approval": true}))
	path, _ := dryRunOf(t, tenant, publish(t, tenant, "Is terminated", `[
		{"id":"one","type":"verb","verb":"shelf:set_thing","args":{"id":"a","value":"1"}},
		{"id":"two","type":"verb","verb":"shelf:add_thing","args":{"value":"2"}},
		{"id":"three","type":"verb","verb":"shelf:set_thing","args":{"id":"a","value":"3"}}]`), map[string]any{})
	tenant.User.Do(http.MethodPost, path+"/changes/decide", map[string]any{"approve": "all"})
	var held []decidedApproval
	require.Eventually(t, func() bool {
		tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending&kind=hold", nil).Data(t, &held)
		return len(held) == 1
	}, time.Minute, 20*time.Millisecond)

	e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusOK)
	workflow := applyOf(t, tenant.ID, e)
	require.NoError(t, stranger(t, s).TerminateWorkflow(t.Context(), workflow, "", "by the test"))
	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	_, err = conn.Exec(t.Context(), "UPDATE map_change_sets SET updated_at = now() - interval '1 minute' WHERE workflow_id = $1", workflow)
	require.NoError(t, err)
	set := changesOf(t, tenant.User, path)
	require.Eventually(t, func() bool {
		set = changesOf(t, tenant.User, path)
		return set.Status != "applying"
	}, time.Minute, 100*time.Millisecond)
	require.Equal(t, "stopped", set.Status)
	require.Equal(t, "applied failed not_applied", set.statuses())
	require.Equal(t, "CONFLICT", set.Changes[1].Code)
	require.Equal(t, "pending_approval", executionOf(t, tenant.User, set.Changes[1].ExecutionID).Status)

	decide(t, tenant.User, held[0].ID, "approve", nil)
	require.Eventually(t, func() bool { return executionOf(t, tenant.User, set.Changes[1].ExecutionID).Status == "executed" }, time.Minute, 20*time.Millisecond)
	require.Equal(t, []string{"a=1", "made-2=2"}, g.writes())
	require.Equal(t, set, decideAll(t, tenant.User, path, map[string]any{"approve": "all"}))
}
