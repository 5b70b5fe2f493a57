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

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
)

// Options bound a document.
type Options struct {
	// What names the document in messages: "a definition".
	What string
	// MaxBytes bounds the YAML, MaxJSON the JSON, in bytes.
	MaxBytes, MaxJSON int
	// MaxDepth is the deepest nesting.
	MaxDepth int
	// MaxValues bounds Values of the YAML in UTF-8.
	MaxValues int
	// Full takes all of YAML 1.2 that JSON can say: aliases, merge keys, the tags of the core
	// schema, and numbers in other notations. Names that are there twice are refused. Without it
	// only what looks like JSON is taken, and names that are there twice are for the reader of the
	// JSON to refuse.
	Full bool
	// Meter counts what several texts take together, nil for one text alone.
	Meter *Meter
}

// Meter counts the work of the texts that are converted with it, so that many small ones have the bounds
// of one large one.
type Meter struct {
	bytes  int // of the texts, in UTF-8
	signs  int // their Values
	moves  int // of signs, by the parser
	values int // that were written, with those of aliases
	work   int
}

// Fault is one thing that is wrong with a document.
type Fault struct {
	Path    string // JSON Pointer
	Rule    string
	Message string // begins with a verb or a noun, without a full stop
}

// maxFaults is how many faults Convert collects.
const maxFaults = 1_000

// Bounds in proportion to the text, so that a short one costs little. Aliases repeat bytes and values
// of the JSON, and merge keys compare names without writing any.
const (
	// The JSON has at most spareJSON bytes and repeats bytes for each of the text.
	spareJSON = 2 << 20
	repeats   = 10
	// It has at most spareValues values, and one for so many bytes of the text.
	spareValues   = 1_000_000
	bytesPerValue = 2
	// The conversion takes at most spareWork units of work and workPerByte for each byte of the text. The
	// values of a text without aliases take at most one unit for a byte.
	spareWork   = 500_000
	workPerByte = 2
)

// What is counted as work, in units of about 50 ns (measured).
const (
	visitWork = 1 // a value, or a member of an object that is looked at
	mergeWork = 8 // an object that is merged, and each member of it with the search for its name
	// nameBytesPerWork is how many bytes of a merged name take another unit.
	nameBytesPerWork = 256
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
	if opts.Meter == nil {
		opts.Meter = &Meter{}
	}
	r := &reader{Options: opts, open: map[*yaml.Node]bool{}, written: map[*yaml.Node]piece{}}
	root := r.parse(source)
	if root == nil {
		return nil, r.list
	}
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	r.out = make([]byte, 0, min(len(source)+len(source)/2, opts.MaxJSON))
	r.value(root, 0, false)
	r.spend(0) // the last value counts too
	if len(r.list) > 0 {
		return nil, r.list
	}
	return r.out, nil
}

// parse returns the parsed text, nil where it is refused.
func (r *reader) parse(source []byte) *yaml.Node {
	if len(source) > r.MaxBytes {
		r.addf("maxLength", "%s has at most %d bytes of YAML", r.What, r.MaxBytes)
		return nil
	}
	source, err := inUTF8(source)
	switch {
	case err != nil: // told below
	case !r.Meter.add(source, r.MaxValues):
		r.addf("maxLength", "%s has too many values", r.What)
		return nil
	case r.Meter.moves > spareMoves+movesPerByte*r.Meter.bytes:
		_, line := moves(source)
		r.addf("maxLength", "%s has too many lists or objects as names. A name must be a plain text (line %d)", r.What, line)
		return nil
	case tagTooMany(source) > 0:
		r.addf("yaml", "has more or longer lines with %%TAG than are allowed. Write !!str, !!map and !!seq without them (line %d)", tagTooMany(source))
		return nil
	}
	var root *yaml.Node
	if err == nil {
		root, err = load(source)
	}
	if err != nil {
		r.addf("syntax", "%s", syntaxFault(err))
		return nil
	}
	return root
}

// add counts a text before it is parsed. It returns false where the texts have more values than that.
func (m *Meter) add(source []byte, most int) bool {
	more, _ := moves(source)
	m.bytes, m.signs, m.moves = m.bytes+len(source), m.signs+Values(source), m.moves+more
	return m.signs <= most
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

// maxReason bounds the parser's reason in a fault, in bytes.
const maxReason = 150

// ofText is a character of the text in a reason of the parser, as itself or as a number.
var ofText = regexp.MustCompile(` '[^']*' that| \(value: \d+\)`)

// syntaxFault says why a document cannot be read, and where. It repeats nothing of the document.
func syntaxFault(err error) string {
	first, ok := errors.AsType[*yaml.LoadError](err)
	if all, is := errors.AsType[*yaml.LoadErrors](err); !ok && is && len(all.Errors) > 0 {
		first = all.Errors[0]
	}
	if first == nil {
		return "is no valid YAML"
	}
	where := ""
	if first.Mark.Line > 0 {
		where = " (line " + strconv.Itoa(first.Mark.Line) + ")"
	}
	switch first.Stage {
	case yaml.ReaderStage, yaml.ScannerStage, yaml.ParserStage:
		return "is no valid YAML: " + reasonOf(first) + where
	case yaml.ConstructorStage: // nothing is constructed here: there is no document, or more than one
		return "is not one document of YAML" + where
	default: // the reasons of other stages have names of the document
		return "is no valid YAML" + where
	}
}

// reasonOf returns the parser's reason without the characters of the text.
func reasonOf(e *yaml.LoadError) string {
	reason := ofText.ReplaceAllStringFunc(e.Message, func(found string) string {
		if strings.HasSuffix(found, " that") {
			return " that"
		}
		return ""
	})
	if e.ContextMsg != "" {
		reason += " " + e.ContextMsg
	}
	return reason[:min(len(reason), maxReason)]
}

type reader struct {
	Options

	out     []byte
	path    []string // names and positions of the value that is read
	list    []Fault
	open    map[*yaml.Node]bool  // anchored values around the one that is read
	written map[*yaml.Node]piece // values that may be repeated
	deepest int                  // depth of what was written
	line    int                  // where what is read or merged stands
	stopped bool                 // a bound is exceeded
}

// piece is the JSON of a value that is written.
type piece struct {
	from, to int // in the output
	values   int // below the value
	height   int // levels below the value
	refused  bool
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

// spend counts work, and reports whether the conversion may go on.
func (r *reader) spend(work int) bool {
	m := r.Meter
	if m.work += work; m.work > spareWork+workPerByte*m.bytes || m.values > spareValues+m.bytes/bytesPerValue {
		r.stop("%s has too many values once its aliases and merge keys are written out (line %d)", r.What, r.line)
	}
	if len(r.out) > r.MaxJSON {
		r.tooLong()
	}
	return !r.stopped
}

func (r *reader) tooLong() {
	r.stop("%s has at most %d bytes of JSON (line %d)", r.What, r.MaxJSON, r.line)
}

// value writes a value. merged is true for one that may be written at several places without an alias.
func (r *reader) value(n *yaml.Node, depth int, merged bool) {
	r.Meter.values++
	r.line = n.Line
	if !r.spend(visitWork) {
		return
	}
	target, leave := r.enter(n)
	if target == nil {
		return
	}
	defer leave()
	if target.Anchor == "" && !merged {
		r.write(target, depth)
		return
	}
	if p, known := r.written[target]; known && depth+p.height <= r.MaxDepth {
		r.repeat(p, depth)
		return
	}
	p, faults, around := piece{from: len(r.out), values: r.Meter.values}, len(r.list), r.deepest
	r.deepest = depth
	r.write(target, depth)
	p.to, p.values, p.height = len(r.out), r.Meter.values-p.values, r.deepest-depth
	p.refused = len(r.list) > faults
	r.written[target] = p
	r.deepest = max(r.deepest, around)
}

// repeat writes a value again.
func (r *reader) repeat(p piece, depth int) {
	if len(r.out)+p.to-p.from > r.MaxJSON {
		r.tooLong()
		return
	}
	r.out = append(r.out, r.out[p.from:p.to]...)
	r.Meter.values += p.values
	r.deepest = max(r.deepest, depth+p.height)
}

// write writes a value that stands for itself.
func (r *reader) write(n *yaml.Node, depth int) {
	r.deepest = max(r.deepest, depth)
	switch {
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
		r.value(item, depth+1, false)
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
	case r.written[target].refused: // its faults are told where it stands
		return nil, nil
	}
	r.open[target] = true
	return target, func() { delete(r.open, target) }
}

func (r *reader) text(s string) {
	if !isPlain(s) {
		r.out = append(r.out, exactjson.Text(s)...)
		return
	}
	r.out = append(r.out, '"')
	r.out = append(r.out, s...)
	r.out = append(r.out, '"')
}

// isPlain reports whether a text is written in JSON as it is. Nearly all are, and the encoder takes
// longer for a text than all else.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func clip(s string) string {
	if len(s) <= maxSegment {
		return s
	}
	return strings.ToValidUTF8(s[:maxSegment], "") + "…"
}
