//go:build conformance

package conformance

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

const (
	policies = "/v1/policies"
	evaluate = "/v1/runtime/governance/evaluate"
)

// policies writes, tries and removes rules, and looks at what they decide.
func (j *journey) policies() {
	j.quarantine()
	j.gatedProvider("gated")
	first := j.writePolicies()
	j.judgedByPolicies()
	j.tryPolicies(first)
	j.endPolicies(first)
	j.masking()
	j.mostPolicies()
}

// everything is a policy with all that one can have.
func everything() object {
	return object{
		"name": "Everything", "description": "All of it.", "enabled": false, "mode": "shadow", "priority": -3,
		"verbMatchers": []object{
			{"type": "verb", "value": "gated:*"},
			{"type": "provider", "value": "gated"},
			{"type": "risk_level", "value": "high"},
			{"type": "operation_type", "value": "write"},
			{"type": "domain", "value": "commerce"},
			{"verb": "gated:*", "provider": "gated", "riskLevel": "high", "operation_type": "write", "domain": "commerce"},
		},
		"match": object{"all": []object{{"provider": "gated"}, {"type": "verb", "value": "*"}}, "except": []object{{"verb": "gated:none"}}},
		"conditions": []object{
			condition("args.amount", "greater", 1.50), condition("args.note", "in", []any{"a", 1, true, nil}), condition("agent_id", "equals", nil),
			condition("args.more", "contains", true),
			{"field": "session.tainted", "operator": "exists"},
			condition("args.note", "matches", "^a"),
		},
		"action": object{"type": "require_approval"},
		"approval": object{
			"required": 2, "approvers": []object{{"type": "role", "value": "owner"}, {"type": "role", "value": "member"}}, "self_approval": true,
			"timeout": 60, "on_timeout": "escalate", "reason_required": true,
		},
	}
}

// odd is a policy that earns every warning there is.
func odd() []object {
	impossible := rule("No value is both", "block", "gated:pay")
	impossible["conditions"] = []object{condition("args.amount", "greater", 2), condition("args.amount", "less", 1), condition("args.none", "equals", 1)}
	nothing := rule("Fits nothing", "notify", "gated:none")
	nothing["verbMatchers"] = []object{{"type": "verb", "value": "gated:none"}, {"type": "provider", "value": "none"}, {"type": "domain", "value": "none"}}
	never := rule("Excepts itself", "block", "gated:pay")
	never["match"] = object{"except": []object{{"provider": "gated"}}}
	return []object{impossible, nothing, never, rule("Opens nothing", "allow", "gated:wipe"), requires("Too many", "gated:wipe", object{"required": 10})}
}

func (j *journey) writePolicies() (first string) {
	first = j.policy(everything())
	warned := map[string]bool{}
	for _, p := range odd() {
		p["enabled"] = false
		var got struct{ Warnings []struct{ Code string } }
		path := j.policy(p)
		j.call(j.user, 200, http.MethodGet, path, nil).Data(j.t, &got)
		for _, w := range got.Warnings {
			warned[w.Code] = true
		}
		j.drop(path)
	}
	for _, code := range []string{
		"unknown_provider", "unknown_domain", "unknown_verb", "matches_no_verb", "unknown_argument", "contradiction", "never_matches", "high_risk_stays_closed", "too_few_approvers",
	} {
		require.True(j.t, warned[code], code)
	}
	for _, body := range []object{
		{"name": "no action"},
		rule("", "block", "gated:pay"), rule("misspelt", "forbid", "gated:pay"), rule("no verb can be so", "block", "gated pay"),
		{"name": "unknown member", "action": object{"type": "block"}, "condition": []object{}},
		requires("a stranger", "gated:pay", object{"approvers": []object{{"type": "user", "value": nobodys}}}),
	} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, policies, body)
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPut, first, body)
	}
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, policies, everything())
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPut, first, everything())
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodDelete, first, nil)

	for _, query := range []string{"", "?limit=1", "?enabled=false&mode=shadow&action=require_approval", "?verb=gated:pay", "?enabled=true"} {
		j.get(j.member, 200, policies+query)
	}
	for _, query := range []string{"limit=0", "enabled=perhaps", "mode=loud", "action=forbid", "cursor=nonsense"} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, policies+"?"+query, nil)
	}
	j.refused(j.user, 400, "INVALID_VERB", http.MethodGet, policies+"?verb=none", nil)
	j.refused(j.user, 404, "VERB_NOT_FOUND", http.MethodGet, policies+"?verb=gated:none", nil)
	return first
}

// judgedByPolicies looks at every decision, in evaluations and in runs.
func (j *journey) judgedByPolicies() {
	large := rule("Large", "block", "gated:pay")
	large["conditions"] = []object{condition("args.amount", "greater", 1000), condition("args.pin", "not_equals", "0000")}
	watched := requires("Watched", "gated:pay", object{"required": 2})
	watched["mode"] = "shadow"
	gates := []string{
		j.policy(large), j.policy(watched), j.policy(rule("Told", "notify", "gated:list")), j.policy(rule("Free", "allow", "gated:list")),
		j.policy(requires("Asked", "gated:wipe", object{"required": 2, "approvers": []object{{"type": "role", "value": "approver"}}})),
	}
	for _, c := range []struct {
		verb, decision string
		args           object
	}{
		{"gated:list", "allow", object{}},
		{"gated:pay", "allow", object{"amount": 1, "pin": "1234"}},
		{"gated:pay", "block", object{"amount": 1001, "pin": "1234"}},
		{"gated:pay", "block", object{"amount": "many"}}, // judged to the stricter side
		{"gated:wipe", "pending_approval", object{}},
	} {
		var got struct{ Decision string }
		body := object{"verb": c.verb, "args": c.args, "metadata": object{"agent_id": "a", "customer_id": "c"}}
		j.post(j.key, 200, evaluate, body).Data(j.t, &got)
		require.Equal(j.t, c.decision, got.Decision, "%s %v", c.verb, c.args)
	}
	j.post(j.key, 200, run, object{"verb": "gated:list", "args": object{}})
	j.post(j.key, 200, run, pay("gated", "small-1", 1))
	e := j.refused(j.key, 403, "GOVERNANCE_BLOCKED", http.MethodPost, run, pay("gated", "large-1", 1001))
	require.Equal(j.t, "block", e.Error.Decision)
	j.becomes("/v1/approvals/"+e.Error.ApprovalID, "blocked")
	j.becomes("/v1/executions/large-1", "blocked")
	j.get(j.user, 200, "/v1/executions?status=blocked")
	for _, path := range gates {
		for _, more := range []string{"", "/versions", "/coverage"} {
			j.get(j.user, 200, path+more)
		}
		j.drop(path)
	}
}

// tryPolicies judges what ran by policies that are not there, in every direction.
func (j *journey) tryPolicies(first string) {
	const simulate = policies + "/simulate"
	for _, action := range []string{"block", "require_approval", "notify", "allow"} {
		j.post(j.user, 200, simulate, object{"policy": rule("Candidate", action, "*")})
	}
	gate := j.policy(rule("Replaced", "block", "gated:*"))
	replaces := rule("Candidate", "notify", "gated:*")
	replaces["id"] = gate[len(policies)+1:]
	j.post(j.user, 200, simulate, object{"policy": replaces, "sample_size": 3, "from": "2020-01-01T00:00:00Z"})
	j.post(j.user, 200, simulate, object{"policy": odd()[1], "from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"})
	j.drop(gate)
	j.refused(j.user, 404, "POLICY_NOT_FOUND", http.MethodPost, simulate, object{"policy": replaces})
	for _, body := range []object{
		{},
		{"policy": object{"name": "no action"}},
		{"policy": everything(), "sample_size": 0},
		{"policy": everything(), "from": "2020-01-02T00:00:00Z", "to": "2020-01-01T00:00:00Z"},
	} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, simulate, body)
	}
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, simulate, object{"policy": everything()})

	j.get(j.member, 200, first+"/coverage?from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, first+"/coverage?from=yesterday", nil)
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, first+"/versions?limit=0", nil)
}

func (j *journey) endPolicies(first string) {
	changed := everything()
	changed["action"] = object{"type": "notify"}
	delete(changed, "approval")
	ifFirst := "If-Match: " + j.call(j.user, 200, http.MethodGet, first, nil).Header.Get("ETag")
	j.call(j.user, 200, http.MethodPut, first, changed, ifFirst)
	j.refused(j.user, 412, "PRECONDITION_FAILED", http.MethodPut, first, changed, ifFirst)
	j.refused(j.user, 412, "PRECONDITION_FAILED", http.MethodPatch, first, object{"enabled": true}, ifFirst)
	j.refused(j.user, 412, "PRECONDITION_FAILED", http.MethodDelete, first, nil, ifFirst)
	j.call(j.user, 200, http.MethodPatch, first, object{"priority": 3})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPatch, first, object{"mode": "loud"})
	restore := first + "/versions/1/restore"
	j.post(j.user, 200, restore, nil)
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, restore, nil)
	j.refused(j.user, 404, "POLICY_NOT_FOUND", http.MethodPost, first+"/versions/99/restore", nil)
	j.drop(first)
	j.get(j.user, 200, first+"/versions?limit=2")
	j.get(j.user, 200, first+"/coverage")
	for _, path := range []string{first, policies + "/" + nobodys, policies + "/none"} {
		j.refused(j.user, 404, "POLICY_NOT_FOUND", http.MethodGet, path, nil)
		j.refused(j.user, 404, "POLICY_NOT_FOUND", http.MethodPut, path, changed)
		j.refused(j.user, 404, "POLICY_NOT_FOUND", http.MethodPatch, path, object{})
		j.refused(j.user, 404, "POLICY_NOT_FOUND", http.MethodDelete, path, nil)
	}
	j.refused(j.user, 404, "POLICY_NOT_FOUND", http.MethodGet, policies+"/"+nobodys+"/versions", nil)
	j.refused(j.user, 404, "POLICY_NOT_FOUND", http.MethodGet, policies+"/"+nobodys+"/coverage", nil)
}

func (j *journey) masking() {
	const masking = "/v1/governance/masking"
	j.get(j.member, 200, masking)
	masks := object{"paths": []object{{"verb": "gated:*", "path": "args.note"}, {"verb": "*", "path": `args.people.*.a\.b`}}}
	j.call(j.user, 200, http.MethodPut, masking, masks)
	j.get(j.user, 200, masking)
	j.post(j.key, 200, run, pay("gated", "masked-1", 1))
	var got struct{ Args struct{ Note string } }
	j.call(j.user, 200, http.MethodGet, "/v1/executions/masked-1", nil).Data(j.t, &got)
	require.Equal(j.t, "[masked]", got.Args.Note)
	for _, body := range []object{{}, {"paths": []object{{"verb": "gated:pay", "path": "note"}}}, {"paths": []object{}, "more": 1}} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPut, masking, body)
	}
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPut, masking, masks)
	j.call(j.user, 200, http.MethodPut, masking, object{"paths": []object{}})
}

// mostPolicies fills a tenant of its own with policies, at the service itself: only the
// last answer is news.
func (j *journey) mostPolicies() {
	const most, atOnce = 2000, 8
	j.post(j.none, 201, "/v1/auth/signup", object{"email": "full@example.com", "password": password})
	full := j.logIn("full@example.com")
	direct := &rig.Client{Base: j.upstream, Token: full.Token, HTTP: rig.NewHTTP()}
	turns := make(chan int)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for i := range turns {
				if a := direct.Do(http.MethodPost, policies, rule(fmt.Sprintf("Policy %d", i), "notify", "none:none")); a.Status != http.StatusCreated {
					j.t.Errorf("policy %d: %d %s %v", i, a.Status, a.Body, a.Err)
				}
			}
		})
	}
	for i := range most - 1 { // a tenant begins with one
		turns <- i
	}
	close(turns)
	wg.Wait()
	j.refused(full, 403, "QUOTA_EXCEEDED", http.MethodPost, policies, rule("One too many", "notify", "none:none"))
}
