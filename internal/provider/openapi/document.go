package openapi

import (
	"encoding/json"
	"net/url"
	"strings"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/swagger"
)

// Limits on a document. GitHub's nests 21 levels deep and Stripe's 26; GitHub's
// has a quarter of a million values, which take 40 MB. The rest is room: one of 25 MB without spaces
// has a million values, which take 200 MB. Only one that is made to take more reaches the limits.
const (
	maxDocumentValues = 4_000_000
	maxTreeBytes      = 400 << 20
	maxRefHops        = 32
)

// reason says why an operation cannot be called or what it lost, in words for
// the importer's report.
type reason string

// Error implements error.
func (r reason) Error() string { return string(r) }

// badReferenceError says why a reference leads nowhere. What an operation lost is told without the
// reference: it may have lost many, and a report has room for few.
type badReferenceError struct {
	why reason
	ref string
}

// maxReferenceShown is how many bytes of a reference a report repeats.
const maxReferenceShown = 200

// Error implements error.
func (b badReferenceError) Error() string {
	if shown := written(b.ref); shown != "" {
		return string(b.why) + " (" + argschema.Shorten(shown, maxReferenceShown) + ")"
	}
	return string(b.why)
}

// written returns a reference about as the author wrote it, without secrets that an address may
// contain; "" for what is no address.
func written(ref string) string {
	if pointer, is := strings.CutPrefix(ref, "#/"+filesKey+"/"); is {
		file, rest, below := strings.Cut(pointer, "/")
		if file = unescapeToken(file); below {
			file += "#/" + rest
		}
		return file
	}
	if pointer, is := strings.CutPrefix(ref, "#/"+swagger.Home+"/"); is {
		return "#/" + pointer
	}
	if strings.HasPrefix(ref, "#") {
		return ref
	}
	at, err := url.Parse(ref)
	if err != nil {
		return ""
	}
	at.Opaque = ""
	return withoutSecrets(at)
}

// Unwrap returns the reason alone.
func (b badReferenceError) Unwrap() error { return b.why }

// document is an OpenAPI document as a tree of JSON values. Numbers are
// json.Number, so that no bound of a schema loses digits.
type document struct {
	root map[string]any
	*work
	// old is true for OpenAPI 3.0, whose schemas are not JSON Schema.
	old bool
	// form is how the document is written.
	form Form
}

// parseDocument reads raw and checks what makes the whole document unusable.
// unused are the actions of the overlay that were about nothing.
func parseDocument(in ImportInput, w *work) (d *document, unused []string, err error) {
	var tree any
	form := FormZip
	if isArchive(in.Document) {
		tree, err = parseArchive(in, w)
	} else {
		tree, form, err = w.decode(in.Document)
	}
	if err != nil {
		return nil, nil, err
	}
	root, ok := tree.(map[string]any)
	if !ok {
		return nil, nil, fault.Invalid("/openapi", "type", "The document must be an object.")
	}
	if unused, err = w.overlay(in.Overlay, root); err != nil {
		return nil, nil, err
	}
	d = &document{root: root, work: w, form: form}
	return d, unused, d.checkVersion()
}

// checkVersion refuses other versions. A document of Swagger 2.0 becomes one of OpenAPI 3.0.
func (d *document) checkVersion() error {
	if old, swaggers := d.root["swagger"]; swaggers && d.root["openapi"] == nil {
		if version := versionOf(old); version != "2.0" {
			return fault.Invalid("/openapi/swagger", "version", "The document must be Swagger 2.0, OpenAPI 3.0 or 3.1.")
		}
		root := swagger.Convert(swagger.Document{Root: d.root, Lookup: d.lookup, Spend: d.spend})
		d.root, d.old = root, true
		return d.err
	}
	version := versionOf(d.root["openapi"])
	if version == "" {
		return fault.Invalid("/openapi/openapi", "required", "The document must name its OpenAPI version.")
	}
	switch {
	case version == "3.0" || strings.HasPrefix(version, "3.0."):
		d.old = true
	case version == "3.1" || strings.HasPrefix(version, "3.1."):
	default:
		return fault.Invalid("/openapi/openapi", "version", "The document must be Swagger 2.0, OpenAPI 3.0 or 3.1.")
	}
	return nil
}

// versionOf returns a version, which people write as a text or as a number.
func versionOf(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	default:
		return ""
	}
}

// maxReference is the most bytes of a reference. Each use of a schema compares those in it, so
// long ones cost more than the work that is counted. GitHub's longest has 90.
const maxReference = 2048

// lookup returns the value that a local reference ("#/components/…") points to.
func (d *document) lookup(ref string) (any, error) {
	pointer, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil, badReferenceError{"a reference leaves the document", ref}
	}
	if len(ref) > maxReference {
		return nil, badReferenceError{"a reference is too long", ref}
	}
	if pointer == "" {
		return d.root, nil
	}
	if !strings.HasPrefix(pointer, "/") {
		return nil, badReferenceError{"a reference to an anchor is not supported", ref}
	}
	var at any = d.root
	d.spend(1 + len(pointer)/32)
	for token := range strings.SplitSeq(pointer[1:], "/") {
		next, ok := step(at, unescapeToken(token))
		if !ok {
			return nil, badReferenceError{"a reference points to nothing", ref}
		}
		if missing, is := next.(absent); is {
			return nil, missing
		}
		at = next
	}
	return at, nil
}

// step goes one token down: into an object by name, into an array by index.
func step(at any, token string) (any, bool) {
	switch v := at.(type) {
	case map[string]any:
		next, ok := v[token]
		return next, ok
	case []any:
		index := 0
		if token == "" || len(token) > 6 {
			return nil, false
		}
		for _, c := range token {
			if c < '0' || c > '9' {
				return nil, false
			}
			index = index*10 + int(c-'0')
		}
		if index >= len(v) {
			return nil, false
		}
		return v[index], true
	}
	return nil, false
}

// unescapeToken undoes the URI and the JSON Pointer escaping of one token.
func unescapeToken(token string) string {
	if strings.Contains(token, "%") {
		if plain, err := url.PathUnescape(token); err == nil {
			token = plain
		}
	}
	return fault.PointerName(token)
}

// object returns node as an object, following references as often as needed.
func (d *document) object(node any) (map[string]any, error) {
	ref := ""
	for range maxRefHops {
		n, ok := node.(map[string]any)
		switch {
		case !ok && ref == "":
			return nil, reason("an object is expected where the document has another value")
		case !ok:
			return nil, badReferenceError{"an object is expected where the document has another value", ref}
		}
		one, isRef := n["$ref"].(string)
		if !isRef {
			return n, nil
		}
		ref = one
		next, err := d.lookup(ref)
		if err != nil {
			return nil, err
		}
		node = next
	}
	return nil, badReferenceError{"a reference leads back to itself", ref}
}

// field returns an object-valued member of n, nil where it is absent or not an
// object.
func field(n map[string]any, name string) map[string]any {
	m, _ := n[name].(map[string]any)
	return m
}

// text returns a string member of n, "" where it is absent or not a string.
func text(n map[string]any, name string) string {
	s, _ := n[name].(string)
	return s
}

// flag returns a boolean member of n and whether it is one.
func flag(n map[string]any, name string) (value, ok bool) {
	value, ok = n[name].(bool)
	return value, ok
}
