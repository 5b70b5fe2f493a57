package correction

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMatchIsAnIntersection(t *testing.T) {
	t.Parallel()
	o := Operation{Verb: "cancel_order", Method: "POST", Path: "/v1/orders/{id}/cancel", Tags: []string{"Orders", "Risky"}}
	for text, want := range map[string]bool{
		`{"verb":"cancel_order"}`: true, `{"verb":"*cancel*"}`: true, `{"verb":"cancel"}`: false, `{"verb":"*"}`: true,
		`{"method":"post"}`: true, `{"method":"GET"}`: false,
		`{"path":"/v1/orders/*"}`: true, `{"path":"/orders/*"}`: false, `{"path":"*/{id}/cancel"}`: true, `{"path":"/V1/*"}`: false,
		`{"tag":"Risky"}`: true, `{"tag":"risky"}`: false,
		`{"verb":"cancel*","method":"POST","path":"*/cancel","tag":"Orders"}`: true,
		`{"verb":"cancel*","method":"POST","path":"*/cancel","tag":"Other"}`:  false,
		`{"verb":"cancel*","method":"PUT"}`:                                   false,
	} {
		var m Match
		require.NoError(t, json.Unmarshal([]byte(text), &m))
		require.Equal(t, want, m.Matches(o), text)
	}
}

func TestCheckNamesTheRule(t *testing.T) {
	t.Parallel()
	risk, verb, empty := "high", "*", ""
	ok := Rule{Match: Match{Verb: &verb}, Risk: &risk}
	for name, tt := range map[string]struct {
		rules []Rule
		want  []string
	}{
		"none":         {nil, nil},
		"good":         {[]Rule{ok}, nil},
		"no match":     {[]Rule{ok, {Risk: &risk}}, []string{"/1/match required"}},
		"says nothing": {[]Rule{{Match: Match{Verb: &verb}}}, []string{"/0 required"}},
		"empty tag":    {[]Rule{{Match: Match{Tag: &empty}, Risk: &risk}}, []string{"/0/match/tag length"}},
		"too many":     {make([]Rule, MaxRules+1), []string{" max_items"}},
		"too large":    {[]Rule{{Match: Match{Verb: &verb}, ReadBack: json.RawMessage(`"` + strings.Repeat("x", MaxBytes) + `"`)}}, []string{" size"}},
	} {
		var got []string
		for _, f := range Check(tt.rules) {
			got = append(got, f.Path+" "+f.Rule)
		}
		require.Equal(t, tt.want, got, name)
	}
}

func TestNamesSayWhatAnOperationDoes(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/orders/{id}/cancel": "cancel", "/orders/{id}": "orders", "/{name}:cancel": "cancel", "/v1/{name}": "v1", "/{a}/{b}": "",
		"/refunds.json": "refunds", "/a/b?x=y": "b", "/a/": "a", "": "",
	} {
		require.Equal(t, want, LastSegment(path), path)
	}
	for _, tt := range []struct {
		name, segment string
		severe, reads bool
	}{
		{"cancel_order", "orders", true, false},
		{"post_orders_id_cancel", "cancel", true, false},
		{"create_refund", "refunds", true, false},
		{"transfers_create", "x", true, false},
		{"order_cancel_reasons", "reasons", false, false},
		{"run", "bulk_delete", true, false},
		{"restore", "cancelled", false, false},
		{"cancellable", "x", false, false},
		{"search_orders", "x", false, true},
		{"post_x", "search", false, true},
		{"create_order", "orders", false, false},
		{"getaway", "x", false, false},
	} {
		require.Equal(t, tt.severe, Severe(tt.name, tt.segment) != "", tt.name)
		require.Equal(t, tt.reads, Reads(tt.name, tt.segment) != "", tt.name)
	}
}

func TestNamesOfSevereWordsAreSevere(t *testing.T) {
	t.Parallel()
	for _, word := range []string{
		"delete", "deletes", "deletion", "deletions",
		"cancel", "cancels", "cancellation", "cancellations", "cancelation", "cancelations",
		"void", "voids", "refund", "refunds", "revoke", "revokes", "revocation", "revocations", "transfer", "transfers",
	} {
		name := fmt.Sprintf("its name begins with %q", word)
		path := fmt.Sprintf("its path ends in %q", word)
		require.Equal(t, name, Severe(word, "orders"))
		require.Equal(t, name, Severe(word+"_order", "orders"))
		require.Equal(t, path, Severe("run", word))
		require.Equal(t, path, Severe("run", word+"_order"))
		require.Equal(t, path, Severe("run", "order_"+word))

		require.Empty(t, Severe("un"+word, "orders"), "part of a word")
		require.Empty(t, Severe(word+"x", "x"+word), "part of a word")
		require.Empty(t, Severe("order_"+word, "order_"+word+"_reasons"), "in the middle")
		require.Empty(t, Reads(word+"_order", word), word)
	}
	for _, participle := range []string{"deleted", "cancelled", "canceled", "voided", "refunded", "revoked", "transferred"} {
		require.Empty(t, Severe(participle+"_orders", participle), "a list of what it has happened to")
	}
}

func TestNamesOfReadingWordsSuggestARead(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"get", "list", "search", "query", "find", "lookup", "count", "describe", "read", "fetch", "retrieve"} {
		require.Equal(t, fmt.Sprintf("its name begins with %q", word), Reads(word+"_orders", "orders"))
		require.Equal(t, fmt.Sprintf("its path ends in %q", word), Reads("post", "orders_"+word))
		require.Empty(t, Reads(word+"x", "x"+word), "part of a word")
		require.Empty(t, Severe(word+"_orders", word), word)
	}
}

func TestOnlyRestricts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"risk_level":"HIGH"}`: true, `{"hidden":true}`: true, `{"risk_level":"high","hidden":true}`: true,
		`{"risk_level":"medium"}`: false, `{"hidden":false}`: false, `{"risk_level":"high","domain":"x"}`: false, `{"operation_type":"write"}`: false, `{}`: false,
	} {
		var r Rule
		require.NoError(t, json.Unmarshal([]byte(text), &r))
		require.Equal(t, want, r.OnlyRestricts(), text)
	}
}
