package e2e

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// The secrets that the tenants of these tests have stored. The provider of the first hides parts of it in
// its answers, so they have nothing in common.
const (
	vaulted      = "8f0c2d77-token-of-the-lockbox"
	vaultedOther = "another/secret/for/another/provider"
)

// hiding are the answers of the scripted model to what had secrets in it that the tenant has stored. The
// first two refuse a request that has one, and none of the others fits where a value is not masked.
var hiding = slices.Concat([]string{
	`{"contains":["` + vaulted + `"],"error":"the model was sent a stored secret"}`,
	`{"contains":["` + vaultedOther + `"],"error":"the model was sent a stored secret"}`,
	`{"purpose":"summarize","contains":["a hidden fig","[masked]"],"text":"A fig."}`,
	`{"purpose":"extract","contains":["a hidden fig","[masked]"],"json":{"fruit":"fig"}}`,
	`{"purpose":"classify","contains":["a hidden fig","[masked]"],"json":{"label":"fruit"}}`,
	`{"purpose":"reason","contains":["a hidden fig","name=\"value 1\">\"[masked]\"","\"with\":\"[masked]\""],"json":{"answer":"a fig","reason":"It says so."}}`,
	`{"purpose":"agent","contains":["Find a hidden fig","name=\"value 1\">\"[masked]\"","\"diagnosis\":\"[masked]\"","\"mood\":\"calm\""],"text":"Found."}`,
	`{"purpose":"agent","turn":0,"contains":["Find a hidden fig","[masked]"],` + toolCalls(toolCall("1", "lockbox:get_box", `{"id":"1"}`)) + `}`,

	`{"purpose":"reply","contains":["Open the hidden fig","\"diagnosis\":\"[masked]\"","\"mood\":\"calm\"","\"output\":{\"n\":1,\"with\":\"[masked]\"}","\"message\":\"{\\\"n\\\":1,\\\"with\\\":\\\"[masked]\\\"}\""],"text":"It is open."}`,
	`{"purpose":"reply","turn":0,"contains":["Open the hidden fig"],` +
		toolCalls(toolCall("1", "lockbox__get_box", `{"id":"1"}`), toolCall("2", "start_hide_the_fig", `{}`), toolCall("3", "ask_guide", `{"message":"Hide it"}`)) + `}`,
	`{"purpose":"reply","contains":["Where was the fig hidden","{\"n\":1,\"with\":\"[masked]\"}"],"text":"In the box."}`,

	fixture(0, "Find the managed fig", toolCalls(toolCall("1", "lockbox:get_box", `{"id":"1"}`))),
	`{"purpose":"agent","turn":1,"contains":["Find the managed fig","\"diagnosis\":\"[masked]\""],"text":"It is found."}`,
}, []string{rules("complete", met("goal", "c0_0"), "", "Find the managed fig", `"diagnosis":"[masked]"`, `"mood":"calm"`)})

// echoing is a tenant with a lockbox whose answers have the secret of another credential.
func echoing(t *testing.T, s *rig.Stack) (*rig.Tenant, canariesOfMap) {
	t.Helper()
	tenant, secret := newTenant(s), newCanaries()
	secret.token, secret.diagnosis = vaulted, vaultedOther
	lockbox(t, tenant, secret)
	tenant.Connect(t, "other", "http://127.0.0.1:9", document(bearer(), operation{method: http.MethodGet, path: "/x", id: "get_x"}), "bearer", map[string]string{"token": secret.diagnosis})
	return tenant, secret
}

// No model of a Map reads a secret that the tenant has stored: neither where an expression takes it from
// the payload or from what a provider has answered, nor where a tool answers with it. All else does.
func TestModelStepsReadNoStoredSecret(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant, secret := echoing(t, s)
		const input = `{"of":"a hidden fig","with":"${trigger_data.with}"}`
		trigger := publish(t, tenant, "Asks with a secret", `[
			{"id":"box","type":"verb","verb":"lockbox:get_box","args":{"id":"1"}},
			{"id":"sum","type":"summarize","input":{"of":"a hidden fig","with":"${steps.box.output.diagnosis}"}},
			{"id":"fruit","type":"extract","input":`+input+`,"schema":{"type":"object"}},
			{"id":"kind","type":"classify","input":`+input+`,"labels":["fruit","tree"]},
			{"id":"why","type":"reason","question":"What has ${trigger_data.with}?","context":`+input+`},
			{"id":"find","type":"agent","goal":"Find a hidden fig by ${steps.box.output.diagnosis}","tools":["lockbox:get_box"]},
			{"id":"same","type":"transform","expr":{"box":"${steps.box.output.diagnosis}","with":"${trigger_data.with}"}}]`)
		body := map[string]any{"payload": map[string]any{"with": secret.token}}
		one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "completed", one.Status, "%+v", one.Error)
		require.JSONEq(t, `{"box":"`+secret.diagnosis+`","with":"`+secret.token+`"}`, string(one.Output), "other steps have them as they are")
	})
}

// The manager of a step reads none in the results of the worker's calls.
func TestManagersReadNoStoredSecret(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant, _ := echoing(t, s)
		finds := `{"schema_version":"1","name":"Finds","steps":[{"id":"find","type":"agent","goal":"Find the managed fig"}]}`
		message, key := guided(t, tenant, finds, map[string]any{"tools": map[string]any{"allow": []string{"lockbox:*"}}})
		said := saidOf(t, key.Do(http.MethodPost, message, write("Find it", ""), "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "It is found.", *said.Message)
	})
}

// An agent reads none in what a tool, a Map or another agent has given. Who writes to an agent that works
// by a Map gets its output in the clear, and a model that reads the session later does not.
func TestAgentsReadNoStoredSecret(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant, secret := echoing(t, s)
		hides := publishedMap(t, tenant, `{"schema_version":"1","name":"Hide the fig","steps":[
			{"id":"box","type":"verb","verb":"lockbox:get_box","args":{"id":"1"}},
			{"id":"all","type":"transform","expr":{"n":1,"with":"${steps.box.output.diagnosis}"}}]}`)
		guide, guideKey := guidedBy(t, tenant, hides, map[string]any{"name": "Guide"})
		agent := strings.TrimSuffix(guide, "/message")
		message, key := agentOf(t, tenant, map[string]any{
			"tools": map[string]any{"allow": []string{"lockbox:*", "agent:" + path.Base(agent)}}, "maps": []string{hides},
		})
		said := saidOf(t, key.Do(http.MethodPost, message, write("Open the hidden fig", ""), "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "It is open.", *said.Message)

		said = saidOf(t, guideKey.Do(http.MethodPost, guide, write("Hide it", "s1"), "Prefer: wait=60"), http.StatusOK)
		require.JSONEq(t, `{"n":1,"with":"`+secret.diagnosis+`"}`, *said.Message)
		changed := tenant.User.Do(http.MethodPatch, agent+"?publish=true", map[string]any{"executionMode": "conversational", "map_id": nil})
		require.Equal(t, http.StatusOK, changed.Status, "%s", changed.Body)
		said = saidOf(t, guideKey.Do(http.MethodPost, guide, write("Where was the fig hidden?", "s1"), "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "In the box.", *said.Message)
	})
}
