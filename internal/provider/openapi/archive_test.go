package openapi_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/openapi"
)

// splitDocument is a document of four files, and whole the same in one.
func splitDocument() map[string][]byte {
	return map[string][]byte{
		"openapi.yaml": []byte(`
openapi: 3.0.3
info: {title: Shop, version: "1"}
servers: [{url: https://api.shop.example}]
paths:
  /orders:
    $ref: paths/orders.yaml
  /orders/{id}:
    get:
      operationId: getOrder
      parameters: [{$ref: "paths/orders.yaml#/x-parameters/id"}]
      responses: {200: {description: ok}}
  /pets:
    post:
      operationId: addPet
      requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/Pet"}, example: {$ref: nowhere.yaml}}}}
      responses: {200: {description: ok}}
components:
  schemas: {$ref: schemas/all.json}
`),
		"paths/orders.yaml": []byte(`
x-parameters:
  id: {name: id, in: path, required: true, schema: {type: integer, maximum: 9007199254740993}}
post:
  operationId: createOrder
  requestBody: {content: {application/json: {schema: {$ref: ../schemas/order.yaml#/Order}}}}
  responses: {200: {description: ok}}
`),
		"schemas/order.yaml": []byte(`
Order:
  type: object
  required: [lines]
  properties:
    lines: {type: array, items: {$ref: "#/Line"}}
    pet: {$ref: "all.json#/Pet"}
    total: {type: number, minimum: 1.10}
Line:
  type: object
  properties:
    sku: {type: string, default: no}
    order: {$ref: order.yaml#/Order}
`),
		"schemas/all.json": []byte(`{"Pet":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"}},"discriminator":{"propertyName":"kind","mapping":{"cat":"#/Cat","dog":"all.json#/Dog"}}},
			"Cat":{"allOf":[{"$ref":"#/Pet"},{"type":"object","properties":{"lives":{"type":"integer"}}}]},"Dog":{"allOf":[{"$ref":"#/Pet"},{"type":"object","properties":{"bark":{"type":"string"}}}]}}`),
	}
}

const wholeDocument = `{"openapi":"3.0.3","info":{"title":"Shop","version":"1"},"servers":[{"url":"https://api.shop.example"}],"paths":{
	"/orders":{"post":{"operationId":"createOrder","requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Order"}}}},"responses":{"200":{"description":"ok"}}}},
	"/orders/{id}":{"get":{"operationId":"getOrder","parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"integer","maximum":9007199254740993}}],"responses":{"200":{"description":"ok"}}}},
	"/pets":{"post":{"operationId":"addPet","requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Pet"}}}},"responses":{"200":{"description":"ok"}}}}},
	"components":{"schemas":{
		"Order":{"type":"object","required":["lines"],"properties":{"lines":{"type":"array","items":{"$ref":"#/components/schemas/Line"}},"pet":{"$ref":"#/components/schemas/Pet"},"total":{"type":"number","minimum":1.10}}},
		"Line":{"type":"object","properties":{"sku":{"type":"string","default":"no"},"order":{"$ref":"#/components/schemas/Order"}}},
		"Pet":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"}},"discriminator":{"propertyName":"kind","mapping":{"cat":"#/components/schemas/Cat","dog":"#/components/schemas/Dog"}}},
		"Cat":{"allOf":[{"$ref":"#/components/schemas/Pet"},{"type":"object","properties":{"lives":{"type":"integer"}}}]},"Dog":{"allOf":[{"$ref":"#/components/schemas/Pet"},{"type":"object","properties":{"bark":{"type":"string"}}}]}}}}`

// packed is an archive of files, with what change makes of their headers.
func packed(t *testing.T, files map[string][]byte, change func(*zip.FileHeader)) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, body := range files {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		if change != nil {
			change(h)
		}
		to, err := w.CreateHeader(h)
		require.NoError(t, err)
		_, err = to.Write(body)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestArchiveMakesTheVerbsOfItsBundledForm(t *testing.T) {
	t.Parallel()
	want, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: []byte(wholeDocument)})
	require.NoError(t, err)
	require.Len(t, want.Verbs, 3)
	stored, err := openapi.Pack(splitDocument())
	require.NoError(t, err)
	for name, in := range map[string]openapi.ImportInput{
		"compressed": {Document: packed(t, splitDocument(), nil)},
		"stored":     {Document: stored},
		"named":      {Document: stored, Files: openapi.Files{Root: "openapi.yaml"}},
		"fetched":    {Document: stored, Files: openapi.Files{Root: "openapi.yaml", Origin: "https://docs.example"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in.Slug = "shop"
			got, err := openapi.ImportSmall(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, openapi.FormZip, got.Form)
			require.Empty(t, got.Rejected)
			require.Empty(t, got.Degraded)
			got.Form = want.Form
			require.Equal(t, want, got)
		})
	}
}

// What refers to a file that is not there is rejected with the reason, and the rest is imported.
func TestArchiveRejectsOperationsWhoseFilesAreNotThere(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{
		"api/openapi.json": []byte(`{"openapi":"3.1.0","info":{"title":"Shop"},"servers":[{"url":"https://api.shop.example"}],"paths":{
			"/good":{"get":{"operationId":"good","parameters":[{"name":"a","in":"query","schema":{"$ref":"../a.yaml"}}]}},
			"/item":{"$ref":"items/none.yaml"},
			"/schema":{"post":{"operationId":"schema","requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Deep"}}}}}},
			"/out":{"get":{"operationId":"out","parameters":[{"$ref":"../../out.yaml#/a"}]}},
			"/far":{"get":{"operationId":"far","parameters":[{"$ref":"https://user:secret@far.example/x.yaml#/a"}]}},
			"/broken":{"get":{"operationId":"broken","parameters":[{"$ref":"../broken.json#/a"}]}},
			"/nothing":{"get":{"operationId":"nothing","parameters":[{"$ref":"../a.yaml#/none"}]}},
			"/anchor":{"get":{"operationId":"anchor","parameters":[{"$ref":"../a.yaml#here"}]}},
			"/cycle":{"get":{"operationId":"cycle","parameters":[{"$ref":"../cycle.yaml#/a"}]}}},
			"components":{"schemas":{"Deep":{"type":"object","properties":{"x":{"$ref":"gone.yaml#/X"}}}}}}`),
		"a.yaml":      []byte("type: string\nenum: [no, yes]\n"),
		"cycle.yaml":  []byte("a: {$ref: 'cycle.yaml#/b'}\nb: {$ref: '#/a'}\n"),
		"broken.json": []byte(`{"a":{},"a":{}}`),
		"README.md":   []byte("# not read"),
	}
	im, err := openapi.ImportSmall(t.Context(), openapi.ImportInput{Slug: "shop", Document: packed(t, files, nil), Files: openapi.Files{Root: "api/openapi.json"}})
	require.NoError(t, err)
	require.Len(t, im.Verbs, 1)
	require.Contains(t, string(im.Verbs[0].Schema), `"enum":["no","yes"]`)
	require.Equal(t, []verb.Report{
		{Operation: "GET /anchor", Reason: "a parameter cannot be read: a reference to an anchor is not supported (#here)"},
		{Operation: "GET /broken", Reason: "a parameter cannot be read: the file broken.json cannot be read: The document cannot be read: a name appears twice in one object at byte 8 (/a)"},
		{Operation: "GET /cycle", Reason: "a parameter cannot be read: a reference leads back to itself (cycle.yaml#/b)"},
		{Operation: "GET /far", Reason: "a parameter cannot be read: a reference leads out of the archive, to https://far.example/x.yaml"},
		{Operation: "/item", Reason: "its path cannot be read: the file api/items/none.yaml is not there"},
		{Operation: "GET /nothing", Reason: "a parameter cannot be read: a reference points to nothing (a.yaml#/none)"},
		{Operation: "GET /out", Reason: "a parameter cannot be read: a reference leads out of the archive: ../../out.yaml"},
		{Operation: "POST /schema", Reason: "the file api/gone.yaml is not there"},
	}, im.Rejected)
}

// A part that refers to what is around it never comes to contain itself.
func TestArchiveWhosePartsReferToThemselvesIsRead(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{
		"openapi.yaml": []byte("openapi: 3.1.0\nservers: [{url: https://a.example}]\npaths: {$ref: 'paths.yaml'}\ncomponents: {$ref: parts.yaml}\n"),
		"parts.yaml":   []byte("schemas: {$ref: '#'}\nparameters: {$ref: 'openapi.yaml'}\n"),
		"paths.yaml":   []byte("/a: {$ref: '#'}\n/b: {get: {operationId: b}}\n/c: {$ref: 'openapi.yaml#/paths'}\n"),
	}
	overlay := []byte(`{"overlay":"1.0.0","info":{"title":"x","version":"1"},"actions":[{"target":"$..get","update":{"summary":"S"}}]}`)
	im, err := openapi.ImportSmall(t.Context(), openapi.ImportInput{Slug: "shop", Document: packed(t, files, nil), Overlay: overlay})
	require.NoError(t, err)
	require.Len(t, im.Verbs, 1)
	require.Equal(t, "S", im.Verbs[0].Description)
}

// An overlay sees the document with its files in their places.
func TestArchiveTakesAnOverlay(t *testing.T) {
	t.Parallel()
	overlay := []byte(`{"overlay":"1.0.0","info":{"title":"x","version":"1"},"actions":[
		{"target":"$.paths['/orders'].post","update":{"summary":"Make an order"}},{"target":"$.components.schemas.Cat","update":{"description":"A cat"}}]}`)
	im, err := openapi.ImportSmall(t.Context(), openapi.ImportInput{Slug: "shop", Document: packed(t, splitDocument(), nil), Overlay: overlay})
	require.NoError(t, err)
	require.Equal(t, "Make an order", verbNamed(t, im, "create_order").Description)
	require.Empty(t, im.Unused)
}

func TestArchiveOfSwaggerIsConverted(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{
		"swagger.yaml": []byte("swagger: '2.0'\ninfo: {title: Shop}\nhost: api.shop.example\npaths: {$ref: paths.yaml}\ndefinitions:\n  A: {$ref: 'defs.yaml#/A'}\n"),
		"paths.yaml":   []byte("/a:\n  post:\n    operationId: addA\n    parameters:\n      - {$ref: 'defs.yaml#/params/body'}\n      - {$ref: 'defs.yaml#/params/list'}\n"),
		"defs.yaml": []byte("params:\n  body: {name: body, in: body, required: true, schema: {$ref: 'swagger.yaml#/definitions/A'}}\n  list: {name: list, in: query, type: array, items: {type: string}, collectionFormat: pipes}\n" +
			"A: {type: object, properties: {n: {type: string, x-nullable: true}}}\n"),
	}
	im, err := openapi.ImportSmall(t.Context(), openapi.ImportInput{Slug: "shop", Document: packed(t, files, nil)})
	require.NoError(t, err)
	require.Empty(t, im.Rejected)
	schema, err := argschema.Compile(im.Verbs[0].Schema)
	require.NoError(t, err)
	require.Empty(t, schema.Validate([]byte(`{"n":null,"list":["a"]}`)), string(im.Verbs[0].Schema))
	require.NotEmpty(t, schema.Validate([]byte(`{"n":1}`)))
}

func TestArchiveIsRefused(t *testing.T) {
	t.Parallel()
	minimal := []byte("openapi: 3.1.0\nservers: [{url: https://a.example}]\npaths: {}\n")
	with := func(name string, body []byte) map[string][]byte {
		return map[string][]byte{"openapi.yaml": minimal, name: body}
	}
	many := map[string][]byte{"openapi.yaml": minimal}
	for i := range 5_000 {
		many[strings.Repeat("d/", i%7)+string(rune('a'+i%26))+strings.Repeat("x", i/26)] = nil
	}
	link := func(h *zip.FileHeader) {
		if h.Name == "link.yaml" {
			h.SetMode(fs.ModeSymlink | 0o777)
		}
	}
	for name, tc := range map[string]struct {
		document   []byte
		root, path string
		rule       string
	}{
		"a path that leads out": {document: packed(t, with("../x.yaml", nil), nil), path: "/openapi", rule: "path"},
		"an absolute path":      {document: packed(t, with("/etc/passwd", nil), nil), path: "/openapi", rule: "path"},
		"a path of Windows":     {document: packed(t, with(`..\x.yaml`, nil), nil), path: "/openapi", rule: "path"},
		"a symbolic link":       {document: packed(t, with("link.yaml", []byte("/etc/passwd")), link), path: "/openapi", rule: "link"},
		"a bomb":                {document: packed(t, with("x.json", make([]byte, 20<<20)), nil), path: "/openapi", rule: "ratio"},
		"a large bomb":          {document: packed(t, with("x.json", make([]byte, 26<<20)), nil), path: "/openapi", rule: "size"},
		"too many files":        {document: packed(t, many, nil), path: "/openapi", rule: "files"},
		"an encrypted file":     {document: packed(t, with("x.yaml", nil), func(h *zip.FileHeader) { h.Flags |= 1 }), path: "/openapi", rule: "encrypted"},
		"no archive":            {document: []byte("PK\x03\x04 and nothing"), path: "/openapi", rule: "zip"},
		"no files":              {document: packed(t, nil, nil), path: "/root", rule: "required"},
		"two roots":             {document: packed(t, with("openapi.json", nil), nil), path: "/root", rule: "required"},
		"another root":          {document: packed(t, with("a.yaml", nil), nil), root: "b.yaml", path: "/root", rule: "unknown"},
		"a root that is none":   {document: packed(t, with("a.yaml", []byte("[")), nil), root: "a.yaml", path: "/openapi", rule: "json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: tc.document, Files: openapi.Files{Root: tc.root}})
			f := fault.As(err)
			require.NotNil(t, f, "%v", err)
			require.Equal(t, tc.path+" "+tc.rule, f.Details[0].Path+" "+f.Details[0].Rule, f.Message)
		})
	}
}

// The bounds of a document count all of its files together.
func TestArchiveCountsItsFilesTogether(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{"openapi.yaml": []byte("openapi: 3.1.0\nservers: [{url: https://a.example}]\npaths: {}\nx: [{$ref: a.yaml}, {$ref: b.yaml}]\n")}
	for _, name := range []string{"a.yaml", "b.yaml"} {
		files[name] = []byte("x: \"" + strings.Repeat("x", 3<<20) + "\"\n")
	}
	stored, err := openapi.Pack(files)
	require.NoError(t, err)
	_, err = openapi.ImportSmall(t.Context(), openapi.ImportInput{Slug: "shop", Document: stored})
	require.ErrorIs(t, err, openapi.ErrNotSmall)
	_, err = openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: stored})
	require.ErrorContains(t, err, "bytes of YAML")
}

// The merge keys of many small files cost like those of one large file.
func TestArchiveCountsTheMergesOfItsFilesTogether(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{}
	var root strings.Builder
	root.WriteString("openapi: 3.1.0\nservers: [{url: https://a.example}]\npaths: {}\nx:\n")
	for i := range 100 {
		name := fmt.Sprintf("x%d.yaml", i)
		root.WriteString("- {$ref: " + name + "}\n")
		files[name] = []byte("x: &x {a: 1, b: 1, c: 1, d: 1, e: 1}\ny: {<<: [" + strings.Repeat("*x,", 500) + "]}\n")
	}
	files["openapi.yaml"] = []byte(root.String())
	stored, err := openapi.Pack(files)
	require.NoError(t, err)
	_, err = openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: stored})
	require.ErrorContains(t, err, "merge keys")
}

func FuzzArchive(f *testing.F) {
	stored, err := openapi.Pack(splitDocument())
	require.NoError(f, err)
	f.Add(stored, "openapi.yaml", "")
	f.Add(stored, "", "https://docs.example")
	f.Add([]byte("PK\x05\x06"+strings.Repeat("\x00", 18)), "", "")
	f.Fuzz(func(t *testing.T, raw []byte, root, origin string) {
		_, _ = openapi.ImportSmall(t.Context(), openapi.ImportInput{Slug: "shop", Document: raw, BaseURL: "https://api.example", Files: openapi.Files{Root: root, Origin: origin}})
		_, _ = openapi.References(t.Context(), origin, root, raw, true, 100)
	})
}

// The YAML that comes first becomes almost as much JSON as a small document has, and a file of JSON
// takes more than the rest. What the next file of YAML may become is then less than nothing.
func TestImportSmallLeavesAnArchiveThatGrowsToImport(t *testing.T) {
	t.Parallel()
	grows := "x-a: &a \"" + strings.Repeat("x", 90_000) + "\"\nx-all: [" + strings.Repeat("*a, ", 10) + "]\n"
	document := packed(t, map[string][]byte{
		"openapi.yaml": []byte(grows + `openapi: 3.1.0
info: {title: Shop}
servers: [{url: https://api.shop.example}]
paths:
  /a: {get: {operationId: a, parameters: [{$ref: "a.json#/p"}]}}
`),
		"a.json": []byte(`{"x":"` + strings.Repeat("y", 100_000) + `","p":{"$ref":"b.yaml#/p"}}`),
		"b.yaml": []byte("p: {name: q, in: query, schema: {type: string}}\n"),
	}, nil)
	in := openapi.ImportInput{Slug: "shop", Document: document}
	_, err := openapi.ImportSmall(t.Context(), in)
	require.ErrorIs(t, err, openapi.ErrNotSmall)
	im, err := openapi.Import(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, im.Verbs, 1)
	require.Empty(t, im.Rejected)
}

func TestReferencesEndsAtMostFilesAndWithItsCaller(t *testing.T) {
	t.Parallel()
	many := "x: [" + strings.Repeat("{$ref: b}, ", 20) + "{$ref: c}, {$ref: d}, {$ref: e}, {$ref: 'https://other.example/f'}]"
	refs, err := openapi.References(t.Context(), "https://a.example", "a", []byte(many), false, 2)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"b": "/b", "c": "/c", "d": "/d"}, refs.Files)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = openapi.References(ctx, "https://a.example", "a", []byte(many), false, 100)
	require.ErrorIs(t, err, context.Canceled)
}
