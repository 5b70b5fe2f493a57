package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// ui is the HTTP API that Temporal's web interface reads.
type ui struct {
	t   *testing.T
	url string
}

func (u ui) get(path string, into any) {
	u.t.Helper()
	res, err := http.Get(u.url + "/api/v1" + path)
	require.NoError(u.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(u.t, err)
	require.Equal(u.t, http.StatusOK, res.StatusCode, "%s", text)
	require.NoError(u.t, json.Unmarshal(text, into))
}

// listed is a row of the list of workflows.
type listed struct {
	Execution        struct{ WorkflowID, RunID string }
	Status           string
	SearchAttributes struct {
		IndexedFields map[string]struct{ Data []byte }
	}
}

// values returns the search attributes of the row.
func (l listed) values() map[string]string {
	values := map[string]string{}
	for name, field := range l.SearchAttributes.IndexedFields {
		if text, err := strconv.Unquote(string(field.Data)); err == nil && name != "BuildIds" {
			values[name] = text
		}
	}
	return values
}

// list returns the workflows that a query finds.
func (u ui) list(query string) []listed {
	u.t.Helper()
	var page struct{ Executions []listed }
	u.get("/namespaces/default/workflows?query="+url.QueryEscape(query), &page)
	return page.Executions
}

// one waits until the query finds exactly one workflow. The list is written behind the runs.
func (u ui) one(query string) listed {
	u.t.Helper()
	var found []listed
	rig.Until(u.t, arriveLimit, query+" finds one workflow", func() bool {
		found = u.list(query)
		require.LessOrEqual(u.t, len(found), 1, query)
		return len(found) == 1
	})
	return found[0]
}

// An operator finds a run by tenant, verb, provider, risk, state and execution, in the UI.
func TestOperatorFindsRunsInTheTemporalUI(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	u := ui{t: t, url: s.TemporalUIURL}
	tenant.User.NewPolicy(t, holdGate(3600))
	id := ids(3)
	h := heldRun{t: t, tenant: tenant, id: id[0]}
	tenant.Runtime.Run("gate:create_thing", map[string]string{"id": id[0]}, id[0])
	tenant.Runtime.Run("gate:delete_thing", map[string]string{"id": id[1]}, id[1])
	requireRun(t, tenant.Runtime.Run("gate:get_thing", map[string]string{"id": id[2]}, id[2]))

	own := tenant.ID
	mine := "AgentRuntimeTenant = '" + own + "' AND "
	want := map[string]string{
		"AgentRuntimeTenant": own, "AgentRuntimeKind": "action", "AgentRuntimeVerb": "gate:create_thing", "AgentRuntimeRisk": "medium",
		"AgentRuntimeExecution": id[0], "AgentRuntimeState": "pending_approval",
	}
	held := u.one(mine + "AgentRuntimeState = 'pending_approval'")
	require.Equal(t, want, held.values())
	require.Equal(t, "WORKFLOW_EXECUTION_STATUS_RUNNING", held.Status)
	for _, query := range []string{
		"AgentRuntimeExecution = '" + id[0] + "'",
		mine + "AgentRuntimeVerb = 'gate:create_thing'",
		mine + "AgentRuntimeVerb STARTS_WITH 'gate:c'",
		mine + "AgentRuntimeRisk = 'medium'",
	} {
		require.Equal(t, held.Execution, u.one(query).Execution, query)
	}
	require.Equal(t, "blocked", u.one(mine + "AgentRuntimeRisk = 'high'").values()["AgentRuntimeState"])
	sent := u.one(mine + "AgentRuntimeState IS NULL AND ExecutionStatus = 'Completed'")
	require.Equal(t, id[2], sent.values()["AgentRuntimeExecution"])

	h.decide(h.approval(), "reject", map[string]string{"reason": "no"})
	want["AgentRuntimeState"] = "rejected"
	require.Equal(t, want, u.one(mine+"AgentRuntimeState = 'rejected'").values())
	require.Empty(t, u.list(mine+"AgentRuntimeState = 'pending_approval'"))
}

// An operator finds the Maps that wait for people, and those that failed. One that has ended is not
// listed by what it waited for.
func TestOperatorFindsMapsInTheTemporalUI(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	tenant := s.NewTenant(rig.Address())
	u := ui{t: t, url: s.TemporalUIURL}
	trigger := publish(t, tenant, "Asks", `[{"id":"ask","type":"approval","title":"Go?"}]`)
	e := expiring{path: startMap(t, tenant, trigger, nil)}
	requireCode(t, tenant.User.Do(http.MethodPost, publish(t, tenant, "Fails", `[{"id":"r","type":"raise","error":{"code":"NO"}}]`), map[string]any{}), http.StatusUnprocessableEntity, "MAP_FAILED")
	e.await(t, tenant)
	mine := "AgentRuntimeKind = 'map' AND AgentRuntimeSubject = '" + mapID(trigger) + "' AND "
	asks := u.one(mine + "AgentRuntimeState = 'pending_approval'")
	require.Equal(t, strings.TrimPrefix(e.path, "/v1/executions/"), asks.values()["AgentRuntimeExecution"])
	require.Equal(t, http.StatusOK, tenant.User.Decide(e.asked.ID, "approve", nil).Status)
	require.Equal(t, asks.Execution, u.one(mine+"AgentRuntimeState = 'completed'").Execution)
	require.Empty(t, u.list(mine+"AgentRuntimeState = 'pending_approval'"))
	u.one("AgentRuntimeState = 'failed' AND AgentRuntimeTenant = '" + asks.values()["AgentRuntimeTenant"] + "'")
}

// decoded opens payloads as the UI does: by the endpoint in its settings, from its origin.
func (u ui) decoded(payloads []json.RawMessage) []string {
	u.t.Helper()
	var settings struct{ Codec struct{ Endpoint string } }
	u.get("/settings", &settings)
	body, err := json.Marshal(map[string]any{"payloads": payloads})
	require.NoError(u.t, err)
	req, err := http.NewRequest(http.MethodPost, settings.Codec.Endpoint+"/decode?preserveStorageRefs=true", bytes.NewReader(body))
	require.NoError(u.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Namespace", "default")
	req.Header.Set("Origin", u.url)
	res, err := rig.NewHTTP().Do(req)
	require.NoError(u.t, err)
	defer res.Body.Close()
	require.Equal(u.t, http.StatusOK, res.StatusCode)
	require.Equal(u.t, u.url, res.Header.Get("Access-Control-Allow-Origin"))
	var out struct {
		Payloads []struct{ Data []byte }
	}
	require.NoError(u.t, json.NewDecoder(res.Body).Decode(&out))
	var texts []string
	for _, p := range out.Payloads {
		texts = append(texts, string(p.Data))
	}
	return texts
}

// history returns every payload of a workflow's history, and the details of its start.
func (u ui) history(workflowID string) []json.RawMessage {
	u.t.Helper()
	var page any
	u.get("/namespaces/default/workflows/"+url.PathEscape(workflowID)+"/history", &page)
	var found []json.RawMessage
	walkPayloads(page, func(encoding, data []byte) {
		if string(encoding) != "binary/encrypted" {
			return
		}
		raw, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"encoding": encoding, "encryption-key-id": []byte("codec-1")}, "data": data,
		})
		require.NoError(u.t, err)
		found = append(found, raw)
	})
	return found
}

// details asks the workflow for its current details, as the UI does.
func (u ui) details(workflowID string) string {
	u.t.Helper()
	body := `{"execution":{"workflowId":"` + workflowID + `"},"query":{"queryType":"__temporal_workflow_metadata"}}`
	req, err := http.NewRequest(http.MethodPost,
		u.url+"/api/v1/namespaces/default/workflows/"+url.PathEscape(workflowID)+"/query/__temporal_workflow_metadata", strings.NewReader(body))
	require.NoError(u.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	req.Header.Set("Origin", u.url)
	res, err := rig.NewHTTP().Do(req)
	require.NoError(u.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(u.t, err)
	require.Equal(u.t, http.StatusOK, res.StatusCode, "%s", text)
	var answer struct {
		QueryResult struct{ Payloads []json.RawMessage }
	}
	require.NoError(u.t, json.Unmarshal(text, &answer))
	require.Len(u.t, answer.QueryResult.Payloads, 1)
	var metadata struct{ CurrentDetails string }
	require.NoError(u.t, json.Unmarshal([]byte(u.decoded(answer.QueryResult.Payloads)[0]), &metadata))
	return metadata.CurrentDetails
}

// An operator reads in the UI who can decide about a held call, where and until when, and
// inputs and results in the clear. What is sensitive is not among them.
func TestOperatorReadsHeldRunInTheTemporalUI(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	u := ui{t: t, url: s.TemporalUIURL}
	tenant.User.NewPolicy(t, holdGate(3600))
	id, secret := ids(1)[0], "canary-"+ids(1)[0]
	h := heldRun{t: t, tenant: tenant, id: id}
	tenant.Runtime.Run("gate:create_thing", map[string]string{"id": secret}, id)
	workflow := executionOf(t, tenant.Runtime, id).WorkflowID
	approval := h.approval()

	var text string
	rig.Until(t, arriveLimit, "the run waits", func() bool {
		text = u.details(workflow)
		return text != ""
	})
	for _, want := range []string{
		"gate:create_thing (risk medium)", "0 of 1 approvals are there, from: role owner", s.APIURL + "/v1/approvals/" + approval,
		"Until: ", "the signal reject",
	} {
		require.Contains(t, text, want)
	}

	h.decide(approval, "approve", nil)
	awaitStatus(t, tenant.Runtime, id, "executed")
	closedHistory(t, stranger(t, s), workflow)
	clear := strings.Join(u.decoded(u.history(workflow)), "\n")
	for _, want := range []string{`"shows_state":true`, `{"state":"executed"}`, s.APIURL + "/v1/executions/" + id} {
		require.Contains(t, clear, want)
	}
	require.NotContains(t, clear, "encrypted", "every payload opens")
	for _, never := range []string{secret, "gate-token"} {
		require.Empty(t, newSearch(never).in([]byte(clear)))
	}
}

// A page of another origin reads nothing from the development endpoint.
func TestDevelopmentCodecRefusesOtherOrigins(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	var settings struct{ Codec struct{ Endpoint string } }
	ui{t: t, url: s.TemporalUIURL}.get("/settings", &settings)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+$`, settings.Codec.Endpoint)
	req, err := http.NewRequest(http.MethodPost, settings.Codec.Endpoint+"/decode", strings.NewReader(`{"payloads":[]}`))
	require.NoError(t, err)
	req.Header.Set("Origin", "https://evil.example.com")
	res, err := rig.NewHTTP().Do(req)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusForbidden, res.StatusCode)
}

// The link that `make dev` prints shows the search attributes as columns.
func TestTemporalUIStartsWithTheColumns(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	res, err := http.Get(s.TemporalUIURL + "/agentruntime?query=x")
	require.NoError(t, err)
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	for _, want := range []string{"AgentRuntimeExecution", "AgentRuntimeState", `namespace = "default"`, "location.search"} {
		require.Contains(t, string(page), want)
	}
}

// An operator reads of a Map who can decide about its step, where and until when, and nothing of that once
// it has ended.
func TestOperatorReadsHeldMapInTheTemporalUI(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	tenant := newTenant(s)
	u := ui{t: t, url: s.TemporalUIURL}
	path, approval := asks(t, tenant, `[{"id":"ask","type":"approval","title":"Go on with marker-canary?"}]`, map[string]any{})
	workflow := executionOf(t, tenant.Runtime, strings.TrimPrefix(path, "/v1/executions/")).WorkflowID
	text := u.details(workflow)
	for _, want := range []string{"the step `ask` waits for people", "the step /steps/0", "0 of 1 approvals are there", "owner", "/v1/approvals/" + approval, "Until: 20"} {
		require.Contains(t, text, want)
	}
	require.Contains(t, text, "Go on with marker-canary?", "the title as the definition has it")
	require.Equal(t, http.StatusOK, tenant.User.Decide(approval, "approve", nil).Status)
	require.Equal(t, "completed", endOf(t, tenant, path).Status)
	rig.Until(t, arriveLimit, "there are no details", func() bool { return u.details(workflow) == "" })
}

// An operator finds what agents have begun and people have to go on with: by its state, and by the verb of the
// call. Timers and details say who is awaited.
func TestOperatorFindsHeldMessagesInTheTemporalUI(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	u := ui{t: t, url: s.TemporalUIURL}
	held(t, tenant, "gate:delete_thing")
	for name, c := range map[string]struct {
		text, verb string
		guided     bool
		// awaited is a part of the summary of the timer, detail one of the details.
		awaited, detail string
	}{
		"a held call":        {"See the fig", "gate:delete_thing", false, "waits for people to decide appr_APPROVAL · gate:delete_thing", "/v1/approvals/appr_APPROVAL"},
		"a held Map":         {"Remove it", "", true, "waits for people to decide appr_APPROVAL · exec_", "/v1/approvals/appr_APPROVAL"},
		"an unknown outcome": {"Lose the damson", "gate:create_thing", false, "waits for people to find out what came of the call · gate:create_thing", "/resolve"},
	} {
		agent, key := agentOf(t, tenant, nil)
		if c.guided {
			agent, key = guided(t, tenant, removesMap, nil)
		}
		waits := saidOf(t, key.Do(http.MethodPost, agent, write(c.text, ""), "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "pending_approval", waits.Status, name)
		mine := "AgentRuntimeKind = 'message' AND AgentRuntimeExecution = '" + waits.ExecutionID + "' AND "
		found := u.one(mine + "AgentRuntimeState = 'pending_approval'")
		require.Equal(t, c.verb, found.values()["AgentRuntimeVerb"], name)
		if waits.ApprovalID != nil {
			c.awaited, c.detail = strings.Replace(c.awaited, "appr_APPROVAL", *waits.ApprovalID, 1), strings.Replace(c.detail, "appr_APPROVAL", *waits.ApprovalID, 1)
		}
		require.Contains(t, u.details(found.Execution.WorkflowID), c.detail, name)
		rig.Until(t, arriveLimit, "the timer says who is awaited: "+name, func() bool {
			return strings.Contains(strings.Join(u.decoded(u.history(found.Execution.WorkflowID)), "\n"), c.awaited)
		})
		if waits.ApprovalID == nil {
			unsettledRun(t, tenant)("executed")
		} else {
			require.Equal(t, http.StatusOK, tenant.User.Decide(*waits.ApprovalID, "approve", map[string]any{}).Status)
		}
		executionUntil(t, tenant, waits.ExecutionID, "completed")
		require.Equal(t, found.Execution, u.one(mine+"AgentRuntimeState = 'completed'").Execution, name)
	}
}

// The histories of a Map name the verb of each call, also of those that an agent of it asks for, and timers
// say who is awaited.
func TestOperatorReadsHeldCallsOfAMapInTheTemporalUI(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	u := ui{t: t, url: s.TemporalUIURL}
	held(t, tenant, "gate:delete_thing")
	reads := func(path string, wants ...string) {
		t.Helper()
		workflow := executionOf(t, tenant.Runtime, strings.TrimPrefix(path, "/v1/executions/")).WorkflowID
		var text string
		defer func() { require.NotContains(t, text, "calls what the model asks for") }()
		for _, want := range wants {
			rig.Until(t, arriveLimit, "the history says "+want, func() bool {
				text = strings.Join(u.decoded(u.history(workflow)), "\n")
				return strings.Contains(text, want)
			})
		}
	}
	removes := startMap(t, tenant, publish(t, tenant, "Removes", `[{"id":"go","type":"verb","verb":"gate:delete_thing","args":{"id":"plum"}}]`), nil)
	reads(removes, "calls gate:delete_thing · /steps/0", "waits for people to decide appr_")
	outer := publishedMap(t, tenant, `{"schema_version":"1","name":"Outer","steps":[{"id":"m","type":"map","map_id":"`+publishedMap(t, tenant, removesMap)+`","payload":{},"wait":true}]}`)
	reads(startMap(t, tenant, "/v1/maps/"+outer+"/trigger", nil), "waits for people to decide · exec_")
	loses := startMap(t, tenant, publish(t, tenant, "Loses", `[{"id":"a","type":"agent","goal":"Lose the cornel","tools":["gate:*"]}]`), nil)
	settle := unsettledRun(t, tenant)
	reads(loses, "calls gate:create_thing · /steps/0", "waits for people to find out what came of the call · gate:create_thing")
	settle("executed")
}
