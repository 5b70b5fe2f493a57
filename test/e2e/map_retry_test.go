package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// failing is a Map that writes, checks its payload and reads.
const failing = `[
	{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}"}},
	{"id":"check","type":"validate","value":"${trigger_data.ready}","schema":{"const":true}},
	{"id":"seen","type":"verb","verb":"gate:get_thing","args":{"id":"${trigger_data.other}"}}]`

// failed triggers the Map and returns the path of its failed execution.
func failed(t *testing.T, tenant *rig.Tenant, trigger string, body map[string]any) string {
	t.Helper()
	e := requireCode(t, tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=60"), http.StatusUnprocessableEntity, "MAP_FAILED")
	path := "/v1/executions/" + e.Error.ExecutionID
	require.Contains(t, e.Error.Message, path+"/retry")
	return path
}

func TestFailedMapGoesOnFromItsFailedStep(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger, list := publish(t, tenant, "Writes, checks and reads", failing), ids(2)
		body := map[string]any{"session_id": list[0], "payload": map[string]any{"id": list[0], "other": list[1], "ready": false}}
		path := failed(t, tenant, trigger, body)
		retry := func(c *rig.Client, body any, headers ...string) rig.Answer {
			return c.Do(http.MethodPost, path+"/retry", body, append(headers, "Prefer: wait=60")...)
		}

		again := mapExecutionOf(t, retry(tenant.User, nil), http.StatusOK)
		require.Equal(t, "failed", again.Status)
		require.Equal(t, 2, again.Attempt)
		approver := newApprover(t, tenant)
		requireCode(t, retry(approver, map[string]any{"edits": map[string]any{"check": true}}), http.StatusForbidden, "INSUFFICIENT_PERMISSIONS")
		for _, c := range []struct {
			name   string
			body   map[string]any
			status int
			code   string
			path   string
		}{
			{"a step that has written", edits("made", map[string]any{"id": "other"}), 422, "INVALID_ARGS", "/edits/made"},
			{"arguments that the verb does not have", edits("seen", map[string]any{"id": "x", "none": 1}), 422, "INVALID_ARGS", "/edits/seen/none"},
			{"an expression", edits("seen", map[string]any{"id": "${trigger_data.id}"}), 422, "INVALID_ARGS", "/edits/seen"},
			{"a masked value", edits("seen", map[string]any{"id": "[masked]"}), 422, "INVALID_ARGS", "/edits/seen/id"},
			{"an unknown step", edits("none", 1), 400, "VALIDATION_ERROR", "/edits/none"},
			{"from a later step", map[string]any{"from_step": "seen"}, 400, "VALIDATION_ERROR", "/from_step"},
			{"an unknown member", map[string]any{"from": "check"}, 400, "VALIDATION_ERROR", "/from"},
		} {
			refused := requireCode(t, retry(tenant.User, c.body), c.status, c.code)
			var details []struct{ Path string }
			require.NoError(t, json.Unmarshal(refused.Error.Details, &details), c.name)
			require.Equal(t, c.path, details[0].Path, c.name)
		}

		mended := edits("check", true)
		mended["edits"].(map[string]any)["seen"] = map[string]any{"id": "edited"}
		done := mapExecutionOf(t, retry(tenant.User, mended, "Idempotency-Key: mended"), http.StatusOK)
		require.Equal(t, "completed", done.Status)
		require.Equal(t, 3, done.Attempt)
		require.JSONEq(t, `{"id":"edited","hit":1}`, string(done.Output))
		require.Len(t, g.of(list[0]), 1, "the write is not repeated")
		require.Len(t, g.all(), 2)

		repeat := mapExecutionOf(t, retry(tenant.User, mended, "Idempotency-Key: mended"), http.StatusOK)
		require.True(t, repeat.Idempotent)
		requireCode(t, retry(tenant.User, edits("check", false), "Idempotency-Key: mended"), http.StatusUnprocessableEntity, "IDEMPOTENCY_KEY_REUSED")
		requireCode(t, retry(approver, nil), http.StatusConflict, "CONFLICT")
		cached := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, body), http.StatusOK)
		require.Equal(t, "cached", cached.FenceStatus)
		require.JSONEq(t, string(done.Output), string(cached.Output))

		var record struct {
			Details struct {
				Attempt int
				Edits   map[string]json.RawMessage
			}
		}
		var page []json.RawMessage
		tenant.User.Do(http.MethodGet, "/v1/audit?action=map.retried", nil).Data(t, &page)
		require.Len(t, page, 2)
		require.NoError(t, json.Unmarshal(page[0], &record))
		require.Equal(t, 3, record.Details.Attempt)
		require.JSONEq(t, `{"id":"edited"}`, string(record.Details.Edits["seen"]))
	})
}

// An edit takes the place of what a definition says, so it has to be what a definition may say there.
func TestEditOfARetryFitsTheTypeOfItsStep(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		inner := mapID(publish(t, tenant, "Within", `[{"id":"in","type":"transform","expr":"${trigger_data.n}"}]`))
		trigger := publish(t, tenant, "Has steps of many types", `[
			{"id":"check","type":"validate","value":"${trigger_data.ready}","schema":{"const":true}},
			{"id":"tell","type":"emit","event":"custom.told","data":{"n":1}},
			{"id":"look","type":"escalate","reason":"Look"},
			{"id":"other","type":"map","map_id":"`+inner+`","payload":{"n":1}},
			{"id":"each","type":"foreach","items":[1],"steps":[{"id":"one","type":"transform","expr":"${item}"}]},
			{"id":"pause","type":"wait","for":"1h"},
			{"id":"until","type":"wait","until":"2099-01-01T00:00:00Z"},
			{"id":"event","type":"wait","skip_if":"${true}","event":{"type":"custom.never","correlate":"o-1"}},
			{"id":"ask","type":"approval","skip_if":"${true}","title":"Go?","payload":{"n":1}},
			{"id":"no","type":"raise","skip_if":"${true}","error":{"code":"NO"}},
			{"id":"label","type":"classify","skip_if":"${true}","input":"text","labels":["a","b"]},
			{"id":"why","type":"reason","skip_if":"${true}","question":"Why?"},
			{"id":"keep","type":"set","assign":{"n":1}},
			{"id":"all","type":"transform","expr":["${steps.other.output}","${steps.each.output}"]}]`)
		path := failed(t, tenant, trigger, map[string]any{"payload": map[string]any{"ready": false}})
		retry := func(body any) rig.Answer {
			return tenant.User.Do(http.MethodPost, path+"/retry", body, "Prefer: wait=60")
		}
		type object = map[string]any
		for step, wrong := range map[string][]struct {
			input      any
			path, rule string
		}{
			"tell":  {{"text", "", "type"}, {nil, "", "type"}, {[]int{1}, "", "type"}},
			"look":  {{object{"reason": "Look"}, "", "type"}, {"", "", "minLength"}},
			"other": {{[]int{1}, "", "type"}, {5, "", "type"}},
			"each":  {{object{"0": 1}, "", "type"}},
			"pause": {{"soon", "", "duration"}, {300, "", "type"}},
			"until": {{"1h", "", "format"}},
			"event": {{object{}, "", "type"}},
			"ask":   {{object{"title": "Go?", "payload": []int{1}}, "/payload", "type"}, {object{"payload": object{}}, "/title", "required"}, {"Go?", "", "type"}},
			"no":    {{object{"detail": 5}, "/detail", "type"}, {"No", "", "type"}},
			"label": {{"text", "", "type"}, {object{"text": "x"}, "/input", "required"}},
			"why":   {{object{"question": object{}}, "/question", "type"}},
		} {
			for _, one := range wrong {
				refused := requireCode(t, retry(edits(step, one.input)), http.StatusUnprocessableEntity, "INVALID_ARGS")
				var details []struct{ Path, Rule, Message string }
				require.NoError(t, json.Unmarshal(refused.Error.Details, &details))
				require.Equal(t, "/edits/"+step+one.path, details[0].Path, "%v", one.input)
				require.Equal(t, one.rule, details[0].Rule, "%s: %v", step, one.input)
				require.NotEmpty(t, details[0].Message)
			}
		}
		requireCode(t, retry(edits("keep", object{"n": 2})), http.StatusBadRequest, "VALIDATION_ERROR")

		done := mapExecutionOf(t, retry(object{"edits": object{
			"check": true, "tell": object{"n": 2}, "look": "Look at that", "other": object{"n": 2}, "each": []int{3, 4}, "pause": "1ms", "until": "2020-01-01T00:00:00Z",
		}}), http.StatusOK)
		require.Equal(t, "completed", done.Status, "%+v", done.Error)
		require.JSONEq(t, `[2,[3,4]]`, string(done.Output))
		for kind, said := range map[string]string{"custom.told": `"data":{"n":2}`, "escalation.created": `"reason":"Look at that"`} {
			rig.Until(t, arriveLimit, "the event is listed", func() bool {
				told := tenant.User.Do(http.MethodGet, "/v1/events?type="+kind+"&execution_id="+done.ExecutionID, nil)
				return strings.Contains(string(told.Body), said)
			})
		}
	})
}

func edits(step string, input any) map[string]any {
	return map[string]any{"edits": map[string]any{step: input}}
}

func TestFailedMapBeginsAgainFromAnEarlierStep(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, sharedDev().For(t))
	list := ids(2)
	trigger := publish(t, tenant, "Reads, writes and checks", `[
		{"id":"seen","type":"verb","verb":"gate:get_thing","args":{"id":"${trigger_data.a}"}},
		{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.b}"}},
		{"id":"check","type":"validate","value":"${steps.seen.output.hit}","schema":{"const":2}}]`)
	path := failed(t, tenant, trigger, map[string]any{"payload": map[string]any{"a": list[0], "b": list[1]}})
	before := mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusOK)
	done := mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/retry", map[string]any{"from_step": "seen"}, "Prefer: wait=60"), http.StatusOK)
	require.Equal(t, "completed", done.Status)
	require.Len(t, g.of(list[0]), 2)
	require.Len(t, g.of(list[1]), 1)

	// The read was made again, and the write was not: it shows when it was made.
	again := mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusOK)
	require.Equal(t, before.Steps[1], again.Steps[1])
	require.Equal(t, before.Steps[0].BeganAt, again.Steps[0].BeganAt)
	require.True(t, again.Steps[0].EndedAt.After(*before.Steps[0].EndedAt))
}

// What was done within a block is not done again where the block begins again, whatever number the call
// had, and counts once.
func TestBlockThatBeginsAgainKeepsWhatItHasDone(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		for name, block := range map[string]string{
			"switch":   `{"id":"s","type":"switch","cases":[{"when":"${true}","steps":[%s]}]}`,
			"foreach":  `{"id":"s","type":"foreach","items":[1],"steps":[%s]}`,
			"parallel": `{"id":"s","type":"parallel","branches":[{"id":"one","steps":[%s]}]}`,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g, tenant := connected(t, s)
				steps := fmt.Sprintf(block, `
					{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}"}},
					{"id":"check","type":"validate","value":"${trigger_data.ready}","schema":{"const":true}}`)
				trigger, id := publish(t, tenant, "Begins again: "+name, `[`+steps+`]`), ids(1)[0]
				policy := tenant.User.NewPolicy(t, map[string]any{
					"name": "closed", "verbMatchers": []any{map[string]any{"verb": "gate:create_thing"}}, "action": map[string]any{"type": "block"},
				})
				path := failed(t, tenant, trigger, map[string]any{"payload": map[string]any{"id": id, "ready": false}})
				require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/policies/"+policy, nil).Status)
				retry := func(body any) rig.Answer {
					return tenant.User.Do(http.MethodPost, path+"/retry", body, "Prefer: wait=60")
				}
				require.Equal(t, "failed", mapExecutionOf(t, retry(map[string]any{}), http.StatusOK).Status)
				require.Len(t, g.of(id), 1)
				done := mapExecutionOf(t, retry(map[string]any{"from_step": "s", "edits": map[string]any{"check": true}}), http.StatusOK)
				require.Equal(t, "completed", done.Status)
				require.Equal(t, 1, done.ActionsExecuted)
				require.Len(t, g.of(id), 1, "it was made again")
			})
		}
	})
}

// Iterations that are over run again where their loop does. What they did answers for the same call only.
func TestRetriedMapTakesNoOtherCallForItsOwn(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		inner := mapID(publish(t, tenant, "Within", `[{"id":"in","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}"}}]`))
		for name, step := range map[string]string{
			"a call":      `{"id":"w","type":"verb","verb":"gate:create_thing","args":{"id":"${item}"}}`,
			"another Map": `{"id":"w","type":"map","map_id":"` + inner + `","payload":{"id":"${item}"}}`,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				list := ids(4)
				trigger := publish(t, tenant, "Begins with others: "+name, `[
					{"id":"items","type":"transform","expr":"${trigger_data.ids}"},
					{"id":"each","type":"foreach","items":"${steps.items.output}","steps":[`+step+`,
						{"id":"check","type":"validate","value":"${index}","schema":{"maximum":0}}]}]`)
				path := failed(t, tenant, trigger, map[string]any{"payload": map[string]any{"ids": list[:2]}})
				retry := func(items []string) mapExecution {
					body := map[string]any{"from_step": "items", "edits": map[string]any{"items": items}}
					return mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/retry", body, "Prefer: wait=60"), http.StatusOK)
				}
				other := retry([]string{list[2], list[1]})
				require.Equal(t, "failed", other.Status)
				require.Equal(t, "IDEMPOTENCY_KEY_REUSED", other.Error.Code)
				require.Equal(t, "/steps/1/steps/0", other.Error.Instance)
				require.Empty(t, g.of(list[2]))
				same := retry([]string{list[0]})
				require.Equal(t, "completed", same.Status, "%+v", same.Error)
				for _, id := range list[:2] {
					require.Len(t, g.of(id), 1, "it was made again")
				}
			})
		}
	})
}

// An edit of a loop whose writes are done is refused, rather than come to nothing.
func TestEditOfALoopThatIsOverIsRefused(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, sharedDev().For(t))
	list := ids(2)
	trigger := publish(t, tenant, "Loops, then fails", `[
		{"id":"each","type":"foreach","items":"${trigger_data.ids}","steps":[{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${item}"}}]},
		{"id":"check","type":"validate","value":"${trigger_data.ready}","schema":{"const":true}}]`)
	path := failed(t, tenant, trigger, map[string]any{"payload": map[string]any{"ids": list, "ready": false}})
	e := requireCode(t, tenant.User.Do(http.MethodPost, path+"/retry", edits("made", map[string]any{"id": "edited"})), http.StatusUnprocessableEntity, "INVALID_ARGS")
	require.Contains(t, string(e.Error.Details), "already_done")
}

func TestOfTwoRetriesOneGoesOn(t *testing.T) {
	t.Parallel()
	both := sharedSplit()
	g, tenant := connected(t, both.first.For(t))
	trigger, list := publish(t, tenant, "Is retried at once", failing), ids(2)
	path := failed(t, tenant, trigger, map[string]any{"payload": map[string]any{"id": list[0], "other": list[1], "ready": false}})
	clients := []*rig.Client{tenant.User, {Base: both.second.APIURL, Token: tenant.User.Token, HTTP: rig.NewHTTP()}}
	answers := make([]rig.Answer, 8)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			answers[i] = clients[i%2].Do(http.MethodPost, path+"/retry", edits("check", true), "Prefer: wait=60")
		})
	}
	all.Wait()
	won := 0
	for _, a := range answers {
		if a.Status == http.StatusOK {
			won++
			require.Equal(t, 2, mapExecutionOf(t, a, http.StatusOK).Attempt)
			continue
		}
		requireCode(t, a, http.StatusConflict, "CONFLICT")
	}
	require.Equal(t, 1, won)
	require.Len(t, g.of(list[0]), 1)
	require.Len(t, g.of(list[1]), 1)
}

// An execution that failed without any effect gives its name back. Once another one has it, it does
// not go on: two would be of one name.
func TestRetryTakesTheNameBackWhereItIsFree(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, sharedDev().For(t))
	trigger := publish(t, tenant, "Checks", `[{"id":"check","type":"validate","value":"${trigger_data.ready}","schema":{"const":true}}]`)
	body := func(name string, ready bool) map[string]any {
		return map[string]any{"session_id": name, "payload": map[string]any{"ready": ready}}
	}
	free, taken := failed(t, tenant, trigger, body("free", false)), failed(t, tenant, trigger, body("taken", false))
	mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, body("taken", true)), http.StatusOK)
	requireCode(t, tenant.User.Do(http.MethodPost, taken+"/retry", edits("check", true)), http.StatusConflict, "CONFLICT")

	done := mapExecutionOf(t, tenant.User.Do(http.MethodPost, free+"/retry", edits("check", true), "Prefer: wait=60"), http.StatusOK)
	require.Equal(t, "completed", done.Status)
	cached := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, body("free", true)), http.StatusOK)
	require.Equal(t, done.ExecutionID, cached.ExecutionID)
}

func newApprover(t *testing.T, tenant *rig.Tenant) *rig.Client {
	t.Helper()
	c, _ := tenant.User.NewUser(t, rig.Address(), "approver")
	return c
}
