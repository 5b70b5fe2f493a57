package chaos

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// The worker is killed between two steps of a goal. Another one goes on where it was: each call has its
// effect once, and the facts of before count.
func TestGoalWorkerKilledGoesOn(t *testing.T) {
	t.Parallel()
	const act = `{"status":"act","remaining_plan":["make the other"],"next":{"verb":"target:make_effect","args":{"id":"ID","filler":"x"},"why":"w","expect":"e"},"criteria":[],"reason":"r"}`
	script := filepath.Join(t.TempDir(), "models.json")
	require.NoError(t, os.WriteFile(script, []byte(`[
		{"purpose":"plan","contains":["\"f2\""],"json":{"status":"done","remaining_plan":[],"next":null,"criteria":[{"id":"both","met":true,"evidence":["f1","f2"]}],"reason":"Both are made."}},
		{"purpose":"plan","contains":["\"f1\""],"delay_ms":4000,"json":`+strings.Replace(act, "ID", "second", 1)+`},
		{"purpose":"plan","json":`+strings.Replace(act, "ID", "first", 1)+`}]`), 0o600))
	s := rig.Split(t, rig.SplitOptions{Env: []string{"MODEL_SCRIPT=" + script}})
	tenant, target := s.NewTenant(rig.Address()), startProvider(t, newGate())
	tenant.Connect(t, "target", target.url, document(), "bearer", map[string]string{"token": "a token"})
	a := tenant.User.Do(http.MethodPost, "/v1/agents", map[string]any{
		"name": "Makes", "executionMode": "goal", "tools": map[string]any{"allow": []string{"target:*"}}, "models": map[string]any{"worker": map[string]any{"provider": "builtin", "model": "scripted"}},
	})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	key := tenant.Runtime.With(tenant.User.NewKey(t, "agents:message").Key, "")
	a = key.Do(http.MethodPost, a.Header.Get("Location")+"/goals", map[string]any{
		"goal": "Make both", "completion_criteria": []any{map[string]any{"id": "both", "description": "Both are made"}},
	}, "Prefer: wait=0")
	require.Equal(t, http.StatusAccepted, a.Status, "%s", a.Body)
	path := a.Header.Get("Location")
	effects := func(id string) int {
		_, n := target.counts(id)
		return n
	}
	rig.Until(t, time.Minute, "the first call is made, and its answer is known", func() bool {
		var runs []json.RawMessage
		tenant.User.Do(http.MethodGet, "/v1/executions?status=executed", nil).Data(t, &runs)
		return len(runs) == 1 && effects("first") == 1
	})
	var e struct {
		Status     string
		StopReason *string `json:"stop_reason"`
		Facts      []struct{ Status string }
		ModelCalls []struct{ Number int } `json:"model_calls"`
	}
	s.Kill("worker")
	s.Restart("worker")
	rig.Until(t, 3*time.Minute, "the goal has ended", func() bool {
		e.Facts, e.ModelCalls = nil, nil
		tenant.User.Do(http.MethodGet, path, nil).Data(t, &e)
		return e.Status != "running"
	})
	require.Equal(t, "completed", e.Status)
	require.Equal(t, "criteria_met", *e.StopReason)
	require.Len(t, e.Facts, 2)
	require.Len(t, e.ModelCalls, 3)
	require.Equal(t, []int{1, 1}, []int{effects("first"), effects("second")})
}
