package bounds

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// upload is the request of an import of a large document.
type upload struct {
	format      string
	contentType string
	body        []byte
	size        int // of the document as it is read, in bytes
}

func repeated(n int, u upload) []upload { return slices.Repeat([]upload{u}, n) }

// settings are the members of an import beside its document.
func settings(more m) m {
	all := m{"slug": "large", "base_url": "https://api.example.com", "auth": m{"type": "none"}}
	maps.Copy(all, more)
	return all
}

func encoded(tb testing.TB, value any) []byte {
	tb.Helper()
	raw, err := json.Marshal(value)
	require.NoError(tb, err)
	return raw
}

// largeObject is the schema of a nested body, like those of generated documents.
func largeObject(members int) m {
	properties := m{}
	for i := range members {
		inner := m{}
		for k := range 6 {
			inner[fmt.Sprintf("g%d", k)] = m{"type": "string", "description": "What this is about."}
		}
		properties[fmt.Sprintf("f%d", i)] = m{"type": "object", "properties": inner}
	}
	return m{"type": "object", "properties": properties}
}

// largePaths are paths of about so many bytes: writes with nested bodies.
func largePaths(tb testing.TB, bytes int, operation func(i int) m) m {
	tb.Helper()
	paths, size := m{}, 0
	for i := 0; size < bytes; i++ {
		raw := encoded(tb, m{"post": operation(i)})
		paths[fmt.Sprintf("/y%d", i)] = json.RawMessage(raw)
		size += len(raw)
	}
	return paths
}

func openapiOperation(i int) m {
	object := func(members int) m { return m{"application/json": m{"schema": largeObject(members)}} }
	return m{
		"operationId": fmt.Sprintf("do_%d", i), "requestBody": m{"content": object(8)}, "responses": m{"200": m{"description": "ok", "content": object(2)}},
	}
}

func openapiDocument(paths m) m {
	return m{"openapi": "3.1.0", "info": m{"title": "Large", "version": "1"}, "paths": paths}
}

func jsonUpload(tb testing.TB, bytes int) upload {
	tb.Helper()
	raw := encoded(tb, settings(m{"openapi": openapiDocument(largePaths(tb, bytes, openapiOperation))}))
	return upload{"JSON", "application/json", raw, len(raw)}
}

func swaggerUpload(tb testing.TB, bytes int) upload {
	tb.Helper()
	paths := largePaths(tb, bytes, func(i int) m {
		return m{
			"operationId": fmt.Sprintf("do_%d", i), "parameters": []m{{"name": "body", "in": "body", "schema": largeObject(8)}},
			"responses": m{"200": m{"description": "ok", "schema": largeObject(2)}},
		}
	})
	raw := encoded(tb, settings(m{"openapi": m{"swagger": "2.0", "info": m{"title": "Large", "version": "1"}, "paths": paths}}))
	return upload{"Swagger 2.0", "application/json", raw, len(raw)}
}

// largeFiles are a document of about so many bytes, in twenty files beside the root.
func largeFiles(tb testing.TB, bytes int) (files map[string][]byte, size int) {
	tb.Helper()
	const parts = 20
	files, root := map[string][]byte{}, m{}
	for part := range parts {
		name := fmt.Sprintf("part-%d.json", part)
		paths := m{}
		for path, item := range largePaths(tb, bytes/parts, func(i int) m { return openapiOperation(part*1_000_000 + i) }) {
			key := fmt.Sprintf("p%d%s", part, strings.TrimPrefix(path, "/"))
			paths[key] = item
			root["/"+key] = m{"$ref": name + "#/" + key}
		}
		files[name] = encoded(tb, paths)
		size += len(files[name])
	}
	files["openapi.json"] = encoded(tb, openapiDocument(root))
	return files, size + len(files["openapi.json"])
}

// archiveUpload is a zip archive. It is not compressed as far as it could be, because an archive that
// shrinks to less than a two-hundredth is refused.
func archiveUpload(tb testing.TB, size int) upload {
	tb.Helper()
	files, size := largeFiles(tb, size)
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for name, content := range files {
		method := zip.Deflate
		if strings.HasPrefix(name, "part-1") {
			method = zip.Store
		}
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		require.NoError(tb, err)
		_, err = f.Write(content)
		require.NoError(tb, err)
	}
	require.NoError(tb, w.Close())
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	require.NoError(tb, form.WriteField("request", string(encoded(tb, settings(nil)))))
	part, err := form.CreateFormFile("document", "large.zip")
	require.NoError(tb, err)
	_, err = io.Copy(part, &packed)
	require.NoError(tb, err)
	require.NoError(tb, form.Close())
	return upload{"archive", form.FormDataContentType(), body.Bytes(), size}
}

// addressUpload names an address where the root and its files are. No answer says its length.
func addressUpload(tb testing.TB, size int) upload {
	tb.Helper()
	files, size := largeFiles(tb, size)
	return upload{"address", "application/json", encoded(tb, settings(m{"openapi_url": served(tb, files)})), size}
}

// oneFileUpload names an address where the whole document is.
func oneFileUpload(tb testing.TB, size int) upload {
	tb.Helper()
	raw := encoded(tb, openapiDocument(largePaths(tb, size, openapiOperation)))
	url := served(tb, map[string][]byte{"openapi.json": raw})
	return upload{"address of one file", "application/json", encoded(tb, settings(m{"openapi_url": url})), len(raw)}
}

// served returns where the root of the files is.
func served(tb testing.TB, files map[string][]byte) (url string) {
	tb.Helper()
	return rig.Serve(tb, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, is := files[strings.TrimPrefix(r.URL.Path, "/")]
		if !is {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(content)
	})) + "/openapi.json"
}

// yamlUpload is a document of so many bytes, of which list are a list of short values beside the
// operations: the parser takes memory for each value.
func yamlUpload(tb testing.TB, bytes, list int) upload {
	tb.Helper()
	var text strings.Builder
	text.WriteString("openapi: 3.1.0\ninfo: {title: Large, version: '1'}\nx-list: [")
	for i := 0; text.Len() < list; i++ {
		fmt.Fprintf(&text, "%d,", 1_000_000_000+i)
	}
	text.WriteString("0]\npaths:\n")
	for i := 0; text.Len() < bytes; i++ {
		fmt.Fprintf(&text, "  /y%d:\n    post:\n      operationId: do_%[1]d\n      responses: {}\n      requestBody:\n        content:\n          application/json:\n            schema:\n              type: object\n              properties:\n", i)
		for k := range 8 {
			fmt.Fprintf(&text, "                f%d:\n                  type: object\n                  properties:\n", k)
			for g := range 6 {
				fmt.Fprintf(&text, "                    g%d: {type: string}\n", g)
			}
		}
	}
	return upload{"YAML", "application/json", encoded(tb, settings(m{"openapi": text.String()})), text.Len()}
}

// aliasesUpload is a document of YAML that stands for one of about so many bytes: each operation has the
// same bodies, by aliases. The texts of the operations make up a tenth, because a document that grows
// more is refused.
func aliasesUpload(tb testing.TB, bytes int) upload {
	tb.Helper()
	operation := openapiOperation(0)
	operation["description"] = strings.Repeat("What it does. ", 35)
	var text strings.Builder
	fmt.Fprintf(&text, "openapi: 3.1.0\ninfo: {title: Large, version: '1'}\nx-request: &request %s\nx-responses: &responses %s\npaths:\n",
		encoded(tb, operation["requestBody"]), encoded(tb, operation["responses"]))
	each := len(encoded(tb, m{"post": operation}))
	for i := range bytes / each {
		fmt.Fprintf(&text, "  /y%d: {post: {operationId: do_%[1]d, description: %q, requestBody: *request, responses: *responses}}\n", i, operation["description"])
	}
	return upload{"YAML with aliases", "application/json", encoded(tb, settings(m{"openapi": text.String()})), bytes}
}
