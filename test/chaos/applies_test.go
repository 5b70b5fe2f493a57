package chaos

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// applyPoint is where the apply of the changes of a dry run is stopped, and at the how manieth time.
type applyPoint struct {
	name string
	nth  int
}

// applyPoints are between the decision and the start of the workflow, and around the end of the second
// change: it has had its effect, and its row does not say so yet, or Temporal has not heard of it.
func applyPoints() []applyPoint {
	return []applyPoint{{"after_changes_decided", 1}, {"before_change_end", 2}, {"after_change_end", 2}}
}

// An apply stands at a point, and a part is killed.
type standing struct {
	point applyPoint
	// id is in the arguments of its calls, and execution is the dry run.
	id, execution string
}

// decide has the changes applied, and waits so many seconds for that. It repeats a decision whose answer
// was lost.
func (a standing) decide(c *rig.Client, wait string) rig.Answer {
	return c.Do(http.MethodPost, "/v1/executions/"+a.execution+"/changes/decide", map[string]any{"approve": "all"}, "Prefer: wait="+wait)
}

// Each part is killed while applies stand at every point of the apply itself. They go on. Each change
// has its effect once, in its order, and the end is recorded once.
func TestAppliesAtEachPointSurviveEachPart(t *testing.T) {
	t.Parallel()
	c := muster(t, "chaos")
	provider := &counted{keys: map[string]bool{}, met: func(string) {}}
	c.tenant.Connect(t, "counted", rig.Serve(t, provider), json.RawMessage(countedDocument), "bearer", map[string]string{"token": "counted-token"})
	a := c.tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(`{"schema_version":"1","name":"Three","steps":[
		{"id":"one","type":"verb","verb":"counted:add","args":{"n":"${trigger_data.id}/1"},"mock":{"n":"?"}},
		{"id":"two","type":"verb","verb":"counted:add","args":{"n":"${trigger_data.id}/2"}},
		{"id":"three","type":"verb","verb":"counted:add","args":{"n":"${steps.one.output.n}"}}]}`))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	trigger := a.Header.Get("Location") + "/trigger"
	for _, victim := range victims() {
		c.requireApplied(provider, victim, c.strikeApplies(trigger, victim))
	}
	c.requireAlive()
}

// strikeApplies kills the victim while an apply stands at each point.
func (c *crew) strikeApplies(trigger, victim string) (all []standing) {
	c.t.Helper()
	var calls sync.WaitGroup
	for _, point := range applyPoints() {
		one := standing{point: point, id: victim + "-" + point.name}
		a := c.tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"dryRun": true, "payload": map[string]any{"id": one.id}}, "Prefer: wait=60")
		require.Equal(c.t, http.StatusOK, a.Status, "%s", a.Body)
		var dry struct {
			ExecutionID string `json:"execution_id"`
		}
		a.Data(c.t, &dry)
		one.execution = dry.ExecutionID
		c.gate.armNth(point.name, one.execution, point.nth)
		calls.Go(func() { one.decide(c.tenant.User, "0") }) // its answer may be lost with the API
		c.gate.await(c.t, point.name, one.execution)
		all = append(all, one)
	}
	c.kill(victim)
	c.gate.open()
	pause(c.t.Context(), moment)
	c.restart(victim)
	c.stack.AwaitAPI()
	calls.Wait()
	return all
}

// requireApplied waits until the changes are applied, and looks what they have done.
func (c *crew) requireApplied(provider *counted, victim string, all []standing) {
	c.t.Helper()
	for _, one := range all {
		rig.Until(c.t, terminalLimit, one.id+" is applied", func() bool {
			a := one.decide(c.tenant.User, "20")
			if a.Err != nil || a.Status != http.StatusOK {
				return false
			}
			var set struct {
				Status  string
				Changes []struct{ Status string }
			}
			a.Data(c.t, &set)
			require.Equal(c.t, "applied", set.Status, "%s", a.Body)
			for _, change := range set.Changes {
				require.Equal(c.t, "applied", change.Status, "%s", a.Body)
			}
			return true
		})
		require.Equal(c.t, []string{one.id + "/1", one.id + "/2", "real-" + one.id + "/1"}, provider.effectsOf(one.id), "%s killed", victim)
		var ends []json.RawMessage
		c.tenant.User.Do(http.MethodGet, "/v1/audit?action=map.changes_applied&execution_id="+one.execution, nil).Data(c.t, &ends)
		require.Len(c.t, ends, 1, one.id)
	}
}

// effectsOf returns the effects of calls that have the id in their arguments, in their order.
func (c *counted) effectsOf(id string) (effects []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.effects {
		if strings.Contains(n, id+"/") {
			effects = append(effects, n)
		}
	}
	return effects
}
