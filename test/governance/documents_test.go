package governance

import (
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
