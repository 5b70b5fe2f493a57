package chaos

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// started is what a message shows of what it has started.
type started struct {
	Status         string
	Reply          *string
	MapExecutionID *string `json:"map_execution_id"`
	Actions        int     `json:"actions_executed"`
	ModelCalls     []struct {
		Calls []struct {
			Kind        string
			ExecutionID string `json:"execution_id"`
		}
	} `json:"model_calls"`
}

// A worker dies right after it has claimed the Map, or the message to another agent, that a call of a
// message starts: before anybody knows of it. There is one execution all the same, and the message
// names that.
func TestStartOfAMessageSurvivesItsWorker(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "models.json")
	require.NoError(t, os.WriteFile(script, []byte(`[
		{"purpose":"reply","turn":0,"contains":["Order it"],"calls":[{"id":"1","name":"start_order_things","args":{"id":"ordered"}}]},
		{"purpose":"reply","contains":["Order it"],"text":"It is ordered."},
		{"purpose":"reply","turn":0,"contains":["Ask for it"],"calls":[{"id":"1","name":"ask_maker","args":{"message":"Make it"}}]},
		{"purpose":"reply","contains":["Ask for it"],"text":"They made it."},
		{"purpose":"reply","turn":0,"contains":["Make it"],"calls":[{"id":"1","name":"target__make_keyed","args":{"id":"asked","filler":"x"}}]},
		{"purpose":"reply","turn":1,"contains":["Make it"],"text":"It is made."}]`), 0o600))
	k := &talk{t: t, trap: &trap{}, provider: startProvider(t, newGate())}
	points := httptest.NewServer(k.trap)
	t.Cleanup(func() { points.CloseClientConnections(); points.Close() })
	k.stack = rig.Split(t, rig.SplitOptions{Tags: "chaos", Env: []string{"MODEL_SCRIPT=" + script, "AGENTRUNTIME_FAILPOINT_URL=" + points.URL}})
	k.tenant = k.stack.NewTenant(rig.Address())
	k.tenant.Connect(t, "target", k.provider.url, document(), "bearer", map[string]string{"token": "a token"})
	made := func(kind string, body any) (id string) {
		a := k.tenant.User.Do(http.MethodPost, kind, body)
		require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
		return path.Base(a.Header.Get("Location"))
	}
	worker := map[string]any{"worker": map[string]any{"provider": "builtin", "model": "scripted"}}
	ordering := made("/v1/maps?publish=true", json.RawMessage(`{"schema_version":"1","name":"Order things","steps":[
		{"id":"make","type":"verb","verb":"target:make_keyed","args":{"id":"${trigger_data.id}","filler":"x"}}]}`))
	maker := made("/v1/agents", map[string]any{"name": "Maker", "models": worker, "tools": map[string]any{"allow": []string{"target:*"}}})
	helper := made("/v1/agents", map[string]any{"name": "Helper", "models": worker, "maps": []string{ordering}, "tools": map[string]any{"allow": []string{"agent:" + maker}}})
	k.key = k.tenant.Runtime.With(k.tenant.User.NewKey(t, "agents:message").Key, "")

	start := func(text, claim string, before int) (e started) {
		caught := k.trap.armAfter(claim, before)
		var said spoken
		a := k.key.Do(http.MethodPost, "/v1/agents/"+helper+"/message", map[string]any{"message": text}, "Prefer: wait=0")
		require.Equal(t, http.StatusAccepted, a.Status, "%s", a.Body)
		a.Data(t, &said)
		select {
		case <-caught:
		case <-time.After(5 * time.Minute):
			require.FailNow(t, "nothing was claimed")
		}
		k.stack.Kill("worker")
		k.stack.Restart("worker")
		require.Eventually(t, func() bool {
			a := k.tenant.User.Do(http.MethodGet, "/v1/executions/"+said.ExecutionID, nil)
			if a.Err != nil || a.Status != http.StatusOK {
				return false
			}
			a.Data(t, &e)
			return e.Status == "completed"
		}, 5*time.Minute, 200*time.Millisecond)
		require.Len(t, e.ModelCalls[0].Calls, 1)
		require.Equal(t, 1, e.Actions)
		return e
	}
	list := func(query string) (ids []string) {
		var found []struct {
			ExecutionID string `json:"execution_id"`
		}
		k.tenant.User.Do(http.MethodGet, "/v1/executions?"+query, nil).Data(t, &found)
		for _, one := range found {
			ids = append(ids, one.ExecutionID)
		}
		return ids
	}

	e := start("Order it", "after_map_claim", 0)
	require.Equal(t, "It is ordered.", *e.Reply)
	require.Equal(t, []string{*e.MapExecutionID}, list("kind=map"))
	require.Equal(t, *e.MapExecutionID, e.ModelCalls[0].Calls[0].ExecutionID)

	e = start("Ask for it", claimPlace, 1) // the API comes there first, with the message itself
	require.Equal(t, "They made it.", *e.Reply)
	require.Equal(t, []string{e.ModelCalls[0].Calls[0].ExecutionID}, list("kind=message&agent_id="+maker))
	for _, id := range []string{"ordered", "asked"} {
		_, effects := k.provider.counts(id)
		require.Equal(t, 1, effects, id)
	}
}
