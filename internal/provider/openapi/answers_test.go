package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/provider/openapi"
)

// Bounds of the schemas of answers, as docs/use/catalog-and-providers.md has them.
const (
	mostOfAnswer  = 16 << 10
	mostOfAnswers = 8 << 20
)

// answering is a document of one operation with these responses.
func answering(version, responses, schemas string) []byte {
	return document(version, `{"/orders":{"post":{"responses":`+responses+`}}}`, `{"schemas":{`+schemas+`}}`)
}

func jsonAnswer(schema string) string {
	return `{"content":{"application/json":{"schema":` + schema + `}}}`
}

func TestImportKeepsTheSchemaOfTheSuccessfulAnswer(t *testing.T) {
	t.Parallel()
	const id, failed = `{"properties":{"id":{"type":"string"}},"type":"object"}`, `{"properties":{"error":{"type":"string"}},"type":"object"}`
	for name, c := range map[string]struct{ responses, schemas, want string }{
		"the lowest":              {`{"201":` + jsonAnswer(id) + `,"202":` + jsonAnswer(failed) + `,"400":` + jsonAnswer(failed) + `}`, ``, id},
		"a range":                 {`{"2XX":` + jsonAnswer(id) + `}`, ``, id},
		"default alone":           {`{"default":` + jsonAnswer(id) + `}`, ``, id},
		"default is of errors":    {`{"204":{"description":"done"},"default":` + jsonAnswer(failed) + `}`, ``, ``},
		"the one with JSON":       {`{"200":{"content":{"text/csv":{"schema":{"type":"string"}}}},"201":` + jsonAnswer(id) + `}`, ``, id},
		"JSON of a kind":          {`{"200":{"content":{"application/vnd.shop+json; v=1":{"schema":` + id + `},"text/html":{}}}}`, ``, id},
		"any type":                {`{"200":{"content":{"*/*":{"schema":` + id + `}}}}`, ``, id},
		"no schema":               {`{"200":{"content":{"application/json":{}}}}`, ``, ``},
		"a schema of anything":    {`{"200":` + jsonAnswer(`{}`) + `}`, ``, ``},
		"errors only":             {`{"400":` + jsonAnswer(failed) + `}`, ``, ``},
		"what only requests have": {`{"200":` + jsonAnswer(`{"type":"object","properties":{"id":{"type":"string","readOnly":true},"pin":{"type":"string","writeOnly":true}}}`) + `}`, ``, id},
		"references": {
			`{"200":` + jsonAnswer(`{"$ref":"#/components/schemas/O"}`) + `}`,
			`"O":{"type":"object","description":"long","properties":{"id":{"type":"string","maxLength":5},"next":{"$ref":"#/components/schemas/O"},"of":{"$ref":"#/components/schemas/C"}}},"C":{"type":"string","enum":[null,"a","b"]}`,
			`{"$ref":"#/$defs/0","$defs":{"0":{"properties":{"id":{"type":"string"},"next":{"$ref":"#/$defs/0"},"of":{"$ref":"#/$defs/1"}},"type":"object"},"1":{"examples":["a"],"type":"string"}}}`,
		},
		"a reference to nothing": {`{"200":` + jsonAnswer(`{"type":"object","properties":{"a":{"$ref":"#/components/schemas/None"}}}`) + `}`, ``, `{"properties":{"a":{"x-opaque":true}},"type":"object"}`},
		"null":                   {`{"200":` + jsonAnswer(`{"type":"object","properties":{"n":{"type":"integer","nullable":true,"minimum":3}}}`) + `}`, ``, `{"properties":{"n":{"minimum":3,"type":["integer","null"]}},"type":"object"}`},
		"members not listed":     {`{"200":` + jsonAnswer(`{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"string"}},"o":{"type":"object"},"l":{"type":"array"}}}`) + `}`, ``, `{"properties":{"l":{"type":"array","x-opaque":true},"m":{"type":"object","x-opaque":true},"o":{"type":"object","x-opaque":true}},"type":"object"}`},
		"combined":               {`{"200":` + jsonAnswer(`{"allOf":[{"$ref":"#/components/schemas/B"},{"description":"more"},{"properties":{"x":{"type":"boolean"}}}]}`) + `}`, `"B":` + id, `{"allOf":[{"$ref":"#/$defs/0"},{},{"properties":{"x":{"type":"boolean"}}}],"$defs":{"0":` + id + `}}`},
		"a base with subtypes":   {`{"200":` + jsonAnswer(`{"type":"object","properties":{"kind":{"type":"string"}},"discriminator":{"propertyName":"kind"}}`) + `}`, ``, `{"properties":{"kind":{"type":"string"}},"type":"object","x-opaque":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := one(t, answering("3.0.3", c.responses, c.schemas))
			require.Equal(t, c.want, string(v.Answer))
			require.NotContains(t, string(v.Schema)+string(v.Plan), "$defs", "the call is as it would be without it")
		})
	}
	v := one(t, answering("3.1.0", `{"200":`+jsonAnswer(`{"$ref":"#/components/schemas/B","properties":{"x":{"const":1}}}`)+`}`, `"B":`+id))
	require.JSONEq(t, `{"$ref":"#/$defs/0","properties":{"x":{"const":1}},"$defs":{"0":`+id+`}}`, string(v.Answer))
}

func TestImportBoundsTheSchemasOfAnswers(t *testing.T) {
	t.Parallel()
	wide := func(members int) string {
		return `{"type":"object","properties":{` + listed(members, `"a_member_of_the_answer_%d":{"type":"string"}`) + `}}`
	}
	im := load(t, answering("3.0.3", `{"200":`+jsonAnswer(wide(1000))+`}`, ``))
	require.Nil(t, im.Verbs[0].Answer, "it is too large by itself")
	require.Empty(t, im.Degraded, "the verb has lost nothing by that")

	// All parts refer to all: the near ones are kept.
	const parts = 60
	ring := make([]string, parts)
	for i := range ring {
		ring[i] = fmt.Sprintf(`"S%d":{"type":"object","properties":{"id%d":{"type":"string"},%s}}`, i, i, listed(parts, `"to%d":{"$ref":"#/components/schemas/S%d"}`))
	}
	v := one(t, answering("3.0.3", `{"200":`+jsonAnswer(`{"$ref":"#/components/schemas/S7"}`)+`}`, strings.Join(ring, ",")))
	require.LessOrEqual(t, len(v.Answer), mostOfAnswer)
	require.Contains(t, string(v.Answer), `"id7":{"type":"string"}`)
	require.Contains(t, string(v.Answer), `{"x-opaque":true}`)

	// All answers of a document are bounded together, and those before the bound are kept.
	im = load(t, document("3.0.3", repeated(900, `{"responses":{"200":`+jsonAnswer(`{"$ref":"#/components/schemas/W"}`)+`}}`), `{"schemas":{"W":`+wide(250)+`}}`))
	kept, bytes := 0, 0
	for _, v := range im.Verbs {
		if v.Answer != nil {
			kept, bytes = kept+1, bytes+len(v.Answer)
		}
	}
	require.Len(t, im.Verbs, 900)
	require.Less(t, kept, len(im.Verbs))
	require.LessOrEqual(t, bytes, mostOfAnswers)
	require.Greater(t, bytes, mostOfAnswers/2)
}

// The work of answers is counted apart: no document is refused for them.
func TestImportOfAnswersTakesNoWorkOfTheRest(t *testing.T) {
	t.Parallel()
	with := func(schema string) openapi.ImportInput {
		doc := document("3.0.3", repeated(100, `{"responses":{"200":`+jsonAnswer(schema)+`}}`), `{"schemas":{"B":{"properties":{`+listed(300, `"p%d":{"$ref":"#/components/schemas/B"}`)+`}}}}`)
		return openapi.ImportInput{Slug: "shop", Document: doc}
	}
	_, err := openapi.ImportWithin(t.Context(), with(`{"$ref":"#/components/schemas/B"}`), 20_000)
	require.NoError(t, err)
}
