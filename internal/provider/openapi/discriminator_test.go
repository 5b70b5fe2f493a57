package openapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/provider/openapi"
)

const pets = `{"schemas":{
	"Pet":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"},"name":{"type":"string"}},
		"discriminator":{"propertyName":"kind","mapping":{"cat":"#/components/schemas/Cat","hound":"Dog"}}},
	"Cat":{"allOf":[{"$ref":"#/components/schemas/Pet"},{"type":"object","required":["lives"],"properties":{"lives":{"type":"integer"},"size":{"type":"integer"}}}]},
	"Dog":{"allOf":[{"$ref":"#/components/schemas/Pet"},{"type":"object","properties":{"bark":{"type":"string"},"size":{"type":"string"},"friend":{"$ref":"#/components/schemas/Pet"}}}]},
	"Parrot":{"allOf":[{"$ref":"#/components/schemas/Pet"},{"properties":{"words":{"type":"array","items":{"type":"string"}}}}]},
	"Owner":{"type":"object","properties":{"pet":{"$ref":"#/components/schemas/Pet"},"described":{"description":"d","allOf":[{"$ref":"#/components/schemas/Pet"}]},"pets":{"type":"array","items":{"$ref":"#/components/schemas/Pet"}}}},
	"A":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"},"bark":{"type":"string"}}},
	"B":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"},"bark":{"type":"string"}}},
	"Free":{"type":"object","properties":{"kind":{"type":"string"},"bark":{"type":"string"}}},
	"Red":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string","enum":["red"]},"r":{"type":"integer"}}},
	"Blue":{"type":"object","required":["kind"],"properties":{"kind":{"const":"blue"},"b":{"type":"integer"}}},
	"Shape":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"}},"discriminator":{"propertyName":"kind"},
		"oneOf":[{"$ref":"#/components/schemas/Round"},{"$ref":"#/components/schemas/Square"}]},
	"Round":{"allOf":[{"$ref":"#/components/schemas/Shape"},{"properties":{"radius":{"type":"integer"}}}]},
	"Square":{"allOf":[{"$ref":"#/components/schemas/Shape"},{"properties":{"side":{"type":"integer"}}}]},
	"Status":{"type":"object","properties":{"kind":{"type":"string","enum":["open","shut","Odd"]}},"discriminator":{"propertyName":"kind"}},
	"Odd":{"allOf":[{"$ref":"#/components/schemas/Status"},{"properties":{"odd":{}}}]}
}}`

// A value of a discriminated base is of the base or of a subtype, whichever its name says.
func TestDiscriminatorChoosesTheSchema(t *testing.T) {
	t.Parallel()
	ref := func(name string) string { return `{"$ref":"#/components/schemas/` + name + `"}` }
	either := func(word, more string, names ...string) string {
		list := make([]string, len(names))
		for i, name := range names {
			list[i] = ref(name)
		}
		return `{"` + word + `":[` + strings.Join(list, ",") + `],"discriminator":{"propertyName":"kind"` + more + `}}`
	}
	mapped := `,"mapping":{"dog":"#/components/schemas/A","cat":"B"}`
	body := func(s string) string { return `{"body":` + s + `}` }
	cases := map[string]struct{ schema, args, wrong string }{
		"a subtype by its mapped name":            {ref("Pet"), `{"kind":"cat","lives":9}`, ""},
		"a subtype by its mapped schema name":     {ref("Pet"), `{"kind":"hound","bark":"x"}`, ""},
		"a subtype by its own name":               {ref("Pet"), `{"kind":"Parrot","words":["a"]}`, ""},
		"the base itself":                         {ref("Pet"), `{"kind":"Pet","name":"x"}`, ""},
		"a member of another subtype":             {ref("Pet"), `{"kind":"cat","lives":9,"bark":"x"}`, "/args/bark unknown_field"},
		"a member that is there in no form":       {ref("Pet"), `{"kind":"cat","lives":9,"purr":1}`, "/args/purr unknown_field"},
		"what a subtype requires":                 {ref("Pet"), `{"kind":"cat"}`, "/args/lives required"},
		"a member of one name, another type":      {ref("Pet"), `{"kind":"cat","lives":9,"size":"x"}`, "/args/size type"},
		"a name that is none":                     {ref("Pet"), `{"kind":"zebra"}`, `/args/kind enum: must be one of "Parrot", "Pet", "cat", "hound"`},
		"no name where it is required":            {ref("Pet"), `{"name":"x"}`, "/args/kind required"},
		"inside of an object":                     {ref("Owner"), `{"pet":{"kind":"cat","lives":9}}`, ""},
		"inside of an object, described":          {ref("Owner"), `{"described":{"kind":"cat","lives":9}}`, ""},
		"inside of a list":                        {ref("Owner"), `{"pets":[{"kind":"cat","lives":9},{"kind":"hound","friend":{"kind":"cat","lives":1}}]}`, ""},
		"inside of an object, another's member":   {ref("Owner"), `{"pet":{"kind":"cat","lives":9,"bark":"x"}}`, "/args/pet/bark unknown_field"},
		"inside of an object, no such name":       {ref("Owner"), `{"pet":{"kind":"zebra"}}`, `/args/pet/kind enum: must be one of`},
		"deep in a subtype, what it requires":     {ref("Owner"), `{"pet":{"kind":"hound","friend":{"kind":"cat"}}}`, "/args/pet/friend/lives required"},
		"branches that are alike":                 {either("oneOf", "", "A", "B"), body(`{"kind":"A","bark":"x"}`), ""},
		"branches that are alike, by a mapping":   {either("oneOf", mapped, "A", "B"), body(`{"kind":"dog","bark":"x"}`), ""},
		"any of branches that are alike":          {either("anyOf", mapped, "A", "B"), body(`{"kind":"cat","bark":"x"}`), ""},
		"branches by no name of theirs":           {either("oneOf", mapped, "A", "B"), body(`{"kind":"zebra"}`), `/args/body/kind enum: must be one of "cat", "dog"`},
		"branches without a name":                 {either("oneOf", mapped, "A", "B"), body(`{"bark":"x"}`), "/args/body/kind required"},
		"a branch that needs no name":             {either("oneOf", mapped, "A", "Free"), body(`{"bark":"x"}`), ""},
		"branches that say their names":           {either("oneOf", "", "Red", "Blue"), body(`{"kind":"blue","b":1}`), ""},
		"branches that say their names, mixed up": {either("oneOf", "", "Red", "Blue"), body(`{"kind":"blue","r":1}`), "/args/body/r unknown_field"},
		"a branch with subtypes":                  {either("oneOf", "", "Pet", "Red"), body(`{"kind":"cat","lives":9}`), ""},
		"a base that lists its heirs":             {ref("Shape"), `{"kind":"Round","radius":1}`, ""},
		"a base that lists its heirs, mixed up":   {ref("Shape"), `{"kind":"Round","side":1}`, "/args/side unknown_field"},
		"a base that lists its heirs, not itself": {ref("Shape"), `{"kind":"Shape"}`, `/args/kind enum: must be one of "Round", "Square"`},
		"a base with names of its own":            {ref("Status"), `{"kind":"open"}`, ""},
		"a base with names of its own, heir":      {ref("Status"), `{"kind":"Odd","odd":1}`, ""},
		"a base without a name":                   {ref("Status"), `{}`, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, version := range []string{"3.0.3", "3.1.0"} {
				doc := document(version, strings.Replace(jsonBody(tc.schema), `{"name":"id"`, `{"name":"x-id"`, 1), pets)
				doc = json.RawMessage(strings.NewReplacer(`/x/{id}`, `/x`, `"in":"path","required":true`, `"in":"header"`).Replace(string(doc)))
				v := one(t, doc)
				schema, err := argschema.Compile(v.Schema)
				require.NoError(t, err)
				var wrong []string
				for _, d := range schema.Validate(json.RawMessage(tc.args)) {
					wrong = append(wrong, d.Path+" "+d.Rule+": "+d.Message)
				}
				told := strings.Join(wrong, "\n")
				if tc.wrong == "" {
					require.Empty(t, told, "%s", v.Schema)
				} else {
					require.Contains(t, told, tc.wrong, "%s", v.Schema)
				}
				requireTools(t, "shop", load(t, doc).Verbs)
			}
		})
	}
}

// Bases that lead to each other, to nothing or to too many end the import of nothing.
func TestDiscriminatorThatLeadsAstrayIsSurvived(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, `,"S%d":{"allOf":[{"$ref":"#/components/schemas/Base"}],"properties":{"p%d":{}}}`, i, i)
	}
	for name, schemas := range map[string]string{
		"each other":                     `"Base":{"discriminator":{"propertyName":"k","mapping":{"b":"Other"}},"properties":{"k":{}}},"Other":{"discriminator":{"propertyName":"k","mapping":{"a":"Base"}},"properties":{"k":{}}}`,
		"each other by another property": `"Base":{"discriminator":{"propertyName":"k","mapping":{"b":"Other"}},"properties":{"k":{}}},"Other":{"discriminator":{"propertyName":"l","mapping":{"a":"Base"}},"properties":{"l":{}}}`,
		"itself":                         `"Base":{"discriminator":{"propertyName":"k","mapping":{"b":"Base"}},"allOf":[{"$ref":"#/components/schemas/Base"}]}`,
		"nothing":                        `"Base":{"discriminator":{"propertyName":"k","mapping":{"b":"Nowhere","c":"https://example.com/x.json"}},"properties":{"k":{}}}`,
		"a list of itself":               `"Base":{"discriminator":{"propertyName":"k"},"oneOf":[{"$ref":"#/components/schemas/Base"}]}`,
		"too many":                       `"Base":{"discriminator":{"propertyName":"k"},"properties":{"k":{}}}` + many.String(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, schema := range []string{`{"$ref":"#/components/schemas/Base"}`, `{"properties":{"in":{"$ref":"#/components/schemas/Base"}}}`} {
				im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: document("3.1.0", jsonBody(schema), `{"schemas":{`+schemas+`}}`)})
				require.NoError(t, err)
				require.Len(t, im.Verbs, 1, "%v", im.Rejected)
				if name == "too many" {
					require.Contains(t, im.Degraded[0].Reason, "too many schemas")
				}
			}
		})
	}
}

// A schema may have alternatives that a discriminator tells apart, and others beside them.
func TestDiscriminatorBesideOtherAlternativesKeepsBoth(t *testing.T) {
	t.Parallel()
	form := func(name string) string {
		return `"` + name + `":{"type":"object","required":["kind"],"properties":{"kind":{"const":"` + name + `"},"email":{},"phone":{}}}`
	}
	body := `{"type":"object","properties":{"to":{"oneOf":[{"$ref":"#/components/schemas/A"},{"$ref":"#/components/schemas/B"}],
		"discriminator":{"propertyName":"kind"},"anyOf":[{"required":["email"]},{"required":["phone"]}]}}}`
	doc := document("3.1.0", `{"/p":{"post":{"requestBody":{"content":{"application/json":{"schema":`+body+`}}}}}}`, `{"schemas":{`+form("A")+`,`+form("B")+`}}`)
	im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: doc})
	require.NoError(t, err)
	schema, err := argschema.Compile(im.Verbs[0].Schema)
	require.NoError(t, err)
	require.Empty(t, schema.Validate(json.RawMessage(`{"to":{"kind":"A","email":"x"}}`)))
	require.NotEmpty(t, schema.Validate(json.RawMessage(`{"to":{"kind":"A"}}`)))
	require.NotEmpty(t, schema.Validate(json.RawMessage(`{"to":{"kind":"C","email":"x"}}`)))
}

// A base may list its forms, and have other alternatives beside them that its forms have to fit too.
func TestBaseThatListsItsFormsKeepsItsOtherAlternatives(t *testing.T) {
	t.Parallel()
	form := func(name string) string {
		return `"` + name + `":{"allOf":[{"$ref":"#/components/schemas/Base"},{"type":"object","properties":{"n":{"const":"` + name + `"}},"required":["n"]}]}`
	}
	base := `"Base":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"},"email":{},"phone":{}},
		"oneOf":[{"$ref":"#/components/schemas/A"},{"$ref":"#/components/schemas/B"}],"discriminator":{"propertyName":"kind"},
		"anyOf":[{"required":["email"]},{"required":["phone"]}]}`
	body := `{"type":"object","properties":{"to":{"$ref":"#/components/schemas/A"}}}`
	doc := document("3.1.0", `{"/p":{"post":{"requestBody":{"content":{"application/json":{"schema":`+body+`}}}}}}`, `{"schemas":{`+form("A")+`,`+form("B")+`,`+base+`}}`)
	im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: doc})
	require.NoError(t, err)
	schema, err := argschema.Compile(im.Verbs[0].Schema)
	require.NoError(t, err)
	require.Empty(t, schema.Validate(json.RawMessage(`{"to":{"kind":"A","n":"A","email":"x"}}`)))
	require.NotEmpty(t, schema.Validate(json.RawMessage(`{"to":{"kind":"A","n":"A"}}`)))

	again := strings.Replace(string(doc), `"anyOf":[{"required":["email"]}`, `"anyOf":[{"$ref":"#/components/schemas/A"}`, 1)
	im, err = openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: []byte(again)})
	require.NoError(t, err)
	require.NotContains(t, string(im.Verbs[0].Schema), "x-opaque")
	schema, err = argschema.Compile(im.Verbs[0].Schema)
	require.NoError(t, err)
	require.NotEmpty(t, schema.Validate(json.RawMessage(`{"to":{"kind":"A"}}`)), "n is still required")
}
