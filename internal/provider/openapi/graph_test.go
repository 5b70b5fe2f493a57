package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/openapi"
)

func bodyOf(schema string) string {
	return `{"requestBody":{"content":{"application/json":{"schema":` + schema + `}}}}`
}

// cycle is an archive of operations that each begin at another place of a cycle over two files.
func cycle(t *testing.T, operations, schemas int) (archive []byte, expanded int) {
	t.Helper()
	paths := repeated(operations, bodyOf(`{"$ref":"a.json#/x%d"}`))
	root := `{"openapi":"3.1.0","info":{"title":"x","version":"1"},"servers":[{"url":"https://a.example"}],"paths":` + paths + `}`
	a, b := make([]string, schemas), make([]string, schemas)
	for i := range schemas {
		a[i] = fmt.Sprintf(`"x%d":{"type":"object","properties":{"a":{"$ref":"b.json#/x%d"}}}`, i, i)
		b[i] = fmt.Sprintf(`"x%d":{"type":"object","properties":{"a":{"$ref":"a.json#/x%d"}}}`, i, (i+1)%schemas)
	}
	files := map[string][]byte{"openapi.json": []byte(root), "a.json": []byte("{" + strings.Join(a, ",") + "}"), "b.json": []byte("{" + strings.Join(b, ",") + "}")}
	for _, text := range files {
		expanded += len(text)
	}
	return packed(t, files, nil), expanded
}

// dense is n schemas that each refer to all others.
func dense(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"S%d":{"type":"object","properties":{%s}}`, i, listed(n-1, `"p%d":{"$ref":"#/components/schemas/S%d"}`))
	}
	return strings.Join(list, ",")
}

// Each operation of these documents reaches most schemas of the document. The work that they may take is
// in proportion to the bytes that they expand to, and the answer says what is wrong.
func TestImportBoundsTheWorkOfADocumentByItsBytes(t *testing.T) {
	t.Parallel()
	archive, expanded := cycle(t, 3000, 3000)
	paths := make([]string, 5000)
	for i := range paths {
		paths[i] = fmt.Sprintf(`"/p%d":{"post":%s}`, i, bodyOf(fmt.Sprintf(`{"$ref":"#/components/schemas/S%d"}`, i%50)))
	}
	graph := document("3.1.0", "{"+strings.Join(paths, ",")+"}", `{"schemas":{`+dense(50)+`}}`)
	for name, tc := range map[string]struct {
		raw  []byte
		size int
	}{
		"a cycle over two files": {archive, expanded},
		"a dense graph":          {graph, len(graph)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const spare, each = 3_000_000, 3
			_, spent, most, err := openapi.ImportCounted(t.Context(), openapi.ImportInput{Slug: "shop", Document: tc.raw})
			require.Equal(t, spare+each*tc.size, most)
			require.Less(t, spent, most+most/10, "it ends soon after the bound")
			require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
			detail := fault.As(err).Details[0]
			require.Equal(t, "work", detail.Rule)
			require.Regexp(t, `^/openapi/paths/~1p\d+/post$`, detail.Path)
			require.Regexp(t, `for its size.* At the schema [xS]\d+\. Split it, or have fewer operations`, detail.Message)
		})
	}
}

// Operations that begin at different places of one cycle have different schemas. Each definition is compiled
// once, so many operations take little more work than a few.
func TestImportCompilesADefinitionOnce(t *testing.T) {
	t.Parallel()
	const operations = 200
	archive, _ := cycle(t, operations, 500)
	im, spent, _, err := openapi.ImportCounted(t.Context(), openapi.ImportInput{Slug: "shop", Document: archive})
	require.NoError(t, err)
	require.Len(t, im.Verbs, operations)
	stored := 0
	for _, v := range im.Verbs {
		stored += len(v.Schema)
	}
	require.Greater(t, stored, 40_000*operations)
	require.Less(t, spent, stored/4, "bytes count, and not schemas again and again")
}

// Definitions are put together as text. That is the text which encoding the whole has, and it compiles.
func TestSchemaWithDefinitionsIsWrittenAsEncodingIt(t *testing.T) {
	t.Parallel()
	components := `{"schemas":{"Zebra & <co>":{"type":"object","properties":{"a":{"$ref":"#/components/schemas/a.b-c_d"},"z":{"$ref":"#/components/schemas/Zebra & <co>"}}},
		"a.b-c_d":{"description":"\u2028 <b> é \"","enum":["<",">","&",1.50]},"A":{"allOf":[{"$ref":"#/components/schemas/a.b-c_d"}]}}}`
	im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: document("3.1.0",
		repeated(2, bodyOf(`{"properties":{"x":{"$ref":"#/components/schemas/Zebra & <co>"},"y":{"$ref":"#/components/schemas/A"}}}`)), components)})
	require.NoError(t, err)
	for _, v := range im.Verbs {
		require.Contains(t, string(v.Schema), `"$defs":{`)
		tree, err := exactjson.Decode(v.Schema)
		require.NoError(t, err)
		want, err := exactjson.Encode(tree)
		require.NoError(t, err)
		require.Equal(t, string(want), string(v.Schema))
		_, err = argschema.Compile(v.Schema)
		require.NoError(t, err)
	}
}
