package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// message is one message of a stream.
type message struct{ id, event, data string }

// followed is a stream that is read.
type followed struct {
	t     *testing.T
	lines *bufio.Scanner
	stop  context.CancelFunc
	// location is that of a message's execution.
	location string
}

func follow(t *testing.T, c *rig.Client, path, last string) *followed {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*arriveLimit)
	t.Cleanup(stop)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+path, nil)
	require.NoError(t, err)
	if c.Key != "" {
		req.Header.Set("X-API-Key", c.Key)
	} else {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	rep, err := c.HTTP.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rep.Body.Close() })
	require.Equal(t, http.StatusOK, rep.StatusCode)
	require.Equal(t, "text/event-stream", rep.Header.Get("Content-Type"))
	lines := bufio.NewScanner(rep.Body)
	lines.Buffer(nil, 8<<20)
	return &followed{t, lines, stop, ""}
}

// next returns the next message; false at the end of the stream.
func (f *followed) next() (m message, ok bool) {
	f.t.Helper()
	for f.lines.Scan() {
		name, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch name {
		case "id":
			m.id = value
		case "event":
			m.event = value
		case "data":
			m.data = value
		case "":
			if m.id != "" || m.event != "" {
				return m, true
			}
		}
	}
	require.NoError(f.t, f.lines.Err())
	return m, false
}

// until reads messages up to the first of the event.
func (f *followed) until(event string) (all []message) {
	f.t.Helper()
	for {
		m, ok := f.next()
		require.True(f.t, ok, "the stream ended before %s", event)
		all = append(all, m)
		if m.event == event {
			return all
		}
	}
}

// lastID returns the id from which a later stream goes on.
func lastID(all []message) (id string) {
	for _, m := range all {
		if m.id != "" {
			id = m.id
		}
	}
	return id
}

// steps returns the last status that was told of each step.
func stepsOf(t *testing.T, all []message) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range all {
		if m.event != "step" {
			continue
		}
		var step struct{ ID, Status string }
		require.NoError(t, json.Unmarshal([]byte(m.data), &step))
		out[step.ID] = step.Status
	}
	return out
}

func TestExecutionIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Reads and holds", `[
			{"id":"seen","type":"verb","verb":"gate:get_thing","args":{"id":"seen"}},
			{"id":"held","type":"verb","verb":"gate:get_thing","args":{"id":"held","mode":"hold"}},
			{"id":"last","type":"transform","expr":"${steps.held.output.id}"}]`)
		one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=0"), http.StatusAccepted)
		path := "/v1/executions/" + one.ExecutionID
		require.Equal(t, "seen", heldAfter(t, g))

		first := follow(t, tenant.Runtime, path+"/stream", "")
		var before []message
		for lastID(before) == "" || stepsOf(t, before)["seen"] != "completed" || stepsOf(t, before)["held"] != "running" {
			m, ok := first.next() // rows may be a moment behind
			require.True(t, ok, "the stream ended before the steps")
			before = append(before, m)
		}
		last := lastID(before)
		require.NotEmpty(t, last)
		first.stop()
		g.open()

		second := follow(t, tenant.User, path+"/stream", last)
		after := second.until("end")
		require.Equal(t, "completed", stepsOf(t, after)["held"])
		require.Equal(t, "completed", stepsOf(t, after)["last"])
		require.Contains(t, after[len(after)-1].data, `"status":"completed"`)
		_, more := second.next()
		require.False(t, more, "the stream ends with the execution")

		whole := stepsOf(t, follow(t, tenant.User, path+"/stream", "").until("end"))
		require.Equal(t, map[string]string{"seen": "completed", "held": "completed", "last": "completed"}, whole)

		var events []struct{ Event string }
		// An event is listed when all transactions before its own have ended, those of others too.
		rig.Until(t, arriveLimit, "the event is listed", func() bool {
			tenant.Runtime.Do(http.MethodGet, path+"/events", nil).Data(t, &events)
			return len(events) > 0
		})
		require.Len(t, events, 1)
		require.Equal(t, "map.completed", events[0].Event)
		stranger, _ := newKey(t, tenant)
		for _, part := range []string{"/events", "/stream", "/graph"} {
			requireCode(t, stranger.Do(http.MethodGet, path+part, nil), http.StatusNotFound, "EXECUTION_NOT_FOUND")
		}

		graph := tenant.Runtime.Do(http.MethodGet, path+"/graph", nil)
		require.Equal(t, http.StatusOK, graph.Status)
		require.Regexp(t, `class \w+,\w+,\w+ completed`, string(graph.Body))
		require.Contains(t, string(tenant.Runtime.Do(http.MethodGet, path+"/graph?format=svg", nil).Body), "<svg")
	})
}

// heldAfter waits until the call that is held has come, and returns the one before it.
func heldAfter(t *testing.T, g *gate) string {
	t.Helper()
	require.Equal(t, "held", g.awaitArrival(t))
	return g.all()[0].id
}

func TestRunIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, sharedDev().For(t))
	answers := create(tenant.Runtime, "followed", modeHold)
	g.awaitArrival(t)
	stream := follow(t, tenant.Runtime, "/v1/executions/followed/stream", "")
	first := stream.until("status")
	require.Contains(t, first[len(first)-1].data, `"running"`)
	g.open()
	all := stream.until("end")
	require.Contains(t, all[len(all)-1].data, `"executed"`)
	awaitAnswer(t, answers)
	// Readers see an event when no older transaction of anybody is open.
	var events []struct{ Event string }
	rig.Until(t, time.Minute, "the event is there", func() bool {
		tenant.User.Do(http.MethodGet, "/v1/executions/followed/events?type=action.executed", nil).Data(t, &events)
		return len(events) > 0
	})
	require.Len(t, events, 1)
}

// Values of a hundred steps are more than one page: the pages have all steps, each once.
func TestStepsOfAnExecutionComeInPages(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, sharedDev().For(t))
	trigger := publish(t, tenant, "Has many values", `[
		{"id":"all","type":"foreach","items":"${[range(60)]}","steps":[{"id":"text","type":"transform","expr":"${trigger_data.text}"}]}]`)
	body := map[string]any{"payload": map[string]any{"text": strings.Repeat("x", 30_000)}}
	done := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=60"), http.StatusOK)
	paths, pages, query := map[string]bool{}, 0, ""
	for {
		var e struct {
			Steps          []struct{ Path string }
			MoreSteps      bool `json:"more_steps"`
			NextStepsAfter int  `json:"next_steps_after"`
		}
		a := tenant.Runtime.Do(http.MethodGet, "/v1/executions/"+done.ExecutionID+query, nil)
		a.Data(t, &e)
		require.Less(t, len(a.Body), 3<<20)
		pages++
		for _, step := range e.Steps {
			require.False(t, paths[step.Path], step.Path)
			paths[step.Path] = true
		}
		if !e.MoreSteps {
			break
		}
		query = "?steps_after=" + strconv.Itoa(e.NextStepsAfter)
	}
	require.Greater(t, pages, 1)
	require.Len(t, paths, 61)
}

func TestTriggerOfAVersionNeedsTheRightToManageMaps(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, sharedDev().For(t))
	trigger := publish(t, tenant, "First", `[{"id":"v","type":"transform","expr":"1"}]`)
	one := strings.TrimSuffix(trigger, "/trigger")
	a := tenant.User.Do(http.MethodPut, one, json.RawMessage(`{"schema_version":"1","name":"Second","steps":[{"id":"v","type":"transform","expr":"2"}]}`))
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	managing := tenant.User.NewKey(t, "maps:manage", "maps:trigger")
	member, _ := tenant.User.NewUser(t, rig.Address(), "member")
	for _, c := range []struct {
		name    string
		client  *rig.Client
		version any
		status  int
		output  string
	}{
		{"no version", tenant.Runtime, nil, http.StatusOK, `"1"`},
		{"a key that only runs", tenant.Runtime, 2, http.StatusForbidden, ""},
		{"a member", member, 2, http.StatusForbidden, ""},
		{"a key that manages Maps", tenant.User.With(managing.Key, ""), 2, http.StatusOK, `"2"`},
		{"the owner", tenant.User, 2, http.StatusOK, `"2"`},
		{"the owner, of the published one", tenant.User, 1, http.StatusOK, `"1"`},
		{"none of the Map", tenant.User, 9, http.StatusNotFound, ""},
		{"zero", tenant.User, 0, http.StatusBadRequest, ""},
	} {
		body := map[string]any{}
		if c.version != nil {
			body["version"] = c.version
		}
		a := c.client.Do(http.MethodPost, trigger, body, "Prefer: wait=60")
		require.Equal(t, c.status, a.Status, "%s: %s", c.name, a.Body)
		if c.output != "" {
			require.JSONEq(t, c.output, string(mapExecutionOf(t, a, http.StatusOK).Output), c.name)
		}
	}
}

// Those who follow an execution, and those who look at its drawing, see what it waits for as its page says.
func TestExecutionThatWaitsForPeopleIsFollowedAndDrawnAsItIsShown(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, sharedDev().For(t))
	tenant.User.NewPolicy(t, rig.Policy("hold", "require_approval", "gate:create_thing", nil))
	for name, steps := range map[string]string{
		"an approval step": `[{"id":"waits","type":"approval","title":"Go on?"}]`,
		"a held call":      `[{"id":"waits","type":"verb","verb":"gate:create_thing","args":{"id":"a"}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, approvalID := asks(t, tenant, steps, map[string]any{})
			told := follow(t, tenant.User, path+"/stream", "").until("status")
			require.Contains(t, told[len(told)-1].data, `"approval_id":"`+approvalID+`"`)
			require.Equal(t, map[string]string{"waits": "waiting"}, stepsOf(t, told))
			require.Regexp(t, `class \w+ pending_approval`, string(tenant.User.Do(http.MethodGet, path+"/graph", nil).Body))
			svg := string(tenant.User.Do(http.MethodGet, path+"/graph?format=svg", nil).Body)
			require.Contains(t, svg, "· pending_approval")
		})
	}
}
