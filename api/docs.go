package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed" // the document and the page that shows it
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"agentruntime/internal/maps/mapdef"
)

//go:generate go run ./openapi

// openapiJSON is the contract. Its parts are in the folder openapi.
//
//go:embed openapi.json
var openapiJSON []byte

// The page at /docs. The script is Scalar's API reference, see LICENSE.txt beside
// it; it is stored compressed, a quarter of its size, as most clients accept it.
var (
	//go:embed docsui/index.html
	docsPage []byte
	//go:embed docsui/init.js
	docsInit []byte
	//go:embed docsui/scalar.js.gz
	docsScriptGzip []byte
)

// docsPolicy restricts the page to this host. Neither the script nor the document can
// load from or send to another host. Scalar sets styles from its script.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// mapSchemaPath is where editors find the JSON Schema of the definitions of Maps.
const mapSchemaPath = "/schemas/map.json"

// mountDocs serves the OpenAPI document, the page that shows it and the JSON Schema of Maps, to
// anyone.
func mountDocs(mux chi.Router) {
	spec := newAsset("application/json; charset=utf-8", openapiJSON)
	spec.header = http.Header{"Access-Control-Allow-Origin": {"*"}}
	page := newAsset("text/html; charset=utf-8", docsPage)
	page.header = http.Header{"Content-Security-Policy": {docsPolicy}, "Referrer-Policy": {"no-referrer"}}
	format := newAsset("application/schema+json", mapdef.Schema(mapSchemaPath))
	format.header = http.Header{"Access-Control-Allow-Origin": {"*"}}
	script := asset{contentType: "text/javascript; charset=utf-8", gzipped: docsScriptGzip, etag: etagOf(docsScriptGzip)}
	for path, a := range map[string]asset{
		"/openapi.json":   spec,
		"/docs":           page,
		"/docs/init.js":   newAsset("text/javascript; charset=utf-8", docsInit),
		"/docs/scalar.js": script,
		mapSchemaPath:     format,
	} {
		mux.Method(http.MethodGet, path, a)
		mux.Method(http.MethodHead, path, a)
	}
}

// asset is one file of the program, ready to be served.
type asset struct {
	contentType string
	gzipped     []byte
	etag        string
	header      http.Header
}

func newAsset(contentType string, content []byte) asset {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
	_, _ = z.Write(content)                               // a buffer takes everything
	_ = z.Close()
	return asset{contentType: contentType, gzipped: b.Bytes(), etag: etagOf(content)}
}

// etagOf is weak, since the compressed and the plain form share it.
func etagOf(content []byte) string {
	sum := sha256.Sum256(content)
	return `W/"` + hex.EncodeToString(sum[:8]) + `"`
}

// ServeHTTP implements http.Handler. A client asks each time whether its copy is current;
// a 304 without a body answers that it is.
func (a asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	maps.Copy(h, a.header)
	h.Set("Content-Type", a.contentType)
	h.Set("Etag", a.etag)
	h.Set("Cache-Control", "public, no-cache")
	h.Add("Vary", "Accept-Encoding")
	content := a.gzipped
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		// ServeContent leaves the length of encoded content to its caller.
		h.Set("Content-Length", strconv.Itoa(len(content)))
	} else {
		content = a.plain()
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// plain returns the content for the few clients that do not accept gzip.
func (a asset) plain() []byte {
	z, err := gzip.NewReader(bytes.NewReader(a.gzipped))
	if err != nil {
		return nil // never: a test reads each asset
	}
	content, _ := io.ReadAll(z)
	return content
}

func acceptsGzip(r *http.Request) bool {
	for offer := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(offer), ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.ReplaceAll(weight, " ", ""), "q="), 64)
		return err != nil || q > 0
	}
	return false
}
