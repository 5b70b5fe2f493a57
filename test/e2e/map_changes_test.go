package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// shelf is a provider with things that have values. It gives each new thing an id of its own, and
// remembers the writes in their order. It does not say what is in the dark.
type shelf struct {
	mu     sync.Mutex
	things map[string]string
	wrote  []string
	dark   map[string]bool
}

// ServeHTTP implements http.Handler.
func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var args struct{ ID, Value string }
	_ = json.Unmarshal(body, &args)
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	id := args.ID
	switch r.Method {
	case http.MethodGet:
		id = r.URL.Query().Get("id")
		if s.dark[id] {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if _, there := s.things[id]; !there {
			w.WriteHeader(http.StatusNotFound)
			return
		}
	case http.MethodPost:
		id = "made-" + args.Value
		fallthrough
	default:
		if args.Value == "refused" {
			w.WriteHeader(http.StatusConflict)
			return
		}
		s.things[id] = args.Value
		s.wrote = append(s.wrote, id+"="+args.Value)
	}
	fmt.Fprintf(w, `{"id":%q,"value":%q}`, id, s.things[id])
}

// writes lists the writes since the last look.
func (s *shelf) writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := append([]string{}, s.wrote...)
	s.wrote = nil
	return list
}

// put changes a thing as others than the service do.
func (s *shelf) put(id, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.things[id] = value
}

// hide says whether reads of a thing fail from now on.
func (s *shelf) hide(id string, hidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dark[id] = hidden
}

func withShelf(t *testing.T, s *rig.Stack) (*shelf, *rig.Tenant) {
	t.Helper()
	g, tenant := &shelf{things: map[string]string{}, dark: map[string]bool{}}, newTenant(s)
	args := []string{"id", "value"}
	look := map[string]any{"read_back": map[string]any{"verb": "get_thing", "args": map[string]any{"id": "${args.id}"}, "match": map[string]any{"equals": map[string]any{"value": "${args.value}"}}}}
	tenant.Connect(t, "shelf", rig.Serve(t, g), document(bearer(),
		operation{method: http.MethodGet, path: "/things", id: "get_thing", args: []string{"id"}},
		operation{method: http.MethodPost, path: "/things", id: "add_thing", args: args},
		operation{method: http.MethodPut, path: "/things", id: "set_thing", args: args, runtime: look},
	), "bearer", map[string]string{"token": "shelf-token"})
	return g, tenant
}

// changeSet is what tests read of the changes of a dry run.
type changeSet struct {
	Status     string
	ApprovalID string `json:"approval_id"`
	Changes    []struct {
		ID, Verb, Step, Status string
		Number                 int
		Path                   []string
		Args, Before, After    json.RawMessage
		BeforeState            string   `json:"before_state"`
		AfterState             string   `json:"after_state"`
		DependsOn              []string `json:"depends_on"`
		ExecutionID            string   `json:"execution_id"`
		Code, Reason           string
	}
}

func (c changeSet) ids() (ids []string) {
	for _, change := range c.Changes {
		ids = append(ids, change.ID)
	}
	return ids
}

func (c changeSet) statuses() string {
	var list []string
	for _, change := range c.Changes {
		list = append(list, change.Status)
	}
	return strings.Join(list, " ")
}

// dryRunOf makes a dry run and returns the path of its execution, with its changes.
func dryRunOf(t *testing.T, tenant *rig.Tenant, trigger string, payload map[string]any) (path string, set changeSet) {
	t.Helper()
	e := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": payload, "dryRun": true}, "Prefer: wait=60"), http.StatusOK)
	require.Equal(t, "completed", e.Status, "%v", e.Error)
	path = "/v1/executions/" + e.ExecutionID
	return path, changesOf(t, tenant.User, path)
}

func changesOf(t *testing.T, c *rig.Client, path string) (set changeSet) {
	t.Helper()
	a := c.Do(http.MethodGet, path+"/changes", nil)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	a.Data(t, &set)
	return set
}

// decideAll decides about the changes and waits until they are applied.
func decideAll(t *testing.T, c *rig.Client, path string, body map[string]any) (set changeSet) {
	t.Helper()
	a := c.Do(http.MethodPost, path+"/changes/decide", body, "Prefer: wait=60")
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	a.Data(t, &set)
	return set
}

func TestChangesOfADryRunAreAppliedOnceInOrder(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := withShelf(t, s)
		g.put("a", "old")
		trigger := publish(t, tenant, "Sets two things", `[
			{"id":"one","type":"verb","verb":"shelf:set_thing","args":{"id":"a","value":"1"}},
			{"id":"each","type":"foreach","items":"${trigger_data.list}","steps":[{"id":"two","type":"verb","verb":"shelf:set_thing","args":{"id":"b","value":"${item}"}}]},
			{"id":"three","type":"verb","verb":"shelf:set_thing","args":{"id":"a","value":"3"}}]`)
		path, set := dryRunOf(t, tenant, trigger, map[string]any{"list": []string{"x", "y"}})
		require.Equal(t, "proposed", set.Status)
		require.Equal(t, "proposed proposed proposed proposed", set.statuses())
		require.JSONEq(t, `{"id":"a","value":"old"}`, string(set.Changes[0].Before))
		require.Empty(t, g.writes(), "a dry run writes nothing")

		set = decideAll(t, tenant.User, path, map[string]any{"approve": "all"})
		require.Equal(t, "applied", set.Status)
		require.Equal(t, "applied applied applied applied", set.statuses())
		require.Equal(t, []string{"a=1", "b=x", "b=y", "a=3"}, g.writes())
		require.JSONEq(t, `{"id":"a","value":"1"}`, string(set.Changes[0].After))
		require.JSONEq(t, `{"id":"a","value":"3"}`, string(set.Changes[3].After))
		require.Equal(t, "not_found", set.Changes[1].BeforeState)
		require.JSONEq(t, `null`, string(set.Changes[1].Before))
		require.JSONEq(t, `{"id":"b","value":"x"}`, string(set.Changes[1].After))
		for _, change := range set.Changes {
			run := executionOf(t, tenant.User, change.ExecutionID)
			require.Equal(t, "executed", run.Status)
			require.JSONEq(t, string(change.Args), string(run.Args))
		}

		again := decideAll(t, newApprover(t, tenant), path, map[string]any{"approve": set.ids(), "reject": []string{}})
		require.Equal(t, set, again, "the same decision changes nothing")
		requireCode(t, tenant.User.Do(http.MethodPost, path+"/changes/decide", map[string]any{"reject": "all"}), http.StatusConflict, "CONFLICT")
		require.Empty(t, g.writes())
		var asked decidedApproval
		tenant.User.Do(http.MethodGet, "/v1/approvals/"+set.ApprovalID, nil).Data(t, &asked)
		require.Equal(t, "approved", asked.Status)
		require.Equal(t, "changes", asked.Kind)
		for _, action := range []string{"map.changes_decided", "map.changes_applied"} {
			require.Len(t, executionsOf(t, tenant, action, 1), 1)
		}
	})
}

// The intercepted writes of an agent are changes as those of other steps: in their order, each decided
// and applied once, for the agent that has made them.
func TestChangesOfAnAgentOfADryRunAreInItsList(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	g, tenant := withShelf(t, s)
	g.put("a", "old")
	agent := agentIDOf(t, tenant, map[string]any{"tools": map[string]any{"allow": []string{"shelf:*"}}})
	inner := publish(t, tenant, "Within", `[{"id":"work","type":"agent","agent_id":"`+agent+`","goal":"Fill the shelf"}]`)
	innerID := strings.Split(inner, "/")[3]
	trigger := publish(t, tenant, "Around an agent", `[
		{"id":"one","type":"verb","verb":"shelf:set_thing","args":{"id":"a","value":"1"}},
		{"id":"within","type":"map","map_id":"`+innerID+`","wait":true},
		{"id":"work","type":"agent","agent_id":"`+agent+`","goal":"Fill the shelf"},
		{"id":"last","type":"verb","verb":"shelf:set_thing","args":{"id":"a","value":"5"}}]`)
	path, set := dryRunOf(t, tenant, trigger, map[string]any{})
	require.Empty(t, g.writes(), "a dry run writes nothing")
	var args []string
	for _, change := range set.Changes {
		var of struct{ ID, Value string }
		require.NoError(t, json.Unmarshal(change.Args, &of))
		args = append(args, of.ID+"="+of.Value)
	}
	require.Equal(t, []string{"a=1", "a=2", "b=3", "a=4", "a=2", "b=3", "a=4", "a=5"}, args)
	require.Equal(t, []string{"/steps/1", "/steps/0/turns/0/calls/0"}, set.Changes[1].Path)
	require.Equal(t, []string{"/steps/2/turns/1/calls/0"}, set.Changes[6].Path)
	require.JSONEq(t, `{"id":"a","value":"old"}`, string(set.Changes[6].Before))

	ids := set.ids()
	set = decideAll(t, tenant.User, path, map[string]any{"approve": "all", "reject": ids[1:4]})
	require.Equal(t, "applied", set.Status, "%+v", set)
	require.Equal(t, "applied rejected rejected rejected applied applied applied applied", set.statuses())
	require.Equal(t, []string{"a=1", "a=2", "b=3", "a=4", "a=5"}, g.writes())

	// A policy that names the agent counts for what it has made.
	path, set = dryRunOf(t, tenant, inner, map[string]any{})
	require.Equal(t, "proposed proposed proposed", set.statuses())
	a := tenant.User.Do(http.MethodPost, "/v1/policies", map[string]any{
		"name": "Not this one", "verbMatchers": []any{map[string]any{"type": "verb", "value": "shelf:set_thing"}}, "action": map[string]any{"type": "block"},
		"conditions": []any{
			map[string]any{"field": "agent_id", "operator": "equals", "value": agent}, map[string]any{"field": "args.id", "operator": "equals", "value": "b"},
		},
	})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	set = decideAll(t, tenant.User, path, map[string]any{"approve": "all"})
	require.Equal(t, "applied failed not_applied", set.statuses())
	require.Equal(t, "GOVERNANCE_BLOCKED", set.Changes[1].Code)
}

// What a model has made of a made-up value cannot be made of the real one.
func TestChangeThatAModelHasMadeOfAMadeUpValueDrifts(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	g, tenant := withShelf(t, s)
	trigger := publish(t, tenant, "Invents for an agent", `[
		{"id":"made","type":"verb","verb":"shelf:add_thing","args":{"value":"x"},"mock":{"id":"invented","value":"?"}},
		{"id":"work","type":"agent","goal":"Fill the shelf of ${steps.made.output.id}","tools":["shelf:*"]}]`)
	path, set := dryRunOf(t, tenant, trigger, map[string]any{})
	require.Len(t, set.Changes, 4)
	require.Equal(t, []string{set.Changes[0].ID}, set.Changes[1].DependsOn)
	set = decideAll(t, tenant.User, path, map[string]any{"approve": "all"})
	require.Equal(t, "stopped", set.Status)
	require.Equal(t, "applied drifted not_applied not_applied", set.statuses())
	require.Equal(t, []string{"made-x=x"}, g.writes())
}

// builds is a Map whose later changes are built from what the first one brings.
const builds = `[
	{"id":"made","type":"verb","verb":"shelf:add_thing","args":{"value":"${trigger_data.value}"},"mock":{"id":"invented","value":"?"}},
	{"id":"seen","type":"transform","expr":"${steps.made.output.id + \"-x\"}"},
	{"id":"two","type":"verb","verb":"shelf:set_thing","args":{"id":"${steps.made.output.id}","value":"${trigger_data.second}"}},
	{"id":"three","type":"verb","verb":"shelf:set_thing","args":{"id":"three","value":"${steps.seen.output}"}},
	{"id":"four","type":"verb","verb":"shelf:set_thing","args":{"id":"four","value":"plain"}}]`

func TestChangesAreRebuiltFromWhatOthersHaveBrought(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := withShelf(t, s)
		path, set := dryRunOf(t, tenant, publish(t, tenant, "Builds", builds), map[string]any{"value": "real", "second": "2"})
		require.JSONEq(t, `{"id":"invented","value":"2"}`, string(set.Changes[1].Args))
		require.Equal(t, []string{set.Changes[0].ID}, set.Changes[2].DependsOn)
		set = decideAll(t, tenant.User, path, map[string]any{"approve": "all"})
		require.Equal(t, "applied", set.Status, "%+v", set)
		require.Equal(t, []string{"made-real=real", "made-real=2", "three=made-real-x", "four=plain"}, g.writes())
		require.JSONEq(t, `{"id":"made-real","value":"2"}`, string(set.Changes[1].After), "what it was really about")
	})
}

func TestChangeThatDependsOnARejectedOneIsRejected(t *testing.T) {
	t.Parallel()
	g, tenant := withShelf(t, sharedDev().For(t))
	path, set := dryRunOf(t, tenant, publish(t, tenant, "Builds", builds), map[string]any{"value": "real", "second": "2"})
	one := set.ids()[0]
	for name, body := range map[string]map[string]any{
		"undecided":     {"approve": []string{one}},
		"in both":       {"approve": []string{one}, "reject": []string{one}},
		"both are all":  {"approve": "all", "reject": "all"},
		"unknown":       {"approve": "all", "reject": []string{"exec_x:1"}},
		"no decision":   {},
		"another word":  {"approve": "none"},
		"other members": {"approve": "all", "force": true},
	} {
		a := tenant.User.Do(http.MethodPost, path+"/changes/decide", body)
		require.Equal(t, http.StatusBadRequest, a.Status, "%s: %s", name, a.Body)
	}
	set = decideAll(t, tenant.User, path, map[string]any{"approve": "all", "reject": []string{one}, "reason": "Not that one."})
	require.Equal(t, "applied", set.Status)
	require.Equal(t, "rejected rejected rejected applied", set.statuses())
	require.Equal(t, []string{"four=plain"}, g.writes())

	path, _ = dryRunOf(t, tenant, publish(t, tenant, "Builds", builds), map[string]any{"value": "real", "second": "2"})
	set = decideAll(t, tenant.User, path, map[string]any{"reject": "all"})
	require.Equal(t, "rejected", set.Status)
	require.Equal(t, "rejected rejected rejected rejected", set.statuses())
	require.Equal(t, set, decideAll(t, tenant.User, path, map[string]any{"reject": set.ids()}))
	requireCode(t, tenant.User.Do(http.MethodPost, path+"/changes/decide", map[string]any{"approve": "all"}), http.StatusConflict, "CONFLICT")
	require.Empty(t, g.writes())
}

// A call that is refused when it is claimed has no run, and the change says why.
func TestChangeWhoseVerbIsGoneFails(t *testing.T) {
	t.Parallel()
	g, tenant := withShelf(t, sharedDev().For(t))
	path, _ := dryRunOf(t, tenant, publish(t, tenant, "Adds", `[{"id":"one","type":"verb","verb":"shelf:add_thing","args":{"value":"gone"},"mock":{"id":"invented"}}]`), map[string]any{})
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/providers/shelf", nil).Status)
	set := decideAll(t, tenant.User, path, map[string]any{"approve": "all"})
	require.Equal(t, "stopped", set.Status)
	require.Equal(t, "failed", set.statuses())
	require.Equal(t, "VERB_NOT_FOUND", set.Changes[0].Code)
	require.Empty(t, g.writes())
}

func TestChangesOfMapsThatStepsStartAreInOneList(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := withShelf(t, s)
		inner := publish(t, tenant, "Inner", `[
			{"id":"set","type":"verb","verb":"shelf:set_thing","args":{"id":"inner","value":"${trigger_data.of}"}},
			{"id":"add","type":"verb","verb":"shelf:add_thing","args":{"value":"by-${trigger_data.n}"},"mock":{"id":"in-mock"}},
			{"id":"out","type":"return","output":{"id":"${steps.add.output.id}"}}]`)
		trigger := publish(t, tenant, "Outer", `[
			{"id":"first","type":"verb","verb":"shelf:add_thing","args":{"value":"first"},"mock":{"id":"out-mock"}},
			{"id":"each","type":"foreach","items":[1,2],"steps":[
				{"id":"sub","type":"map","map_id":"`+mapID(inner)+`","payload":{"of":"${steps.first.output.id}","n":"${item}"}},
				{"id":"after","type":"verb","verb":"shelf:set_thing","args":{"id":"outer","value":"${steps.sub.output.id}"}}]}]`)
		path, set := dryRunOf(t, tenant, trigger, map[string]any{})
		require.Len(t, set.Changes, 7)
		require.Equal(t, []string{"/steps/1/steps/0@0", "/steps/0"}, set.Changes[1].Path)
		require.Equal(t, []string{"/steps/1/steps/1@1"}, set.Changes[6].Path)
		require.Equal(t, []string{set.Changes[0].ID}, set.Changes[1].DependsOn)

		children := childrenOf(t, tenant, path)
		require.Len(t, children, 2)
		child := "/v1/executions/" + children[1].ExecutionID
		part := changesOf(t, tenant.User, child)
		require.Equal(t, set.Changes[1:3], part.Changes, "the part of the list that it came to")
		requireCode(t, tenant.User.Do(http.MethodPost, child+"/changes/decide", map[string]any{"approve": "all"}), http.StatusConflict, "CONFLICT")

		// A page at a time.
		var got []string
		for at := path + "/changes?limit=3"; at != ""; {
			var page struct {
				Data       changeSet
				Pagination struct {
					NextCursor *string `json:"next_cursor"`
				}
			}
			a := tenant.User.Do(http.MethodGet, at, nil)
			require.NoError(t, json.Unmarshal(a.Body, &page), "%s", a.Body)
			got, at = append(got, page.Data.ids()...), ""
			if page.Pagination.NextCursor != nil {
				at = path + "/changes?limit=3&cursor=" + *page.Pagination.NextCursor
			}
		}
		require.Equal(t, set.ids(), got)

		set = decideAll(t, tenant.User, path, map[string]any{"approve": "all"})
		require.Equal(t, "applied", set.Status, "%+v", set)
		require.Equal(t, []string{
			"made-first=first", "inner=made-first", "made-by-1=by-1", "outer=made-by-1", "inner=made-first", "made-by-2=by-2", "outer=made-by-2",
		}, g.writes())
	})
}

// TestTemporalApplyShowsNoValues reads what Temporal stores about the apply of changes, one of them
// held, without the codec's key.
func TestTemporalApplyShowsNoValues(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, lane string) {
		t.Helper()
		g, tenant := withShelf(t, s)
		tenant.User.NewPolicy(t, rig.RequireApproval("Gate", "shelf:add_thing", map[string]any{"self_approval": true}))
		path, _ := dryRunOf(t, tenant, publish(t, tenant, "Is held", `[
			{"id":"one","type":"verb","verb":"shelf:set_thing","args":{"id":"a","value":"1"}},
			{"id":"two","type":"verb","verb":"shelf:add_thing","args":{"value":"2"}},
			{"id":"three","type":"verb","verb":"shelf:set_thing","args":{"id":"a","value":"3"}}]`), map[string]any{})
		a := tenant.User.Do(http.MethodPost, path+"/changes/decide", map[string]any{"approve": "all"})
		require.Contains(t, []int{http.StatusAccepted, http.StatusOK}, a.Status, "%s", a.Body)
		var held []decidedApproval
		require.Eventually(t, func() bool {
			tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending&kind=hold", nil).Data(t, &held)
			return len(held) == 1
		}, time.Minute, 20*time.Millisecond)
		require.Equal(t, "applying", changesOf(t, tenant.User, path).Status)
		decide(t, tenant.User, held[0].ID, "approve", nil)
		set := decideAll(t, tenant.User, path, map[string]any{"approve": "all"})
		require.Equal(t, "applied applied applied", set.statuses())
		require.Equal(t, []string{"a=1", "made-2=2", "a=3"}, g.writes())

		workflow := applyOf(t, tenant.ID, mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusOK))
		events := closedMap(t, stranger(t, s), workflow)
		for _, event := range events.Events {
			requireNoValue(t, event)
		}
		if *record {
			recordHistory(t, s, lane+"_map_changes", events)
		}
	})
}
