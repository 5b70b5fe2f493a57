package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/httpfield"
)

// Limits on schemas. maxNodes bounds what a document may expand to (Stripe's whole
// document takes 16,000 schemas); maxText keeps schemas readable for a
// model, whose context they fill.
const (
	maxNodes   = 500_000
	maxDefs    = 100_000
	maxDefined = 2_000 // in the definitions of one verb
	maxText    = 600
	maxExample = 256 // bytes
)

// errTooLarge ends an import whose references multiply without bound.
func errTooLarge() error {
	return fault.Invalid("/openapi", "size", "The document's references expand to too much.")
}

// converter rewrites OpenAPI schemas as JSON Schema 2020-12. A referenced schema becomes a
// definition. It is converted once, however many operations use it.
type converter struct {
	doc   *document
	defs  map[string]*definition // by reference
	taken map[string]bool        // names of definitions
	queue []string               // references that are defined and not yet converted
	nodes int
	// loose: objects inside of arguments may have names that their schema does not list. listing
	// remembers which references list names.
	loose   bool
	listing map[string]bool
	// choices remembers what the discriminators of references choose from, and children which
	// schemas extend each other.
	// refusals are the losses without which an operation cannot be called.
	refusals map[string]bool
	choices  map[string]*choice
	crowded  map[string]bool // that choose from too many
	children map[string]map[string][]string
	compiled map[string]*regexp.Regexp // of limits
}

// definition is a referenced schema, ready to be put under $defs.
type definition struct {
	name    string
	raw     json.RawMessage
	nodes   int      // schemas in it
	refs    []string // references in it, sorted
	inPlace []string // those of them that apply to the same value
	lost    []string
	checked bool // that inPlace leads nowhere back to it
	open    bool // on the path that is being checked
	judged  bool // whether it can be used, as far as part says
	part    *argschema.Part
}

// scratch collects what one conversion meets.
type scratch struct {
	refs    map[string]bool
	inPlace map[string]bool
	lost    map[string]bool
}

func newScratch() *scratch {
	return &scratch{refs: map[string]bool{}, inPlace: map[string]bool{}, lost: map[string]bool{}}
}

func (s *scratch) lose(why string) { s.lost[why] = true }

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func newConverter(doc *document, loose bool) *converter {
	return &converter{
		doc: doc, loose: loose, defs: map[string]*definition{}, taken: map[string]bool{}, listing: map[string]bool{},
		refusals: map[string]bool{}, choices: map[string]*choice{}, crowded: map[string]bool{}, children: map[string]map[string][]string{},
		compiled: map[string]*regexp.Regexp{},
	}
}

// schema converts one schema. inPlace says that it applies to the same value as the schema
// it is part of: there a reference back would never end.
func (c *converter) schema(node any, s *scratch, inPlace bool) any {
	c.nodes++
	switch t := node.(type) {
	case bool:
		return t
	case chosen:
		return c.dispatch(t.choice, s)
	}
	n, ok := node.(map[string]any)
	if !ok || c.nodes > maxNodes || !c.doc.spend(4+len(n)) {
		s.lose("a schema is not an object")
		return opaque()
	}
	if ref, isRef := n["$ref"].(string); isRef {
		return c.reference(n, ref, s, inPlace)
	}
	out := c.keywords(n, s, inPlace)
	if nullable, _ := flag(n, "nullable"); nullable {
		return makeNullable(out)
	}
	return out
}

// opaque returns the schema of a value whose own schema is given up. Every value fits it.
// What is in it counts as unknown: policies judge it by the strict side, and it is masked. Its members
// count as listed, so that a schema around it does not refuse them.
func opaque() map[string]any {
	return map[string]any{argschema.Opaque: true, "additionalProperties": true}
}

// keepSecrecy keeps the marks by which a value is masked. They check nothing.
func keepSecrecy(out, n map[string]any) {
	for _, key := range []string{"writeOnly", "x-sensitive"} {
		if secret, _ := flag(n, key); secret {
			out[key] = true
		}
	}
}

// reference converts {"$ref": …}. OpenAPI 3.0 ignores what stands beside it; a
// description does no harm and helps a reader, and what is marked secret is masked.
func (c *converter) reference(n map[string]any, ref string, s *scratch, inPlace bool) map[string]any {
	out := map[string]any{}
	if !c.doc.old && len(n) > 1 {
		rest := make(map[string]any, len(n))
		for k, v := range n {
			if k != "$ref" {
				rest[k] = v
			}
		}
		out = c.keywords(rest, s, inPlace)
	} else {
		if d := text(n, "description"); d != "" && c.doc.spend(len(d)/bytesPerUnit) {
			out["description"] = argschema.Shorten(d, maxText)
		}
		keepSecrecy(out, n)
	}
	def, err := c.define(ref)
	if err != nil {
		if missing, is := errors.AsType[absent](err); is {
			c.refusals[missing.why] = true
		}
		s.lose(kindOf(err))
		maps.Copy(out, opaque())
		return out
	}
	s.refs[ref] = true
	if inPlace {
		s.inPlace[ref] = true
	}
	out["$ref"] = "#/$defs/" + def.name
	return out
}

// kindOf returns what is wrong with a reference, without the reference.
func kindOf(err error) string {
	if bad, is := errors.AsType[badReferenceError](err); is {
		return string(bad.why)
	}
	return err.Error()
}

// keywords converts the members of a schema that is no bare reference.
func (c *converter) keywords(n map[string]any, s *scratch, inPlace bool) map[string]any {
	out := make(map[string]any, len(n))
	keepSecrecy(out, n)
	if ch := c.alternatives(n, s); ch != nil {
		n = maps.Clone(n)
		delete(n, formsWord(n)) // the other word, if it is there, still counts
		n["allOf"] = append(slices.Clone(listOf(n["allOf"])), chosen{ch})
	}
	for _, key := range sortedKeys(n) { // in order: what is dropped can depend on it
		value := n[key]
		switch key {
		case "title", "description":
			if t, ok := value.(string); ok && t != "" && c.doc.spend(len(t)/bytesPerUnit) {
				out[key] = argschema.Shorten(t, maxText)
			}
		case "format", "contentEncoding", "contentMediaType":
			if t, ok := value.(string); ok {
				out[key] = t
			}
		case "deprecated", "uniqueItems":
			if b, ok := value.(bool); ok && b {
				out[key] = true
			}
		case "type":
			c.setType(out, value, s)
		case "enum", "const", "default", "example", "examples":
			if c.doc.spendValue(value) {
				setLiteral(out, key, value, s)
			}
		case "required", "dependentRequired":
			c.setRequired(out, key, value, n)
		case "pattern":
			c.doc.spend(100 + len(text(n, key)))
			c.setPattern(out, value, s)
		case "$dynamicRef", "$recursiveRef":
			s.lose("a dynamic reference in a schema is not followed")
			maps.Copy(out, opaque())
		default:
			if !setNumber(out, key, value, n, s) {
				c.setNested(out, key, value, s, inPlace)
			}
		}
	}
	return out
}

// setNested converts the keywords that contain schemas. Anything else (xml,
// discriminator, extensions, readOnly, $id …) has no part in judging arguments.
func (c *converter) setNested(out map[string]any, key string, value any, s *scratch, inPlace bool) {
	switch key {
	case "not", "if", "then", "else":
		out[key] = c.schema(value, s, inPlace)
	case "allOf":
		c.setList(out, key, value, func(node any) any { return c.schema(node, s, inPlace) })
	case "anyOf", "oneOf":
		c.setList(out, key, value, func(node any) any { return c.anyForm(node, s, inPlace) })
	case "prefixItems":
		c.setList(out, key, value, func(node any) any { return c.value(node, s) })
	case "items":
		if _, tuple := value.([]any); tuple {
			c.setList(out, "prefixItems", value, func(node any) any { return c.value(node, s) })
			return
		}
		out[key] = c.value(value, s)
	case "additionalProperties", "unevaluatedProperties", "unevaluatedItems":
		out[key] = c.value(value, s)
	case "contains", "propertyNames": // another schema says what the value may have
		out[key] = c.schema(value, s, false)
	case "properties", "patternProperties":
		c.setProperties(out, key, value, s, func(node any) any { return c.value(node, s) })
	case "dependentSchemas":
		c.setProperties(out, key, value, s, func(node any) any { return c.schema(node, s, inPlace) })
	}
}

func (c *converter) setList(out map[string]any, key string, value any, convert func(any) any) {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return
	}
	converted := make([]any, len(list))
	for i, e := range list {
		converted[i] = convert(e)
	}
	out[key] = converted
}

func (c *converter) setProperties(out map[string]any, key string, value any, s *scratch, convert func(any) any) {
	props, ok := value.(map[string]any)
	if !ok {
		return
	}
	converted := make(map[string]any, len(props))
	for _, name := range sortedKeys(props) {
		node := props[name]
		if key == "properties" && c.readOnly(node) {
			c.doc.spend(1)
			continue
		}
		if key == "patternProperties" {
			c.doc.spend(100 + len(name))
			expression, fits := c.doc.goPattern(name)
			if !fits {
				s.lose("a pattern that cannot be compiled is not checked")
				// Without the pattern its names would count as additional.
				out["additionalProperties"] = opaque()
				continue
			}
			name = expression
		}
		converted[name] = convert(node)
	}
	out[key] = converted
}

// readOnly reports whether a property is the provider's to set: a request does
// not carry it.
func (c *converter) readOnly(node any) bool {
	if beside, _ := node.(map[string]any); !c.doc.old && beside != nil {
		if ro, _ := flag(beside, "readOnly"); ro { // OpenAPI 3.1 counts what stands beside a reference
			return true
		}
	}
	n, err := c.doc.object(node)
	if err != nil {
		return false
	}
	ro, _ := flag(n, "readOnly")
	return ro
}

// setRequired keeps the names of required properties, apart from read-only ones.
func (c *converter) setRequired(out map[string]any, key string, value any, n map[string]any) {
	if key == "dependentRequired" {
		groups, ok := value.(map[string]any)
		if !ok {
			return
		}
		kept := map[string]any{}
		for name, list := range groups {
			kept[name] = c.requiredNames(list, n)
		}
		out[key] = kept
		return
	}
	if list := c.requiredNames(value, n); len(list) > 0 {
		out[key] = list
	}
}

func (c *converter) requiredNames(value any, n map[string]any) []string {
	list, _ := value.([]any)
	if !c.doc.spend(len(list) / 4) {
		return nil
	}
	props, seen := field(n, "properties"), make(map[string]bool, len(list))
	kept := make([]string, 0, len(list))
	for _, e := range list {
		name, ok := e.(string)
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		if prop, declared := props[name]; declared && c.readOnly(prop) {
			continue
		}
		kept = append(kept, name)
	}
	return kept
}

// define returns the definition of a reference. convertQueued converts its schema later, so
// that a long chain of references does not become a deep stack.
func (c *converter) define(ref string) (*definition, error) {
	if def, ok := c.defs[ref]; ok {
		return def, nil
	}
	if len(c.defs) >= maxDefs {
		c.nodes = maxNodes + 1
		return nil, reason("the document has too many schemas")
	}
	if _, err := c.doc.lookup(strings.TrimSuffix(ref, anyMark)); err != nil {
		return nil, err
	}
	def := &definition{name: c.defName(ref)}
	c.defs[ref] = def
	c.queue = append(c.queue, ref)
	return def, nil
}

// refusal returns why an operation cannot be called for what it lost, nil where it can.
func (c *converter) refusal(s *scratch) error {
	for _, why := range sorted(s.lost) {
		if c.refusals[why] {
			return reason(why)
		}
	}
	return nil
}

// convertQueued converts what define has put aside.
func (c *converter) convertQueued() error {
	for len(c.queue) > 0 {
		ref := c.queue[0]
		c.queue = c.queue[1:]
		node, err := c.defined(ref)
		if err != nil {
			return err
		}
		s, before := newScratch(), c.nodes
		def := c.defs[ref]
		c.doc.at = ref
		if def.raw, err = exactjson.Encode(c.schema(node, s, true)); err != nil {
			return err
		}
		def.nodes = c.nodes - before
		def.refs, def.inPlace, def.lost = sorted(s.refs), sorted(s.inPlace), sorted(s.lost)
	}
	if c.nodes > maxNodes {
		return errTooLarge()
	}
	return c.doc.err
}

// defined returns the schema of a definition.
func (c *converter) defined(key string) (any, error) {
	ref, anyForm := strings.CutSuffix(key, anyMark)
	ch := c.subtypes(ref)
	if anyForm {
		return chosen{ch}, nil
	}
	node, err := c.doc.lookup(ref)
	if ch != nil {
		node = withoutForms(node)
	}
	return node, err
}

// chosen stands in the tree where a choice is to be converted.
type chosen struct{ *choice }

// defName makes a short, unique name that needs no escaping in a pointer.
func (c *converter) defName(ref string) string {
	token := schemaName(ref)
	if base, is := strings.CutSuffix(ref, anyMark); is {
		token = schemaName(base) + ".any"
	}
	name := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (r == '.' || r == '-' || r == '_' || httpfield.IsAlnum(byte(r))) {
			return r
		}
		return '_'
	}, token)
	if name != token || name == "" || c.taken[name] || len(name) > maxDomain {
		sum := sha256.Sum256([]byte(ref))
		short := argschema.Shorten(name, maxDomain-9)
		name = short + "_" + hex.EncodeToString(sum[:4])
		for c.taken[name] { // an author can choose a name that is another's digest
			sum = sha256.Sum256(sum[:])
			name = short + "_" + hex.EncodeToString(sum[:4])
		}
	}
	c.taken[name] = true
	return name
}

// opaqueSchema returns opaque as it is stored.
func opaqueSchema() json.RawMessage {
	return json.RawMessage(`{"additionalProperties":true,"` + argschema.Opaque + `":true}`)
}

// endless replaces definitions that apply to the same value without end
// ({"A": {"allOf": [{"$ref": A}]}}), which no value satisfies, with one that
// every value does and that is marked as opaque.
func (c *converter) endless(ref string) {
	def, ok := c.defs[ref]
	if !ok || def.checked {
		return
	}
	if def.open {
		def.raw, def.refs, def.inPlace = opaqueSchema(), nil, nil
		def.lost = append(def.lost, "a schema that refers back to itself is not checked")
		return
	}
	def.open = true
	for _, next := range def.inPlace {
		c.endless(next)
	}
	def.open, def.checked = false, true
}

// closure is the definitions that an operation reaches, by their names.
type closure struct {
	raw map[string]json.RawMessage
	// of has what each was made of, nil where it is opaque.
	of      map[string]*definition
	schemas int // in all of them
	bytes   int // of names and schemas
	lost    []string
}

// closure returns the definitions that refs reach.
// Beyond budget bytes or maxDefined schemas the farther ones are opaque: in some documents all schemas refer
// to each other, and a catalog cannot repeat them in every verb.
func (c *converter) closure(refs []string, budget int) *closure {
	seen := map[string]bool{}
	var queue []string
	// add puts in the queue what was not there before: where all schemas refer to each other, most were.
	add := func(refs []string) {
		for _, ref := range refs {
			if !seen[ref] {
				seen[ref] = true
				queue = append(queue, ref)
			}
		}
	}
	add(refs)
	out := &closure{raw: map[string]json.RawMessage{}, of: map[string]*definition{}}
	for at := 0; at < len(queue); at++ {
		ref := queue[at]
		def := c.defs[ref]
		if c.doc.at = ref; !c.doc.spend(1 + len(def.refs)) {
			break
		}
		c.endless(ref)
		name, raw := def.name, def.raw
		if budget -= len(raw) + len(name); budget < 0 || out.schemas+def.nodes > maxDefined {
			def, raw = nil, opaqueSchema()
			out.lost = append(out.lost, "the schema is too large; its deeper parts are not checked")
		} else {
			out.schemas += def.nodes
			out.lost = append(out.lost, def.lost...)
			add(def.refs)
		}
		out.raw[name], out.of[name] = raw, def
		out.bytes += len(name) + len(raw)
	}
	return out
}

// put returns a schema with the definitions. It writes them as encoding the whole would: `$defs` comes
// before all other members. The definitions are written already, and encoding them again for
// each operation takes the most time of an import where many operations share them.
func (cl *closure) put(own json.RawMessage) json.RawMessage {
	out := make(json.RawMessage, 0, len(own)+cl.bytes+len(`"":,`)*len(cl.raw)+len(`{"$defs":{}},`))
	out = append(out, `{"$defs":{`...)
	for i, name := range sortedKeys(cl.raw) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, name...) // of letters and digits
		out = append(out, `":`...)
		out = append(out, cl.raw[name]...)
	}
	out = append(out, `},`...)
	return append(out, own[1:]...)
}

// listOf returns a list, nil for any other value.
func listOf(value any) []any {
	list, _ := value.([]any)
	return list
}

// count reads a non-negative whole number.
func count(value any) (json.Number, bool) {
	n, ok := value.(json.Number)
	if !ok {
		return "", false
	}
	_, err := strconv.ParseUint(n.String(), 10, 31)
	return n, err == nil
}
