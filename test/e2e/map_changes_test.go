package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// shelf is a provider with things that have values. It gives each new thing an id of its own, and
// remembers the writes in their order.
type shelf struct {
	mu     sync.Mutex
	things map[string]string
	wrote  []string
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

func withShelf(t *testing.T, s *rig.Stack) (*shelf, *rig.Tenant) {
	t.Helper()
	g, tenant := &shelf{things: map[string]string{}}, newTenant(s)
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
