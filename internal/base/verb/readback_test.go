package verb

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func readBack(t *testing.T, text string) ReadBack {
	t.Helper()
	var r ReadBack
	require.NoError(t, json.Unmarshal([]byte(text), &r))
	return r
}

func TestReadBackTakesArgumentsOfTheCall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ args, call, want string }{
		"a value keeps its type": {`{"id":"${args.order.id}"}`, `{"order":{"id":9007199254740993}}`, `{"id":9007199254740993}`},
		"a list":                 {`{"ids":"${args.ids}","first":"${args.ids.0}"}`, `{"ids":["a","b"]}`, `{"first":"a","ids":["a","b"]}`},
		"within a text":          {`{"q":"order:${args.id} and paid:${args.paid} of ${args.to}"}`, `{"id":7,"paid":true,"to":"x"}`, `{"q":"order:7 and paid:true of x"}`},
		"escaped":                {`{"q":"$${args.id} ${args.id}"}`, `{"id":"a"}`, `{"q":"${args.id} a"}`},
		"deep and constant":      {`{"where":[{"id":"${ args.id }"},1.50,null,true]}`, `{"id":"a"}`, `{"where":[{"id":"a"},1.50,null,true]}`},
		"none":                   {``, `{"id":"a"}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := ReadBack{Verb: "get", Match: Match{Equals: map[string]json.RawMessage{"id": json.RawMessage(`1`)}}}
			if tc.args != "" {
				r.Args = json.RawMessage(tc.args)
			}
			got, err := r.Resolve(json.RawMessage(tc.call))
			require.NoError(t, err)
			require.Equal(t, tc.want, string(got.Args))
		})
	}
	r := readBack(t, `{"verb":"get","args":{"id":"${args.id}"},"match":{"equals":{"id":1}}}`)
	for _, call := range []string{`{}`, `{"id":null}`, `{"ID":"a"}`, `not JSON`} {
		_, err := r.Resolve(json.RawMessage(call))
		require.Error(t, err, call)
	}
	_, err := readBack(t, `{"verb":"get","args":{"id":"x${args.id}"},"match":{"equals":{"id":1}}}`).Resolve(json.RawMessage(`{"id":{}}`))
	require.ErrorContains(t, err, "args.id")
}

func TestReadBackMatchProvesTheEffect(t *testing.T) {
	t.Parallel()
	one := `{"equals":{"status":"paid","amount":"${args.amount}"}}`
	listed := `{"in":"data.items","equals":{"ref":"${args.ref}","amount":"${args.amount}"}}`
	for name, tc := range map[string]struct {
		match, result string
		want          bool
	}{
		"equal":                       {one, `{"status":"paid","amount":10.0,"more":1}`, true},
		"another value":               {one, `{"status":"open","amount":10}`, false},
		"another type":                {one, `{"status":"paid","amount":"10"}`, false},
		"absent":                      {one, `{"status":"paid"}`, false},
		"no object":                   {one, `[1]`, false},
		"no JSON":                     {one, `{`, false},
		"an element has all":          {listed, `{"data":{"items":[{"ref":"r"},{"ref":"r","amount":10}]}}`, true},
		"two elements have half each": {listed, `{"data":{"items":[{"ref":"r","amount":1},{"ref":"s","amount":10}]}}`, false},
		"no list":                     {listed, `{"data":{"items":{"ref":"r","amount":10}}}`, false},
		"a position":                  {`{"equals":{"data.0.id":"${args.ref}"}}`, `{"data":[{"id":"r"}]}`, true},
		"null is a value":             {`{"equals":{"id":"${args.ref}","gone":null}}`, `{"id":"r","gone":null}`, true},
		"null is not absent":          {`{"equals":{"id":"${args.ref}","gone":null}}`, `{"id":"r"}`, false},
		"a number beyond every bound": {one, `{"status":"paid","amount":1e999999999}`, false},
		"an object in any order":      {`{"equals":{"o":{"b":2,"a":"${args.ref}"}}}`, `{"o":{"a":"r","b":2.0}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := readBack(t, `{"verb":"get","match":`+tc.match+`}`).Resolve(json.RawMessage(`{"amount":10,"ref":"r"}`))
			require.NoError(t, err)
			require.Equal(t, tc.want, r.Match.Matches(json.RawMessage(tc.result)))
		})
	}
}

func TestReadBackFormIsChecked(t *testing.T) {
	t.Parallel()
	require.NoError(t, readBack(t, `{"verb":"get_order","args":{"id":"${args.id}"},"match":{"equals":{"status":"paid"}}}`).Check())
	require.NoError(t, readBack(t, `{"verb":"list","match":{"in":"data","equals":{"ref":"${args.ref}"}}}`).Check())
	for text, why := range map[string]string{
		`{"verb":"","match":{"equals":{"a":"${args.a}"}}}`:                                                             "verb",
		`{"verb":"shop:get","match":{"equals":{"a":"${args.a}"}}}`:                                                     "verb",
		`{"verb":"get","args":{"id":"${args.id}"},"match":{}}`:                                                         "match.equals",
		`{"verb":"get","args":["${args.id}"],"match":{"equals":{"a":1}}}`:                                              "not an object",
		`{"verb":"get","args":"${args.id}","match":{"equals":{"a":1}}}`:                                                "not an object",
		`{"verb":"get","args":{"id":1},"match":{"equals":{"a":1}}}`:                                                    "refers to no argument",
		`{"verb":"get","args":{"id":"${result.id}"},"match":{"equals":{"a":1}}}`:                                       "not a reference",
		`{"verb":"get","args":{"id":"${args.}"},"match":{"equals":{"a":1}}}`:                                           "not a reference",
		`{"verb":"get","args":{"id":"${args.id"},"match":{"equals":{"a":1}}}`:                                          "not a reference",
		`{"verb":"get","args":{"id":"${args.id}"},"match":{"equals":{"":1}}}`:                                          "empty path",
		`{"verb":"get","args":{"id":"${args.id}` + strings.Repeat("x", maxReadBack) + `"},"match":{"equals":{"a":1}}}`: "bytes",
	} {
		require.ErrorContains(t, readBack(t, text).Check(), why, text)
	}
}
