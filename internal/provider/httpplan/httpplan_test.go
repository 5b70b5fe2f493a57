package httpplan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/httpplan"
)

// The catalog has plans in this form. A test that fails here means that verbs which were
// imported before can no longer be called.
func TestStoredPlanKeepsItsMembers(t *testing.T) {
	t.Parallel()
	plan := httpplan.Plan{
		Method: "POST", Path: "/orders/{id}", Query: "a=1", BaseURL: "https://api.shop.example", Accept: "application/json",
		Params: []httpplan.Param{{Arg: "id", Name: "ID", In: httpplan.InPath, Style: httpplan.StyleSimple, Explode: true, Reserved: true}},
		Body: &httpplan.Body{
			Type: "multipart/form-data", Kind: httpplan.BodyMultipart, Arg: "body", Required: true,
			Fields: map[string]httpplan.Encoding{"f": {Style: httpplan.StyleForm, Explode: true, Reserved: true, File: true, Type: "text/csv"}},
		},
		Headers: []string{"X-Rate"},
		PlanHead: verb.PlanHead{TimeoutMS: 1500, ReadBack: &verb.ReadBack{
			Verb: "get", Args: json.RawMessage(`{"id":"${args.id}"}`),
			Match: verb.Match{In: "data", Equals: map[string]json.RawMessage{"paid": json.RawMessage(`true`)}},
		}},
	}
	const want = `{"method":"POST","path":"/orders/{id}","query":"a=1","base_url":"https://api.shop.example",` +
		`"params":[{"arg":"id","name":"ID","in":"path","style":"simple","explode":true,"reserved":true}],` +
		`"body":{"type":"multipart/form-data","kind":"multipart","arg":"body","required":true,` +
		`"fields":{"f":{"style":"form","explode":true,"reserved":true,"file":true,"type":"text/csv"}}},` +
		`"accept":"application/json","headers":["X-Rate"],"timeout_ms":1500,` +
		`"read_back":{"verb":"get","args":{"id":"${args.id}"},"match":{"in":"data","equals":{"paid":true}}}}`
	raw, err := json.Marshal(plan)
	require.NoError(t, err)
	require.JSONEq(t, want, string(raw))
	back, err := httpplan.Parse(raw)
	require.NoError(t, err)
	require.Equal(t, plan, back)

	raw, err = json.Marshal(httpplan.Plan{Method: "GET", Path: "/"})
	require.NoError(t, err)
	require.JSONEq(t, `{"method":"GET","path":"/"}`, string(raw), "what a plan does not say is not stored")
}

func TestPlanWithoutMethodOrPathIsRefused(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, `[]`, `{}`, `{"method":"GET"}`, `{"path":"/a"}`} {
		_, err := httpplan.Parse(json.RawMessage(raw))
		require.Error(t, err, "%q", raw)
	}
	_, err := httpplan.Parse(json.RawMessage(`{"method":"GET","path":"/a"}`))
	require.NoError(t, err)
}

func TestWireNameIsTheArgumentsWhereThereIsNoOther(t *testing.T) {
	t.Parallel()
	require.Equal(t, "id", httpplan.Param{Arg: "id"}.Wire())
	require.Equal(t, "X-Id", httpplan.Param{Arg: "id", Name: "X-Id"}.Wire())
}
