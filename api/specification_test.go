package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// specifiedRequests are the parameters and members of bodies that the interface specification lists,
// by endpoint: name, type, a star after the type where it is required, and the values after an equals
// sign where it lists them. docs/design/specification.md names these tests in the rows about them.
func specifiedRequests() map[string]string {
	return map[string]string{
		"GET /v1/runtime/actions/catalog":      "provider string, domain string, risk_level string=low|medium|high, connected_only boolean, format string, limit number, offset number",
		"POST /v1/runtime/actions/run":         "verb string*, args object*, execution_id string, idempotency_key string, session_id string, metadata object",
		"POST /v1/maps/{id}/trigger":           "payload object, session_id string",
		"POST /v1/runtime/governance/evaluate": "verb string*, args object",
		"POST /v1/auth/login":                  "email string*, password string*",
		"POST /v1/auth/signup":                 "email string*, password string*, name string",
		"POST /v1/api-keys":                    "name string*, permissions array, agent_id string, identity_mode string=anonymous|identified|required, allowed_origins array",
		"POST /v1/customers":                   "email string, phone string, name string, external_id string, metadata object",
		"POST /v1/webhooks":                    "url string*, events array*, secret string",
		"POST /v1/policies":                    "verbMatchers array, conditions array, action object*",
	}
}

// specifiedAnswers are the members of data that the specification lists, by endpoint and path.
// Every answer has each.
func specifiedAnswers() map[string]string {
	key := "id string, key string, name string, status string=active"
	run := "result object, normalized object, execution_id string, fence_status string=executed|cached, governance_status string=approved, provider string, verb string, duration_ms number, " +
		"credential_source string=vault, idempotent boolean, cached_from string"
	return map[string]string{
		"GET /v1/runtime/actions/catalog":            "verbs array, total number, providers_connected array, pagination object",
		"GET /v1/runtime/actions/catalog pagination": "limit number, offset number, has_more boolean",
		"GET /v1/runtime/actions/catalog verbs": "verb string, provider string, domain string, description string, risk_level string=low|medium|high, operation_type string=read|write, " +
			"connected boolean, schema object",
		"GET /v1/runtime/actions/catalog verbs tool_definition":          "type string, function object",
		"GET /v1/runtime/actions/catalog verbs tool_definition function": "name string, description string, parameters object",
		"POST /v1/runtime/actions/run":                                   run,
		"POST /v1/runtime/governance/evaluate": "decision string=allow|block|pending_approval, reason string, risk_level string=low|medium|high, operation_type string=read|write, provider string, verb string, " +
			"approval_required boolean, policy_name string, policy_matched string",
		"POST /v1/maps/{id}/trigger":     "execution_id string, actions_executed number, governance_status string=approved, map_type string=cognitive|non_cognitive, duration_ms number",
		"POST /v1/auth/login":            "token string, user object",
		"POST /v1/auth/login user":       "id string, email string, tenantId string",
		"POST /v1/auth/signup":           "userId string, message string",
		"POST /v1/api-keys":              key + ", createdAt string, permissions array, agent_id string, identity_mode string=anonymous|identified|required, allowed_origins array",
		"GET /v1/api-keys":               key + ", lastUsedAt string",
		"DELETE /v1/api-keys/{id}":       "deleted boolean",
		"POST /v1/customers":             "id string, email string, phone string, name string, external_id string, metadata object, createdAt string",
		"GET /v1/customers/{id}":         "id string, email string, name string, tags array, metadata object",
		"POST /v1/webhooks":              "id string, url string, events array, secret string, createdAt string",
		"POST /v1/policies verbMatchers": "type string=verb|provider|risk_level, value string",
		"POST /v1/policies conditions":   "field string, operator string=greater",
		"POST /v1/policies action":       "type string=allow|block|require_approval|notify",
		"GET /v1/rate-limits":            "tenant object, current object, health object",
		"GET /v1/rate-limits tenant":     "requests_per_minute number, requests_per_hour number, requests_per_day number",
		"GET /v1/rate-limits current":    "minute number, hour number, day number",
		"GET /v1/rate-limits health":     "budget_state string=ok, circuit_state string=closed",
	}
}

// member is what a list of the tables above says.
type member struct {
	name, kind string
	required   bool
	values     []string
}

func members(list string) (all []member) {
	for m := range strings.SplitSeq(list, ", ") {
		name, kind, _ := strings.Cut(m, " ")
		kind, values, _ := strings.Cut(kind, "=")
		bare, required := strings.CutSuffix(kind, "*")
		all = append(all, member{name, bare, required, strings.FieldsFunc(values, func(r rune) bool { return r == '|' })})
	}
	return all
}

// requireOf checks that a schema is of the member's type and takes its values.
func (m member) requireOf(t *testing.T, doc object, schema any, where string) {
	t.Helper()
	s := resolve(t, doc, schema)
	require.True(t, isOf(s, m.kind), "%s: %s is no %s", where, m.name, m.kind)
	for _, v := range m.values {
		require.Contains(t, s["enum"], v, "%s: %s", where, m.name)
	}
}

// isOf reports whether a schema is of a type of the specification: null may be beside it, and a number
// may be whole.
func isOf(s object, kind string) bool {
	switch s["const"].(type) {
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	}
	if s["type"] == nil {
		return kind == "object" // the payload of a Map, which takes any shape
	}
	types, several := s["type"].([]any)
	if !several {
		types = []any{s["type"]}
	}
	return slices.Contains(types, any(kind)) || kind == "number" && slices.Contains(types, any("integer"))
}

func operationOf(t *testing.T, doc object, name string) object {
	t.Helper()
	method, path, _ := strings.Cut(name, " ")
	return at(t, doc, "paths", path, strings.ToLower(method)).(object)
}

// requires reports whether the list of required members of a schema names one.
func requires(schema object, name string) bool {
	list, _ := schema["required"].([]any)
	return slices.Contains(list, any(name))
}

func TestDocumentHasTheRequestsOfTheSpecification(t *testing.T) {
	t.Parallel()
	doc := contract(t)
	for name, list := range specifiedRequests() {
		op := operationOf(t, doc, name)
		have, required := object{}, map[string]bool{}
		if body, has := op["requestBody"]; has {
			schema := resolve(t, doc, at(t, body, "content", "application/json", "schema"))
			have = at(t, schema, "properties").(object)
			for m := range have {
				required[m] = requires(schema, m)
			}
		} else {
			for _, p := range op["parameters"].([]any) {
				p := resolve(t, doc, p)
				have[p["name"].(string)] = p["schema"]
			}
		}
		for _, m := range members(list) {
			require.Contains(t, have, m.name, name)
			m.requireOf(t, doc, have[m.name], name)
			require.Equal(t, m.required, required[m.name], "%s: is %s required", name, m.name)
		}
	}
}

func TestDocumentHasTheAnswersOfTheSpecification(t *testing.T) {
	t.Parallel()
	doc := contract(t)
	for name, list := range specifiedAnswers() {
		words := strings.Fields(name)
		for status, response := range operationOf(t, doc, words[0]+" "+words[1])["responses"].(object) {
			if status[0] != '2' {
				continue
			}
			schema := resolve(t, doc, at(t, resolve(t, doc, response), "content", "application/json", "schema"))
			for _, inner := range append([]string{"data"}, words[2:]...) {
				schema = resolve(t, doc, at(t, schema, "properties", inner))
				if items, is := schema["items"]; is {
					schema = resolve(t, doc, items)
				}
				if others, is := schema["anyOf"].([]any); is {
					schema = resolve(t, doc, others[0]) // the specification knows the first
				}
			}
			for _, m := range members(list) {
				m.requireOf(t, doc, at(t, schema, "properties", m.name), name)
				if name == "POST /v1/policies conditions" && m.name == "field" {
					continue // a condition may ask about a window instead
				}
				require.True(t, requires(schema, m.name), "%s: some answer has no %s", name, m.name)
			}
		}
	}
}
