package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// unknownBeside is a Map with a write whose answer is lost, beside a branch that fails.
const unknownBeside = `[
	{"id":"both","type":"parallel","branches":[
		{"id":"a","steps":[{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}","mode":"vanish"}}]},
		{"id":"b","steps":[{"id":"go","type":"wait","event":{"type":"go"}},
			{"id":"check","type":"validate","value":"${trigger_data.ready}","schema":{"const":true}}]}]},
	{"id":"name","type":"transform","expr":"${steps.both.output.a.name}"}]`

// A call whose outcome is unknown when its execution fails is asked about again after each retry, and
// is not made again. What people found out before or after the retry counts.
func TestRetriedMapAsksAgainAboutAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Loses an answer", unknownBeside)
		executed := map[string]any{"outcome": "executed", "result": map[string]any{"name": "found"}, "reason": "seen at the provider"}
		for _, early := range []bool{true, false} {
			id := ids(1)[0]
			path := startMap(t, tenant, trigger, map[string]any{"id": id, "ready": false})
			unknown := awaitUnknown(t, tenant, path, 1)
			require.Less(t, signal(t, tenant, path, "go", nil).Status, 300)
			require.Equal(t, "failed", endOf(t, tenant, path).Status)
			require.Equal(t, &undoing{Unknown: 1, UnknownSteps: []string{"/steps/0/branches/0/steps/0"}, Calls: []undoingCall{}}, undoingOf(t, tenant, path))
			retry := func(body any) rig.Answer {
				return tenant.User.Do(http.MethodPost, path+"/retry", body, "Prefer: wait=60")
			}
			// What may have happened is not done again.
			requireCode(t, retry(map[string]any{"from_step": "both"}), http.StatusConflict, "CONFLICT")
			again := mapExecutionOf(t, retry(nil), http.StatusOK)
			require.Equal(t, "failed", again.Status, "the other branch fails as before")
			require.Equal(t, 2, again.Attempt)

			ofMap := tenant.User.Do(http.MethodPost, path+"/resolve", executed)
			requireCode(t, ofMap, http.StatusConflict, "CONFLICT")
			require.Contains(t, ofMap.Envelope(t).Error.Message, "Resolve the call")
			resolve := func() {
				a := tenant.User.Do(http.MethodPost, "/v1/executions/"+unknown+"/resolve", executed)
				require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
			}
			if early {
				resolve()
			}
			mended := edits("check", true)
			a := tenant.User.Do(http.MethodPost, path+"/retry", mended, "Prefer: wait=0")
			require.Equal(t, 3, mapExecutionOf(t, a, http.StatusAccepted).Attempt)
			if !early {
				require.Equal(t, unknown, awaitUnknown(t, tenant, path, 3), "the call is the same")
				require.Nil(t, undoingOf(t, tenant, path), "it has not ended")
				resolve()
			}
			e := endOf(t, tenant, path)
			require.Equal(t, "completed", e.Status, "%+v", e.Error)
			require.Equal(t, `"found"`, string(e.Output))
			require.Equal(t, 3, e.Attempt)
			require.Len(t, g.of(id), 1, "the call was made once")
		}
	})
}

// A step that failed because people found that its call had no effect makes another call after a
// retry. The outcome of that one can be unknown too.
func TestRetriedMapMakesACallAgainThatHadNoEffect(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger, id := publish(t, tenant, "Loses two answers", `[
			{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}","mode":"vanish"}},
			{"id":"name","type":"transform","expr":"${steps.made.output.name}"}]`), ids(1)[0]
		path := startMap(t, tenant, trigger, map[string]any{"id": id})
		first := awaitUnknown(t, tenant, path, 1)
		requireCode(t, tenant.User.Do(http.MethodPost, path+"/retry", nil), http.StatusConflict, "CONFLICT")
		resolve := func(call string, body map[string]any) {
			body["reason"] = "looked at the provider"
			a := tenant.User.Do(http.MethodPost, "/v1/executions/"+call+"/resolve", body)
			require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		}
		resolve(first, map[string]any{"outcome": "failed"})
		e := endOf(t, tenant, path)
		require.Equal(t, "failed", e.Status)
		require.Equal(t, "/steps/0", e.Error.Instance)

		again := tenant.User.Do(http.MethodPost, path+"/retry", nil, "Prefer: wait=0")
		require.Equal(t, 2, mapExecutionOf(t, again, http.StatusAccepted).Attempt)
		second := awaitUnknown(t, tenant, path, 2)
		require.NotEqual(t, first, second, "it is another call")
		resolve(second, map[string]any{"outcome": "executed", "result": map[string]any{"name": "found"}})
		e = endOf(t, tenant, path)
		require.Equal(t, "completed", e.Status, "%+v", e.Error)
		require.Equal(t, `"found"`, string(e.Output))
		require.Len(t, g.of(id), 2)
	})
}

// awaitUnknown waits until the attempt of an execution waits to be told the outcome of a call. It
// returns the execution of the call.
func awaitUnknown(t *testing.T, tenant *rig.Tenant, path string, attempt int) (call string) {
	t.Helper()
	rig.Until(t, 3*arriveLimit, "the outcome of the call is unknown", func() bool {
		e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusOK)
		if e.Attempt != attempt {
			return false
		}
		for _, step := range e.Steps {
			if step.ID == "made" && step.Status == "outcome_unknown" && step.ExecutionID != nil {
				call = *step.ExecutionID
			}
		}
		return call != "" && e.WaitingFor != nil
	})
	return call
}
