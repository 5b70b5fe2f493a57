package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

type ruledBody struct {
	providerBody
	reportBody
}

// importRuled imports the shop with further members of the body.
func (s *site) importRuled(t *testing.T, as, members, document string, status int) (p ruledBody) {
	t.Helper()
	s.do(t, as, http.MethodPost, "/v1/providers", `{"slug":"shop",`+members+`"openapi":`+document+`}`).into(t, status, &p)
	return p
}

func (s *site) risk(t *testing.T, name string) string {
	t.Helper()
	var v struct {
		Risk string `json:"risk_level"`
	}
	s.do(t, "runtime", http.MethodGet, "/v1/runtime/actions/catalog/shop:"+name, "").into(t, http.StatusOK, &v)
	return v.Risk
}

// Rules stay with the provider: an import and a change without them apply them again.
func TestRulesStayUntilTheyAreReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const raised = `{"match":{"verb":"create_order"},"risk_level":"high"}`
	p := s.importRuled(t, "user", `"rules":[`+raised+`,{"match":{"tag":"none"},"hidden":true}],`, shopDocument, http.StatusCreated)
	require.Equal(t, []string{"/rules/1"}, p.Unused)
	require.Equal(t, "high", s.risk(t, "create_order"))

	more := strings.Replace(shopDocument, `"summary": "List orders"`, `"summary": "All"`, 1)
	p = s.importRuled(t, "user", "", more, http.StatusOK)
	require.Contains(t, string(p.Rules), `"create_order"`)
	require.Equal(t, []string{"list_orders"}, p.Verbs.Changed, "the import's own answer says what it changed")
	require.Equal(t, "high", s.risk(t, "create_order"))

	s.do(t, "user", http.MethodPatch, "/v1/providers/shop", `{"domain":"sales"}`).into(t, http.StatusOK, &p)
	require.Equal(t, "high", s.risk(t, "create_order"))
	s.do(t, "user", http.MethodPatch, "/v1/providers/shop", `{"rules":[{"match":{"verb":"create_order"},"risk_level":"low"}]}`).into(t, http.StatusOK, &p)
	require.Equal(t, "low", s.risk(t, "create_order"))
	require.Equal(t, "rules", p.Changes[0].What)
	require.Equal(t, "risk_level", p.Changes[1].What)
	var shown ruledBody
	s.do(t, "user", http.MethodGet, "/v1/providers/shop", "").into(t, http.StatusOK, &shown)
	require.JSONEq(t, `[{"match":{"verb":"create_order"},"risk_level":"low"}]`, string(shown.Rules))

	p = s.importRuled(t, "user", `"rules":[],`, more, http.StatusOK)
	require.Equal(t, "medium", s.risk(t, "create_order"))
	require.JSONEq(t, `[]`, string(p.Rules))
}

// What a key does with rules is compared by its result, and what stays for later imports too.
func TestRulesByAKeyOnlyRestrict(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importRuled(t, "user", `"rules":[{"match":{"verb":"create_order"},"risk_level":"low"}],`, shopDocument, http.StatusCreated)
	const kept = `{"match":{"verb":"create_order"},"risk_level":"low"}`
	for name, rules := range map[string]string{
		"removed":               `[]`,
		"replaced":              `[{"match":{"verb":"create_order"},"risk_level":"high"}]`,
		"lower":                 `[` + kept + `,{"match":{"verb":"delete_order"},"risk_level":"medium"}]`,
		"lower later":           `[` + kept + `,{"match":{"verb":"not_there_yet"},"risk_level":"low"}]`,
		"another name":          `[` + kept + `,{"match":{"verb":"list_orders"},"rename":"all_orders"}]`,
		"hidden, so removed":    `[` + kept + `,{"match":{"verb":"list_orders"},"hidden":true}]`,
		"another type":          `[` + kept + `,{"match":{"verb":"list_orders"},"operation_type":"write"}]`,
		"a domain for later on": `[` + kept + `,{"match":{"verb":"not_there_yet"},"domain":"other"}]`,
	} {
		a := s.do(t, "manager", http.MethodPost, "/v1/providers", `{"slug":"shop","rules":`+rules+`,"openapi":`+shopDocument+`}`)
		require.Equal(t, http.StatusForbidden, a.status, "%s: %s", name, a.body)
	}
	p := s.importRuled(t, "manager", `"rules":[`+kept+`,{"match":{"verb":"list_*"},"risk_level":"high"}],`, shopDocument, http.StatusOK)
	require.Equal(t, "high", s.risk(t, "list_orders"))
	require.Equal(t, 1, p.ChangesTotal)
	s.importRuled(t, "manager", "", shopDocument, http.StatusOK)
	require.Equal(t, "high", s.risk(t, "list_orders"), "its rules stay")
	require.Equal(t, "low", s.risk(t, "create_order"))
}

// A name raises the risk of new verbs only; one that is there keeps its risk until a rule accepts
// the suggestion.
func TestNamesRaiseNewVerbsOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cancel := strings.Replace(shopDocument, `"/orders/{id}": {`, `"/orders/cancel": {"post": {"operationId": "cancelOrders", "responses": {"200": {"description": "ok"}}}}, "/orders/{id}": {`, 1)
	p := s.importRuled(t, "user", "", cancel, http.StatusCreated)
	require.Equal(t, "high", s.risk(t, "cancel_orders"))
	require.Equal(t, "cancel_orders", p.Raised[0].Verb)
	require.Contains(t, p.Raised[0].Reason, `"cancel"`)
	p = s.importRuled(t, "user", "", cancel, http.StatusOK)
	require.Equal(t, "high", s.risk(t, "cancel_orders"))
	require.Empty(t, p.Suggestions)

	// As a release stored it that knew of no names.
	s.exec(t, `UPDATE verbs SET risk_level = 'medium', risk_by = '' WHERE name = $1`, "cancel_orders")
	p = s.importRuled(t, "user", "", cancel, http.StatusOK)
	require.Equal(t, "medium", s.risk(t, "cancel_orders"))
	require.Empty(t, p.Raised)
	require.Len(t, p.Suggestions, 1)
	p = s.importRuled(t, "user", `"rules":[`+string(p.Suggestions[0].Rule)+`],`, cancel, http.StatusOK)
	require.Equal(t, "high", s.risk(t, "cancel_orders"))
	require.Empty(t, p.Suggestions)
	s.importRuled(t, "user", `"rules":[],`, cancel, http.StatusOK)
	require.Equal(t, "high", s.risk(t, "cancel_orders"), "without the rule its name counts, as it was accepted")
}

func TestRulesWithFaultsStoreNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for rules, path := range map[string]string{
		`[{"match":{"verbb":"*"},"risk_level":"low"}]`: "/rules/0/match/verbb",
		`[{"match":{"verb":"*"},"risk":"low"}]`:        "/rules/0/risk",
		`[{"match":{"verb":"*"},"risk_level":"huge"}]`: "/rules/0/risk_level",
		`[{"match":{"verb":"*"}}]`:                     "/rules/0",
		`[{"risk_level":"low"}]`:                       "/rules/0/match",
		`{}`:                                           "/rules",
	} {
		a := s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":"shop","rules":`+rules+`,"openapi":`+shopDocument+`}`)
		a.refused(t, http.StatusBadRequest, fault.CodeValidation)
		require.Contains(t, a.body, `"`+path+`"`, rules)
	}
	s.do(t, "user", http.MethodGet, "/v1/providers/shop", "").refused(t, http.StatusNotFound, fault.CodeProviderNotFound)
}
