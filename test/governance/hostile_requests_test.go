package governance

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

func replayTricks() []scenario {
	return []scenario{
		{name: "an approved call again, same id", effects: 1, sentence: "The stored result is read; nothing is sent.", try: func(h *hostile) {
			h.approved("once")
			for range 5 {
				require.Equal(h.t, "cached", succeeded(h.t, h.run("once")).FenceStatus)
			}
		}},
		{name: "an approved call again, another id", effects: 1, sentence: "An approval is of one run, not of its arguments.", try: func(h *hostile) {
			h.approved("once")
			h.asks(h.run("twice"))
		}},
		{name: "an approved id with other arguments", effects: 1, sentence: "The stored result is read, and says that the arguments differ.", try: func(h *hostile) {
			h.approved("once")
			a := h.Runtime.Run(highWrite, m{"id": "prey", "amount": 9999}, "once")
			succeeded(h.t, a)
			require.Contains(h.t, string(a.Body), `"args_match":false`)
		}},
		{name: "an approved id for another verb", effects: 1, sentence: "An id is of one verb.", try: func(h *hostile) {
			h.approved("once")
			h.fails(h.Runtime.Run(highOther, h.args(), "once"))
		}},
		{name: "an approved id as a key of another call", effects: 1, sentence: "Ids and keys are one namespace.", try: func(h *hostile) {
			h.approved("once")
			a := h.raw(`,"execution_id":"new","idempotency_key":"once"`)
			require.Equal(h.t, "cached", succeeded(h.t, a).FenceStatus)
			require.Equal(h.t, "cached", succeeded(h.t, h.Runtime.Run(highWrite, m{"id": "other"}, "new")).FenceStatus)
		}},
		{name: "an approved id crossed with a held one", effects: 1, sentence: "Two keys of two runs are refused.", try: func(h *hostile) {
			h.approved("once")
			h.asks(h.run("held"))
			refused(h.t, h.raw(`,"execution_id":"held","idempotency_key":"once"`), http.StatusUnprocessableEntity, "IDEMPOTENCY_CONFLICT")
			refused(h.t, h.raw(`,"execution_id":"once","idempotency_key":"held"`), http.StatusUnprocessableEntity, "IDEMPOTENCY_CONFLICT")
		}},
		{name: "an approved id by another key", effects: 1, sentence: "Another key of the tenant reads the same run.", try: func(h *hostile) {
			h.approved("once")
			other, _ := h.key("actions:run")
			require.Equal(h.t, "cached", succeeded(h.t, other.Run(highWrite, h.args(), "once")).FenceStatus)
		}},
		{name: "a held id with other arguments, then approved", effects: 1, sentence: "What was shown is what is sent.", try: func(h *hostile) {
			held := h.asks(h.run("held"))
			a := h.Runtime.Run(highWrite, m{"id": "prey", "amount": 1e6}, "held")
			require.Equal(h.t, held, h.asks(a))
			require.Contains(h.t, string(a.Body), `"args_match":false`)
			require.Contains(h.t, string(a.Body), `"args_differ":["/args/amount"]`)
			require.NotContains(h.t, string(a.Body), "1000000")
			require.Equal(h.t, http.StatusOK, h.approve(held).Status)
			h.awaitStatus("held", "executed")
		}},
		{name: "an Idempotency-Key with other arguments", sentence: "By the header that is refused.", try: func(h *hostile) {
			h.asks(h.raw("", "Idempotency-Key: k"))
			h.fails(h.send(m{"verb": highWrite, "args": m{"id": "other"}}, "Idempotency-Key: k"))
		}},
		{name: "an Idempotency-Key beside another key", sentence: "Two names for one call are refused.", try: func(h *hostile) {
			h.fails(h.raw(`,"idempotency_key":"a"`, "Idempotency-Key: b"))
		}},
		{name: "an Idempotency-Key that is none", sentence: "Ids are visible ASCII.", try: func(h *hostile) {
			h.fails(h.raw("", "Idempotency-Key: "), h.raw("", "Idempotency-Key: a b"), h.raw("", "Idempotency-Key: "+strings.Repeat("x", 256)))
		}},
		{name: "the approval's id as an execution id", sentence: "It is a name like any other.", try: func(h *hostile) {
			held := h.asks(h.run("held"))
			require.NotEqual(h.t, held, h.asks(h.run(held)))
		}},
		{name: "the generated execution id of a held call", sentence: "It is that call, and waits.", try: func(h *hostile) {
			e := refused(h.t, h.run(""), http.StatusForbidden, "GOVERNANCE_BLOCKED")
			require.Equal(h.t, e.Error.ApprovalID, h.asks(h.Runtime.Run(highWrite, m{"id": "other"}, e.Error.ExecutionID)))
		}},
		{name: "a rejected id again", sentence: "A rejection is final: the caller hears of it, and nobody is asked again.", try: func(h *hostile) {
			held := h.asks(h.run("held"))
			require.Equal(h.t, http.StatusOK, h.User.Decide(held, "reject", m{"reason": "no, and stop asking"}).Status)
			for range 3 {
				e := refused(h.t, h.run("held"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
				require.Equal(h.t, "block", e.Error.Decision)
				require.Equal(h.t, "rejected", e.Error.Status)
				require.Equal(h.t, "no, and stop asking", e.Error.Reason)
				require.Equal(h.t, held, e.Error.ApprovalID)
			}
			refused(h.t, h.approve(held), http.StatusConflict, "APPROVAL_NOT_PENDING")
			require.NotEqual(h.t, held, h.asks(h.run("another")))
		}},
		{name: "a rejected id again as a dry run", sentence: "An id is of one kind.", try: func(h *hostile) {
			held := h.asks(h.run("held"))
			require.Equal(h.t, http.StatusOK, h.reject(held).Status)
			h.fails(h.raw(`,"execution_id":"held","dryRun":true`))
		}},
		{name: "cancelled and run again", sentence: "A cancelled id stays cancelled; another id asks.", try: func(h *hostile) {
			h.asks(h.run("held"))
			require.Equal(h.t, http.StatusOK, h.Runtime.Do(http.MethodPost, "/v1/executions/held/cancel", nil).Status)
			h.fails(h.run("held"))
			h.asks(h.run("other"))
		}},
		{name: "an id that was harmless before", sentence: "An id is of one verb.", try: func(h *hostile) {
			succeeded(h.t, h.Runtime.Run(lowWrite, m{"id": "x"}, "harmless"))
			h.fails(h.run("harmless"))
		}},
		{name: "an id that was refused before", sentence: "The id is free, the call is judged.", try: func(h *hostile) {
			h.fails(h.Runtime.Run(highWrite, m{"no": "such"}, "refused"))
			h.asks(h.run("refused"))
		}},
		{name: "the id of an approved call in another tenant", effects: 1, sentence: "Each tenant has its own ids.", try: func(h *hostile) {
			h.approved("once")
			other := newWorld(h.t)
			other.gate(highWrite)
			other.hold(highWrite, h.args(), "once")
			require.Zero(h.t, other.bank.effects())
		}},
	}
}

func requestTricks() []scenario {
	held := func(name, sentence, more string, headers ...string) scenario {
		return scenario{name: name, sentence: sentence, try: func(h *hostile) { h.asks(h.raw(more, headers...)) }}
	}
	list := []scenario{
		held("metadata that says approved", "Metadata is data.", `,"metadata":{"approved":true,"approval_id":"appr_1","decision":"allow","policy":"none","role":"owner"}`),
		held("metadata that says whose agent it is", "It is the caller's word, and opens nothing by itself.", `,"metadata":{"agent_id":"trusted","customer_id":"owner"}`),
		held("headers that say approved", "Nobody reads them.", "", "X-Approved: true", "X-Approval-Id: appr_1", "X-Governance: off", "X-Dry-Run: false"),
		held("headers that name another tenant and user", "The key says who calls.", "", "X-Tenant-Id: 1", "X-User-Role: owner", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-User: owner"),
		{name: "no patience", sentence: "Who does not wait for the answer finds the call held.", try: func(h *hostile) {
			a := h.raw(`,"execution_id":"hasty"`, "Prefer: wait=0, respond-async")
			require.Contains(h.t, []int{http.StatusAccepted, http.StatusForbidden}, a.Status, "%s", a.Body)
			h.awaitStatus("hasty", "pending_approval")
			h.asks(h.run("hasty"))
		}},
		{name: "the session of an approved call", effects: 1, sentence: "A session groups records.", try: func(h *hostile) {
			h.approved("once")
			h.asks(h.raw(`,"session_id":"once"`))
		}},
		{name: "a call for the customer of a grant", effects: 1, sentence: "A grant for a customer takes the caller's word for whom they act, and counts the use.", try: func(h *hostile) {
			h.grant(m{"customer_id": "cus_1", "max_uses": 1})
			h.asks(h.run("nobody's"))
			h.asks(h.raw(`,"metadata":{"customer_id":"cus_2"}`))
			succeeded(h.t, h.raw(`,"metadata":{"customer_id":"cus_1"}`))
			h.asks(h.raw(`,"metadata":{"customer_id":"cus_1"}`))
		}},
		{name: "members that nobody knows", sentence: "They are refused, so that none is ever read by surprise.", try: func(h *hostile) {
			for _, more := range []string{`"force":true`, `"approved":true`, `"policy":"none"`, `"skip_governance":true`, `"risk_level":"low"`, `"tenant_id":"x"`, `"approval_id":"x"`} {
				h.fails(h.raw("," + more))
			}
		}},
		{name: "two verbs in one body", sentence: "A name stands once.", try: func(h *hostile) {
			h.fails(h.raw(`,"verb":"`+lowWrite+`"`), h.raw(`,"VERB":"`+lowWrite+`"`), h.send([]byte(`{"verb":"`+lowWrite+`","args":{"id":"prey"},"verb":"`+highWrite+`"}`)))
		}},
		{name: "two bodies in one", sentence: "Nothing follows the object.", try: func(h *hostile) {
			h.fails(h.send([]byte(`{"verb":"` + lowWrite + `","args":{}}{"verb":"` + highWrite + `","args":{}}`)))
		}},
		{name: "names that look like the verb", sentence: "Another spelling of a verb is judged as the verb.", try: func(h *hostile) {
			for name, verb := range lookAlikes(highWrite) {
				a := h.Runtime.Run(verb, h.args(), "")
				if slices.Contains(spellings(), name) {
					h.asks(a)
					continue
				}
				require.Contains(h.t, []int{http.StatusBadRequest, http.StatusNotFound}, a.Status, "%s: %s", name, a.Body)
			}
		}},
		{name: "a harmless verb with the address of another", sentence: "An argument stays in its place of the address.", try: func(h *hostile) {
			for _, value := range []string{
				"../high_write", "..%2fhigh_write", "%2e%2e/high_write", "x/../../high_write", "..\\high_write", "/high_write", "//high_write", "..", ".",
				"?x", "#x", "x\r\nHost: other", "..;/high_write", "%252e%252e%252fhigh_write", "http://127.0.0.1/high_write",
			} {
				h.Runtime.Run(lowPath, m{"id": value, "q": "&x=" + value, "note": "x"}, "")
			}
			for _, r := range h.bank.all() {
				require.True(h.t, strings.HasPrefix(r.path, "/low_path/"), r.path)
				require.Equal(h.t, 2, strings.Count(strings.SplitN(r.path, "?", 2)[0], "/"), r.path)
			}
		}},
		{name: "a header that ends early", sentence: "A line break in a header is refused.", try: func(h *hostile) {
			h.fails(h.Runtime.Run(lowPath, m{"id": "x", "X-Note": "a\r\nX-More: b"}, ""))
			require.Zero(h.t, h.bank.effects())
		}},
		{name: "arguments that would be options", sentence: "What the schema does not have is refused.", try: func(h *hostile) {
			for _, name := range []string{"base_url", "method", "headers", "url", "path", "Authorization", "__proto__", "constructor"} {
				h.fails(h.Runtime.Run(lowWrite, m{"id": "x", name: "POST"}, ""))
			}
			require.Zero(h.t, h.bank.effects())
		}},
		{name: "huge arguments", effects: 1, sentence: "They are held like small ones and sent whole; beyond the limit they are refused.", try: func(h *hostile) {
			args := m{"id": "huge", "note": strings.Repeat("x", 900<<10)}
			approvalID := h.asks(h.Runtime.Run(highWrite, args, "huge"))
			h.fails(h.Runtime.Run(highWrite, m{"note": strings.Repeat("x", 1<<20)}, "larger"))
			require.Equal(h.t, http.StatusOK, h.approve(approvalID).Status)
			h.awaitStatus("huge", "executed")
			require.Len(h.t, h.bank.of("huge")[0].body, len(`{"id":"huge","note":""}`)+900<<10)
		}},
		{name: "deep arguments", sentence: "They are refused before they are judged.", try: func(h *hostile) {
			h.fails(h.send([]byte(`{"verb":"` + highWrite + `","args":{"order":` + strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100) + `}}`)))
		}},
	}
	return append(list, pathTricks()...)
}

func pathTricks() []scenario {
	var list []scenario
	for _, path := range []string{
		"/v1/runtime/actions/run/", "/v1//runtime/actions/run", "/v1/runtime/actions/run?approved=true&dryRun=false", "/V1/runtime/actions/run",
		"/v1/runtime/governance/../actions/run", "/v1/runtime/actions/run;approved=1", "/v1/runtime/actions/%72un",
	} {
		list = append(list, scenario{name: "by the path " + strings.ReplaceAll(path, "/", "|"), sentence: "It leads nowhere, or to the same gate.", try: func(h *hostile) {
			h.fails(h.Runtime.Do(http.MethodPost, path, m{"verb": highWrite, "args": h.args()}))
		}})
	}
	for _, c := range []struct{ method, header string }{
		{http.MethodPut, ""},
		{http.MethodPatch, ""},
		{http.MethodGet, "X-HTTP-Method-Override: POST"},
		{http.MethodPost, "Content-Type: application/x-www-form-urlencoded"},
		{http.MethodPost, "Content-Type: text/plain"},
		{http.MethodPost, "Content-Encoding: gzip"},
	} {
		name := strings.TrimSpace(fmt.Sprintf("by %s %s", c.method, strings.ReplaceAll(c.header, "/", "|")))
		list = append(list, scenario{name: name, sentence: "A run is a POST of JSON.", try: func(h *hostile) {
			var headers []string
			if c.header != "" {
				headers = append(headers, c.header)
			}
			h.fails(h.Runtime.Do(c.method, "/v1/runtime/actions/run", m{"verb": highWrite, "args": h.args()}, headers...))
		}})
	}
	return list
}

func tokenTricks() []scenario {
	// forged tries a token against an approval, and to make a policy.
	forged := func(name, sentence string, make func(h *hostile) string) scenario {
		return scenario{name: name, sentence: sentence, try: func(h *hostile) {
			held := h.asks(h.run("held"))
			c := &rig.Client{Base: h.User.Base, HTTP: h.User.HTTP, Token: make(h)}
			require.Equal(h.t, http.StatusUnauthorized, c.Decide(held, "approve", nil).Status)
			require.Equal(h.t, http.StatusUnauthorized, c.Do(http.MethodDelete, "/v1/policies/"+h.gateID, nil).Status)
			// Beside the key as well, wherever the key does not count.
			c.Key = h.Runtime.Key
			h.fails(c.Decide(held, "approve", nil))
			h.asks(c.Run(highWrite, h.args(), "held"))
		}}
	}
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	split := func(token string) []string { return strings.Split(token, ".") }
	payload := func(token string) string {
		raw, err := base64.RawURLEncoding.DecodeString(split(token)[1])
		if err != nil {
			panic(err) // it is the service's own
		}
		return string(raw)
	}
	return []scenario{
		forged("a token without a signature", "alg none is no algorithm.", func(h *hostile) string {
			return part(`{"alg":"none","typ":"JWT"}`) + "." + split(h.User.Token)[1] + "."
		}),
		forged("the owner's token without its signature", "The signature is checked.", func(h *hostile) string {
			p := split(h.User.Token)
			return p[0] + "." + p[1] + "."
		}),
		forged("a member's token with the owner's claims", "A signature is of its claims.", func(h *hostile) string {
			member, owner := split(h.member().Token), split(h.User.Token)
			return member[0] + "." + owner[1] + "." + member[2]
		}),
		forged("a member's token with a role in it", "Roles are not in tokens, and claims are signed.", func(h *hostile) string {
			p := split(h.member().Token)
			return p[0] + "." + part(strings.Replace(payload(h.member().Token), "{", `{"role":"owner",`, 1)) + "." + p[2]
		}),
		forged("a token signed with a shared secret", "HS256 is not taken.", func(h *hostile) string {
			return part(`{"alg":"HS256","typ":"JWT"}`) + "." + split(h.User.Token)[1] + "." + part(strings.Repeat("x", 32))
		}),
		{name: "the key as a token", sentence: "A key in the place of a token may do what the key may.", try: func(h *hostile) {
			held := h.asks(h.run("held"))
			c := &rig.Client{Base: h.User.Base, HTTP: h.User.HTTP, Token: h.Runtime.Key}
			require.Equal(h.t, http.StatusForbidden, c.Decide(held, "approve", nil).Status)
			require.Equal(h.t, http.StatusForbidden, c.Do(http.MethodDelete, "/v1/policies/"+h.gateID, nil).Status)
			h.asks(c.Run(highWrite, h.args(), "held"))
		}},
		{name: "a token as the key", sentence: "A session is no key.", try: func(h *hostile) {
			h.fails((&rig.Client{Base: h.User.Base, HTTP: h.User.HTTP, Key: h.User.Token}).Run(highWrite, h.args(), ""))
		}},
		{name: "the owner's session on run", sentence: "Runs are made with keys, by owners too.", try: func(h *hostile) {
			require.Equal(h.t, http.StatusUnauthorized, h.User.Run(highWrite, h.args(), "").Status)
		}},
		{name: "keys for something else", sentence: "Running needs actions:run.", try: func(h *hostile) {
			for _, permission := range []string{"agents:message", "actions:catalog", "maps:trigger", "approvals:manage", "policies:manage"} {
				c, _ := h.key(permission)
				refused(h.t, c.Run(highWrite, h.args(), ""), http.StatusForbidden, "INSUFFICIENT_PERMISSIONS")
			}
		}},
		{name: "guessed approval ids", sentence: "An id that is not the tenant's is unknown, however like it looks.", try: func(h *hostile) {
			held := h.asks(h.run("held"))
			other := newWorld(h.t)
			for _, guess := range []string{
				strings.ToUpper(held), held + " ", held[:len(held)-1], held + "0", strings.TrimPrefix(held, "appr_"), "appr_%", "*", "' or '1'='1",
				held[:len(held)-1] + "x", "../approvals/" + held, held + "\x00",
			} {
				a := h.User.Decide(guess, "approve", nil)
				h.fails(a)
				require.NotEqual(h.t, http.StatusConflict, a.Status)
			}
			require.Equal(h.t, http.StatusNotFound, other.User.Decide(held, "approve", nil).Status)
			require.Equal(h.t, "pending", h.approval(held).Status)
		}},
		{name: "a batch with duplicates", sentence: "One approval stands once in a batch, or nothing of it is done.", try: func(h *hostile) {
			held := h.asks(h.run("held"))
			for _, second := range []string{"approve", "reject"} {
				h.fails(h.User.Do(http.MethodPost, "/v1/approvals/batch", m{"decisions": []m{{"id": held, "decision": "approve"}, {"id": held, "decision": second}}}))
			}
			require.Equal(h.t, "pending", h.approval(held).Status)
		}},
		{name: "a batch of many that are not theirs", effects: 1, sentence: "Each item counts for itself.", try: func(h *hostile) {
			held, other := h.asks(h.run("held")), newWorld(h.t)
			other.gate(highWrite)
			theirs := other.hold(highWrite, h.args(), "theirs")
			a := h.User.Do(http.MethodPost, "/v1/approvals/batch", m{"decisions": []m{
				{"id": theirs, "decision": "approve"}, {"id": held, "decision": "approve"}, {"id": "appr_x", "decision": "approve"},
			}})
			require.Equal(h.t, http.StatusOK, a.Status)
			require.Equal(h.t, 2, strings.Count(string(a.Body), "APPROVAL_NOT_FOUND"))
			h.awaitStatus("held", "executed")
			require.Equal(h.t, "pending", other.approval(theirs).Status)
		}},
	}
}

func timingTricks() []scenario {
	return []scenario{
		{name: "a storm of one call", sentence: "All of them are one run, which waits.", try: func(h *hostile) {
			var calls []func() rig.Answer
			for range 40 {
				calls = append(calls, func() rig.Answer { return h.run("one") })
			}
			seen := map[string]bool{}
			for _, a := range together(calls...) {
				seen[h.asks(a)] = true
			}
			require.Len(h.t, seen, 1)
		}},
		{name: "a storm of calls", effects: 1, sentence: "Each asks for itself; one approval sends one.", try: func(h *hostile) {
			var calls []func() rig.Answer
			for range 20 {
				calls = append(calls, func() rig.Answer { return h.run("") })
			}
			var ids []string
			for _, a := range together(calls...) {
				ids = append(ids, h.asks(a))
			}
			require.Equal(h.t, http.StatusOK, h.approve(ids[7]).Status)
			rig.Until(h.t, limit, "the approved one ran", func() bool { o := h.approval(ids[7]).Outcome; return o != nil && *o == "executed" })
		}},
		{name: "runs while the gate is rebuilt", sentence: "Between two versions of the policies there is no gap.", try: func(h *hostile) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := range 15 {
					gate := m{"name": "gate", "description": strconv.Itoa(i), "action": m{"type": "require_approval"}, "verbMatchers": []m{{"type": "risk_level", "value": "high"}}}
					h.User.Do(http.MethodPut, "/v1/policies/"+h.gateID, gate)
					extra := h.User.Do(http.MethodPost, "/v1/policies", rule("extra", "allow", highWrite))
					h.User.Do(http.MethodDelete, extra.Header.Get("Location"), nil)
				}
			}()
			for {
				h.fails(h.run(""))
				select {
				case <-done:
					return
				default:
				}
			}
		}},
		{name: "evaluated as allowed, and then run", sentence: "What evaluate said is not what run goes by.", try: func(h *hostile) {
			h.Runtime.Do(http.MethodPost, "/v1/runtime/governance/evaluate", m{"verb": highWrite, "args": h.args()})
			require.Equal(h.t, "allow", h.evaluate(lowWrite, h.args()).Decision)
			h.policy(rule("no", "block", lowWrite))
			h.fails(h.Runtime.Run(lowWrite, h.args(), ""))
		}},
		{name: "approved, and then the policy changed", effects: 1, sentence: "What was sent stays; the next is judged by the new policies.", try: func(h *hostile) {
			h.approved("once")
			h.policy(rule("no", "block", highWrite))
			require.Equal(h.t, "cached", succeeded(h.t, h.run("once")).FenceStatus)
			h.fails(h.run("next"))
		}},
		{name: "a key revoked while its call waits, used again", sentence: "A revoked key is nobody, and its calls are taken back.", try: func(h *hostile) {
			held := h.asks(h.run("held"))
			require.Equal(h.t, http.StatusOK, h.User.Do(http.MethodDelete, "/v1/api-keys/"+h.RuntimeKeyID, nil).Status)
			require.Equal(h.t, http.StatusUnauthorized, h.run("held").Status)
			other, _ := h.key("actions:run")
			h.fails(other.Run(highWrite, h.args(), "held"))
			rig.Until(h.t, limit, "the approval is taken back", func() bool { return h.approval(held).Status == "cancelled" })
		}},
		{name: "cancelled while it is approved, and run again", sentence: "At most once, no matter who was first.", permitted: false, effects: 1, try: func(h *hostile) {
			held := h.asks(h.run("first"))
			together(func() rig.Answer { return h.approve(held) },
				func() rig.Answer { return h.Runtime.Do(http.MethodPost, "/v1/executions/first/cancel", nil) },
				func() rig.Answer { return h.run("first") })
			rig.Until(h.t, limit, "the first has ended", func() bool { s := h.status("first"); return s == "executed" || s == "cancelled" })
			if h.highEffects() == 0 {
				h.approved("second")
			}
		}},
		{name: "reads of high risk, and deletions", sentence: "The gate is for the risk, whatever the operation and method.", try: func(h *hostile) {
			h.asks(h.Runtime.Run(highRead, h.args(), ""))
			h.asks(h.Runtime.Run(deleteThing, m{"id": "prey"}, ""))
			h.asks(h.raw(`,"dryRun":false`))
			h.asks(h.send(m{"verb": highRead, "args": h.args(), "dryRun": true})) // reads run in a dry run; not this one
		}},
	}
}
