package chaos

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// The worker is killed while a model answers. Another one asks again; what is stored and counted is
// one answer.
func TestModelsWorkerKilledCountsOneAnswer(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "models.json")
	require.NoError(t, os.WriteFile(script, []byte(`[{"text":"slow","delay_ms":4000,"usage":{"input":70,"cached":0,"output":7}}]`), 0o600))
	s := rig.Split(t, rig.SplitOptions{Env: []string{"MODEL_SCRIPT=" + script}})
	tenant := s.NewTenant(rig.Address())
	budgets := map[string]any{"key_id": nil, "model_tokens": 1_000_000, "money_micros": nil, "write_calls": nil}
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPut, "/v1/budgets", budgets).Status)
	a := tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(`{"schema_version":"1","name":"Slow","steps":[{"id":"short","type":"summarize","input":"a long text"}]}`))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	a = tenant.Runtime.Do(http.MethodPost, a.Header.Get("Location")+"/trigger", map[string]any{}, "Prefer: wait=0")
	require.Equal(t, http.StatusAccepted, a.Status, "%s", a.Body)
	path := a.Header.Get("Location")

	var e struct {
		Status     string
		Output     json.RawMessage
		TokensUsed int64 `json:"tokens_used"`
		Steps      []struct {
			Attempts   int
			ModelCalls []struct{ Status string } `json:"model_calls"`
		}
	}
	read := func() {
		e.Steps = nil
		tenant.User.Do(http.MethodGet, path, nil).Data(t, &e)
	}
	rig.Until(t, time.Minute, "a model is asked", func() bool {
		read()
		return len(e.Steps) > 0 && len(e.Steps[0].ModelCalls) > 0
	})
	require.Equal(t, "running", e.Steps[0].ModelCalls[0].Status)
	s.Kill("worker")
	s.Restart("worker")
	rig.Until(t, 3*time.Minute, "the execution has ended", func() bool {
		read()
		return e.Status != "running"
	})
	require.Equal(t, "completed", e.Status)
	require.JSONEq(t, `{"summary":"slow"}`, string(e.Output))
	require.Equal(t, 1, e.Steps[0].Attempts)
	require.Len(t, e.Steps[0].ModelCalls, 1)
	require.EqualValues(t, 77, e.TokensUsed)
	var b struct {
		Tenant struct {
			Tokens struct{ Used int64 } `json:"model_tokens"`
		}
	}
	tenant.User.Do(http.MethodGet, "/v1/budgets", nil).Data(t, &b)
	require.EqualValues(t, 77, b.Tenant.Tokens.Used)
}
