//go:build conformance

package conformance

import (
	"net/http"
)

const agentsPath = "/v1/agents"

// advises is the definition of an agent with all kinds of members.
func advises(name string) object {
	return object{
		"name": name, "instructions": "Be brief.", "executionMode": "conversational", "concurrency": "reject",
		"models": object{
			"worker":     object{"provider": "builtin", "model": "rules", "temperature": 0.5, "max_output_tokens": 100, "timeout": "30s"},
			"summarizer": object{"provider": "openai", "model": "m", "fallback": []object{{"provider": "builtin", "model": "rules"}}},
		},
		"tools":  object{"allow": []string{"gated:*"}, "deny": []string{"*:pay"}, "max_per_turn": 5, "parallel": 2},
		"limits": object{"max_turns": 3, "tokens": 1000, "money_micros": 1000, "wall_clock": "2m"},
		"sops": []object{{
			"slug": "refund", "title": "Refunds", "when": "Money back.", "action": "Read the order first.",
			"examples": []string{"I want my money back"}, "keywords": []string{"refund"}, "tools": []string{"gated:pay"}, "priority": 2, "enabled": false,
		}},
		"memory": object{"window_messages": 10, "summarize": false}, "escalation": object{"on_limit": true},
	}
}

// agents stores definitions, changes and publishes them.
func (j *journey) agents() {
	one := j.post(j.user, 201, agentsPath, advises("Advises")).Header.Get("Location")
	j.post(j.user, 201, agentsPath, object{"name": "Defaults"})
	for _, wrong := range []object{
		{},
		{"name": "x", "executionMode": "goals"},
		{"name": "x", "colour": "red"},
		{"name": "x", "tools": object{"allow": []string{"*"}}},
		{"name": "x", "maps": []string{nobodys}},
	} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, agentsPath, wrong)
	}
	for _, query := range []string{"", "?limit=1", "?status=active"} {
		j.get(j.user, 200, agentsPath+query)
	}
	for _, query := range []string{"?limit=0", "?status=tired", "?cursor=x"} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, agentsPath+query, nil)
	}
	j.get(j.user, 200, one)
	j.call(j.user, 200, http.MethodPatch, one, object{"name": "Draft", "sops": nil})
	j.call(j.user, 200, http.MethodPatch, one+"?publish=true", object{"status": "paused"})
	j.call(j.user, 200, http.MethodPatch, one, object{"status": "active", "limits": object{}})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPatch, one, object{"status": "tired"})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPatch, one+"?publish=perhaps", object{})
	j.get(j.user, 200, one+"/versions?limit=1")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, one+"/versions?limit=0", nil)
	j.get(j.user, 200, one+"/versions/1")
	j.get(j.user, 404, one+"/versions/9")
	j.get(j.user, 200, one+"/versions/3/diff")
	j.get(j.user, 200, one+"/versions/3/diff?against=1")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, one+"/versions/3/diff?against=0", nil)
	j.refused(j.user, 404, "AGENT_NOT_FOUND", http.MethodGet, one+"/versions/3/diff?against=9", nil)
	j.post(j.user, 200, one+"/versions/1/publish", nil)
	j.refused(j.user, 404, "AGENT_NOT_FOUND", http.MethodPost, one+"/versions/9/publish", nil)
	j.drop(one)
	const none = agentsPath + "/" + nobodys
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodGet, none, nil},
		{http.MethodPatch, none, object{"name": "x"}},
		{http.MethodDelete, none, nil},
		{http.MethodGet, none + "/versions", nil},
		{http.MethodGet, none + "/versions/1", nil},
		{http.MethodPost, none + "/versions/1/publish", nil},
		{http.MethodGet, none + "/versions/1/diff", nil},
	} {
		j.refused(j.user, 404, "AGENT_NOT_FOUND", c.method, c.path, c.body)
	}
}
