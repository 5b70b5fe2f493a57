package access

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// eventStream answers without end.
const eventStream = "/v1/events/stream"

// document is the served /openapi.json, read without any code of the service.
type document struct {
	root map[string]any
	ops  []operation

	mu       sync.Mutex // guards compiler and compiled
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

// operation is one method of one path.
type operation struct {
	method, path string
	pattern      *regexp.Regexp // of the escaped path
	node         map[string]any
	params       []map[string]any
}

// id names the operation in tables and messages.
func (o operation) id() string { return o.method + " " + o.path }

const documentURL = "https://document.example/openapi.json"

func parseDocument(tb testing.TB, raw []byte) *document {
	tb.Helper()
	d := &document{compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(tb, err)
	d.root = object(value)
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	require.NoError(tb, d.compiler.AddResource(documentURL, value))
	for path, item := range object(d.root["paths"]) {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			node, has := object(item)[strings.ToLower(method)].(map[string]any)
			if !has {
				continue
			}
			d.ops = append(d.ops, operation{
				method: method, path: path, node: node, pattern: pathPattern(path),
				params: append(d.parameters(object(item)), d.parameters(node)...),
			})
		}
	}
	slices.SortFunc(d.ops, func(a, b operation) int { return strings.Compare(a.id(), b.id()) })
	return d
}

func pathPattern(path string) *regexp.Regexp {
	quoted := regexp.MustCompile(`\\\{[^}]+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`)
	return regexp.MustCompile(`(?s)^` + quoted + `$`)
}

func (d *document) parameters(node map[string]any) []map[string]any {
	var out []map[string]any
	for _, p := range array(node["parameters"]) {
		out = append(out, d.deref(object(p)))
	}
	return out
}

// deref follows references within the document.
func (d *document) deref(node map[string]any) map[string]any {
	for {
		ref, is := node["$ref"].(string)
		if !is {
			return node
		}
		target := any(d.root)
		for segment := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			target = object(target)[strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)]
		}
		node = object(target)
	}
}

// find returns the operation that a request is for, and the methods that its path
// has; no methods means that the document does not know the path.
func (d *document) find(method, escapedPath string) (op *operation, methods []string) {
	for i := range d.ops {
		if !d.ops[i].pattern.MatchString(escapedPath) {
			continue
		}
		// A fixed path is meant before a template that fits it too.
		methods = append(methods, d.ops[i].method)
		if d.ops[i].method == method && (op == nil || strings.Contains(op.path, "{")) {
			op = &d.ops[i]
		}
	}
	return op, methods
}

// fits reports how an answer departs from what the document says of op.
func (d *document) fits(op operation, status int, header http.Header, body []byte) error {
	responses := object(op.node["responses"])
	listed, has := responses[strconv.Itoa(status)]
	if !has {
		return fmt.Errorf("status %d is not documented, only %v", status, slices.Sorted(maps.Keys(responses)))
	}
	pointer := "/paths/" + escapePointer(op.path) + "/" + strings.ToLower(op.method) + "/responses/" + strconv.Itoa(status)
	if ref, is := object(listed)["$ref"].(string); is {
		pointer = strings.TrimPrefix(ref, "#")
	}
	response := d.deref(object(listed))
	for name, h := range object(response["headers"]) {
		h := d.deref(object(h))
		if required, _ := h["required"].(bool); required && header.Get(name) == "" {
			return fmt.Errorf("the header %s is missing", name)
		}
	}
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	if _, has := object(response["content"])[media]; !has {
		return fmt.Errorf("content type %q is not documented", media)
	}
	schema, err := d.compile(pointer + "/content/" + escapePointer(media) + "/schema")
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	return schema.Validate(value)
}

func (d *document) compile(pointer string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, done := d.compiled[pointer]; done {
		return s, nil
	}
	s, err := d.compiler.Compile(documentURL + "#" + pointer)
	if err != nil {
		return nil, fmt.Errorf("schema at %s: %w", pointer, err)
	}
	d.compiled[pointer] = s
	return s, nil
}

// body returns the schema of op's JSON request body, nil where it has none.
func (d *document) body(op operation) map[string]any {
	content := object(d.deref(object(op.node["requestBody"]))["content"])
	if content == nil {
		return nil
	}
	return d.deref(object(object(content["application/json"])["schema"]))
}

// needsBody reports whether op has to be sent with a body.
func (d *document) needsBody(op operation) bool {
	needed, _ := d.deref(object(op.node["requestBody"]))["required"].(bool)
	return needed
}

func escapePointer(s string) string {
	// The pointer stands in the fragment of a URL, so braces are escaped too.
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(s)
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func array(v any) []any {
	a, _ := v.([]any)
	return a
}

// encode returns v as JSON.
func encode(tb testing.TB, v any) []byte {
	tb.Helper()
	raw, err := json.Marshal(v)
	require.NoError(tb, err)
	return raw
}
