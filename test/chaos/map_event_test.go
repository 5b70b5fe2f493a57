package chaos

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// waitsTwice waits for an event, and then for a time.
const waitsTwice = `{"schema_version":"1","name":"Waits twice","steps":[
	{"id":"first","type":"wait","event":{"type":"custom.go"}},
	{"id":"then","type":"wait","for":"1s"}],"output":"${steps.first.output.data.n}"}`

// requireEventKept kills the worker after it has written what it did with an event, and before Temporal
// hears of it. The event is found again when that is repeated.
func (c *crew) requireEventKept() {
	c.t.Helper()
	a := c.tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(waitsTwice))
	require.Equal(c.t, http.StatusCreated, a.Status, "%s", a.Body)
	a = c.tenant.Runtime.Do(http.MethodPost, a.Header.Get("Location")+"/trigger", map[string]any{}, "Prefer: wait=0")
	require.Equal(c.t, http.StatusAccepted, a.Status, "%s", a.Body)
	path := a.Header.Get("Location")
	var e struct {
		Status     string
		Output     int
		WaitingFor *struct{ For, Step string } `json:"waiting_for"`
	}
	read := func() bool {
		e.WaitingFor = nil
		a := c.tenant.User.Do(http.MethodGet, path, nil)
		return a.Err == nil && a.Status == http.StatusOK && json.Unmarshal(a.Body, &struct{ Data any }{&e}) == nil
	}
	rig.Until(c.t, stagingLimit, "the Map waits for the event", func() bool { return read() && e.WaitingFor != nil && e.WaitingFor.Step == "first" })
	call := strings.TrimPrefix(path, "/v1/executions/")
	c.gate.arm("after_map_write", call)
	sender := c.tenant.User.With(c.tenant.User.NewKey(c.t, "events:send").Key, "")
	require.Equal(c.t, http.StatusCreated, sender.Do(http.MethodPost, "/v1/events", map[string]any{"id": "go", "type": "custom.go", "data": map[string]any{"n": 7}}).Status)
	c.gate.await(c.t, "after_map_write", call)
	c.kill(victimWorker)
	c.gate.open()
	c.restart(victimWorker)
	rig.Until(c.t, terminalLimit, "the Map ends", func() bool { return read() && e.Status == "completed" })
	require.Equal(c.t, 7, e.Output)
}
