package governance

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// payDocument is a provider with one write, which takes the properties and requires some of them.
func payDocument(w *world, properties m, required ...string) m {
	body := m{"type": "object", "properties": with(m{"id": m{"type": "string"}}, properties)}
	if len(required) > 0 {
		body["required"] = required
	}
	return m{"slug": "shop", "base_url": w.bank.srv.URL, "auth": m{"type": "none"}, "openapi": m{
		"openapi": "3.1.0", "info": m{"title": "Shop", "version": "1"}, "paths": m{"/low_write": m{"post": m{
			"operationId": "pay", "x-agent-runtime": m{"risk_level": "low"},
			"requestBody": m{"content": m{"application/json": m{"schema": body}}}, "responses": m{"200": m{"description": "ok"}},
		}}},
	}}
}

// imports imports the document as the client, and returns the names of the quarantined verbs.
func (w *world) imports(by *rig.Client, body m, query ...string) (quarantined []string) {
	w.t.Helper()
	a := by.Do(http.MethodPost, "/v1/providers"+strings.Join(query, ""), body)
	require.Contains(w.t, []int{http.StatusOK, http.StatusCreated}, a.Status, "%s", a.Body)
	var r struct {
		Quarantined []struct {
			Verb    string
			NamedBy []struct{ Type, Name string } `json:"named_by"`
		}
		Total int `json:"quarantined_total"`
	}
	a.Data(w.t, &r)
	require.Len(w.t, r.Quarantined, r.Total)
	for _, q := range r.Quarantined {
		for _, by := range q.NamedBy {
			quarantined = append(quarantined, q.Verb+" by "+by.Type+" "+by.Name)
		}
	}
	return quarantined
}

// quarantinedNow returns the verbs that the shop shows as quarantined.
func (w *world) quarantinedNow() (names []string) {
	w.t.Helper()
	a := w.User.Do(http.MethodGet, "/v1/providers/shop", nil)
	require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Body)
	var r struct {
		Quarantined []struct{ Verb string }
		Total       int `json:"quarantined_total"`
	}
	a.Data(w.t, &r)
	require.Len(w.t, r.Quarantined, r.Total)
	for _, q := range r.Quarantined {
		names = append(names, q.Verb)
	}
	return names
}

const accept = "/v1/providers/shop/verbs/pay/accept"

// A verb that a policy names is blocked once an import changes what people had in mind when they
// named it, until a user accepts that.
func TestImportThatBreaksANamedVerbQuarantinesIt(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, sharedDev().For(t))
	amount, note := m{"amount": m{"type": "number"}}, m{"note": m{"type": "string"}}
	reason := with(with(amount, note), m{"reason": m{"type": "string"}})
	w.imports(w.User, payDocument(w, amount))
	id := w.policy(rule("large payments", "notify", "shop:pay"))
	succeeded(t, w.Runtime.Run("shop:pay", m{"id": "before", "amount": 1}, "q-before"))
	w.policy(with(rule("ask", "require_approval", "shop:pay"), m{"conditions": []m{{"field": "args.id", "operator": "equals", "value": "held"}}}))
	approval := w.hold("shop:pay", m{"id": "held", "amount": 1}, "q-held")

	require.Empty(t, w.imports(w.User, payDocument(w, with(amount, note))), "an optional argument more")
	succeeded(t, w.Runtime.Run("shop:pay", m{"id": "additive", "amount": 1}, "q-additive"))

	breaking := payDocument(w, reason, "reason")
	named := []string{"pay by policy large payments", "pay by policy ask"}
	require.ElementsMatch(t, named, w.imports(w.User, breaking, "?preview=true"))
	succeeded(t, w.Runtime.Run("shop:pay", m{"id": "previewed", "amount": 1}, "q-previewed"))
	key, _ := w.key("providers:manage", "actions:catalog")
	require.ElementsMatch(t, named, w.imports(w.User, breaking))

	for name, dry := range map[string]bool{"q-real": false, "q-dry": true} {
		e := refused(t, w.send(m{"verb": "shop:pay", "args": m{"id": name, "reason": "r"}, "execution_id": name, "dry_run": dry}), http.StatusForbidden, "GOVERNANCE_BLOCKED")
		require.Equal(t, "block", e.Error.Decision)
		require.Contains(t, e.Error.Reason, "quarantined: an import changed shop:pay: the argument /reason is new (required string)")
		require.Contains(t, e.Error.Reason, "POST /v1/providers/shop/verbs/pay/accept")
	}
	ev := w.evaluate("shop:pay", m{"reason": "r"})
	require.Equal(t, "block", ev.Decision)
	require.Contains(t, ev.Reason, "quarantined: ")
	w.awaitApproval(approval, "superseded")
	w.awaitStatus("q-held", "blocked")

	var shown struct {
		Quarantined bool
		Quarantine  struct {
			Form    string
			Changes []struct{ What, Pointer, After string }
		}
	}
	key.Do(http.MethodGet, "/v1/runtime/actions/catalog/shop:pay", nil).Data(t, &shown)
	require.True(t, shown.Quarantined)
	require.Contains(t, shown.Quarantine.Changes, struct{ What, Pointer, After string }{"argument_required", "/reason", "required string"})
	listed := func(query string) string {
		a := w.User.Do(http.MethodGet, "/v1/providers/shop/verbs"+query, nil)
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		return string(a.Body)
	}
	require.Contains(t, listed("?quarantined=true"), `"total":1`)
	require.Contains(t, listed("?quarantined=true"), id, "people see what names it")
	require.Equal(t, []string{"pay"}, w.quarantinedNow())
	require.Contains(t, listed("?quarantined=false"), `"total":0`)

	refused(t, key.Do(http.MethodPost, accept, nil), http.StatusForbidden, "INSUFFICIENT_PERMISSIONS")
	member, _ := w.member("member")
	refused(t, member.Do(http.MethodPost, accept, nil), http.StatusForbidden, "INSUFFICIENT_PERMISSIONS")
	refused(t, newWorld(t).User.Do(http.MethodPost, accept, nil), http.StatusNotFound, "PROVIDER_NOT_FOUND")
	refused(t, w.User.Do(http.MethodPost, "/v1/providers/shop/verbs/none/accept", nil), http.StatusNotFound, "VERB_NOT_FOUND")
	refused(t, w.User.Do(http.MethodPost, accept, m{"form": "another"}), http.StatusConflict, "CONFLICT")
	refused(t, w.Runtime.Run("shop:pay", m{"id": "still", "reason": "r"}, "q-real"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	for range 2 {
		a := w.User.Do(http.MethodPost, accept, m{"form": shown.Quarantine.Form})
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		require.Contains(t, string(a.Body), `"quarantined":false`)
		require.Empty(t, w.quarantinedNow(), "the provider tells what is so now, not what its last import left")
	}
	succeeded(t, w.Runtime.Run("shop:pay", m{"id": "accepted", "reason": "r"}, "q-real"))
	require.Empty(t, w.imports(w.User, breaking), "the accepted form")
	require.Empty(t, w.quarantinedNow())
	var told []string
	for _, action := range actions(w.audit("provider=shop")) {
		if strings.HasPrefix(action, "verb.") {
			told = append(told, action)
		}
	}
	require.Equal(t, []string{"verb.quarantined", "verb.accepted"}, told)
	require.Contains(t, string(w.User.Do(http.MethodGet, "/v1/events?type=verb.quarantined", nil).Body), `"verbs":["shop:pay"]`)
	require.ElementsMatch(t, []string{"before", "additive", "previewed", "accepted"}, w.bank.ids())
}

// The accepted form counts, whatever imports lie between.
func TestQuarantineComparesWithTheAcceptedForm(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, sharedDev().For(t))
	text, number := payDocument(w, m{"amount": m{"type": "string"}}), payDocument(w, m{"amount": m{"type": "number"}})
	without := payDocument(w, m{})
	named := []string{"pay by policy p"}
	blocked := func(id string) {
		t.Helper()
		refused(t, w.Runtime.Run("shop:pay", m{"id": id}, id), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	}
	w.imports(w.User, text)
	w.policy(rule("every verb", "notify", "shop:*"))
	require.Empty(t, w.imports(w.User, number), "only a glob fits it")
	succeeded(t, w.Runtime.Run("shop:pay", m{"id": "glob", "amount": 1}, "g-1"))
	w.imports(w.User, text)
	w.policy(rule("p", "notify", "shop:pay"))

	require.Equal(t, named, w.imports(w.User, without))
	require.Equal(t, named, w.imports(w.User, without), "the same again")
	blocked("b-1")
	require.Equal(t, named, w.imports(w.User, number), "from the removed argument on, it would be new")
	blocked("b-2")
	require.Empty(t, w.imports(w.User, text), "the accepted form lifts it")
	succeeded(t, w.Runtime.Run("shop:pay", m{"id": "restored", "amount": "1"}, "b-1"))

	require.Equal(t, http.StatusOK, w.User.Do(http.MethodDelete, "/v1/providers/shop", nil).Status)
	require.Equal(t, named, w.imports(w.User, number), "no deletion makes it new")
	require.Equal(t, http.StatusOK, w.User.Do(http.MethodDelete, "/v1/providers/shop", nil).Status)
	require.Equal(t, named, w.imports(w.User, number), "nor two")
	blocked("b-3")
	other := number["openapi"].(m)["paths"].(m)
	gone := with(number, m{"openapi": with(number["openapi"].(m), m{"paths": m{"/other": other["/low_write"].(m)}})})
	gone["rules"] = []m{{"match": m{"verb": "pay"}, "rename": "other"}}
	require.Empty(t, w.imports(w.User, gone), "the verb is gone")
	require.Equal(t, named, w.imports(w.User, with(number, m{"rules": []m{}})), "and back")
	blocked("b-4")

	risky := with(text, m{"rules": []m{{"match": m{"verb": "pay"}, "risk_level": "high"}}})
	require.Equal(t, named, w.imports(w.User, risky), "a risk that a rule raises")
	e := refused(t, w.Runtime.Run("shop:pay", m{"id": "risk"}, "b-5"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Contains(t, e.Error.Reason, "the risk_level was low and is high")
	require.ElementsMatch(t, []string{"glob", "restored"}, w.bank.ids())
}

// A published Map and an agent name verbs as policies do, and their calls are blocked alike.
func TestQuarantineSeesMapsAndAgents(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, sharedDev().For(t))
	w.imports(w.User, payDocument(w, m{"amount": m{"type": "number"}}))
	a := w.User.Do(http.MethodPost, "/v1/maps?publish=true", m{"schema_version": "1", "name": "Pay", "steps": []m{
		{"id": "pay", "type": "set", "assign": m{"x": 1}},
		{"id": "call", "type": "verb", "verb": "shop:pay", "args": m{"id": "map"}},
	}})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	var made struct{ ID string }
	a.Data(t, &made)
	draft := w.User.Do(http.MethodPost, "/v1/maps", m{"schema_version": "1", "name": "Draft", "steps": []m{{"id": "call", "type": "verb", "verb": "shop:pay", "args": m{}}}})
	require.Equal(t, http.StatusCreated, draft.Status, "%s", draft.Body)
	for name, allow := range map[string]string{"Named": "shop:pay", "By glob": "shop:*"} {
		a := w.User.Do(http.MethodPost, "/v1/agents", m{"name": name, "tools": m{"allow": []string{allow}}})
		require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	}
	require.ElementsMatch(t, []string{"pay by map Pay", "pay by agent Named"}, w.imports(w.User, payDocument(w, m{"amount": m{"type": "string"}})))
	triggered := w.User.Do(http.MethodPost, "/v1/maps/"+made.ID+"/trigger", m{"session_id": "once"})
	require.Equal(t, http.StatusUnprocessableEntity, triggered.Status, "%s", triggered.Body)
	require.Contains(t, string(triggered.Body), "GOVERNANCE_BLOCKED")
	require.Contains(t, string(triggered.Body), "quarantined: ")
	require.Empty(t, w.bank.ids())

	warned := w.User.Do(http.MethodPost, "/v1/maps", m{"schema_version": "1", "name": "Another", "steps": []m{{"id": "call", "type": "verb", "verb": "shop:pay", "args": m{}}}})
	require.Equal(t, http.StatusCreated, warned.Status, "%s", warned.Body)
	require.Contains(t, string(warned.Body), `"rule":"quarantined"`)
}

// Policies also name verbs where they except them, count them in a window and look things up.
func TestQuarantineSeesWhateverPartOfAPolicyNamesAVerb(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, sharedDev().For(t))
	shop := func(kind string) m {
		d := payDocument(w, m{"amount": m{"type": kind}})
		paths := d["openapi"].(m)["paths"].(m)
		argument := m{"name": "id", "in": "query", "schema": m{"type": kind}}
		for _, name := range []string{"order", "verify", "spare", "every", "free"} {
			paths["/"+name] = m{"get": m{"operationId": name, "parameters": []m{argument}, "responses": m{"200": m{"description": "ok"}}}}
		}
		return d
	}
	w.imports(w.User, shop("string"))
	w.policy(with(rule("looks up", "notify", "shop:*"), m{
		"lookups":    []m{{"name": "order", "verb": "shop:order", "args": m{"id": m{"field": "args.id"}}}},
		"conditions": []m{{"field": "lookup.order.status", "operator": "equals", "value": "x"}},
	}))
	w.policy(with(rule("counts", "notify", "shop:*"), m{"conditions": []m{{"not": m{
		"window": m{"by": "session.id", "per": "1d", "count": true, "matching": []m{{"type": "verb", "value": "shop:verify"}}}, "operator": "equals", "value": 0,
	}}}}))
	w.policy(with(rule("excepts", "notify", "shop:*"), m{"match": m{"all": []m{{"verb": "shop:every"}}, "except": []m{{"verb": "shop:spare"}}}}))
	w.policy(with(rule("mentions", "notify", "shop:*"), m{"conditions": []m{{"field": "args.id", "operator": "equals", "value": "shop:free"}}}))
	named := []string{"order by policy looks up", "verify by policy counts", "spare by policy excepts", "every by policy excepts"}
	require.ElementsMatch(t, named, w.imports(w.User, shop("integer")))
	require.Equal(t, []string{"every", "order", "spare", "verify"}, w.quarantinedNow(), "in the order of their names")
}
