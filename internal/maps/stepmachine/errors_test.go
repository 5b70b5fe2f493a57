package stepmachine_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
)

func TestTitlesSayWhatTheirCodesMean(t *testing.T) {
	t.Parallel()
	ofExpressions := stepmachine.NewError("EXPRESSION_ERROR", "").Title
	for _, typ := range mapdef.Types() {
		for _, code := range mapdef.Codes(typ) {
			title := stepmachine.NewError(code, "").Title
			require.NotEmpty(t, title, code)
			require.Equal(t, strings.HasPrefix(code, "EXPRESSION_"), title == ofExpressions, "%s: %s", code, title)
		}
	}
}

// Each code has one status, as HTTP has it, and one type.
func TestErrorsHaveTheStatusAndTheTypeOfTheirCodes(t *testing.T) {
	t.Parallel()
	want := map[string]int{
		"VALIDATION_ERROR":  400,
		"API_KEY_REVOKED":   401,
		"APPROVAL_REJECTED": 403, "GOVERNANCE_BLOCKED": 403, "QUOTA_EXCEEDED": 403,
		"AGENT_NOT_FOUND": 404, "CREDENTIAL_NOT_FOUND": 404, "MAP_NOT_FOUND": 404, "VERB_NOT_FOUND": 404,
		"CONFLICT":      409,
		"ACTIONS_LIMIT": 422, "EVENTS_LIMIT": 422, "EXPRESSION_ERROR": 422, "EXPRESSION_LIMIT": 422, "EXPRESSION_RESULT": 422, "GOAL_NOT_REACHED": 422, "IDEMPOTENCY_KEY_REUSED": 422,
		"INVALID_ARGS": 422, "ITEMS_LIMIT": 422, "LOOP_LIMIT": 422, "NO_SESSION": 422, "PROVIDER_REJECTED": 422, "RESULT_MISMATCH": 422, "STEPS_LIMIT": 422,
		"STORAGE_LIMIT": 422, "URL_NOT_ALLOWED": 422,
		"CREDENTIAL_EXPIRED": 424, "MODEL_NOT_CONNECTED": 424, "PROVIDER_NOT_CONNECTED": 424,
		"BUDGET_EXCEEDED": 429, "RATE_LIMITED": 429,
		"INTERNAL_ERROR": 500,
		"MODEL_ERROR":    502, "PROVIDER_ERROR": 502,
		"CIRCUIT_OPEN": 503, "SERVICE_UNAVAILABLE": 503,
		"APPROVAL_EXPIRED": 504, "DURATION_LIMIT": 504, "OUTCOME_UNKNOWN": 504, "PROVIDER_TIMEOUT": 504, "RUN_EXPIRED": 504, "STEP_TIMEOUT": 504, "WAIT_TIMEOUT": 504,
	}
	got := map[string]int{}
	for _, code := range slices.Concat(codesOfSteps(), []string{mapdef.CodeDurationLimit, mapdef.CodeStepsLimit, mapdef.CodeStorageLimit}) {
		e := stepmachine.NewError(code, "why")
		require.Equal(t, "urn:agentruntime:error:"+code, e.Type)
		require.Equal(t, []any{code, "why"}, []any{e.Code, e.Detail})
		require.NotEmpty(t, e.Title, code)
		require.False(t, e.Retryable, "%s: only a provider says that the same call may succeed later", code)
		got[code] = e.Status
	}
	require.Equal(t, want, got)
}

// codesOfSteps lists the codes of the steps of all types.
func codesOfSteps() (codes []string) {
	for _, typ := range mapdef.Types() {
		codes = append(codes, mapdef.Codes(typ)...)
	}
	return codes
}

// What people and others are told is an object, and what correlates is a text that is not empty.
func TestStepRefusesWhatIsNoObjectAndWhatCorrelatesNothing(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]string{
		"an approval shows a list": `{id: a, type: approval, title: Go, payload: "${trigger_data.items}"}`,
		"an event has a list":      `{id: a, type: emit, event: custom.x, data: "${trigger_data.items}"}`,
		"nothing correlates":       `{id: a, type: wait, event: {type: custom.x, correlate: "${trigger_data.none}"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := program(t, "steps: ["+step+"]")
			s, commands := stepmachine.Start(p, at(0), stepmachine.Beginning{
				Execution: "exec_1", TriggerData: stepmachine.Of(json.RawMessage(`{"items":[1],"none":null}`)),
			})
			if i := slices.IndexFunc(commands, func(c stepmachine.Command) bool { e, is := c.(stepmachine.Evaluate); return is && e.Room() > 0 }); i >= 0 {
				var err error
				s, commands, err = stepmachine.Next(p, s, at(0), commands[i].(stepmachine.Evaluate).Given(1)) //nolint:forcetypeassert // it is one
				require.NoError(t, err)
			}
			require.Equal(t, stepmachine.StatusFailed, s.Status)
			require.False(t, slices.ContainsFunc(commands, func(c stepmachine.Command) bool {
				switch c.(type) {
				case stepmachine.AskApproval, stepmachine.Emit, stepmachine.AwaitEvent:
					return true
				default:
					return false
				}
			}), "%+v", commands)
		})
	}
}

// What the sandbox evaluates follows the same rule.
func TestSandboxRefusesAPayloadThatIsNoObject(t *testing.T) {
	t.Parallel()
	p := program(t, `steps: [{id: a, type: approval, title: Go, payload: "${[range(3)]}"}]`)
	_, commands := stepmachine.Start(p, at(0), stepmachine.Beginning{Execution: "exec_1", TriggerData: stepmachine.Of(json.RawMessage(`{}`))})
	e, err := p.Evaluate(t.Context(), sandbox{}, find[stepmachine.Evaluate](t, commands), nil)
	require.NoError(t, err)
	require.NotNil(t, e.Failure)
}
