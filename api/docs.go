package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed" // the document and the page that shows it
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"
	"gopkg.in/yaml.v3"
)

// The document is written in YAML and served as JSON.
//
//go:embed openapi.yaml
var openapiYAML []byte

// The page at /docs. The script is Scalar's API reference, see LICENSE.txt beside
// it; it is kept compressed, a quarter of its size, as most clients want it.
var (
	//go:embed docsui/index.html
	docsPage []byte
	//go:embed docsui/init.js
	docsInit []byte
	//go:embed docsui/scalar.js.gz
	docsScriptGzip []byte
)

// docsPolicy keeps the page on this host: neither the script nor what it shows can
// load or send anything elsewhere. Scalar sets styles from its script.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// mountDocs serves the OpenAPI document and the page that shows it, to anyone.
func mountDocs(mux chi.Router) {
	document, err := documentJSON(openapiYAML)
	if err != nil {
		panic(err) // the document is part of the program; a test converts it
	}
	spec := newAsset("application/json; charset=utf-8", document)
	spec.header = http.Header{"Access-Control-Allow-Origin": {"*"}}
	page := newAsset("text/html; charset=utf-8", docsPage)
	page.header = http.Header{"Content-Security-Policy": {docsPolicy}, "Referrer-Policy": {"no-referrer"}}
	script := asset{contentType: "text/javascript; charset=utf-8", gzipped: docsScriptGzip, etag: etagOf(docsScriptGzip)}
	for path, a := range map[string]asset{
		"/openapi.json":   spec,
		"/docs":           page,
		"/docs/init.js":   newAsset("text/javascript; charset=utf-8", docsInit),
		"/docs/scalar.js": script,
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

// ServeHTTP implements http.Handler. A client asks each time whether its copy is
// still good, which costs it a 304 without a body.
func (a asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	maps.Copy(h, a.header)
	h.Set("ETag", a.etag)
	h.Set("Cache-Control", "public, no-cache")
	h.Add("Vary", "Accept-Encoding")
	if matches(r.Header.Get("If-None-Match"), a.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", a.contentType)
	compressed := acceptsGzip(r)
	if compressed {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(a.gzipped)))
	}
	w.WriteHeader(http.StatusOK)
	switch {
	case r.Method == http.MethodHead:
	case compressed:
		_, _ = w.Write(a.gzipped) // else the client went away
	default:
		z, err := gzip.NewReader(bytes.NewReader(a.gzipped))
		if err == nil {
			_, _ = io.Copy(w, z) //nolint:gosec // the input is ours
		}
	}
}

func matches(ifNoneMatch, etag string) bool {
	for candidate := range strings.SplitSeq(ifNoneMatch, ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || strings.TrimPrefix(candidate, "W/") == strings.TrimPrefix(etag, "W/") {
			return true
		}
	}
	return false
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

// documentJSON converts the YAML document to JSON and keeps the order of members,
// which is the order in which operations and fields are shown.
func documentJSON(source []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(source, &root); err != nil {
		return nil, fmt.Errorf("api: read the OpenAPI document: %w", err)
	}
	if len(root.Content) != 1 {
		return nil, errors.New("api: the OpenAPI document is empty")
	}
	var b bytes.Buffer
	if err := writeNode(&b, root.Content[0]); err != nil {
		return nil, fmt.Errorf("api: convert the OpenAPI document: %w", err)
	}
	return b.Bytes(), nil
}

func writeNode(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		return writeItems(b, n, '{', '}')
	case yaml.SequenceNode:
		return writeItems(b, n, '[', ']')
	case yaml.ScalarNode:
		var v any
		if err := n.Decode(&v); err != nil {
			return err
		}
		return writeValue(b, v)
	default:
		return fmt.Errorf("line %d: aliases are not used here", n.Line)
	}
}

// writeItems writes the elements of a sequence, or the names and values of a
// mapping, which a YAML node holds in turn.
func writeItems(b *bytes.Buffer, n *yaml.Node, begin, end byte) error {
	b.WriteByte(begin)
	for i, item := range n.Content {
		isName := n.Kind == yaml.MappingNode && i%2 == 0
		switch {
		case i == 0:
		case n.Kind == yaml.MappingNode && !isName:
			b.WriteByte(':')
		default:
			b.WriteByte(',')
		}
		var err error
		if isName {
			err = writeValue(b, item.Value)
		} else {
			err = writeNode(b, item)
		}
		if err != nil {
			return err
		}
	}
	b.WriteByte(end)
	return nil
}

func writeValue(b *bytes.Buffer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b.Write(raw)
	return nil
}
