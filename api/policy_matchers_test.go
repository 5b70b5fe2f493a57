package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

type narrowed struct {
	ID           string
	Version      int
	VerbMatchers json.RawMessage `json:"verbMatchers"`
	Match        json.RawMessage
	Warnings     []map[string]string
}

// decisionOf evaluates a call without arguments.
func (s *site) decisionOf(t *testing.T, verb string) string {
	t.Helper()
	var e struct{ Decision string }
	s.do(t, "runtime", http.MethodPost, "/v1/runtime/governance/evaluate", fmt.Sprintf(`{"verb":%q,"args":{}}`, verb)).into(t, http.StatusOK, &e)
	return e.Decision
}

// A rule about the writes of a provider is about verbs that are imported after it, too.
func TestPolicyOnTheWritesOfAProviderIsAboutNewVerbs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var p narrowed
	s.do(t, "user", http.MethodPost, "/v1/policies", `{"name":"No writes","verbMatchers":[{"provider":"shop","operation_type":"WRITE"}],"action":{"type":"block"}}`).into(t, http.StatusCreated, &p)
	require.JSONEq(t, `[{"provider":"shop","operation_type":"write"}]`, string(p.VerbMatchers))
	require.JSONEq(t, `{"all":[],"except":[]}`, string(p.Match))
	s.importShop(t, "shop", "")
	s.importShop(t, "other", "")
	require.Equal(t, "block", s.decisionOf(t, "shop:create_order"))
	require.Equal(t, "allow", s.decisionOf(t, "shop:list_orders"))
	require.Equal(t, "allow", s.decisionOf(t, "other:create_order"))

	// The same, as an intersection of two matchers.
	s.do(t, "user", http.MethodPut, "/v1/policies/"+p.ID,
		`{"name":"No writes","match":{"all":[{"type":"provider","value":"shop"},{"type":"operation_type","value":"write"}]},"action":{"type":"block"}}`).into(t, http.StatusOK, &p)
	require.Equal(t, "block", s.decisionOf(t, "shop:create_order"))
	require.Equal(t, "allow", s.decisionOf(t, "shop:list_orders"))
	require.Equal(t, "allow", s.decisionOf(t, "other:create_order"))
}

// All of a provider except some is stored, judged, found, changed and restored as it was written.
func TestPolicyWithExceptions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	a := s.do(t, "user", http.MethodPost, "/v1/policies",
		`{"name":"Only orders","verbMatchers":[{"type":"provider","value":"shop"}],"match":{"except":[{"verb":"shop:list_*"},{"riskLevel":"HIGH","verb":"shop:delete_order"}]},"action":{"type":"block"}}`)
	var p narrowed
	a.into(t, http.StatusCreated, &p)
	const match = `{"all":[],"except":[{"verb":"shop:list_*"},{"verb":"shop:delete_order","risk_level":"high"}]}`
	require.JSONEq(t, match, string(p.Match))
	require.JSONEq(t, `[{"type":"provider","value":"shop"}]`, string(p.VerbMatchers))
	one := a.header.Get("Location")
	s.do(t, "user", http.MethodGet, one, "").into(t, http.StatusOK, &p)
	require.JSONEq(t, match, string(p.Match))

	decisions := func(want map[string]string) {
		t.Helper()
		for verb, decision := range want {
			require.Equal(t, decision, s.decisionOf(t, verb), verb)
			var about []narrowed
			s.do(t, "user", http.MethodGet, "/v1/policies?verb="+verb, "").into(t, http.StatusOK, &about)
			require.Equal(t, decision == "block", len(about) == 1, verb)
		}
	}
	decisions(map[string]string{"shop:list_orders": "allow", "shop:create_order": "block"})

	// A patch without match leaves it, one with match replaces it whole.
	s.do(t, "user", http.MethodPatch, one, `{"priority":3}`).into(t, http.StatusOK, &p)
	require.JSONEq(t, match, string(p.Match))
	s.do(t, "user", http.MethodPatch, one, `{"match":null}`).into(t, http.StatusOK, &p)
	require.JSONEq(t, match, string(p.Match))
	s.do(t, "user", http.MethodPatch, one, `{"match":{"except":[{"verb":""}]}}`).refused(t, http.StatusBadRequest, fault.CodeValidation)
	s.do(t, "user", http.MethodPatch, one, `{"match":{"all":[{"verb":"*_order"}]}}`).into(t, http.StatusOK, &p)
	require.JSONEq(t, `{"all":[{"verb":"*_order"}],"except":[]}`, string(p.Match))
	decisions(map[string]string{"shop:list_orders": "allow", "shop:delete_order": "block", "shop:create_order": "block"})
	s.do(t, "user", http.MethodPatch, one, `{"match":{}}`).into(t, http.StatusOK, &p)
	decisions(map[string]string{"shop:list_orders": "block"})
	s.do(t, "user", http.MethodPost, one+"/versions/1/restore", "").into(t, http.StatusOK, &p)
	require.JSONEq(t, match, string(p.Match))
	decisions(map[string]string{"shop:list_orders": "allow", "shop:create_order": "block"})
	s.do(t, "user", http.MethodPut, one, `{"name":"Only orders","verbMatchers":[{"type":"provider","value":"shop"}],"action":{"type":"block"}}`).into(t, http.StatusOK, &p)
	require.JSONEq(t, `{"all":[],"except":[]}`, string(p.Match), "what a PUT lacks takes its default")
}

func TestPolicyThatCanNeverMatchIsWarnedOf(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	s.importShop(t, "other", "")
	create := func(body string) (codes []string) {
		t.Helper()
		var p narrowed
		s.do(t, "user", http.MethodPost, "/v1/policies", `{"name":"p",`+body+`,"action":{"type":"block"}}`).into(t, http.StatusCreated, &p)
		for _, w := range p.Warnings {
			codes = append(codes, w["code"])
		}
		return codes
	}
	require.Equal(t, []string{"never_matches"}, create(`"match":{"all":[{"provider":"shop"},{"provider":"other"}]}`))
	require.Equal(t, []string{"never_matches"}, create(`"verbMatchers":[{"provider":"shop"}],"match":{"except":[{"verb":"shop:*"}]}`))
	require.Empty(t, create(`"verbMatchers":[{"provider":"shop"}],"match":{"except":[{"verb":"shop:list_*"}]}`))
	require.Equal(t, []string{"duplicate"}, create(`"verbMatchers":[{"type":"provider","value":"shop"}],"match":{"except":[{"verb":"shop:list_*"}]}`))
}
