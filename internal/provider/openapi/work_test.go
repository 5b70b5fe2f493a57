package openapi_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/openapi"
)

// repeated is n operations of the text, and each %d in it is the operation's number.
func repeated(n int, text string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"/p%d":{"post":%s}`, i, strings.ReplaceAll(text, "%d", strconv.Itoa(i)))
	}
	return "{" + strings.Join(list, ",") + "}"
}

// listed is n members of the text.
func listed(n int, text string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = strings.ReplaceAll(text, "%d", strconv.Itoa(i))
	}
	return strings.Join(list, ",")
}

// Each document is small, and each of its operations uses a large part of it. The work has to
// be counted wherever that can happen.
func TestImportCountsWhatOperationsUseAgain(t *testing.T) {
	t.Parallel()
	ref := func(kind, name string) string { return `{"$ref":"#/components/` + kind + `/` + name + `"}` }
	post := func(schema string) string {
		return `{"requestBody":{"content":{"application/json":{"schema":` + schema + `}}}}`
	}
	doubling := []string{`"S0":{"properties":{"x":{}}}`}
	for i := 1; i < 16; i++ {
		one := ref("schemas", fmt.Sprintf("S%d", i-1))
		doubling = append(doubling, fmt.Sprintf(`"S%d":{"allOf":[%s,%s]}`, i, one, one))
	}
	// paths are n paths that refer to one item.
	paths := func(n int) string { return `{` + listed(n, `"/p%d":`+ref("pathItems", "I")) + `}` }
	item := func(text string) string { return `{"pathItems":{"I":` + text + `}}` }
	one := func(schema string) string { return `{"post":` + post(schema) + `}` }
	long := strings.Repeat("x", 100_000)
	var written []string // paths to one schema, each with another way to write where it is
	for i := range 64 {
		var place strings.Builder
		for at, letter := range "abcdef" {
			if i>>at&1 == 0 {
				place.WriteRune(letter)
			} else {
				fmt.Fprintf(&place, "%%%02x", letter)
			}
		}
		written = append(written, fmt.Sprintf(`"/p%d":{"post":%s}`, i, post(`{"properties":{"a":`+ref(place.String()+"/components/schemas", "B")+`}}`)))
	}
	for name, doc := range map[string]struct{ paths, components string }{
		"a ring of schemas":      {repeated(300, post(`{"properties":{"a":`+ref("schemas", "S%d")+`}}`)), `{"schemas":{` + ring(300) + `}}`},
		"a body taken apart":     {repeated(100, post(ref("schemas", "B"))), `{"schemas":{"B":{"properties":{` + listed(1000, `"p%d":{}`) + `}}}}`},
		"allOf that doubles":     {repeated(1, post(ref("schemas", "S15"))), `{"schemas":{` + strings.Join(doubling, ",") + `}}`},
		"answers":                {repeated(100, `{"responses":{"200":`+ref("responses", "R")+`}}`), `{"responses":{"R":{"content":{` + listed(1000, `"a/b%d":{}`) + `}}}}`},
		"parameters":             {repeated(100, `{"parameters":[`+listed(500, ref("parameters", "P"))+`]}`), `{"parameters":{"P":{"name":"p","in":"query"}}}`},
		"values":                 {repeated(100, post(`{"properties":{"a":`+ref("schemas", "E")+`}}`)), `{"schemas":{"E":{"enum":[` + listed(10_000, `%d`) + `]}}}`},
		"a query in the path":    {`{"/p?` + queries(1000) + `":{"get":{"parameters":[` + listed(100, `{"name":"q%d","in":"query"}`) + `]}}}`, `{}`},
		"an operation of others": {`{"/p":{"post":{"description":"` + strings.Repeat("x", 100_000) + `"}},` + listed(50, `"/q%d":{"$ref":"#/paths/~1p"}`) + `}`, `{}`},
		"names of required":      {repeated(20, post(ref("schemas", "B"))), `{"schemas":{"B":{"properties":{"a":{}},"required":[` + listed(20_000, `"p%d"`) + `]}}}`},
		"media types of a body":  {repeated(20, `{"requestBody":`+ref("requestBodies", "B")+`}`), `{"requestBodies":{"B":{"content":{` + listed(5000, `"a/b%d":{}`) + `}}}}`},
		"members of x-agent":     {paths(100), item(`{"post":{"x-agent-runtime":{` + listed(2000, `"k%d":1`) + `}}}`)},
		"texts of x-agent":       {paths(100), item(`{"post":{"x-agent-runtime":{"risk_level":"` + long + `"}}}`)},
		"a read-back":            {paths(100), item(`{"post":{"x-agent-runtime":{"read_back":{"verb":"r","args":{` + listed(2000, `"k%d":1`) + `}}}}}`)},
		"members of a path":      {paths(100), item(`{"post":{},` + listed(2000, `"k%d":1`) + `}`)},
		"the name of one":        {paths(100), item(`{"post":{"operationId":"` + long + `"}}`)},
		"a tag":                  {paths(100), item(`{"post":{"tags":["` + long + `"]}}`)},
		"the name of parameters": {paths(100), item(`{"post":{"parameters":[{"in":"header","name":"` + long + `"}]}}`)},
		"a security scheme":      {repeated(100, `{"security":[{"s":[]}]}`), `{"securitySchemes":{"s":{"type":"http","scheme":"` + long + `"}}}`},
		"titles":                 {paths(100), item(one(`{"properties":{"a":{"title":"` + long + `"}}}`))},
		"examples":               {paths(100), item(one(`{"properties":{"a":{"example":{` + listed(2000, `"k%d":1`) + `}}}}`))},
		"read-only members":      {paths(100), item(one(`{"properties":{"a":{"properties":{` + listed(2000, `"k%d":{"readOnly":true}`) + `}}}}`))},
		"ways to write a place":  {`{` + strings.Join(written, ",") + `}`, `{"abcdef":{"components":{"schemas":{"B":{"discriminator":{"propertyName":"k"}},` + listed(3000, `"S%d":{}`) + `}}}}`},
		"patterns":               {repeated(1, post(`{"properties":{`+listed(1000, `"p%d":{"type":"string","pattern":"^a%d$"}`)+`}}`)), `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := openapi.ImportInput{Slug: "shop", Document: document("3.0.3", doc.paths, doc.components)}
			_, err := openapi.ImportWithin(t.Context(), in, 100_000)
			require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
			require.Equal(t, "work", fault.As(err).Details[0].Rule)
			ctx, leave := context.WithCancel(t.Context())
			leave()
			_, err = openapi.Import(ctx, in)
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

// Operations that have the same arguments cost little beside the first: a schema is compiled once.
func TestImportCompilesASharedSchemaOnce(t *testing.T) {
	t.Parallel()
	const operations, first, each = 4000, 100_000, 2_500
	shared := `{"schemas":{"B":{"type":"object","properties":{` + listed(500, `"p%d":{"type":"string"}`) + `}}}}`
	body := `{"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"a":{"$ref":"#/components/schemas/B"}}}}}}}`
	in := openapi.ImportInput{Slug: "shop", Document: document("3.0.3", repeated(operations, body), shared)}
	im, err := openapi.ImportWithin(t.Context(), in, first+each*operations)
	require.NoError(t, err)
	require.Len(t, im.Verbs, operations)
}

// Objects take the most memory, so a document has fewer of them than of other values.
func TestImportRefusesDocumentsThatTakeTooMuchMemory(t *testing.T) {
	t.Parallel()
	const most = 400 << 20 / exactjson.BytesOfObject
	with := func(objects int) openapi.ImportInput {
		return openapi.ImportInput{Slug: "shop", Document: []byte(`{"openapi":"3.1.0","servers":[{"url":"https://a.example"}],"paths":{},"x":[` + strings.Repeat(`{},`, objects) + `{}]}`)}
	}
	_, err := openapi.Import(t.Context(), with(most))
	require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
	require.Equal(t, []fault.Detail{{Path: "/openapi", Rule: "size", Message: "The document has too many values."}}, fault.As(err).Details)
	_, err = openapi.Import(t.Context(), with(most/2))
	require.NoError(t, err)
}

// A small document runs beside a large one, so it must not take as long.
func TestImportSmallTakesOnlySmallDocuments(t *testing.T) {
	t.Parallel()
	body := func(schema string) string {
		return `{"requestBody":{"content":{"application/json":{"schema":` + schema + `}}}}`
	}
	large := `{"schemas":{"B":{"type":"object","properties":{` + listed(400, `"p%d":{"type":"string","description":"`+strings.Repeat("d", 100)+`"}`) + `}}}}`
	for name, tc := range map[string]struct {
		paths, components string
		small             bool
	}{
		"few operations":         {repeated(10, body(`{"$ref":"#/components/schemas/B"}`)), large, true},
		"a document of 1.1 MiB":  {repeated(1, `{"description":"`+strings.Repeat("d", 1_150_000)+`"}`), `{}`, false},
		"much work":              {repeated(30, body(`{"$ref":"#/components/schemas/B"}`)), `{"schemas":{"B":{"properties":{` + listed(5000, `"p%d":{}`) + `}}}}`, false},
		"costly patterns":        {repeated(1, body(`{"properties":{`+costly(70)+`}}`)), `{}`, false},
		"refused patterns":       {repeated(1, body(`{"properties":{`+refused(20)+`}}`)), `{}`, false},
		"patterns with Unicode":  {repeated(1, body(`{"properties":{`+unclosed(10)+`}}`)), `{}`, false},
		"the same pattern often": {repeated(30, body(`{"properties":{`+listed(100, `"p%d":{"type":"string","pattern":"^(?:a{1,900}|b{1,90})$"}`)+`}}`)), `{}`, true},
		"many bytes":             {repeated(200, body(`{"$ref":"#/components/schemas/B"}`)), large, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := openapi.ImportInput{Slug: "shop", Document: document("3.0.3", tc.paths, tc.components)}
			_, err := openapi.ImportSmall(t.Context(), in)
			if tc.small {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, openapi.ErrNotSmall)
			}
			_, err = openapi.Import(t.Context(), in)
			require.NoError(t, err, "one that is not small is imported as a large one")
		})
	}
}

// costly is n properties whose patterns differ, of 2,000 instructions each.
func costly(n int) string {
	return listed(n, `"p%d":{"type":"string","pattern":"^(?:a{1,900}|b{1,90})$%d"}`)
}

// refused is n properties whose patterns differ and are too large, of 6,000 instructions each.
func refused(n int) string {
	return listed(n, `"p%d":{"type":"string","pattern":"a{1000}b{1000}c{1000}d{1000}e{1000}f{1000}%d"}`)
}

// unclosed is n properties whose patterns differ and cannot be read, after many classes of Unicode.
func unclosed(n int) string {
	return listed(n, `"p%d":{"type":"string","pattern":"`+strings.Repeat(`[^\\pL]`, 100)+`%d("}`)
}

// A pattern of a few bytes stands for thousands of instructions, so they count over the document.
func TestImportBoundsThePatternsOfADocument(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"of properties": `{"properties":{` + costly(3000) + `}}`,
		"unclosed":      `{"properties":{` + unclosed(3000) + `}}`,
		"refused":       `{"properties":{` + refused(1000) + `}}`,
		"of names":      `{"patternProperties":{` + listed(3000, `"^(?:a{1,900}|b{1,90})$%d":{}`) + `}}`,
	} {
		in := openapi.ImportInput{Slug: "shop", Document: document("3.1.0", repeated(1, `{"requestBody":{"content":{"application/json":{"schema":`+schema+`}}}}`), `{}`)}
		_, err := openapi.Import(t.Context(), in)
		require.True(t, fault.HasCode(err, fault.CodeValidation), "%s: %v", name, err)
		require.Equal(t, "work", fault.As(err).Details[0].Rule)
		require.Contains(t, fault.As(err).Message, "patterns")
	}
}

// A document of a few bytes or of a megabyte is refused for its patterns soon: after two units of work for
// each byte at most, and not after what the largest documents may take.
func TestImportRefusesCostlyPatternsEarly(t *testing.T) {
	t.Parallel()
	const most = 2_000_000
	groups := make([]string, 20)
	for i := range groups {
		groups[i] = fmt.Sprintf(`"B%d":{"properties":{%s}}`, i, listed(20, `"p%d":{"type":"string","pattern":"^(?:a{1,900}|b{1,90})$`+strconv.Itoa(i)+`-%d"}`))
	}
	body := func(schema string) string {
		return `{"requestBody":{"content":{"application/json":{"schema":` + schema + `}}}}`
	}
	turns := make([]string, 200)
	for i := range turns {
		turns[i] = fmt.Sprintf(`"/p%d":{"post":%s}`, i, body(fmt.Sprintf(`{"properties":{"a":{"$ref":"#/components/schemas/B%d"},"b%d":{}}}`, i%len(groups), i)))
	}
	each := func(n int, expression string) string {
		return repeated(1, body(`{"properties":{`+listed(n, `"p%d":{"type":"string","pattern":"`+expression+`%d"}`)+`}}`))
	}
	for name, tc := range map[string]struct{ paths, components string }{
		"large":                  {repeated(1, body(`{"properties":{`+costly(15_000)+`}}`)), `{}`},
		"refused":                {repeated(1, body(`{"properties":{`+refused(12_000)+`}}`)), `{}`},
		"with Unicode, unclosed": {repeated(1, body(`{"properties":{`+unclosed(1200)+`}}`)), `{}`},
		"nested":                 {each(18_000, `(a{1,1000}){1,1}`), `{}`},
		"nested, few":            {each(300, `(a{1,1000}){1,1}`), `{}`},
		"one class of many":      {each(1200, `[`+strings.Repeat(`\\pL\\PL`, 80)+`]`), `{}`},
		"letters of both cases":  {each(15_000, `(?i)[\\x{42}-\\x{1E942}]`), `{}`},
		// A group of patterns is not kept any more when it is used again.
		"more than are kept": {`{` + strings.Join(turns, ",") + `}`, `{"schemas":{` + strings.Join(groups, ",") + `}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := openapi.ImportInput{Slug: "shop", Document: document("3.1.0", tc.paths, tc.components)}
			require.Less(t, len(in.Document), 1_200_000)
			_, err := openapi.ImportWithin(t.Context(), in, most)
			require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
			require.Equal(t, "work", fault.As(err).Details[0].Rule)
			require.Regexp(t, `^/openapi/paths/~1p\d+/post$`, fault.As(err).Details[0].Path)
			require.Contains(t, fault.As(err).Message, "patterns")
		})
	}
}

// Patterns as published documents have them, more of them than any document that we know.
func TestImportTakesManyUsualPatterns(t *testing.T) {
	t.Parallel()
	shared := listed(100, `"p%d":{"type":"string","maxLength":256,"pattern":"^arn:aws[a-z\\-]*:service:[a-z0-9\\-]*:[0-9]{12}:kind%d/[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$"}`)
	paths := repeated(100, `{"requestBody":{"content":{"application/json":{"schema":{"properties":{
		"own":{"type":"string","pattern":"^[0-9a-f]{8}-[0-9a-f]{4}-%d$"},"tag":{"$ref":"#/components/schemas/Tag"},"name":{"$ref":"#/components/schemas/All/properties/p%d"}}}}}}}`)
	in := openapi.ImportInput{Slug: "shop", Document: document("3.1.0", paths, `{"schemas":{"All":{"properties":{`+shared+`}},"Tag":{"type":"string","pattern":"^([\\p{L}\\p{Z}\\p{N}_.:/=+\\-@]*)$"}}}`)}
	_, err := openapi.Import(t.Context(), in)
	require.NoError(t, err)
}

// ring is n schemas that all lead to all others.
func ring(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"S%d":{"properties":{"n":{"$ref":"#/components/schemas/S%d"},"m":{"$ref":"#/components/schemas/S%d"}}}`, i, (i+1)%n, (i*7+3)%n)
	}
	return strings.Join(list, ",")
}

func queries(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("k%d=1", i)
	}
	return strings.Join(list, "&")
}

// A reference is compared each time its schema is used, so a long one is given up.
func TestLongReferenceIsGivenUp(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("L", 20_000)
	out, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: document("3.0.3",
		`{"/p":{"post":{"requestBody":{"content":{"application/json":{"schema":{"properties":{"a":{"$ref":"#/components/schemas/`+name+`"}}}}}}}}}`,
		`{"schemas":{"`+name+`":{"type":"object"}}}`)})
	require.NoError(t, err)
	require.Len(t, out.Verbs, 1)
	require.Contains(t, string(out.Verbs[0].Schema), `"x-opaque":true`)
	require.Contains(t, out.Degraded[0].Reason, "a reference is too long")
}

// Documents as companies write them. Schemas that many operations share have many patterns, of some
// hundred instructions each. They are imported with all rules.
func TestImportTakesPatternsThatOperationsShare(t *testing.T) {
	t.Parallel()
	const operations, properties = 600, 10
	body := func(schema string) string {
		return `{"requestBody":{"content":{"application/json":{"schema":` + schema + `}}}}`
	}
	own := listed(properties, `"own%d":{"type":"string","pattern":"^[\\w-]{1,255}$"}`)
	apart := make([]string, properties)
	for i := range apart {
		apart[i] = fmt.Sprintf(`"p%d":{"type":"string","pattern":"^k%d[\\w-]{1,255}$"}`, i, i)
	}
	ofEach := make([]string, operations/6)
	for i := range ofEach {
		fields := listed(8, `"field%d":{"type":"string","description":"`+strings.Repeat("d", 120)+`","pattern":"^`+strconv.Itoa(i)+`-%d-[a-z0-9]([-a-z0-9]{1,63})?$"}`)
		ofEach[i] = fmt.Sprintf(`"/p%d":{"post":%s}`, i, body(`{"properties":{`+fields+`}}`))
	}
	for name, tc := range map[string]struct {
		paths, components string
		verbs, patterns   int // and how many each verb has
	}{
		"in a shared schema, the same": {repeated(operations, body(`{"properties":{"a":{"$ref":"#/components/schemas/B"},"b%d":{}}}`)), `{"schemas":{"B":{"properties":{` + own + `}}}}`, operations, properties},
		"large, in a shared schema":    {repeated(operations, body(`{"properties":{"a":{"$ref":"#/components/schemas/B"},"b%d":{}}}`)), `{"schemas":{"B":{"properties":{` + costly(20) + `}}}}`, operations, 20},
		"in a shared schema":           {repeated(operations, body(`{"properties":{"a":{"$ref":"#/components/schemas/B"},"b%d":{}}}`)), `{"schemas":{"B":{"properties":{` + strings.Join(apart, ",") + `}}}}`, operations, properties},
		"of each operation":            {"{" + strings.Join(ofEach, ",") + "}", `{}`, operations / 6, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: document("3.1.0", tc.paths, tc.components)})
			require.NoError(t, err)
			require.Len(t, im.Verbs, tc.verbs)
			require.Empty(t, im.Rejected)
			require.Empty(t, im.Degraded)
			for _, v := range im.Verbs {
				require.Equal(t, tc.patterns, strings.Count(string(v.Schema), `"pattern":`), v.Name)
			}
		})
	}
}

// An operation whose own patterns are too costly is reported, and the others are imported.
func TestImportReportsTheOperationWhosePatternsAreTooCostly(t *testing.T) {
	t.Parallel()
	many := make([]string, 16_000)
	for i := range many {
		many[i] = fmt.Sprintf(`"p%d":{"type":"string","pattern":"^[a-z]{2,20}-%04d$"}`, i, i)
	}
	body := func(schema string) string {
		return `{"requestBody":{"content":{"application/json":{"schema":` + schema + `}}}}`
	}
	for name, tc := range map[string]struct{ own, why string }{
		"a megabyte":          {strings.Join(many, ","), "its arguments' schema is too large"},
		"60,000 instructions": {costly(30), "its arguments' schema is too complex to be checked"},
	} {
		paths := `{"/p":{"post":` + body(`{"properties":{`+tc.own+`}}`) + `,"put":` + body(`{"properties":{"a":{"type":"string","pattern":"^[a-z]{2,20}$"}}}`) + `}}`
		im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: document("3.1.0", paths, `{}`)})
		require.NoError(t, err, name)
		require.Len(t, im.Verbs, 1, name)
		require.Contains(t, string(im.Verbs[0].Schema), `"pattern":"^[a-z]{2,20}$"`, name)
		require.Len(t, im.Rejected, 1, name)
		require.Equal(t, "POST /p", im.Rejected[0].Operation, name)
		require.Equal(t, tc.why, im.Rejected[0].Reason, name)
	}
}

// The conversion of Swagger copies an operation for each path that refers to it. Without a bound, 60 KB
// become a gigabyte.
func TestImportCountsWhatSwaggerOperationsUseAgain(t *testing.T) {
	t.Parallel()
	for name, item := range map[string]string{
		"parameters":              `{"get":{},"parameters":[` + listed(100, `{"name":"p%d","in":"query","type":"string"}`) + `]}`,
		"answers":                 `{"get":{"responses":{` + listed(400, `"2%d":{}`) + `}}}`,
		"members of an operation": `{"get":{` + listed(2000, `"x-%d":1`) + `}}`,
		"members of a path":       `{"get":{},` + listed(2000, `"x-%d":1`) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document := `{"swagger":"2.0","host":"a.example","x-item":` + item + `,"paths":{` + listed(100, `"/p%d":{"$ref":"#/x-item"}`) + `}}`
			_, err := openapi.ImportWithin(t.Context(), openapi.ImportInput{Slug: "shop", Document: []byte(document)}, 350_000)
			require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
			require.Equal(t, "work", fault.As(err).Details[0].Rule)
		})
	}
}

// What the report of one operation lists is kept until the import ends.
func TestImportWithManyUnknownMembersReportsSome(t *testing.T) {
	t.Parallel()
	in := openapi.ImportInput{Slug: "shop", Document: document("3.0.3", repeated(1, `{"x-agent-runtime":{`+listed(5000, `"k%d":1`)+`,"risk_level":"high"}}`), `{}`)}
	im, err := openapi.Import(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, verb.RiskHigh, im.Verbs[0].Risk)
	require.Len(t, im.Degraded, 1)
	require.True(t, strings.HasPrefix(im.Degraded[0].Reason, "x-agent-runtime.k0 is not known and is ignored; x-agent-runtime.k1 "), im.Degraded[0].Reason)
}
