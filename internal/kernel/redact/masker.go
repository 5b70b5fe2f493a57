package redact

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Masker hides the secret-looking values of JSON documents of one schema. It is
// immutable and safe for concurrent use.
type Masker struct {
	root   any // the schema, decoded; nil if there is none
	marked bool
	extra  [][]string // paths that are masked besides, see Also
}

// NewMasker returns a Masker. Values are masked that the schema marks (format
// password, writeOnly, x-sensitive), whose name looks secret, or that are
// payment card numbers. So are those below x-opaque, where the importer gave up a
// schema and its marks are lost. A schema that is absent or not JSON marks nothing.
func NewMasker(schema json.RawMessage) *Masker {
	m := &Masker{}
	for _, keyword := range []string{`"password"`, `"writeOnly"`, `"x-sensitive"`, `"x-opaque"`} {
		m.marked = m.marked || bytes.Contains(schema, []byte(keyword))
	}
	if m.marked && json.Unmarshal(schema, &m.root) != nil {
		m.root = nil
	}
	return m
}

// MaskArgs is NewMasker(schema).Mask(args), for a schema that is used once.
func MaskArgs(args, schema json.RawMessage) (json.RawMessage, []string) {
	return NewMasker(schema).Mask(args)
}

// Mask returns doc with its secrets hidden, and the JSON Pointers of what was
// hidden. Types stay: a string becomes "[masked]" (a card number "***4242"), a
// number 0, a boolean false. null stays, and objects and arrays keep their form.
// Some values are not hidden only because of their name: a boolean (has_password),
// and a number under a plural (max_tokens). Everything else stays byte for byte.
// What is not JSON becomes the string "[masked]".
func (m *Masker) Mask(doc json.RawMessage) (json.RawMessage, []string) {
	if !json.Valid(doc) {
		return json.RawMessage(`"` + Masked + `"`), []string{""}
	}
	w := maskWriter{masker: m, in: doc, out: make([]byte, 0, len(doc))}
	w.value(scope{schemas: w.schemas(nil, m.root, 0), extra: m.extra}, 0)
	return w.out, w.paths
}

// scope is what the place of a value says about it.
type scope struct {
	path    string
	schemas []map[string]any // the schemas that apply to it
	extra   [][]string       // the rest of the extra paths that continue from here
	hide    bool             // inside something secret
	asked   bool             // inside what an extra path names
	named   bool             // its own name looks secret
	plural  bool             // the name is a plural: numbers are counts
	card    bool             // inside an object that describes a card
}

type maskWriter struct {
	masker *Masker
	in     []byte
	out    []byte
	paths  []string
}

// value copies or masks the value that begins at or after i, with the white
// space around it, and returns the position after it.
func (w *maskWriter) value(at scope, i int) int {
	i = w.space(i)
	for _, s := range at.schemas {
		at.hide = at.hide || s["format"] == "password" || s["writeOnly"] == true || s["x-sensitive"] == true || s["x-opaque"] == true
	}
	switch w.in[i] {
	case '{':
		return w.object(at, i)
	case '[':
		return w.array(at, i)
	}
	end := tokenEnd(w.in, i)
	masked, hit := w.leaf(at, w.in[i:end])
	if hit {
		w.paths = append(w.paths, at.path)
	}
	w.out = append(w.out, masked...)
	return w.space(end)
}

// leaf returns the token to write instead of a string, number or literal, and
// whether it hides the value.
func (w *maskWriter) leaf(at scope, token []byte) ([]byte, bool) {
	switch token[0] {
	case 'n':
		return token, false
	case 't', 'f':
		if at.hide {
			return []byte("false"), true
		}
	case '"':
		if at.asked {
			return []byte(`"` + Masked + `"`), true
		}
		text := unquote(token) // only to look at: it goes on byte for byte
		if cards, found := maskCards(text); found && (!at.hide && !at.named || len(cards) == len("***0000")) {
			return quote(cards), true
		}
		if at.hide || at.named {
			return []byte(`"` + Masked + `"`), true
		}
	default:
		if at.hide || (at.named && !at.plural) || looksLikeCard(string(token)) {
			return []byte("0"), true
		}
	}
	return token, false
}

func (w *maskWriter) object(at scope, i int) int {
	w.out = append(w.out, '{')
	i = w.space(i + 1)
	for w.in[i] == '"' {
		end := tokenEnd(w.in, i)
		name := unquote(w.in[i:end])
		w.out = append(w.out, w.in[i:end]...)
		i = w.space(end)
		w.out = append(w.out, ':')
		i = w.value(w.member(at, name), i+1)
		if w.in[i] == ',' {
			w.out = append(w.out, ',')
			i = w.space(i + 1)
		}
	}
	w.out = append(w.out, '}')
	return w.space(i + 1)
}

// member returns the scope of an object's member.
func (w *maskWriter) member(at scope, name string) scope {
	list := words(name)
	next := scope{
		path:   at.path + "/" + pointerSegment(name),
		hide:   at.hide,
		named:  at.named || secretPhrase(list) || (at.card && len(list) == 1 && list[0] == "number"),
		plural: len(list) > 0 && strings.HasSuffix(list[len(list)-1], "s"),
		card:   at.card || isCardName(name),
		asked:  at.asked,
	}
	next.follow(at.extra, name)
	for _, s := range at.schemas {
		properties, _ := s["properties"].(map[string]any)
		if property, known := properties[name]; known {
			next.schemas = w.schemas(next.schemas, property, 0)
		} else {
			next.schemas = w.schemas(next.schemas, s["additionalProperties"], 0)
		}
	}
	return next
}

func (w *maskWriter) array(at scope, i int) int {
	w.out = append(w.out, '[')
	i = w.space(i + 1)
	each := at
	each.schemas = nil
	for _, s := range at.schemas {
		each.schemas = w.schemas(each.schemas, s["items"], 0)
	}
	for n := 0; w.in[i] != ']'; n++ {
		next := each
		next.path, next.extra = at.path+"/"+strconv.Itoa(n), nil
		next.followItem(at.extra, n)
		i = w.value(next, i)
		if w.in[i] == ',' {
			w.out = append(w.out, ',')
			i++
		}
	}
	w.out = append(w.out, ']')
	return w.space(i + 1)
}

// space copies white space and returns the position after it.
func (w *maskWriter) space(i int) int {
	for i < len(w.in) && (w.in[i] == ' ' || w.in[i] == '\t' || w.in[i] == '\n' || w.in[i] == '\r') {
		w.out = append(w.out, w.in[i])
		i++
	}
	return i
}

// maxComposition is how many references and compositions are followed in a row. A
// circular one ends there.
const maxComposition = 8

// schemas appends the schemas of a node: itself, what it refers to, and every
// branch of a composition. Any of them may mark the value.
func (w *maskWriter) schemas(list []map[string]any, node any, depth int) []map[string]any {
	s, ok := node.(map[string]any)
	if !ok || depth > maxComposition {
		return list
	}
	list = append(list, s)
	if ref, ok := s["$ref"].(string); ok {
		list = w.schemas(list, w.resolve(ref), depth+1)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		branches, _ := s[keyword].([]any)
		for _, branch := range branches {
			list = w.schemas(list, branch, depth+1)
		}
	}
	return list
}

// resolve follows a reference inside the schema ("#/$defs/card").
func (w *maskWriter) resolve(ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	node := w.masker.root
	for _, segment := range strings.Split(pointer, "/")[1:] {
		object, ok := node.(map[string]any)
		if !ok {
			return nil
		}
		node = object[strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")]
	}
	return node
}

// pointerSegment escapes a name for a JSON Pointer (RFC 6901).
func pointerSegment(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

func unquote(token []byte) string {
	if bytes.IndexByte(token, '\\') < 0 {
		return string(token[1 : len(token)-1])
	}
	var s string
	if json.Unmarshal(token, &s) != nil {
		return string(token)
	}
	return s
}

func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // a string always marshals
		return []byte(`"` + Masked + `"`)
	}
	return b
}
