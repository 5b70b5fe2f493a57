package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/httpplan"
)

// An import says of each verb which of its arguments are others, and where its calls go now.
func TestImportTellsWhatOfAVerbIsDifferent(t *testing.T) {
	t.Parallel()
	pay := func(schema string) verb.Definition {
		d := planned(httpplan.Plan{Body: &httpplan.Body{Type: "x/y", Kind: "json"}})
		d.Schema = json.RawMessage(schema)
		return d
	}
	has := func(verbs ...verb.Definition) known {
		was := known{exists: true, baseURL: shopURL, domain: "shop"}
		for _, d := range verbs {
			k := knew(d, false)
			k.schema, k.places = d.Schema, placesOf(d.Plan, argsOf(d.Schema))
			was.verbs = append(was.verbs, k)
		}
		return was
	}
	told := func(was known, d verb.Definition) (list []string) {
		for _, c := range compare(was, Provider{BaseURL: shopURL, Domain: "shop"}, []verb.Definition{d}).found {
			list = append(list, c.message(would))
		}
		return list
	}
	before := pay(`{"type":"object","properties":{"to":{"type":"object","properties":{"zip":{"type":"string"},"name":{"type":"string"}}},"note":{"type":"string"}}}`)
	now := pay(`{"type":"object","properties":{"to":{"type":"object","properties":{"zip":{"type":"integer"},"city":{"type":"string"}},"required":["city"]},"note":{"type":"string"},"tag":{}},"required":["note"]}`)
	require.Equal(t, []string{
		"POST /pay (pay): the argument /note is optional string and would be required string.",
		"POST /pay (pay): the argument /to/city would be new (required string).",
		"POST /pay (pay): the argument /to/name (string) would be removed.",
		"POST /pay (pay): the argument /to/zip is string and would be integer.",
		"POST /pay (pay): the argument /tag would be new (optional any).",
	}, told(has(before), now))
	require.Equal(t, []string{"POST /pay (pay): the argument /note would no longer be required."},
		told(has(pay(`{"type":"object","properties":{"note":{}},"required":["note"]}`)), pay(`{"type":"object","properties":{"note":{}}}`)))

	var many []string
	for i := range maxArgumentsTold + 3 {
		many = append(many, fmt.Sprintf(`"m%02d":{}`, i))
	}
	list := told(has(pay(`{"type":"object"}`)), pay(`{"type":"object","properties":{`+strings.Join(many, ",")+`}}`))
	require.Len(t, list, maxArgumentsTold+1)
	require.Equal(t, "POST /pay (pay): the schema has 3 more changes of arguments.", list[maxArgumentsTold])
	require.Contains(t, told(has(pay(`{`)), pay(`{"type":"object"}`)), "POST /pay (pay): the schema has more than can be compared.")

	moved := defined("up", "POST https://up.shop.test|/up")
	require.Contains(t, told(has(moved, defined("other", "POST https://eu.shop.test|/x")), defined("up", "POST https://eu.shop.test|/up")),
		"POST https://eu.shop.test/up (up): server is https://up.shop.test; the import changes it.")
}
