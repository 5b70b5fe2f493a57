// Package argschema compiles the JSON Schema of a verb's arguments and checks arguments
// against it. The importer compiles what it has made, and a run checks before it sends.
// It reads nothing but what it is given, and no message repeats a value.
package argschema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/pattern"
)

// Limits on what a validation reports and does.
const (
	maxDetails = 20
	maxListed  = 12
	// maxSegment is how many bytes of one name a path repeats: the names of arguments can be
	// long, and there can be many.
	maxSegment = 80
	// maxPattern and maxValue are how many bytes of the schema a message repeats.
	maxPattern = 256
	maxValue   = 64
	// maxReferences is how many references in a row are followed to the properties of a member.
	maxReferences = 8
)

// Opaque is the keyword, with the value true, of a schema that stands for one that was given
// up at import. It checks nothing. Policies and masks treat what is below it as unknown.
const Opaque = "x-opaque"

// schemaURL is the name of a schema inside the validator. Nothing is at it.
const schemaURL = "schema:args"

// Schema is a compiled schema, safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema // nil where it cannot be judged
	root     *rule
	rules    int
	size     int
}

// The reasons why a schema cannot be judged.
var (
	// ErrTooComplex: compiling the schema, or checking any arguments against it, takes more
	// work than one call may.
	ErrTooComplex = errors.New("compile a schema: it is too complex to be checked")
	errNumber     = errors.New("compile a schema: a number is out of range")
	errFailed     = errors.New("compile a schema: the validator failed")
)

// Limits of one schema.
const (
	// maxSchemas is how many schemas may be in it. The compiler looks each one up among all
	// others, so 5,000 take 0.2 to 0.4 s (measured on 2 cores).
	maxSchemas = 5_000
	// maxPlaces is how many bytes the JSON Pointers of its schemas may have together. The
	// compiler keeps and compares them, so long names in deep places take the most.
	// Stripe's largest schema has 100 KB of them.
	maxPlaces = 1 << 20
	// maxNesting is how deep its JSON may nest. The compiler's work grows with the square of
	// it. Arguments nest at most 64 levels deep, and GitHub's whole document 21.
	maxNesting = 128
	// MaxPattern is how many instructions one expression may have, and maxPatterns how many
	// all of them together.
	MaxPattern  = 5_000
	maxPatterns = 50_000
)

// Unjudged returns a schema that accepts no arguments. It stands in for a stored schema that
// Compile refuses as too complex, so that calls get a clear refusal.
func Unjudged() *Schema { return &Schema{} }

// Size returns about how many bytes of memory the schema takes.
func (s *Schema) Size() int { return s.size }

// Compile compiles the schema of a verb's arguments. It reads nothing but what it is given.
// ErrTooComplex where no call could be checked against it.
func Compile(schema json.RawMessage) (*Schema, error) {
	return CompileWith(schema, pattern.NewMemo(MaxPattern, 0))
}

// CompileWith is Compile for many schemas that have expressions in common. The memo, whose expressions
// have at most MaxPattern instructions, compiles each once.
func CompileWith(schema json.RawMessage, memo *pattern.Memo) (s *Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, errFailed
		}
	}()
	tree, err := read(schema)
	if err != nil {
		return nil, err
	}
	schemas, places := measure(tree)
	if schemas > maxSchemas || places > maxPlaces {
		return nil, ErrTooComplex
	}
	compiled, programs, err := compile(tree, memo)
	if err != nil {
		return nil, err
	}
	s = &Schema{compiled: compiled}
	var rules []*rule
	if s.root, rules, err = rulesOf(compiled); err != nil {
		return nil, err
	}
	s.rules = len(rules)
	s.size = len(schema) + places + s.rules*ruleSize + programs.size*instructionSize
	if !s.affords(map[string]any{}) {
		return nil, ErrTooComplex
	}
	return s, nil
}

// read returns a schema as a tree, an error where it could not be compiled in bounded work.
func read(schema json.RawMessage) (any, error) {
	if !exactjson.NumbersFit(schema) {
		return nil, errNumber
	}
	if deepest, _ := exactjson.Shape(schema); deepest > maxNesting {
		return nil, ErrTooComplex
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("compile a schema: %w", err)
	}
	return tree, nil
}

// compile compiles a tree, and returns the expressions in it.
func compile(tree any, memo *pattern.Memo) (*jsonschema.Schema, *programs, error) {
	programs := &programs{memo: memo, made: map[string]*pattern.Pattern{}}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{}) // no scheme: nothing is loaded
	c.UseRegexpEngine(programs.compile)
	c.AssertFormat()
	c.RegisterFormat(&jsonschema.Format{Name: "byte", Validate: byteFormat})
	if err := c.AddResource(schemaURL, tree); err != nil {
		return nil, nil, fmt.Errorf("compile a schema: %w", err)
	}
	compiled, err := c.Compile(schemaURL)
	if programs.over {
		return nil, nil, ErrTooComplex
	}
	if err != nil {
		return nil, nil, fmt.Errorf("compile a schema: %w", err)
	}
	return compiled, programs, nil
}

// Validate judges args and returns what is wrong with them, nil if nothing is. Details point
// below /args and never repeat a value. Arguments that would take more work than one call
// may are refused with the rule complexity, without any of that work.
func (s *Schema) Validate(args json.RawMessage) (details []fault.Detail) {
	whole := func(rule, message string) []fault.Detail {
		return []fault.Detail{{Path: "/args", Rule: rule, Message: message}}
	}
	const tooComplex = "cannot be checked against the verb's schema: together they are too complex. Send less in one call"
	defer func() {
		if r := recover(); r != nil {
			details = whole("complexity", tooComplex)
		}
	}()
	if s.compiled == nil {
		return whole("complexity", "cannot be checked: the verb's schema is too complex. Import the provider again with a simpler schema")
	}
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage(`{}`)
	}
	if !exactjson.NumbersFit(args) {
		return whole("number", "has a number that is out of range")
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return whole("type", "must be an object")
	}
	if !s.affords(value) {
		return whole("complexity", tooComplex)
	}
	var failed *jsonschema.ValidationError
	if err := s.compiled.Validate(value); errors.As(err, &failed) {
		return s.report(failed)
	} else if err != nil {
		return whole("schema", "does not fit the schema")
	}
	return nil
}

// report lists the innermost failures, in the order of their paths.
func (s *Schema) report(failed *jsonschema.ValidationError) []fault.Detail {
	var details []fault.Detail
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 || isChoice(e.ErrorKind) {
			for _, d := range explain(e) {
				details = keep(details, d)
			}
			return
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(failed)
	details = slices.DeleteFunc(details, func(d fault.Detail) bool { return follows(d, details) })
	for i, d := range details {
		if d.Message == notKnown {
			details[i].Message += s.meant(d.Path)
		}
	}
	return details
}

// What is said of a member that no schema knows, and of one that no chosen branch knows.
const (
	notKnown   = "is not known"
	notAllowed = "is not allowed"
)

// follows reports that a member is not allowed only because a value beside it, or its own, chooses none
// of the branches that know it.
func follows(d fault.Detail, all []fault.Detail) bool {
	if d.Message != notAllowed {
		return false
	}
	beside := func(path string) string { return path[:strings.LastIndexByte(path, '/')+1] }
	return slices.ContainsFunc(all, func(o fault.Detail) bool {
		chooses := o.Rule == "enum" || o.Rule == "const" || o.Rule == "oneOf" || o.Rule == "anyOf"
		return o.Message != notAllowed && (o.Path == d.Path || chooses && (beside(o.Path) == beside(d.Path) || o.Path+"/" == beside(d.Path)))
	})
}

// meant asks whether the member at a path was meant to be one that the schema has there, as far as its
// properties lead. It is empty where there is none.
func (s *Schema) meant(path string) string {
	tokens := strings.Split(strings.TrimPrefix(path, "/args/"), "/")
	schema := s.compiled
	for _, token := range tokens[:len(tokens)-1] {
		schema = member(schema, plainToken(token))
	}
	if schema == nil {
		return ""
	}
	known := slices.Sorted(maps.Keys(schema.Properties))
	if name := near.Ask(plainToken(tokens[len(tokens)-1]), known); name != "" {
		return "; " + name
	}
	return ""
}

// member returns the schema of a member or of an element, nil where it is not written in plain properties.
func member(schema *jsonschema.Schema, token string) *jsonschema.Schema {
	if schema == nil {
		return nil
	}
	next := schema.Properties[token]
	if next == nil {
		next = schema.Items2020
	}
	for range maxReferences {
		if next == nil || next.Ref == nil {
			return next
		}
		next = next.Ref
	}
	return nil
}

func plainToken(token string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(token) }

// keep adds a detail to the first maxDetails of them, in the order of paths and rules.
func keep(details []fault.Detail, d fault.Detail) []fault.Detail {
	at, _ := slices.BinarySearchFunc(details, d, func(a, b fault.Detail) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Message, b.Message))
	})
	if at == maxDetails || (at < len(details) && details[at] == d) {
		return details
	}
	details = slices.Insert(details, at, d)
	return details[:min(len(details), maxDetails)]
}

// isChoice reports whether the branches of a failure are alternatives, whose own
// failures would contradict each other.
func isChoice(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains:
		return true
	}
	return false
}

// explain puts one failure into words that do not repeat the value.
func explain(e *jsonschema.ValidationError) []fault.Detail {
	var path strings.Builder
	path.WriteString("/args")
	for _, token := range e.InstanceLocation {
		path.WriteString("/" + segment(token))
	}
	at := path.String()
	named := func(names []string, rule, message string) []fault.Detail {
		var out []fault.Detail
		for _, name := range names {
			out = keep(out, fault.Detail{Path: at + "/" + segment(name), Rule: rule, Message: message})
		}
		return out
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return named(k.Missing, "required", "is required")
	case *kind.DependentRequired:
		return named(k.Missing, "dependentRequired", "is required here")
	case *kind.AdditionalProperties:
		return named(k.Properties, "unknown_field", notKnown)
	}
	rule, message := describe(e.ErrorKind)
	return []fault.Detail{{Path: at, Rule: rule, Message: message}}
}

// segment returns a name as it stands in a path, shortened.
func segment(name string) string {
	if len(name) > maxSegment {
		name = Shorten(name, maxSegment) + "…"
	}
	return fault.PointerToken(name)
}

// describe names the rule that failed and what it expects.
func describe(k jsonschema.ErrorKind) (rule, message string) {
	switch k := k.(type) {
	case *kind.Type:
		return "type", "must be " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		return "enum", "must be one of " + listed(k.Want) + meantValue(k.Got, k.Want)
	case *kind.Const:
		return "const", "must be " + listed([]any{k.Want})
	case *kind.Format:
		return "format", "must be a valid " + k.Want
	case *kind.Pattern:
		return "pattern", "must match " + Shorten(k.Want, maxPattern)
	case *kind.MinLength:
		return "minLength", fmt.Sprintf("must have at least %d characters", k.Want)
	case *kind.MaxLength:
		return "maxLength", fmt.Sprintf("must have at most %d characters", k.Want)
	case *kind.MinItems:
		return "minItems", fmt.Sprintf("must have at least %d items", k.Want)
	case *kind.MaxItems:
		return "maxItems", fmt.Sprintf("must have at most %d items", k.Want)
	case *kind.Minimum:
		return "minimum", "must be at least " + k.Want.RatString()
	case *kind.Maximum:
		return "maximum", "must be at most " + k.Want.RatString()
	case *kind.ExclusiveMinimum:
		return "exclusiveMinimum", "must be greater than " + k.Want.RatString()
	case *kind.ExclusiveMaximum:
		return "exclusiveMaximum", "must be less than " + k.Want.RatString()
	case *kind.MultipleOf:
		return "multipleOf", "must be a multiple of " + k.Want.RatString()
	case *kind.UniqueItems:
		return "uniqueItems", "must not have the same item twice"
	case *kind.AnyOf:
		return "anyOf", "must fit one of the allowed forms"
	case *kind.OneOf:
		return "oneOf", "must fit exactly one of the allowed forms"
	case *kind.Not:
		return "not", "must not be what the schema excludes"
	case *kind.FalseSchema:
		return "unknown_field", notAllowed
	}
	path := k.KeywordPath()
	if len(path) == 0 {
		return "schema", "does not fit the schema"
	}
	return path[0], "does not fit the schema"
}

// meantValue asks whether a text was meant to be one of the schema's, as a sentence.
func meantValue(got any, want []any) string {
	text, is := got.(string)
	if !is {
		return ""
	}
	var known []string
	for _, value := range want {
		if name, is := value.(string); is && len(name) <= maxValue {
			known = append(known, name)
		}
	}
	if ask := near.Ask(text, known); ask != "" {
		return "; " + ask
	}
	return ""
}

// listed writes the schema's own values, the first few of them.
func listed(values []any) string {
	var parts []string
	for i, v := range values {
		if i == maxListed {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, Shorten(exactjson.Text(v), maxValue))
	}
	return strings.Join(parts, ", ")
}

// Shorten cuts s to at most limit bytes, on a rune boundary.
func Shorten(s string, limit int) string {
	s = strings.TrimSpace(s)
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
