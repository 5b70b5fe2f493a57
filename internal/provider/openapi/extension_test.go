package openapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/openapi"
)

// shop is a document whose POST has the extension, and two reads.
func shop(t *testing.T, extension string) *openapi.Imported {
	t.Helper()
	return load(t, document("3.0.3", `{
		"/orders":{"post":{"operationId":"createOrder","x-agent-runtime":`+extension+`,"requestBody":{"content":{"application/json":{"schema":
			{"properties":{"ref":{"type":"string"},"item":{"type":"object"}}}}}}},
			"get":{"operationId":"listOrders","parameters":[{"name":"ref","in":"query","schema":{}}]}},
		"/orders/{id}":{"get":{"operationId":"getOrder"},"delete":{"operationId":"deleteOrder"}}}`, ""))
}

func TestTimeoutOfAVerbComesFromItsDocument(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		`5`: 5 * time.Second, `1.5`: 1500 * time.Millisecond, `"45s"`: 45 * time.Second, `"1m"`: time.Minute, `60`: time.Minute, `1`: time.Second,
		`0`: 0, `61`: 0, `"2m"`: 0, `"500ms"`: 0, `-5`: 0, `true`: 0, `"5"`: 0, `1e300`: 0, `null`: 0,
	} {
		im := shop(t, `{"timeout":`+text+`}`)
		head, err := verb.HeadOf(named(im, "create_order").Plan)
		require.NoError(t, err)
		if want == 0 {
			require.Zero(t, head.TimeoutMS, text)
			require.Contains(t, im.Degraded[0].Reason, "x-agent-runtime.timeout", text)
			continue
		}
		require.Equal(t, want, head.Timeout(0), text)
		for _, d := range im.Degraded {
			require.NotContains(t, d.Reason, "timeout", text)
		}
	}
}

func TestReadBackOfAVerbComesFromItsDocument(t *testing.T) {
	t.Parallel()
	im := shop(t, `{"read_back":{"verb":"listOrders","args":{"ref":"${args.ref}"},"match":{"in":"data","equals":{"ref":"${args.ref}","item":"${args.item}"}}}}`)
	head, err := verb.HeadOf(named(im, "create_order").Plan)
	require.NoError(t, err)
	require.Equal(t, "list_orders", head.ReadBack.Verb)
	got, err := head.ReadBack.Resolve([]byte(`{"ref":"r1","item":{"sku":1}}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"ref":"r1"}`, string(got.Args))
	require.True(t, got.Match.Matches([]byte(`{"data":[{"ref":"r1","item":{"sku":1.0}}]}`)))
	for _, name := range []string{"list_orders", "get_order", "delete_order"} {
		head, err := verb.HeadOf(named(im, name).Plan)
		require.NoError(t, err)
		require.Nil(t, head.ReadBack)
	}
}

func TestReadBackThatCannotBeUsedIsReported(t *testing.T) {
	t.Parallel()
	const match = `"match":{"equals":{"ref":"${args.ref}"}}`
	for declared, why := range map[string]string{
		`{"verb":"none","args":{},` + match + `}`:                                   "no read of this provider",
		`{"verb":"deleteOrder","args":{"id":"${args.ref}"},` + match + `}`:          "no read of this provider",
		`{"verb":"createOrder","args":{"ref":"${args.ref}"},` + match + `}`:         "no read of this provider",
		`{"verb":"getOrder","args":{},` + match + `}`:                               `needs the argument "id"`,
		`{"verb":"listOrders","args":{"x":"${args.ref}"},` + match + `}`:            `no argument "x"`,
		`{"verb":"listOrders","args":{"ref":"${args.order}"},` + match + `}`:        `no argument "order"`,
		`{"verb":"listOrders","args":{"ref":"1"},"match":{"equals":{"ref":"1"}}}`:   "refers to no argument",
		`{"verb":"listOrders","args":{"ref":"${args.ref}"}}`:                        "match.equals",
		`{"verb":"listOrders","args":{"ref":"${args.ref}"},"when":1,` + match + `}`: "verb, args and match",
		`{"verb":"listOrders","arg":{"ref":"${args.ref}"},` + match + `}`:           "verb, args and match",
		`"listOrders"`: "verb, args and match",
	} {
		im := shop(t, `{"read_back":`+declared+`}`)
		head, err := verb.HeadOf(named(im, "create_order").Plan)
		require.NoError(t, err)
		require.Nil(t, head.ReadBack, declared)
		var reasons []string
		for _, d := range im.Degraded {
			if d.Operation == "POST /orders" {
				reasons = append(reasons, d.Reason)
			}
		}
		require.Contains(t, strings.Join(reasons, " "), why, declared)
	}
}

// named returns the verb of the name.
func named(im *openapi.Imported, name string) verb.Definition {
	for _, v := range im.Verbs {
		if v.Name == name {
			return v
		}
	}
	return verb.Definition{}
}
