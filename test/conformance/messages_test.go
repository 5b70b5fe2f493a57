//go:build conformance

package conformance

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// modelScript returns the setting with the answers of the scripted model.
func modelScript(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "models.json")
	require.NoError(t, os.WriteFile(file, []byte(`[
		{"purpose":"manager","json":{"verdict":"needs_input","criteria":[],"feedback":"Which size?","outputs":{}}},
		{"purpose":"agent","contains":["Ask for the size"],"text":"I do not know the size."},
		{"purpose":"plan","contains":["take your time"],"text":"{}","delay_ms":60000},
		{"purpose":"plan","contains":["break down"],"error":"the model is away"},
		{"purpose":"plan","json":{"status":"blocked","remaining_plan":["ask a person"],"next":null,"criteria":[{"id":"c","met":false,"evidence":[]}],"reason":"There is no such verb."}},
		{"purpose":"reply","contains":["take your time"],"text":"At last.","delay_ms":60000},
		{"purpose":"reply","contains":["break down"],"error":"the model is away"},
		{"purpose":"reply","text":"Good day."}]`), 0o600))
	return "MODEL_SCRIPT=" + file
}

// talks creates an agent with the model, and returns the path of its messages.
func (j *journey) talks(provider, name string, more object) (agent, messages string) {
	j.t.Helper()
	body := object{"name": "Talks", "models": object{"worker": object{"provider": provider, "model": name}}}
	maps.Copy(body, more)
	agent = j.post(j.user, 201, agentsPath, body).Header.Get("Location")
	return agent, agent + "/message"
}

// messages writes to agents, and reads and cancels what becomes of it.
func (j *journey) messages() {
	j.writer, _ = j.newKey(object{"name": "writes", "permissions": []string{"agents:message"}})
	writer := j.writer
	agent, path := j.talks("builtin", "scripted", object{"concurrency": "reject"})
	hello := object{"message": "Hello", "session_id": "m-1", "customer_id": "m-customer", "metadata": object{"why": "test"}}
	var said struct {
		ExecutionID string `json:"execution_id"`
	}
	j.post(writer, 200, path, hello, "Idempotency-Key: m-1").Data(j.t, &said)
	j.post(writer, 200, path, hello, "Idempotency-Key: m-1")
	j.post(writer, 200, path, object{"message": "Hello", "identity": object{"email": "m@example.com"}})
	j.refused(writer, 422, "IDEMPOTENCY_KEY_REUSED", http.MethodPost, path, object{"message": "Else"}, "Idempotency-Key: m-1")
	j.refused(writer, 400, "INVALID_IDEMPOTENCY_KEY", http.MethodPost, path, hello, "Idempotency-Key: a b")
	j.refused(writer, 400, "VALIDATION_ERROR", http.MethodPost, path, object{})
	j.refused(writer, 400, "VALIDATION_ERROR", http.MethodPost, path, object{"message": "Hello", "colour": "red"})
	j.refused(writer, 409, "CONFLICT", http.MethodPost, path, object{"message": "Hello", "session_id": "m-1", "customer_id": "m-other"})
	j.refused(writer, 404, "AGENT_NOT_FOUND", http.MethodPost, agentsPath+"/"+nobodys+"/message", hello)
	j.refused(j.agent, 403, "AGENT_LOCKED", http.MethodPost, path, hello)
	locked := object{"name": "asks who", "permissions": []string{"agents:message"}, "identity_mode": "required"}
	asks, _ := j.newKey(locked)
	j.refused(asks, 422, "IDENTITY_REQUIRED", http.MethodPost, path, object{"message": "Hello"})
	j.refused(writer, 502, "MODEL_ERROR", http.MethodPost, path, object{"message": "break down"})

	streamed := j.call(writer, 200, http.MethodPost, path, hello, "Accept: text/event-stream", "Idempotency-Key: m-1", "Last-Event-ID: 0")
	require.Contains(j.t, string(streamed.Body), "event: message.completed")
	j.refused(writer, 400, "VALIDATION_ERROR", http.MethodPost, path, hello, "Accept: text/event-stream", "Last-Event-ID: none")
	j.refused(writer, 404, "AGENT_NOT_FOUND", http.MethodPost, agentsPath+"/"+nobodys+"/message", hello, "Accept: text/event-stream")
	j.get(writer, 200, executionsPath+said.ExecutionID+"/stream")
	j.get(j.user, 200, executionsPath+said.ExecutionID+"/stream")
	j.refused(j.key, 404, "EXECUTION_NOT_FOUND", http.MethodGet, executionsPath+said.ExecutionID+"/stream", nil)
	slow := j.post(writer, 202, path, object{"message": "take your time", "session_id": "m-2"}, "Prefer: wait=0").Header.Get("Location")
	j.refused(writer, 409, "SESSION_BUSY", http.MethodPost, path, object{"message": "Hello", "session_id": "m-2"})
	j.get(writer, 200, slow)
	j.post(writer, 200, slow+"/cancel", nil)
	ended := executionsPath + said.ExecutionID
	j.get(j.user, 200, ended)
	j.get(j.user, 200, ended+"?prompts=true")
	j.refused(writer, 403, "INSUFFICIENT_PERMISSIONS", http.MethodGet, ended+"?prompts=true", nil)
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, ended+"?prompts=all", nil)
	j.refused(j.user, 409, "CONFLICT", http.MethodPost, ended+"/cancel", nil)
	j.refused(j.key, 404, "EXECUTION_NOT_FOUND", http.MethodGet, ended, nil) // another key wrote
	for _, query := range []string{"", "&status=completed&limit=1", "&session_id=m-1", "&agent_id=" + nobodys, "&customer_id=" + nobodys, "&from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z"} {
		j.get(j.user, 200, "/v1/executions?kind=message"+query)
		j.get(writer, 200, "/v1/executions?kind=message"+query)
	}
	for _, query := range []string{"&status=executed", "&agent_id=x", "&limit=0"} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, "/v1/executions?kind=message"+query, nil)
	}

	_, unconnected := j.talks("nobody", "m", nil)
	j.refused(writer, 424, "MODEL_NOT_CONNECTED", http.MethodPost, unconnected, object{"message": "Hello"})
	budget := object{"model_tokens": 1, "money_micros": nil, "write_calls": nil}
	poor, id := j.newKey(object{"name": "poor", "permissions": []string{"agents:message"}})
	budget["key_id"] = id
	j.call(j.user, 200, http.MethodPut, "/v1/budgets", budget)
	j.refused(poor, 429, "BUDGET_EXCEEDED", http.MethodPost, path, object{"message": "Hello"})
	budget["model_tokens"] = nil
	j.call(j.user, 200, http.MethodPut, "/v1/budgets", budget)
	j.call(j.user, 200, http.MethodPatch, agent, object{"status": "paused"})
	j.refused(writer, 409, "CONFLICT", http.MethodPost, path, object{"message": "Hello"})
	j.drop(agent)
}
