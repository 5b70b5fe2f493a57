package openapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/httpplan"
)

// spot is a place of a request and a way to write a value there. Its operation has %[1]s for the schema
// of the value.
type spot struct{ name, operation string }

// spots are all places with all styles. Each has the argument v, or an argument body with the member v.
func spots() (list []spot) {
	const both = `"explode":%t,"allowReserved":%t`
	parameter := func(in, style, more, schema string) {
		required := map[bool]string{true: `,"required":true`}[in == "path"]
		list = append(list, spot{strings.Join([]string{in, style, more}, " "), fmt.Sprintf(`{"parameters":[{"name":"v","in":%q%s%s,%s}]}`, in, required, more, schema)})
	}
	const content = `"content":{"application/json":{"schema":%[1]s}}`
	styles := map[string][]string{"path": {"simple", "label", "matrix"}, "query": {"form", "spaceDelimited", "pipeDelimited", "tabDelimited", "deepObject"}, "header": {"simple"}, "cookie": {"form"}}
	for _, in := range []string{"path", "query", "header", "cookie"} {
		for _, style := range styles[in] {
			for _, explode := range []bool{false, true} {
				for _, reserved := range []bool{false, true} {
					parameter(in, style, fmt.Sprintf(`,"style":%q,`+both, style, explode, reserved), `"schema":%[1]s`)
				}
			}
		}
		parameter(in, "", "", content)
	}
	body := func(name, media, schema, encoding string) {
		list = append(list, spot{"body " + name, `{"requestBody":{"required":true,"content":{"` + media + `":{"schema":` + schema + `,"encoding":{` + encoding + `}}}}}`})
	}
	const form, own, whole = "application/x-www-form-urlencoded", `{"type":"object","properties":{"v":%[1]s}}`, `{"type":"object","propertyNames":{"maxLength":9},"properties":{"v":%[1]s}}`
	for _, style := range styles["query"] {
		for _, explode := range []bool{false, true} {
			for _, reserved := range []bool{false, true} {
				encoding := fmt.Sprintf(`"v":{"style":%q,`+both+`}`, style, explode, reserved)
				body("form "+encoding, form, own, encoding)
				body("one argument of a form "+encoding, form, whole, encoding)
			}
		}
	}
	body("form", form, own, "")
	body("form, JSON in it", form, own, `"v":{"contentType":"application/json"}`)
	body("one argument of a form", form, whole, "")
	body("one argument of a form, JSON in it", form, whole, `"v":{"contentType":"application/json"}`)
	body("one argument of an open form", form, `{"type":"object","additionalProperties":%[1]s}`, "")
	body("more fields of a form", form, `{"type":"object","properties":{"w":{}},"additionalProperties":%[1]s}`, "")
	body("multipart", "multipart/form-data", own, "")
	return list
}

// kinds are schemas of a value, each with what makes values that often fit.
func kinds() map[string]struct {
	schema string
	value  *rapid.Generator[any]
} {
	type kind = struct {
		schema string
		value  *rapid.Generator[any]
	}
	const text, maybe = `{"type":"string"}`, `{"type":["string","null"]}`
	lists := rapid.OneOf(listOf(texts()), listOf(orNull(texts())))
	objects := rapid.OneOf(objectOf(names(), texts()), objectOf(names(), orNull(texts())), objectOf(rapid.SampledFrom([]string{"a", "b", "x,y", "x[y"}), scalars()))
	anything := rapid.OneOf(scalars(), lists, objects)
	inner := rapid.OneOf(listOf(rapid.OneOf(scalars(), lists, objects)), objectOf(rapid.SampledFrom([]string{"a", "b"}), anything))
	return map[string]kind{
		"a text":                       {text, scalars()},
		"a text or null":               {maybe, scalars()},
		"a text behind a reference":    {`{"$ref":"#/components/schemas/Text"}`, scalars()},
		"words":                        {`{"type":"string","enum":["a","b|c","d,e",".","f\n",""]}`, rapid.Map(rapid.SampledFrom([]string{"a", "b|c", "d,e", ".", "f\n", ""}), asAny)},
		"words of lists":               {`{"type":"array","items":{"enum":["a","b|c","d,e",".","f\n","",null]}}`, listOf(rapid.SampledFrom([]any{"a", "b|c", "d,e", ".", "f\n", "", nil}))},
		"an address":                   {`{"type":"string","format":"email"}`, rapid.Map(rapid.SampledFrom([]string{"a.b@x.example", "\"a\nb\"@x.example", "a/%2e%2e/b@x.example"}), asAny)},
		"times":                        {`{"type":"array","items":{"type":"string","format":"date-time"}}`, listOf(rapid.SampledFrom([]any{"2020-01-02T03:04:05.6Z", "2020-01-02T03:04:05+01:00"}))},
		"a pattern":                    {`{"type":"string","pattern":"^[a-z|,. \n]*$"}`, scalars()},
		"a whole number":               {`{"type":"integer"}`, scalars()},
		"a number":                     {`{"type":"number"}`, scalars()},
		"a flag":                       {`{"type":"boolean"}`, scalars()},
		"anything":                     {`{}`, anything},
		"texts":                        {`{"type":"array","items":` + text + `}`, lists},
		"texts with a pattern":         {`{"type":"array","items":{"type":"string","pattern":"^[^b]"}}`, lists},
		"texts or nulls":               {`{"type":"array","items":` + maybe + `}`, lists},
		"texts, or nothing":            {`{"type":["array","null"],"items":` + text + `}`, rapid.OneOf(lists, scalars())},
		"texts behind a reference":     {`{"$ref":"#/components/schemas/Texts"}`, lists},
		"texts in a branch":            {`{"oneOf":[{"type":"integer"},{"$ref":"#/components/schemas/Texts"}]}`, rapid.OneOf(lists, scalars())},
		"texts in all":                 {`{"allOf":[{"$ref":"#/components/schemas/Texts"},{"maxItems":2}]}`, lists},
		"references":                   {`{"type":"array","items":{"$ref":"#/components/schemas/Maybe"}}`, lists},
		"numbers":                      {`{"type":"array","items":{"type":["number","null"]}}`, listOf(scalars())},
		"whole numbers":                {`{"type":"array","items":{"type":"integer"}}`, listOf(scalars())},
		"scalars":                      {`{"type":"array","items":{"anyOf":[` + text + `,{"type":"number"},{"type":"null"}]}}`, listOf(scalars())},
		"a list of anything":           {`{"type":"array"}`, listOf(scalars())},
		"a tuple":                      {`{"type":"array","prefixItems":[` + maybe + `],"items":` + maybe + `}`, lists},
		"a tuple of some":              {`{"type":"array","prefixItems":[` + maybe + `],"unevaluatedItems":` + maybe + `}`, lists},
		"lists of texts":               {`{"type":"array","items":{"type":"array","items":` + maybe + `}}`, listOf(lists)},
		"lists of objects":             {`{"type":"array","items":{"type":"object","properties":{"a":` + text + `,"b":` + maybe + `}}}`, listOf(objects)},
		"an object":                    {`{"type":"object","properties":{"a":` + text + `,"b":{"type":["integer","null"]},"x,y":` + text + `,"x[y":` + text + `}}`, objects},
		"an object behind a reference": {`{"$ref":"#/components/schemas/Object"}`, objects},
		"an object in a branch":        {`{"anyOf":[{"$ref":"#/components/schemas/Object"},{"type":"string"}]}`, rapid.OneOf(objects, scalars())},
		"an object of two":             {`{"allOf":[{"$ref":"#/components/schemas/Object"},{"type":"object","properties":{"c":` + text + `}}]}`, objects},
		"an open object":               {`{"type":"object"}`, objects},
		"an object of texts":           {`{"type":"object","additionalProperties":` + text + `}`, objects},
		"an object of texts or nulls":  {`{"type":"object","additionalProperties":` + maybe + `}`, objects},
		"an object of the rest":        {`{"type":"object","allOf":[{"properties":{"a":` + text + `}}],"unevaluatedProperties":` + maybe + `}`, objects},
		"an object by pattern":         {`{"type":"object","patternProperties":{"^a":` + text + `},"additionalProperties":false}`, objects},
		"an object with names":         {`{"type":"object","propertyNames":{"maxLength":3}}`, objects},
		"an object of lists":           {`{"type":"object","properties":{"a":{"type":"array","items":` + maybe + `},"b":{"$ref":"#/components/schemas/Texts"}}}`, inner},
		"an object of objects":         {`{"type":"object","properties":{"a":{"type":"object","additionalProperties":` + maybe + `},"b":{"$ref":"#/components/schemas/Object"}}}`, inner},
		"an object of itself":          {`{"$ref":"#/components/schemas/Self"}`, inner},
	}
}

// texts are made of what the styles separate by, of dots and slashes, and of characters that a header
// cannot have; some of it is encoded.
func texts() *rapid.Generator[any] {
	parts := []string{"a", "b", "1", ",", "|", " ", "+", "\t", ".", "..", "/", `\`, ";", "=", "%", "%2c", "%2C", "%252c", "%2e", "%252E", "%7c", "%20", "%2b", "%09", "%2f", "%5C", "%3b", "[", "]", "\n", "\x00", "\x7f", "é", `"`}
	return rapid.Map(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 3), func(some []string) any { return strings.Join(some, "") })
}

func names() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom([]string{"a", "b"}), rapid.Map(texts(), func(v any) string { return fmt.Sprint(v) }))
}

func scalars() *rapid.Generator[any] {
	return rapid.OneOf(texts(), rapid.SampledFrom([]any{nil, true, json.Number("1"), json.Number("-20"), json.Number("1.5"), json.Number("1e+2")}))
}

func orNull(of *rapid.Generator[any]) *rapid.Generator[any] {
	return rapid.OneOf(of, rapid.Just[any](nil))
}

func listOf(of *rapid.Generator[any]) *rapid.Generator[any] {
	return rapid.Map(rapid.SliceOfN(of, 0, 3), func(list []any) any { return list })
}

func objectOf(names *rapid.Generator[string], of *rapid.Generator[any]) *rapid.Generator[any] {
	return rapid.Map(rapid.MapOfN(names, of, 0, 2), func(object map[string]any) any { return object })
}

func asAny(text string) any { return text }

const sentSchemas = `{"schemas":{"Text":{"type":"string"},"Maybe":{"type":["string","null"]},"Texts":{"type":"array","items":{"type":["string","null"]}},
	"Object":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":["array","null"],"items":{"type":["string","null"]}}},"additionalProperties":{"type":"string"}},
	"Self":{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"$ref":"#/components/schemas/Self"}}}}}`

// sentCase is a verb that sends one value, in one place of a request.
type sentCase struct {
	place, text  string
	base, schema *argschema.Schema // base is the document's schema without a place
	plan         httpplan.Plan
}

// sentCases imports a document with an operation for each place, all for a value of one schema.
func sentCases(t *testing.T, schema string) (list []sentCase) {
	t.Helper()
	var paths strings.Builder
	fmt.Fprintf(&paths, `{"/x":{"post":{"operationId":"base","requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"v":%s}}}}}}}`, schema)
	all := spots()
	for i, place := range all {
		path := fmt.Sprintf("/x%d", i)
		if strings.HasPrefix(place.name, "path") {
			path += "/{v}"
		}
		fmt.Fprintf(&paths, `,%q:{"post":{"operationId":"x%d",%s}`, path, i, fmt.Sprintf(place.operation, schema)[1:])
	}
	im := load(t, document("3.1.0", paths.String()+"}", sentSchemas))
	require.Empty(t, im.Rejected)
	byName := map[string]verb.Definition{}
	for _, v := range im.Verbs {
		byName[v.Name] = v
	}
	base, _ := compiled(t, byName["base"])
	for i, place := range all {
		v := byName[fmt.Sprintf("x%d", i)]
		c := sentCase{place: place.name, text: string(v.Schema), base: base}
		c.schema, c.plan = compiled(t, v)
		list = append(list, c)
	}
	return list
}

// check compares what the schema says of a value with what the builder of requests does with it.
func (c *sentCase) check(t *testing.T, value any) {
	t.Helper()
	arg := ""
	if c.plan.Body != nil {
		arg = c.plan.Body.Arg
	}
	args := argsFor(t, value, arg)
	wrong := c.schema.Validate(args)
	if len(c.base.Validate(argsFor(t, value, ""))) > 0 {
		require.NotEmpty(t, wrong, "%s: %s does not fit the document's schema, but %s", c.place, args, c.text)
		return
	}
	_, err := httpcall.BuildRequest(c.plan, "https://api.shop.example", args)
	if f := fault.As(err); f != nil && f.Details[0].Rule == "name_taken" && f.Details[0].Message != "must not have a bracket in its name" {
		return // no schema says which names are taken
	}
	require.Equal(t, err == nil, len(wrong) == 0, "%s: %s\nthe builder: %+v\nthe schema: %v\n%s", c.place, args, fault.As(err), wrong, c.text)
}

// A value that the document's schema accepts fits the catalog's schema exactly where the builder of
// requests takes it, in every place and style.
func TestSchemaAcceptsExactlyWhatIsSent(t *testing.T) {
	t.Parallel()
	const values = 25 // of each schema in each place; FuzzSchemaAcceptsWhatIsSent tries more
	for name := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := kinds()[name] // generators are for one goroutine
			for i, c := range sentCases(t, kind.schema) {
				for n := range values {
					c.check(t, kind.value.Example(i*values+n))
				}
			}
		})
	}
}

func FuzzSchemaAcceptsWhatIsSent(f *testing.F) {
	all := kinds()
	known := map[string][]sentCase{}
	f.Add(uint16(0), uint16(0), 0)
	f.Fuzz(func(t *testing.T, kind, place uint16, seed int) {
		name := slices.Sorted(maps.Keys(all))[int(kind)%len(all)]
		if known[name] == nil {
			known[name] = sentCases(t, all[name].schema)
		}
		known[name][int(place)%len(known[name])].check(t, all[name].value.Example(seed))
	})
}

func compiled(t *testing.T, v verb.Definition) (*argschema.Schema, httpplan.Plan) {
	t.Helper()
	schema, err := argschema.Compile(v.Schema)
	require.NoError(t, err)
	plan, err := httpplan.Parse(v.Plan)
	require.NoError(t, err)
	return schema, plan
}

// argsFor puts a value into the argument v, or into the member v of another argument.
func argsFor(t *testing.T, value any, arg string) json.RawMessage {
	t.Helper()
	args := map[string]any{"v": value}
	if arg != "" {
		args = map[string]any{arg: args}
	}
	raw, err := json.Marshal(args)
	require.NoError(t, err)
	return raw
}
