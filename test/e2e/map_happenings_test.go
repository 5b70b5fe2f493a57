package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// caseWorld is a tenant in which a case runs, with those who bring about what comes from outside.
type caseWorld struct {
	t      *testing.T
	tenant *rig.Tenant
	// ana decides about approvals, and anaID is who they are.
	ana    *rig.Client
	anaID  string
	sender *rig.Client
	path   string // of the execution
}

// newCaseWorld makes before the trigger what happenings need: they come while a wait lasts.
func newCaseWorld(t *testing.T, tenant *rig.Tenant, c *mapCase) *caseWorld {
	t.Helper()
	w := &caseWorld{t: t, tenant: tenant}
	for _, h := range c.Happens {
		if h["decide"] != nil && w.ana == nil {
			w.ana, w.anaID = tenant.User.NewUser(t, rig.Address(), "admin")
		}
		if h["event"] != nil && w.sender == nil {
			w.sender = tenant.User.With(tenant.User.NewKey(t, "events:send").Key, "")
		}
	}
	return w
}

// publishOthers publishes the other Maps of a case, those first that start none. It returns the
// definition with their ids.
func (c *mapCase) publishOthers(t *testing.T, tenant *rig.Tenant) json.RawMessage {
	t.Helper()
	const named = `"map_id": "`
	left := map[string]string{}
	for name, raw := range c.Maps {
		left[name] = string(raw)
	}
	definition := string(c.Map)
	for len(left) > 0 {
		before := len(left)
		for name, text := range left {
			if slices.ContainsFunc(keysOf(left), func(other string) bool { return strings.Contains(text, named+other+`"`) }) {
				continue
			}
			id := named + publishedMap(t, tenant, text) + `"`
			delete(left, name)
			definition = strings.ReplaceAll(definition, named+name+`"`, id)
			for other := range left {
				left[other] = strings.ReplaceAll(left[other], named+name+`"`, id)
			}
		}
		require.Less(t, len(left), before, "Maps that start one another")
	}
	return json.RawMessage(definition)
}

func keysOf(m map[string]string) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	return keys
}

// happen brings about what comes from outside, once the execution is where that can come.
func (w *caseWorld) happen(h map[string]json.RawMessage) {
	w.t.Helper()
	e := w.await(h)
	switch {
	case h["resolve"] != nil:
		w.resolve(e, h["resolve"])
	case h["decide"] != nil:
		w.decide(h["decide"])
	case h["signal"] != nil:
		w.post("/signal", h["signal"])
	case h["again"] != nil:
		w.post("/retry", h["again"])
	case h["event"] != nil:
		body := map[string]any{"id": uuid.NewString()}
		require.NoError(w.t, json.Unmarshal(h["event"], &body))
		a := w.sender.Do(http.MethodPost, "/v1/events", body)
		require.Equal(w.t, http.StatusCreated, a.Status, "%s", a.Body)
	default:
		w.post("/"+text(h["control"]), nil)
	}
}

// await waits until the execution is where the happening can come.
func (w *caseWorld) await(h map[string]json.RawMessage) (e mapExecution) {
	w.t.Helper()
	statuses := []string{"waiting", "pending_approval", "escalated"}
	switch {
	case text(h["control"]) == "resume":
		statuses = []string{"paused"}
	case h["decide"] != nil:
		statuses = []string{"pending_approval"}
	case h["again"] != nil:
		statuses = []string{"failed"}
	}
	rig.Until(w.t, arriveLimit, "the execution is "+strings.Join(statuses, " or "), func() bool {
		e = mapExecutionOf(w.t, w.tenant.User.Do(http.MethodGet, w.path, nil), http.StatusOK)
		last := e.Steps[max(len(e.Steps)-1, 0):]
		if e.Status == "paused" && (len(last) == 0 || last[0].Status != "completed") {
			return false
		}
		return slices.Contains(statuses, e.Status)
	})
	return e
}

func (w *caseWorld) post(what string, body any) {
	w.t.Helper()
	a := w.tenant.User.Do(http.MethodPost, w.path+what, body)
	require.Contains(w.t, []int{http.StatusOK, http.StatusAccepted}, a.Status, "%s", a.Body)
}

// decide decides the step's approval: an edit and a response are approvals with more.
func (w *caseWorld) decide(raw json.RawMessage) {
	w.t.Helper()
	var d struct {
		Decision, Reason string
		EditedArgs       json.RawMessage `json:"edited_args"`
		Response         json.RawMessage
	}
	require.NoError(w.t, json.Unmarshal(raw, &d))
	body := map[string]any{}
	for name, value := range map[string]json.RawMessage{"edited_args": d.EditedArgs, "response": d.Response} {
		if value != nil {
			body[name] = value
		}
	}
	if d.Reason != "" {
		body["reason"] = d.Reason
	}
	action := "approve"
	if d.Decision == "reject" {
		action = "reject"
	}
	decide(w.t, w.ana, awaitAsking(w.t, w.tenant, w.path), action, body)
}

func (w *caseWorld) resolve(e mapExecution, raw json.RawMessage) {
	w.t.Helper()
	var r struct {
		Step, Outcome string
		Result        json.RawMessage
	}
	require.NoError(w.t, json.Unmarshal(raw, &r))
	for _, s := range e.Steps {
		if s.ID == r.Step {
			body := map[string]any{"outcome": r.Outcome, "reason": "looked"}
			if r.Result != nil {
				body["result"] = r.Result
			}
			a := w.tenant.User.Do(http.MethodPost, "/v1/executions/"+*s.ExecutionID+"/resolve", body)
			require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Body)
		}
	}
}

// output returns what the execution is expected to put out. A case calls the person who decides ana.
func (w *caseWorld) output(c *mapCase) json.RawMessage {
	if w.ana == nil {
		return c.Expect.Output
	}
	return json.RawMessage(strings.ReplaceAll(string(c.Expect.Output), `"ana"`, `"user:`+w.anaID+`"`))
}

// requireChanges compares the changes of a dry run with those of the case, which names the ones that a
// change depends on by their numbers.
func (w *caseWorld) requireChanges(c *mapCase) {
	w.t.Helper()
	if c.Expect.Changes == nil {
		return
	}
	set := changesOf(w.t, w.tenant.User, w.path)
	require.Len(w.t, set.Changes, len(c.Expect.Changes))
	for i, want := range c.Expect.Changes {
		got := set.Changes[i]
		require.Equal(w.t, want.Verb, got.Verb)
		require.JSONEq(w.t, string(want.Args), string(got.Args))
		require.Len(w.t, got.DependsOn, len(want.DependsOn))
		for n, number := range want.DependsOn {
			require.Equal(w.t, set.Changes[number-1].ID, got.DependsOn[n])
		}
	}
}
