package modelstep_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/maps/stepmachine"
)

// A model hears enough of a failed call to make a better one, or to wait.
func TestModelHearsWhyACallFailed(t *testing.T) {
	t.Parallel()
	e := stepmachine.NewError("PROVIDER_REJECTED", "The provider refused the call (429).")
	e.Retryable, e.RetryAfterMS, e.ProviderError = true, 1500, json.RawMessage(`{"status":429,"message":"slow down"}`)
	told := modelstep.Told("1", modelstep.ToolEnd{Status: "failed", Error: e})
	require.Contains(t, told.Text, `"error":{"code":"PROVIDER_REJECTED","detail":"The provider refused the call (429).","retryable":true,"retry_after_seconds":2,"provider_error":{"status":429,"message":"slow down"}}`)
	require.Nil(t, modelstep.FailureOf(nil))
}
