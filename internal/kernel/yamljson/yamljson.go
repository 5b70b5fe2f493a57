// Package yamljson turns one document of YAML into JSON of the same meaning, with numbers as
// they were written. Definitions of Maps and the importer of provider documents use it. It never
// makes a Go number or a date of a value, and reads nothing but the bytes that it is given.
package yamljson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"agentruntime/internal/kernel/exactjson"
	"agentruntime/internal/kernel/fault"
)

// Options bound a document.
type Options struct {
	// What names the document in messages: "a definition".
	What string
	// MaxBytes bounds the YAML, MaxJSON the JSON, in bytes.
	MaxBytes, MaxJSON int
	// MaxDepth is the deepest nesting.
	MaxDepth int
	// MaxValues bounds Values of the YAML.
	MaxValues int
	// Full takes all of YAML 1.2 that JSON can say: aliases, merge keys, the tags of the core
	// schema, and numbers in other notations. Names that are there twice are refused. Without it
	// only what looks like JSON is taken, and names that are there twice are for the reader of the
	// JSON to refuse.
	Full bool
}

// Fault is one thing that is wrong with a document.
type Fault struct {
	Path    string // JSON Pointer
	Rule    string
	Message string // begins with a verb or a noun, without a full stop
}

// maxFaults is how many faults Convert collects.
const maxFaults = 1_000

// maxSteps bounds the nodes that one conversion visits. A list of merge keys visits nodes without
// writing any.
const maxSteps = 8_000_000

// What aliases repeat is bounded by the size of the text too, so that a short one costs little:
// the JSON has at most spareJSON bytes and repeats bytes for each of the text, and the nodes likewise.
const (
	spareJSON  = 2 << 20
	spareSteps = 1_000_000
	repeats    = 10
)

// maxSegment is how much of one name a path repeats, in bytes.
const maxSegment = 64

// Convert returns the JSON of one document of YAML, or what is wrong with it. A plain scalar is
// null, true, false, a number, or a text: yes, no and dates are texts.
func Convert(source []byte, opts Options) (out json.RawMessage, list []Fault) {
	if opts.MaxJSON <= 0 {
		return nil, []Fault{{"", "maxLength", opts.What + " is too long as JSON"}}
	}
	opts.MaxJSON = min(opts.MaxJSON, spareJSON+repeats*len(source))
	r := &reader{Options: opts, open: map[*yaml.Node]bool{}, most: min(maxSteps, spareSteps+repeats*len(source))}
	if len(source) > opts.MaxBytes {
		r.addf("maxLength", "%s has at most %d bytes of YAML", opts.What, opts.MaxBytes)
		return nil, r.list
	}
	if Values(source) > opts.MaxValues {
		r.addf("maxLength", "%s has too many values", opts.What)
		return nil, r.list
	}
	root, err := load(source)
	if err != nil {
		r.addf("syntax", "is not one document of YAML%s", lineOf(err))
		return nil, r.list
	}
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	r.out = make([]byte, 0, min(len(source)+len(source)/2, opts.MaxJSON))
	r.value(root, 0)
	r.step() // the last value counts too
	if len(r.list) > 0 {
		return nil, r.list
	}
	return r.out, nil
}

// load parses the text.
func load(source []byte) (root *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil { // the parser is not ours
			root, err = nil, fmt.Errorf("yamljson: the parser failed: %v", p)
		}
	}()
	root = &yaml.Node{}
	return root, yaml.Load(withoutVersion(source), root) //nolint:wrapcheck // lineOf reads it
}

// Values returns a number that the values of a document do not exceed by much, without reading
// it: its lines and the signs that separate values within a line, those of texts too. The parser
// takes about 800 bytes of memory for a value, so a dense document of 5 MB would take gigabytes.
func Values(source []byte) int {
	n := 1
	for i, c := range source {
		switch c {
		case '\n', '\r', ',', '[', '{', '?', ':':
			n++
		case '-':
			if i+1 < len(source) && source[i+1] == ' ' {
				n++
			}
		}
	}
	return n
}

// versionLine is a document's first line beside comments, where it says its version.
var versionLine = regexp.MustCompile(`^(?:[ \t]*(?:#[^\r\n]*)?\r?\n)*%YAML 1\.2[ \t]*\r?\n`)

// withoutVersion returns the document with its line %YAML 1.2 made a comment. The parser reads that
// version, and refuses its name.
func withoutVersion(source []byte) []byte {
	found := versionLine.Find(source)
	if found == nil {
		return source
	}
	out := slices.Clone(source)
	out[bytes.LastIndexByte(found, '%')] = '#'
	return out
}

// lineOf returns where a document cannot be read, "" where that is not known.
func lineOf(err error) string {
	first, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		all, is := errors.AsType[*yaml.LoadErrors](err)
		if !is || len(all.Errors) == 0 {
			return ""
		}
		first = all.Errors[0]
	}
	if first.Mark.Line <= 0 {
		return ""
	}
	return " (line " + strconv.Itoa(first.Mark.Line) + ")"
}

type reader struct {
	Options

	out     []byte
	path    []string // names and positions of the value that is read
	list    []Fault
	open    map[*yaml.Node]bool // anchored values around the one that is read
	steps   int
	most    int  // steps
	stopped bool // a bound is exceeded
}

func (r *reader) addf(rule, format string, args ...any) {
	if len(r.list) >= maxFaults {
		r.stopped = true
		return
	}
	var path strings.Builder
	for _, segment := range r.path {
		path.WriteString("/" + fault.PointerToken(clip(segment)))
	}
	r.list = append(r.list, Fault{path.String(), rule, fmt.Sprintf(format, args...)})
}

func (r *reader) refuse(n *yaml.Node, message string) {
	r.addf("yaml", "%s (line %d)", message, n.Line)
}

// stop ends the conversion: the document is too large when it is written out.
func (r *reader) stop(format string, args ...any) {
	if !r.stopped {
		r.path = nil
		r.addf("maxLength", format, args...)
	}
	r.stopped = true
}

// step counts a node, and reports whether the conversion may go on.
func (r *reader) step() bool {
	if r.steps++; r.steps > r.most {
		r.stop("%s has too many values once its aliases are written out", r.What)
	}
	if len(r.out) > r.MaxJSON {
		r.stop("%s has at most %d bytes of JSON", r.What, r.MaxJSON)
	}
	return !r.stopped
}

func (r *reader) value(n *yaml.Node, depth int) {
	if !r.step() {
		return
	}
	target, leave := r.enter(n)
	if target == nil {
		return
	}
	defer leave()
	switch n = target; {
	case depth > r.MaxDepth:
		r.refuse(n, "nests too deep")
	case !r.allowsTag(n):
		r.refuse(n, r.tagMessage())
	case n.Kind == yaml.MappingNode:
		r.object(n, depth)
	case n.Kind == yaml.SequenceNode:
		r.array(n, depth)
	case n.Kind == yaml.ScalarNode:
		r.scalar(n)
	default:
		r.refuse(n, "is not a value")
	}
}

func (r *reader) array(n *yaml.Node, depth int) {
	r.out = append(r.out, '[')
	for i, item := range n.Content {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		r.path = append(r.path, strconv.Itoa(i))
		r.value(item, depth+1)
		if r.stopped {
			return
		}
		r.path = r.path[:len(r.path)-1]
	}
	r.out = append(r.out, ']')
}

// enter returns the value that a node stands for, and what to do after it; nil where it is
// refused. The value of an alias must not be around it.
func (r *reader) enter(n *yaml.Node) (*yaml.Node, func()) {
	if n.Kind != yaml.AliasNode && n.Anchor == "" {
		return n, func() {}
	}
	if !r.Full {
		r.refuse(n, "anchors and aliases are not allowed. Write the value again")
		return nil, nil
	}
	target := n
	if n.Kind == yaml.AliasNode {
		target = n.Alias
	}
	switch {
	case target == nil:
		r.refuse(n, "is an alias of nothing")
		return nil, nil
	case r.open[target]:
		r.refuse(n, "is an alias of a value around it")
		return nil, nil
	}
	r.open[target] = true
	return target, func() { delete(r.open, target) }
}

func (r *reader) text(s string) { r.out = append(r.out, exactjson.Text(s)...) }

func clip(s string) string {
	if len(s) <= maxSegment {
		return s
	}
	return strings.ToValidUTF8(s[:maxSegment], "") + "…"
}
