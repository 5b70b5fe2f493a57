package redact

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/schemagraph"
)

// Masker hides the secret-looking values of JSON documents of one schema. It is
// immutable and safe for concurrent use.
type Masker struct {
	root  *schemagraph.Node // nil where the schema marks nothing
	blind bool              // the schema cannot be read: everything is masked
	extra [][]string        // paths that are masked besides, see Also
}

// NewMasker returns a Masker. Values are masked that the schema marks (format
// password, writeOnly, x-sensitive, under any keyword), whose name looks secret, or that
// are payment card numbers. So are those below x-opaque, where the importer gave up a
// schema and its marks are lost. A schema that cannot be read masks everything; one that
// is absent marks nothing.
func NewMasker(schema json.RawMessage) *Masker { return MaskerOf(schemagraph.Read(schema)) }

// MaskerOf is NewMasker for a schema that was read.
func MaskerOf(graph *schemagraph.Graph) *Masker {
	m := &Masker{blind: graph.Unreadable}
	if graph.Root != nil && graph.Root.Live {
		m.root = graph.Root
	}
	return m
}

// MaskArgs is NewMasker(schema).Mask(args), for a schema that is used once.
func MaskArgs(args, schema json.RawMessage) (json.RawMessage, []string) {
	return NewMasker(schema).Mask(args)
}

// Mask returns doc with its secrets hidden, and the JSON Pointers of the first 1,000 values
// that were hidden, with long names shortened. Types stay: a string becomes "[masked]" (a card number "***4242"), a
// number 0, a boolean false. null stays, and objects and arrays keep their form.
// Some values are not hidden only because of their name: a boolean (has_password),
// and a number under a plural (max_tokens). Everything else stays byte for byte.
// What is not JSON becomes the string "[masked]".
func (m *Masker) Mask(doc json.RawMessage) (json.RawMessage, []string) {
	if !json.Valid(doc) {
		return json.RawMessage(`"` + Masked + `"`), []string{""}
	}
	w := maskWriter{in: doc, out: make([]byte, 0, len(doc)), left: maskWork}
	root := scope{extra: m.extra, hide: m.blind}
	if m.root != nil {
		var at schemagraph.Set
		at.AddLive(m.root)
		root.take(&at)
	}
	w.value(root, 0)
	return w.out, w.paths
}

// maskWork is how much work one document may take besides being copied, in steps of about
// 20 ns. Arguments of 1 MiB with a schema of 64 alternatives take about half of it. Once it
// is spent, everything that follows is masked.
const maskWork = 10_000_000

// scope is what the place of a value says about it.
type scope struct {
	path   *step
	nodes  []*schemagraph.Node // the live schemas that apply to it
	extra  [][]string          // the rest of the extra paths that continue from here
	hide   bool                // inside something secret
	asked  bool                // inside what an extra path names
	named  bool                // its own name looks secret
	plural bool                // the name is a plural: numbers are counts
	card   bool                // inside an object that describes a card
}

// take closes the set and makes it the schemas of the scope. Where there are too many,
// everything below is hidden.
func (s *scope) take(at *schemagraph.Set) {
	at.CloseLive()
	for _, n := range at.Nodes() {
		s.hide = s.hide || n.Secret
	}
	if s.hide = s.hide || at.Over; !s.hide {
		s.nodes = slices.Clone(at.Nodes())
	}
}

// namesHidden reports whether the names of the object's members are secret.
func (s *scope) namesHidden() bool {
	return slices.ContainsFunc(s.nodes, (*schemagraph.Node).NamesSecret)
}

// Limits of the paths that Mask returns.
const (
	maxPaths   = 1000
	maxSegment = 80 // bytes of one name
)

// step is the last name of a path. Paths are written only where a value is hidden: the names
// of a document can be long, and its values many.
type step struct {
	above *step // nil at the root
	name  string
}

// pointer returns the JSON Pointer of s.
func (s *step) pointer() string {
	var names []string
	for at := s; at != nil; at = at.above {
		names = append(names, at.name)
	}
	slices.Reverse(names)
	var b strings.Builder
	for _, name := range names {
		b.WriteByte('/')
		b.WriteString(pointerSegment(name))
	}
	return b.String()
}

type maskWriter struct {
	in    []byte
	out   []byte
	paths []string
	left  int // work
}

// hid notes the path of a value that was hidden.
func (w *maskWriter) hid(path *step) {
	if len(w.paths) < maxPaths {
		w.paths = append(w.paths, path.pointer())
	}
}

// spend takes steps off the work that is left.
func (w *maskWriter) spend(steps int) { w.left -= min(steps, maskWork) }

// value copies or masks the value that begins at or after i, with the white
// space around it, and returns the position after it.
func (w *maskWriter) value(at scope, i int) int {
	i = w.space(i)
	at.hide = at.hide || w.left < 0
	switch w.in[i] {
	case '{':
		return w.object(at, i)
	case '[':
		return w.array(at, i)
	}
	end := tokenEnd(w.in, i)
	masked, hit := w.leaf(at, w.in[i:end])
	if hit {
		w.hid(at.path)
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
	hidden := at.namesHidden()
	for n := 1; w.in[i] == '"'; n++ {
		end := tokenEnd(w.in, i)
		name := unquote(w.in[i:end])
		next := w.member(at, name)
		if hidden {
			shown := "[masked " + strconv.Itoa(n) + "]"
			next.path = &step{above: at.path, name: shown}
			w.hid(next.path)
			w.out = append(w.out, `"`+shown+`"`...)
		} else {
			w.out = append(w.out, w.in[i:end]...)
		}
		i = w.space(end)
		w.out = append(w.out, ':')
		i = w.value(next, i+1)
		if w.in[i] == ',' {
			w.out = append(w.out, ',')
			i = w.space(i + 1)
		}
	}
	w.out = append(w.out, '}')
	return w.space(i + 1)
}

// member returns the scope of an object's member. A name that differs from the schema's in
// case only is masked like it, because some providers read both alike.
func (w *maskWriter) member(at scope, name string) scope {
	list := words(name)
	next := scope{
		path:   &step{above: at.path, name: name},
		hide:   at.hide,
		named:  at.named || secretPhrase(list) || (at.card && len(list) == 1 && list[0] == "number"),
		plural: len(list) > 0 && strings.HasSuffix(list[len(list)-1], "s"),
		card:   at.card || isCardName(name),
		asked:  at.asked,
	}
	w.spend(len(at.extra))
	next.follow(at.extra, name)
	if len(at.nodes) == 0 || at.hide || w.left < 0 {
		return next
	}
	var to schemagraph.Set
	if !memberOf(at.nodes, name, &to, &w.left) {
		next.hide = true
		return next
	}
	next.take(&to)
	w.spend(len(next.nodes))
	return next
}

// memberOf adds the live schemas of a member to the set, and takes its work off left. It
// returns false where no work is left.
func memberOf(nodes []*schemagraph.Node, name string, to *schemagraph.Set, left *int) bool {
	for _, n := range nodes {
		for _, p := range n.Secrets(name) {
			to.Add(p)
		}
		named := n.Properties[name] != nil
		for _, p := range n.Patterns {
			if p.Node == nil || !p.Node.Live || (p.Rest && named) {
				continue
			}
			if *left -= min(p.Cost(len(name)), maskWork); *left < 0 {
				return false
			}
			if p.Fits(name, named) {
				to.Add(p.Node)
			}
		}
		*left -= len(name) + 1
	}
	return true
}

// elementOf adds the live schemas of element i of an array to the set. It returns false where
// too many schemas, live or not, are about the element.
func elementOf(nodes []*schemagraph.Node, i int, to *schemagraph.Set) bool {
	var all schemagraph.Set
	for _, one := range nodes {
		one.Elements(i, &all)
	}
	for _, one := range all.Nodes() {
		to.AddLive(one)
	}
	return !all.Over
}

func (w *maskWriter) array(at scope, i int) int {
	w.out = append(w.out, '[')
	i = w.space(i + 1)
	for n := 0; w.in[i] != ']'; n++ {
		next := at
		next.path, next.extra, next.nodes = &step{above: at.path, name: strconv.Itoa(n)}, nil, nil
		w.spend(len(at.extra))
		next.followItem(at.extra, n)
		if len(at.nodes) > 0 && !at.hide {
			var to schemagraph.Set
			next.hide = !elementOf(at.nodes, n, &to)
			next.take(&to)
			w.spend(len(at.nodes) + len(next.nodes))
		}
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

// pointerSegment escapes a name for a JSON Pointer (RFC 6901), and shortens a long one.
func pointerSegment(name string) string {
	if len(name) > maxSegment {
		cut := maxSegment
		for cut > 0 && !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + "…"
	}
	return fault.PointerToken(name)
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
