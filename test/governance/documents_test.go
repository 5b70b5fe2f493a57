package governance

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSchemasThatReferToThemselvesKeepTheirRules imports one recursive schema in each form
// that documents use. Checks, masks and policies must not depend on the form.
func TestSchemasThatReferToThemselvesKeepTheirRules(t *testing.T) {
	t.Parallel()
	self := m{"$ref": "#/components/schemas/Payment"}
	for name, tc := range map[string]struct{ version, parent any }{
		"a reference":       {"3.0.3", self},
		"nullable allOf":    {"3.0.3", m{"nullable": true, "allOf": []any{self}}},
		"items anyOf":       {"3.1.0", m{"type": "array", "items": m{"anyOf": []any{self, typed("string")}}}},
		"oneOf":             {"3.1.0", m{"oneOf": []any{self, typed("null")}}},
		"if and then":       {"3.1.0", m{"if": typed("object"), "then": self}},
		"not":               {"3.1.0", m{"type": "object", "properties": m{"x": m{"not": m{"not": self}}}}},
		"dependent schemas": {"3.1.0", m{"dependentSchemas": m{"x": self}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := emptyWorld(t, sharedDev().For(t))
			payment := m{
				"type": "object", "required": []string{"amount"}, "additionalProperties": false,
				"properties": m{"amount": m{"type": "integer", "maximum": 100}, "vault": m{"type": "string", "writeOnly": true}, "parent": tc.parent},
			}
			paths := m{"/low_pay": m{"post": operation("low_pay", "low", "write", m{"payment": m{"$ref": "#/components/schemas/Payment"}})}}
			report := w.connectDocument(m{"openapi": tc.version, "paths": paths, "components": m{"schemas": m{"Payment": payment}}})
			require.Empty(t, report.Degraded)
			const verb = slug + ":low_pay"

			refused(t, w.Runtime.Run(verb, m{"payment": m{"amuont": 5}}, id()), http.StatusUnprocessableEntity, "INVALID_ARGS")
			execution := id()
			succeeded(t, w.Runtime.Run(verb, m{"payment": m{"amount": 5, "vault": "hidden-vault"}}, execution))
			a := w.User.Do(http.MethodGet, "/v1/executions/"+execution, nil)
			require.Contains(t, string(a.Body), `"amount":5`)
			require.NotContains(t, string(a.Body), "hidden-vault")
			w.policy(with(rule("no", "block", verb), m{"conditions": []m{{"field": "args.payment.amount", "operator": "greater", "value": 50}}}))
			refused(t, w.Runtime.Run(verb, m{"payment": m{}}, id()), http.StatusForbidden, "GOVERNANCE_BLOCKED")
			require.Equal(t, 1, w.bank.effects())
		})
	}
}

// TestSchemasThatAreGivenUpFailClosed: what the importer cannot keep is reported, and policies
// and masks count it as unknown.
func TestSchemasThatAreGivenUpFailClosed(t *testing.T) {
	t.Parallel()
	for name, payment := range map[string]any{
		"applies to itself without end": m{"allOf": []any{m{"$ref": "#/components/schemas/Payment"}}, "properties": m{"amount": typed("integer")}},
		"leads out of the document":     m{"$ref": "https://schemas.example/payment.json"},
		"is no schema":                  "payment",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := emptyWorld(t, sharedDev().For(t))
			paths := m{"/low_pay": m{"post": operation("low_pay", "low", "write", m{"payment": m{"$ref": "#/components/schemas/Payment"}, "note": typed("string")})}}
			report := w.connectDocument(m{"openapi": "3.1.0", "paths": paths, "components": m{"schemas": m{"Payment": payment}}})
			require.Len(t, report.Degraded, 1)
			const verb = slug + ":low_pay"
			execution := id()
			succeeded(t, w.Runtime.Run(verb, m{"payment": m{"amount": 5, "vault": "hidden-vault"}, "note": "plain"}, execution))
			a := w.User.Do(http.MethodGet, "/v1/executions/"+execution, nil)
			require.Contains(t, string(a.Body), "plain")
			require.NotContains(t, string(a.Body), "hidden-vault")
			w.policy(with(rule("no", "block", verb), m{"conditions": []m{{"field": "args.payment.amount", "operator": "greater", "value": 50}}}))
			refused(t, w.Runtime.Run(verb, m{"payment": m{"other": 1}}, id()), http.StatusForbidden, "GOVERNANCE_BLOCKED")
			require.Equal(t, 1, w.bank.effects())
		})
	}
}

// TestNoArgumentWritesANameOfAnother sends calls whose free-form objects use the names of
// other parameters, of the path's own query and of the credential. The policy judges
// args.amount, so the provider must not get an amount from elsewhere.
func TestNoArgumentWritesANameOfAnother(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, sharedDev().For(t))
	free := m{"type": "object", "additionalProperties": typed("string")}
	in := func(place, name string, schema, more m) m {
		return with(m{"name": name, "in": place, "schema": schema}, more)
	}
	op := func(id string, more m) m { return m{"post": with(m{"operationId": id, "responses": done()}, more)} }
	form := func(schema, encoding m) m {
		return m{"requestBody": m{"content": m{"application/x-www-form-urlencoded": m{"schema": schema, "encoding": encoding}}}}
	}
	a := w.User.Do(http.MethodPost, "/v1/providers", m{
		"slug": slug, "base_url": w.bank.srv.URL, "auth": m{"type": "api_key", "in": "cookie", "name": "sid"},
		"openapi": m{"openapi": "3.1.0", "info": m{"title": "Bank", "version": "1"}, "paths": m{
			"/pay?kind=small": op("pay", m{"parameters": []m{
				in("query", "amount", typed("integer"), nil), in("query", "extra", free, nil), in("query", "deep", free, m{"style": "deepObject"}),
				in("cookie", "prefs", free, nil), in("header", "X-HTTP-Method-Override", typed("string"), nil),
			}}),
			"/form":               op("form", form(m{"type": "object", "properties": m{"amount": typed("integer"), "extra": free}}, m{"extra": m{"style": "form", "explode": true}})),
			"/open":               op("open", form(m{"type": "object", "properties": m{"amount": typed("integer")}, "additionalProperties": true}, nil)),
			"/orders/{ids}/close": op("close", m{"parameters": []m{in("path", "ids", m{"type": "array", "items": typed("string")}, m{"required": true})}}),
		}},
	})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	a = w.User.Do(http.MethodPost, "/v1/credentials", m{"provider": slug, "type": "api_key", "data": m{"key": "the-session"}})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	w.policy(with(rule("max", "block", slug+":*"), m{"conditions": []m{{"field": "args.amount", "operator": "greater", "value": 100}}}))

	for _, tc := range []struct {
		verb string
		args m
	}{
		{"pay", m{"amount": 5, "extra": m{"amount": "99999"}}},
		{"pay", m{"amount": 5, "extra": m{"Amount": "99999"}}},
		{"pay", m{"amount": 5, "extra": m{"%61mount": "99999"}}},
		{"pay", m{"amount": 5, "extra": m{"amount[]": "99999"}}},
		{"pay", m{"amount": 5, "extra": m{"kind": "large"}}},
		{"pay", m{"amount": 5, "extra": m{"_method": "DELETE"}}},
		{"pay", m{"amount": 5, "deep": m{"x]&amount=9": "1"}}},
		{"pay", m{"amount": 5, "prefs": m{"sid": "another"}}},
		{"pay", m{"amount": 5, "X-HTTP-Method-Override": "DELETE"}},
		{"form", m{"amount": 5, "extra": m{"amount": "99999"}}},
		{"open", m{"amount": 5, "amount[]": 99999}},
		{"open", m{"amount": 5, "_method": "DELETE"}},
		{"close", m{"amount": 5, "ids": []string{""}}},
	} {
		refused(t, w.Runtime.Run(slug+":"+tc.verb, tc.args, id()), http.StatusUnprocessableEntity, "INVALID_ARGS")
	}
	require.Zero(t, w.bank.effects())

	succeeded(t, w.Runtime.Run(slug+":pay", m{"amount": 5, "extra": m{"note": "a"}, "deep": m{"x": "1"}, "prefs": m{"theme": "dark"}}, id()))
	succeeded(t, w.Runtime.Run(slug+":open", m{"amount": 5, "note": "a&amount=9"}, id()))
	got := w.bank.all()
	require.Equal(t, "/pay?kind=small&amount=5&note=a&deep%5Bx%5D=1", got[0].path)
	require.Equal(t, "theme=dark; sid=the-session", got[0].header.Get("Cookie"))
	require.Equal(t, "amount=5&note=a%26amount%3D9", got[1].body)
}

// TestTimeoutOfAVerbBoundsItsCall has a provider that does not answer. The verb's own timeout
// is shorter than the service's, so the caller who waits in between gets the outcome.
func TestTimeoutOfAVerbBoundsItsCall(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, sharedDev().For(t))
	pay := operation("low_pay", "low", "write", callProperties())
	pay["x-agent-runtime"].(m)["timeout"] = 1
	require.Empty(t, w.connectDocument(m{"openapi": "3.0.3", "paths": m{"/low_pay": m{"post": pay}}}).Degraded)
	a := w.send(m{"verb": slug + ":low_pay", "args": m{"mode": modeHold}}, "Prefer: wait=10")
	refused(t, a, http.StatusGatewayTimeout, "OUTCOME_UNKNOWN")
}

// TestEditsDoNotSendPlaceholders: an approver sees masked arguments. What they leave out keeps
// its value, and what they send back masked is refused.
func TestEditsDoNotSendPlaceholders(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, sharedDev().For(t))
	w.connectDocument(m{"openapi": "3.0.3", "paths": m{"/low_pay": m{"post": operation("low_pay", "low", "write", m{
		"iban": m{"type": "string", "x-sensitive": true}, "pin": m{"type": "integer", "x-sensitive": true}, "amount": typed("integer"),
	})}}})
	w.policy(with(rule("gate", "require_approval", slug+":low_pay"), m{"approval": m{"self_approval": true}}))
	execution := id()
	held := w.hold(slug+":low_pay", m{"iban": "DE89370400440532013000", "pin": 4711, "amount": 100}, execution)
	var shown m
	require.NoError(t, json.Unmarshal(w.approval(held).Args, &shown))
	require.Equal(t, "[masked]", shown["iban"])

	refused(t, w.User.Decide(held, "approve", m{"edited_args": with(shown, m{"amount": 50})}), http.StatusUnprocessableEntity, "INVALID_ARGS")
	refused(t, w.User.Decide(held, "approve", m{"edited_args": m{"pin": 0, "amount": 50}}), http.StatusUnprocessableEntity, "INVALID_ARGS")
	require.Equal(t, "pending", w.approval(held).Status)
	a := w.User.Decide(held, "approve", m{"edited_args": m{"pin": 1234, "amount": 50}})
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	w.awaitStatus(execution, "executed")
	require.Len(t, w.bank.all(), 1)
	require.JSONEq(t, `{"iban":"DE89370400440532013000","pin":1234,"amount":50}`, w.bank.all()[0].body)
}
