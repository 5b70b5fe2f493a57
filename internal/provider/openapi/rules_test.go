package openapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/correction"
	"agentruntime/internal/provider/openapi"
)

// ruled imports a shop with rules.
func ruled(t *testing.T, rules string) (*openapi.Imported, error) {
	t.Helper()
	var list []correction.Rule
	require.NoError(t, json.Unmarshal([]byte(rules), &list))
	return openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Rules: list, Document: document("3.0.3", `{
		"/orders":{"post":{"operationId":"createOrder","tags":["Orders"],"x-agent-runtime":{"risk_level":"low","timeout":5},
				"parameters":[{"name":"X-Once","in":"header","schema":{"type":"string"}}]},
			"get":{"operationId":"listOrders","tags":["Orders"],"parameters":[{"name":"ref","in":"query","schema":{}}]}},
		"/orders/search":{"post":{"operationId":"searchOrders","tags":["Search","Orders"]}},
		"/orders/{id}/cancel":{"parameters":[{"name":"id","in":"path","schema":{}}],"post":{"operationId":"cancelOrder"}},
		"/orders/{id}":{"parameters":[{"name":"id","in":"path","schema":{}}],"delete":{"operationId":"deleteOrder"},"post":{"operationId":"updateOrder"}}}`, "")})
}

func TestRulesCorrectOperations(t *testing.T) {
	t.Parallel()
	im, err := ruled(t, `[
		{"match":{"tag":"Orders"},"domain":"Sales desk"},
		{"match":{"verb":"search_*","method":"post"},"operation_type":"read","risk_level":"LOW"},
		{"match":{"verb":"create_order"},"risk_level":"high","idempotency":"header:X-Once","timeout":"45s",
			"read_back":{"verb":"listOrders","args":{"ref":"${args.x}"},"match":{"equals":{"ref":"${args.x}"}}}},
		{"match":{"path":"/orders/{id}","method":"POST"},"rename":"change_order"},
		{"match":{"method":"DELETE"},"hidden":true},
		{"match":{"verb":"nothing*"},"risk_level":"high"},
		{"match":{"verb":"create_order"},"risk_level":"medium"}]`)
	require.NoError(t, err)
	require.Equal(t, []string{"/rules/5"}, im.Unused)
	require.Equal(t, 1, im.Hidden)
	create, search := named(im, "create_order"), named(im, "search_orders")
	require.Equal(t, verb.RiskMedium, create.Risk, "the later rule counts, and beats the document")
	require.Equal(t, verb.ByRule, create.RiskBy)
	require.Equal(t, verb.Idempotency("header:X-Once"), create.Idempotency)
	require.Equal(t, "sales_desk", create.Domain)
	require.NotContains(t, string(create.Schema), "X-Once", "the service fills the header")
	head, err := verb.HeadOf(create.Plan)
	require.NoError(t, err)
	require.Equal(t, 45*time.Second, head.Timeout(0))
	require.Nil(t, head.ReadBack)
	require.Contains(t, im.Degraded[0].Reason, `/rules/2/read_back is ignored: the operation has no argument "x"`)
	require.Equal(t, verb.Read, search.Operation)
	require.Equal(t, verb.RiskLow, search.Risk)
	require.Equal(t, verb.IdempotencyIntrinsic, search.Idempotency)
	require.Empty(t, im.Reads, "a rule says what it is")
	require.Equal(t, verb.RiskMedium, named(im, "change_order").Risk)
	for _, v := range im.Verbs {
		require.NotContains(t, []string{"update_order", "delete_order"}, v.Name)
	}
}

// A read-back follows a renamed read.
func TestRulesRenameTheReadOfAReadBack(t *testing.T) {
	t.Parallel()
	im, err := ruled(t, `[{"match":{"verb":"list_orders"},"rename":"all_orders"},
		{"match":{"verb":"cancel_order"},"read_back":{"verb":"listOrders","args":{"ref":"${args.id}"},"match":{"equals":{"id":"${args.id}"}}}}]`)
	require.NoError(t, err)
	head, err := verb.HeadOf(named(im, "cancel_order").Plan)
	require.NoError(t, err)
	require.Equal(t, "all_orders", head.ReadBack.Verb)
}

func TestNamesRaiseRisksAndSuggestReads(t *testing.T) {
	t.Parallel()
	im, err := ruled(t, `[]`)
	require.NoError(t, err)
	cancel := named(im, "cancel_order")
	require.Equal(t, verb.RiskHigh, cancel.Risk)
	require.Equal(t, verb.ByName, cancel.RiskBy)
	require.Contains(t, cancel.RiskWhy, `"cancel"`)
	require.Equal(t, verb.RiskMedium, named(im, "search_orders").Risk, "a suggestion changes nothing")
	require.Len(t, im.Reads, 1)
	raw, err := json.Marshal(im.Reads[0].Rule)
	require.NoError(t, err)
	require.JSONEq(t, `{"match":{"verb":"search_orders"},"operation_type":"read","risk_level":"low"}`, string(raw))
	im, err = ruled(t, `[`+string(raw)+`,{"match":{"verb":"cancel_order"},"risk_level":"medium"}]`)
	require.NoError(t, err)
	require.Equal(t, verb.Read, named(im, "search_orders").Operation)
	require.Equal(t, verb.RiskMedium, named(im, "cancel_order").Risk, "a rule beats the name")
}

func TestRulesThatCannotCountAreRefused(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string]string{
		`[{"match":{"verb":"*"},"risk_level":"severe"}]`:                                             "/rules/0/risk_level",
		`[{"match":{"verb":"*"},"risk_level":"low"},{"match":{"verb":"*"},"operation_type":"none"}]`: "/rules/1/operation_type",
		`[{"match":{"verb":"*"},"domain":"!"}]`:                                                      "/rules/0/domain",
		`[{"match":{"verb":"*"},"idempotency":"header:Authorization"}]`:                              "/rules/0/idempotency",
		`[{"match":{"verb":"*"},"timeout":61}]`:                                                      "/rules/0/timeout",
		`[{"match":{"verb":"*"},"read_back":{"verb":"x"}}]`:                                          "/rules/0/read_back",
		`[{"match":{"verb":"*order"},"rename":"one"}]`:                                               "/rules/0/match",
		`[{"match":{"verb":"create_order"},"rename":"Create"}]`:                                      "/rules/0/rename",
		`[{"match":{"verb":"create_order"},"rename":"` + strings.Repeat("x", 60) + `"}]`:             "/rules/0/rename",
		`[{"match":{"verb":"create_order"},"rename":"list_orders"}]`:                                 "/rules/0/rename",
		`[{"match":{},"risk_level":"low"}]`:                                                          "/rules/0/match",
	} {
		_, err := ruled(t, rules)
		require.True(t, fault.HasCode(err, fault.CodeValidation), "%s: %v", rules, err)
		require.Equal(t, want, fault.As(err).Details[0].Path, rules)
	}
}

// Rules are work: the most of them over the most operations end with a fault, not with a busy core.
func TestRulesCountAsWork(t *testing.T) {
	t.Parallel()
	rules := make([]correction.Rule, correction.MaxRules)
	pattern, risk := strings.Repeat("*a", 60), "high"
	for i := range rules {
		rules[i] = correction.Rule{Match: correction.Match{Path: &pattern}, Risk: &risk}
	}
	var paths strings.Builder
	for i := range 200 {
		fmt.Fprintf(&paths, `"/%s%d":{"get":{}},`, strings.Repeat("a", 2000), i)
	}
	in := openapi.ImportInput{Slug: "shop", Rules: rules, Document: document("3.0.3", `{`+strings.TrimSuffix(paths.String(), ",")+`}`, "")}
	_, err := openapi.ImportWithin(t.Context(), in, 10_000_000)
	require.ErrorContains(t, err, "too much work")
	in.Rules = nil
	_, err = openapi.ImportWithin(t.Context(), in, 10_000_000)
	require.NoError(t, err)
}

func TestNormalizedFormComesFromRulesAndTheDocument(t *testing.T) {
	t.Parallel()
	program := func(im *openapi.Imported, name string) string {
		head, err := verb.HeadOf(named(im, name).Plan)
		require.NoError(t, err)
		return head.Normalized
	}
	im, err := ruled(t, `[{"match":{"tag":"Orders"},"normalized":"{id}"},{"match":{"verb":"list_orders"},"normalized":"{orders: .data}"}]`)
	require.NoError(t, err)
	require.Equal(t, "{id}", program(im, "create_order"))
	require.Equal(t, "{orders: .data}", program(im, "list_orders"), "the later rule counts")
	require.Empty(t, program(im, "delete_order"))

	im = shop(t, `{"normalized":"{id, total: .amount}"}`)
	require.Equal(t, "{id, total: .amount}", program(im, "create_order"))
	for text, why := range map[string]string{`"now"`: "now is not allowed", `".a |"`: "At byte 4", `7`: "is empty", `""`: "is empty"} {
		im = shop(t, `{"normalized":`+text+`}`)
		require.Empty(t, program(im, "create_order"), text)
		require.Contains(t, im.Degraded[0].Reason, "x-agent-runtime.normalized is ignored: ", text)
		require.Contains(t, im.Degraded[0].Reason, why, text)
	}

	im = shop(t, `{"error_when":".ok == false"}`)
	head, err := verb.HeadOf(named(im, "create_order").Plan)
	require.NoError(t, err)
	require.Equal(t, ".ok == false", head.ErrorWhen)
	im = shop(t, `{"error_when":"env"}`)
	require.Contains(t, im.Degraded[0].Reason, "x-agent-runtime.error_when is ignored: ")

	_, err = ruled(t, `[{"match":{"verb":"*"},"normalized":"{id}"},{"match":{"verb":"*"},"normalized":"env"},{"match":{"verb":"*"},"normalized":"`+strings.Repeat(" ", 4096)+`."},{"match":{"verb":"*"},"normalized":"{id} ]"}]`)
	f := fault.As(err)
	require.NotNil(t, f)
	require.Equal(t, fault.CodeValidation, f.Code)
	var places []string
	for _, d := range f.Details {
		places = append(places, d.Path)
	}
	require.Equal(t, []string{"/rules/1/normalized", "/rules/2/normalized", "/rules/3/normalized"}, places)
	require.Contains(t, f.Details[2].Message, "At byte 5")
}

func TestUnusedRuleNamesVerbsThatItMayMean(t *testing.T) {
	t.Parallel()
	im, err := ruled(t, `[
		{"match":{"verb":"create_orders"},"risk_level":"high"},
		{"match":{"verb":"create_orders*"},"risk_level":"high"},
		{"match":{"verb":"create_order","method":"GET"},"risk_level":"high"},
		{"match":{"verb":"pay"},"hidden":true},
		{"match":{"path":"/none"},"hidden":true}]`)
	require.NoError(t, err)
	require.Equal(t, []string{"/rules/0", "/rules/1", "/rules/2", "/rules/3", "/rules/4"}, im.Unused)
	require.Equal(t, []correction.Near{{Path: "/rules/0", Names: []string{"create_order", "update_order"}}}, im.UnusedNear)
}
