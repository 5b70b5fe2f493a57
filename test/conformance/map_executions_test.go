//go:build conformance

package conformance

import (
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// published creates a Map with the steps, publishes it, and returns the path of its triggers.
func (j *journey) published(name string, steps ...object) string {
	j.t.Helper()
	definition := object{"schema_version": "1", "name": name, "steps": steps}
	return j.post(j.user, 201, mapsPath+"?publish=true", definition).Header.Get("Location") + "/trigger"
}

// mapExecutions triggers Maps, and reads, pauses and cancels their executions.
func (j *journey) mapExecutions() {
	looks := j.published("Looks up", looksUp("")["steps"].([]object)...)
	trigger := object{"payload": object{"order": "ord_1001"}, "session_id": "map-1", "customer_id": "cus_1001", "metadata": object{"why": "test"}}
	j.post(j.user, 200, looks, trigger)
	j.post(j.key, 200, looks, trigger)
	j.post(j.key, 200, looks, object{}, "Idempotency-Key: map-2")
	j.post(j.key, 200, looks, object{"dry_run": true})
	j.changes()
	j.refused(j.user, 422, "IDEMPOTENCY_KEY_REUSED", http.MethodPost, looks, object{"session_id": "map-1", "dryRun": true})
	j.refused(j.user, 422, "IDEMPOTENCY_KEY_REUSED", http.MethodPost, looks, object{"payload": object{"a": 1}}, "Idempotency-Key: map-2")
	j.refused(j.user, 422, "IDEMPOTENCY_CONFLICT", http.MethodPost, looks, trigger, "Idempotency-Key: map-2")
	j.refused(j.user, 400, "INVALID_IDEMPOTENCY_KEY", http.MethodPost, looks, object{}, "Idempotency-Key: a b")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, looks, object{"payload": 1})
	j.refused(j.user, 404, "MAP_NOT_FOUND", http.MethodPost, mapsPath+"/"+nobodys+"/trigger", object{})
	draft := j.post(j.user, 201, mapsPath, looksUp("Draft")).Header.Get("Location")
	j.refused(j.user, 409, "CONFLICT", http.MethodPost, draft+"/trigger", object{})

	exact := looksUp("Exact")
	exact["trigger_schema"] = object{"type": "object", "required": []string{"order"}}
	exactly := j.post(j.user, 201, mapsPath+"?publish=true", exact).Header.Get("Location")
	j.refused(j.user, 422, "INVALID_ARGS", http.MethodPost, exactly+"/trigger", object{})

	fails := j.published("Fails", object{"id": "lost", "type": "verb", "verb": "shop:get_order", "args": object{"order_id": "ord_none"}})
	failed := j.refused(j.key, 422, "MAP_FAILED", http.MethodPost, fails, object{"session_id": "map-3"})
	j.refused(j.key, 422, "MAP_FAILED", http.MethodPost, fails, object{"session_id": "map-3"})
	ended := executionsPath + failed.Error.ExecutionID
	tag := j.call(j.user, 200, http.MethodGet, ended, nil).Header.Get("ETag")
	j.call(j.user, 304, http.MethodGet, ended, nil, "If-None-Match: "+tag)
	j.refused(j.user, 412, "PRECONDITION_FAILED", http.MethodGet, ended, nil, `If-Match: "other"`)
	for _, change := range []string{"/pause", "/resume", "/cancel"} {
		j.refused(j.user, 409, "CONFLICT", http.MethodPost, ended+change, nil)
		j.refused(j.user, 404, "EXECUTION_NOT_FOUND", http.MethodPost, executionsPath+"exec_"+nobodys+change, nil)
		j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, ended+change, nil)
	}
	j.followedMap(ended, fails)
	j.waitingMap()
	j.retriedMap(ended)
	j.signalledMap(ended)
	j.askingMap()
	j.modelOfMap()

	for _, query := range []string{"", "&status=failed&limit=1", "&status=pending_approval", "&session_id=map-1&dry_run=false&map_id=" + nobodys, "&parent_execution_id=exec_" + nobodys, "&from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z"} {
		j.get(j.user, 200, "/v1/executions?kind=map"+query)
		j.get(j.key, 200, "/v1/executions?kind=map"+query)
	}
	for _, query := range []string{"?kind=none", "?kind=map&status=executed", "?kind=map&map_id=x", "?kind=map&limit=0"} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, "/v1/executions"+query, nil)
	}
}

const executionsPath = "/v1/executions/"

// signalledMap sends signals to an execution until a step uses one.
func (j *journey) signalledMap(ended string) {
	const header = "Idempotency-Key: once"
	waits := j.published("Waits for a signal", object{"id": "go", "type": "wait", "event": object{"type": "go", "filter": "${.data.really == true}"}})
	one := j.post(j.user, 202, waits, object{}, "Prefer: wait=0").Header.Get("Location")
	signal := one + "/signal"
	j.post(j.approver, 200, signal, object{"name": "go", "data": object{"really": false}}, header)
	j.post(j.approver, 200, signal, object{"name": "go", "data": object{"really": false}}, header)
	j.refused(j.approver, 422, "IDEMPOTENCY_KEY_REUSED", http.MethodPost, signal, object{"name": "go"}, header)
	j.refused(j.approver, 400, "INVALID_IDEMPOTENCY_KEY", http.MethodPost, signal, object{"name": "go"}, "Idempotency-Key: a b")
	j.refused(j.approver, 400, "VALIDATION_ERROR", http.MethodPost, signal, object{"data": 1})
	j.refused(j.key, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, signal, object{"name": "go"})
	j.refused(j.user, 404, "EXECUTION_NOT_FOUND", http.MethodPost, executionsPath+"exec_"+nobodys+"/signal", object{"name": "go"})
	j.refused(j.user, 409, "CONFLICT", http.MethodPost, ended+"/signal", object{"name": "go"})
	j.post(j.user, 200, signal, object{"name": "go", "data": object{"really": true}})
	var e struct{ Status string }
	j.call(j.user, 200, http.MethodGet, one, nil, "Prefer: wait=60").Data(j.t, &e)
	require.Equal(j.t, "completed", e.Status)
}

// waitingMap pauses an execution, lets it go on and cancels it.
func (j *journey) waitingMap() {
	waits := j.published("Waits", object{"id": "w", "type": "wait", "for": "1h"})
	trigger := object{"session_id": "map-4"}
	one := j.post(j.user, 202, waits, trigger, "Prefer: wait=0").Header.Get("Location")
	j.post(j.user, 202, waits, trigger, "Prefer: wait=0")
	j.get(j.user, 200, one)
	j.post(j.approver, 200, one+"/pause", nil)
	j.get(j.user, 200, one)
	j.post(j.user, 200, one+"/resume", nil)
	j.post(j.user, 200, one+"/cancel", nil)
	var e struct{ Status string }
	j.call(j.user, 200, http.MethodGet, one, nil, "Prefer: wait=60").Data(j.t, &e)
	require.Equal(j.t, "cancelled", e.Status)
	j.post(j.user, 200, waits, object{"session_id": "map-5", "dryRun": true})
}

// retriedMap lets a failed execution go on. lost is one whose call fails again and again.
func (j *journey) retriedMap(lost string) {
	j.post(j.approver, 200, lost+"/retry", nil, "Prefer: wait=60")
	j.refused(j.approver, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, lost+"/retry", object{"edits": object{"lost": object{}}})
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, lost+"/retry", object{})
	j.refused(j.user, 404, "EXECUTION_NOT_FOUND", http.MethodPost, executionsPath+"exec_"+nobodys+"/retry", object{})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, lost+"/retry", object{"from_step": "none"})
	j.refused(j.user, 400, "INVALID_IDEMPOTENCY_KEY", http.MethodPost, lost+"/retry", object{}, "Idempotency-Key: a b")
	j.refused(j.user, 422, "INVALID_ARGS", http.MethodPost, lost+"/retry", object{"edits": object{"lost": object{"none": 1}}})

	edit := object{"from_step": "lost", "edits": object{"lost": object{"order_id": "ord_1001"}}}
	j.post(j.user, 200, lost+"/retry", edit, "Prefer: wait=60", "Idempotency-Key: retry-1")
	j.post(j.user, 200, lost+"/retry", edit, "Idempotency-Key: retry-1")
	j.refused(j.user, 422, "IDEMPOTENCY_KEY_REUSED", http.MethodPost, lost+"/retry", object{}, "Idempotency-Key: retry-1")
	j.refused(j.user, 409, "CONFLICT", http.MethodPost, lost+"/retry", nil)

	waits := j.published("Fails and waits", object{"id": "check", "type": "validate", "value": 1, "schema": object{"const": 2}}, object{"id": "w", "type": "wait", "for": "1h"})
	one := executionsPath + j.refused(j.key, 422, "MAP_FAILED", http.MethodPost, waits, object{}).Error.ExecutionID
	j.post(j.user, 202, one+"/retry", object{"edits": object{"check": 2}})
	j.post(j.user, 200, one+"/cancel", nil)
}

// askingMap has people answer the form of one step, and edit what another one shows.
func (j *journey) askingMap() {
	form := object{"type": "object", "required": []string{"days"}, "properties": object{"days": object{"type": "integer"}}}
	asks := j.published("Asks",
		object{"id": "form", "type": "approval", "title": "How long?", "payload": object{"order": "ord_1001"}, "form": form},
		object{"id": "text", "type": "approval", "title": "Send this?", "payload": object{"text": "Dear Ann"}},
		object{"id": "hand", "type": "escalate", "reason": "It is yours.", "wait": true})
	one := j.post(j.key, 202, asks, object{}, "Prefer: wait=0").Header.Get("Location")
	answers := j.asked(one)
	j.get(j.user, 200, answers)
	j.refused(j.user, 422, "INVALID_ARGS", http.MethodPost, answers+"/approve", object{"response": object{"days": "three"}})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, answers+"/approve", object{"response": object{"days": 3}, "edited_args": object{}})
	j.post(j.approver, 200, answers+"/approve", object{"response": object{"days": 3}, "reason": "r"})
	j.becomes(answers, "approved")
	edits := j.asked(one)
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, edits+"/approve", object{"response": 1})
	j.post(j.user, 200, edits+"/approve", object{"edited_args": object{"text": "Dear Bob"}})
	j.becomes(edits, "superseded")
	j.becomes(one, "escalated")
	j.get(j.user, 200, decisions+"?kind=step")
	j.post(j.user, 200, one+"/cancel", nil)
	j.becomes(one, "cancelled")
}

// asked returns the approval that the execution waits for.
func (j *journey) asked(execution string) (path string) {
	j.t.Helper()
	rig.Until(j.t, time.Minute, "a step asks people", func() bool {
		var e struct {
			WaitingFor struct {
				ApprovalID string `json:"approval_id"`
			} `json:"waiting_for"`
		}
		j.call(j.user, 200, http.MethodGet, execution, nil).Data(j.t, &e)
		path = decisions + "/" + e.WaitingFor.ApprovalID
		return e.WaitingFor.ApprovalID != ""
	})
	return path
}

// followedMap reads what an execution that has ended tells, and draws it.
func (j *journey) followedMap(one, trigger string) {
	none := executionsPath + "exec_" + nobodys
	for _, part := range []string{"/events", "/stream", "/graph"} {
		j.get(j.user, 200, one+part)
		j.get(j.key, 200, one+part)
		j.refused(j.user, 404, "EXECUTION_NOT_FOUND", http.MethodGet, none+part, nil)
	}
	j.call(j.user, 200, http.MethodGet, one+"/stream", nil, "Last-Event-ID: 3")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, one+"/stream", nil, "Last-Event-ID: none")
	j.get(j.user, 200, one+"/events?type=map.*&order=asc&limit=1")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, one+"/events?type=!", nil)
	j.get(j.user, 200, one+"/graph?format=svg")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, one+"/graph?format=png", nil)
	tag := j.call(j.user, 200, http.MethodGet, one+"/graph", nil).Header.Get("ETag")
	j.call(j.user, 304, http.MethodGet, one+"/graph", nil, "If-None-Match: "+tag)
	j.refused(j.user, 412, "PRECONDITION_FAILED", http.MethodGet, one+"/graph", nil, `If-Match: "other"`)
	j.get(j.user, 200, one+"?steps_after=1")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, one+"?steps_after=x", nil)
	j.refused(j.user, 422, "MAP_FAILED", http.MethodPost, trigger, object{"version": 1})
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, trigger, object{"version": 1})
}

// changes reads what a dry run would have written.
func (j *journey) changes() {
	writes := j.published("Writes", object{"id": "pay", "type": "verb", "verb": "gated:pay", "args": object{"amount": 1}})
	var dry struct {
		ExecutionID string `json:"execution_id"`
	}
	j.post(j.key, 200, writes, object{"dryRun": true}).Data(j.t, &dry)
	list := executionsPath + dry.ExecutionID + "/changes"
	j.get(j.key, 200, list)
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, list+"?cursor=x", nil)
	j.refused(j.user, 404, "EXECUTION_NOT_FOUND", http.MethodGet, executionsPath+"exec_"+nobodys+"/changes", nil)

	decide, all := list+"/decide", object{"approve": "all"}
	j.refused(j.user, 404, "EXECUTION_NOT_FOUND", http.MethodPost, executionsPath+"exec_"+nobodys+"/changes/decide", all)
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, decide, object{"approve": []string{}})
	gate := j.policy(requires("Changes", "gated:pay", object{}))
	j.post(j.user, 202, decide, all)
	var held []struct{ ID string }
	require.Eventually(j.t, func() bool {
		j.call(j.user, 200, http.MethodGet, "/v1/approvals?status=pending&kind=hold&verb=gated:pay", nil).Data(j.t, &held)
		return len(held) == 1
	}, time.Minute, 100*time.Millisecond)
	j.post(j.second, 200, "/v1/approvals/"+held[0].ID+"/approve", nil)
	j.post(j.user, 200, decide, all, "Prefer: wait=60")
	j.drop(gate)
	j.refused(j.user, 409, "CONFLICT", http.MethodPost, decide, object{"reject": "all"})
	j.post(j.user, 200, writes, object{"dryRun": true}).Data(j.t, &dry)
	j.refused(j.user, 403, "APPROVER_NOT_ELIGIBLE", http.MethodPost, executionsPath+dry.ExecutionID+"/changes/decide", all)
	j.post(j.second, 200, executionsPath+dry.ExecutionID+"/changes/decide", object{"reject": "all"})
}

// modelOfMap triggers a Map whose model does not answer.
func (j *journey) modelOfMap() {
	asks := j.published("Asks a model", object{"id": "kind", "type": "classify", "input": "Money back!", "labels": []string{"refund", "question"}})
	failed := j.refused(j.key, 422, "MAP_FAILED", http.MethodPost, asks, object{})
	require.Contains(j.t, string(failed.Error.Details), `"MODEL_ERROR"`)
	j.get(j.user, 200, executionsPath+failed.Error.ExecutionID)
}
