// Package argschema compiles the JSON Schema of a verb's arguments and checks arguments
// against it. The importer compiles what it has made, and a run checks before it sends.
// It reads nothing but what it is given, and no message repeats a value.
package argschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"agentruntime/internal/kernel/exactjson"
	"agentruntime/internal/kernel/fault"
)

// Limits on what a validation reports and does.
const (
	maxDetails = 20
	maxListed  = 12
	// maxPattern and maxValue are how many bytes of the schema a message repeats.
	maxPattern = 256
	maxValue   = 64
)

// Opaque is the keyword, with the value true, of a schema that stands for one that was given
// up at import. It checks nothing. Policies and masks treat what is below it as unknown.
const Opaque = "x-opaque"

// schemaURL is the name of a schema inside the validator. Nothing is at it.
const schemaURL = "schema:args"

// Schema is a compiled schema, safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema
	steps    *steps // nil where the schema has no definitions
}

// Compile compiles the schema of a verb's arguments. It reads nothing but
// what it is given.
func Compile(schema json.RawMessage) (s *Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, errors.New("compile a schema: the validator failed")
		}
	}()
	if !exactjson.NumbersFit(schema) {
		return nil, errors.New("compile a schema: a number is out of range")
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("compile a schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{}) // no scheme: nothing is loaded
	c.AssertFormat()
	s = &Schema{steps: countSteps(tree)}
	if s.steps != nil {
		c.RegisterVocabulary(s.steps.vocabulary())
		c.AssertVocabs()
	}
	if err := c.AddResource(schemaURL, tree); err != nil {
		return nil, fmt.Errorf("compile a schema: %w", err)
	}
	if s.compiled, err = c.Compile(schemaURL); err != nil {
		return nil, fmt.Errorf("compile a schema: %w", err)
	}
	return s, nil
}

// Validate judges args and returns what is wrong with them, nil if nothing is.
// Details point below /args and never repeat a value.
func (s *Schema) Validate(args json.RawMessage) (details []fault.Detail) {
	whole := func(rule, message string) []fault.Detail {
		return []fault.Detail{{Path: "/args", Rule: rule, Message: message}}
	}
	defer func() {
		if r := recover(); r != nil {
			details = whole("complexity", "cannot be checked against the schema")
		}
	}()
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
	if s.steps != nil {
		defer s.steps.begin(len(args))()
	}
	var failed *jsonschema.ValidationError
	if err := s.compiled.Validate(value); errors.As(err, &failed) {
		return report(failed)
	} else if err != nil {
		return whole("schema", "does not fit the schema")
	}
	return nil
}

// report lists the innermost failures, in the order of their paths.
func report(failed *jsonschema.ValidationError) []fault.Detail {
	var details []fault.Detail
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 || isChoice(e.ErrorKind) {
			details = append(details, explain(e)...)
			return
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(failed)
	slices.SortStableFunc(details, func(a, b fault.Detail) int { return strings.Compare(a.Path+"\x00"+a.Rule, b.Path+"\x00"+b.Rule) })
	details = slices.Compact(details)
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
		path.WriteString("/" + fault.PointerToken(token))
	}
	at := path.String()
	named := func(names []string, rule, message string) []fault.Detail {
		out := make([]fault.Detail, 0, len(names))
		for _, name := range names {
			out = append(out, fault.Detail{Path: at + "/" + fault.PointerToken(name), Rule: rule, Message: message})
		}
		return out
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return named(k.Missing, "required", "is required")
	case *kind.DependentRequired:
		return named(k.Missing, "dependentRequired", "is required here")
	case *kind.AdditionalProperties:
		return named(k.Properties, "unknown_field", "is not known")
	}
	rule, message := describe(e.ErrorKind)
	return []fault.Detail{{Path: at, Rule: rule, Message: message}}
}

// describe names the rule that failed and what it expects.
func describe(k jsonschema.ErrorKind) (rule, message string) {
	switch k := k.(type) {
	case *kind.Type:
		return "type", "must be " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		return "enum", "must be one of " + listed(k.Want)
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
	case *kind.FalseSchema:
		return "unknown_field", "is not allowed"
	}
	path := k.KeywordPath()
	if len(path) == 0 {
		return "schema", "does not fit the schema"
	}
	return path[0], "does not fit the schema"
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

// A validation may enter so many definitions: some for each byte of the arguments,
// and never more than maxSteps. Definitions that refer to each other several times
// over make some values take work that doubles with each level; maxSteps take
// about a second (measured on 2 cores).
const (
	baseSteps    = 2_000
	stepsPerByte = 8
	maxSteps     = 100_000
)

// stepKeyword marks each definition, so that entering it is counted.
const stepKeyword = "x-agent-runtime-step"

// steps counts the definitions that one validation enters. The validator has no
// room for state of a call, so calls with such a schema take turns.
type steps struct {
	mu   sync.Mutex
	left int
}

// countSteps marks the definitions of a schema; nil if it has none.
func countSteps(tree any) *steps {
	root, _ := tree.(map[string]any)
	defs, _ := root["$defs"].(map[string]any)
	if len(defs) == 0 {
		return nil
	}
	for _, def := range defs {
		if n, ok := def.(map[string]any); ok {
			n[stepKeyword] = true
		}
	}
	return &steps{}
}

// begin starts the count of one validation of size bytes and returns its end.
func (s *steps) begin(size int) func() {
	s.mu.Lock()
	s.left = min(baseSteps+stepsPerByte*size, maxSteps)
	return s.mu.Unlock
}

func (s *steps) vocabulary() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: "schema:steps",
		Compile: func(_ *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
			if _, marked := obj[stepKeyword]; !marked {
				return nil, nil
			}
			return stepMark{s}, nil
		},
	}
}

// stepMark is the compiled mark of a definition.
type stepMark struct{ s *steps }

// Validate counts; it ends a validation that takes too long by a panic, which
// Schema.Validate turns into a refusal.
func (x stepMark) Validate(*jsonschema.ValidatorContext, any) {
	if x.s.left--; x.s.left < 0 {
		panic("too many steps")
	}
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
