package argschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/base/pattern"
)

// What a compiled schema takes of memory, in bytes: one schema with its rule, and one
// instruction of an expression (measured: 1.3 KB and 90 bytes).
const (
	ruleSize        = 1500
	instructionSize = 100
)

// measure returns how many schemas are in a document, and how many bytes their JSON Pointers
// have together, or a little more: it also counts the objects and booleans of literal values.
func measure(tree any) (schemas, places int) {
	return measureAt(tree, 0)
}

// measureAt measures what is at a place whose pointer has so many bytes.
func measureAt(tree any, pointer int) (schemas, places int) {
	add := func(v any, name int) {
		n, bytes := measureAt(v, pointer+1+name)
		schemas, places = schemas+n, places+bytes
	}
	switch t := tree.(type) {
	case bool:
		return 1, pointer
	case map[string]any:
		schemas, places = 1, pointer
		for word, v := range t {
			if word != "enum" && word != "const" && word != "default" && word != "examples" {
				add(v, len(word))
			}
		}
	case []any:
		for i, v := range t {
			add(v, len(strconv.Itoa(i)))
		}
	}
	return schemas, places
}

// programs compiles the expressions of one schema, each once. The compiler of the schema asks twice:
// once to check it.
type programs struct {
	memo *pattern.Memo
	size int // instructions
	over bool
	made map[string]*pattern.Pattern
}

func (p *programs) compile(expression string) (jsonschema.Regexp, error) {
	if re, has := p.made[expression]; has {
		return re, nil
	}
	if p.over { // the compiler goes on
		return nil, pattern.ErrSize
	}
	re, err := p.memo.Compile(expression)
	p.over = errors.Is(err, pattern.ErrSize)
	if err != nil {
		return nil, err
	}
	p.size += re.Size()
	if p.over = p.size > maxPatterns; p.over {
		return nil, pattern.ErrSize
	}
	p.made[expression] = re
	return re, nil
}

// rule is one schema with what checking a value against it costs.
type rule struct {
	schema   *jsonschema.Schema
	order    int     // a value meets the rule after all those that lead to it in place
	visit    float64 // cost of any visit
	required float64 // names that an object must have
	unique   bool    // its items must differ
	enum     enumCost
	inPlace  []*rule

	properties map[string]*rule
	patterns   []namePattern
	additional *rule // for the members that properties does not name
	rest       *rule // unevaluatedProperties
	names      *rule
	prefix     []*rule
	items      []*rule // items, unevaluatedItems, contains
}

type namePattern struct {
	size int
	rule *rule
}

// enumCost is what comparing a value with all those of an enum costs, by the value's type.
type enumCost struct{ numbers, strings, others float64 }

// rulesOf returns the rule of a compiled schema, and all rules in their order. It replaces
// checks of the validator whose cost is not linear. ErrTooComplex where a schema refers back
// to itself for the same value: no value is ever judged by it.
func rulesOf(root *jsonschema.Schema) (*rule, []*rule, error) {
	b := &ruleBuilder{known: map[*jsonschema.Schema]*rule{}}
	first := b.rule(root)
	states := make(map[*rule]bool, len(b.list))
	var list []*rule
	for _, r := range b.list {
		if !inOrder(r, states, &list) {
			return nil, nil, ErrTooComplex
		}
	}
	slices.Reverse(list)
	for i, r := range list {
		r.order = i
	}
	for i, steps := range chains(list) {
		list[i].visit += steps * stepUp
	}
	return first, list, nil
}

// chains returns, by the order of the rules, how many lead to each one in place, one after the other.
func chains(list []*rule) []float64 {
	steps := make([]float64, len(list))
	for i, r := range list {
		for _, next := range r.inPlace {
			steps[next.order] = max(steps[next.order], steps[i]+1)
		}
	}
	return steps
}

// inOrder appends r after all rules that it leads to in place. It returns false where one of
// them leads back to r.
func inOrder(r *rule, done map[*rule]bool, list *[]*rule) bool {
	if finished, seen := done[r]; seen {
		return finished
	}
	done[r] = false
	for _, next := range r.inPlace {
		if !inOrder(next, done, list) {
			return false
		}
	}
	done[r] = true
	*list = append(*list, r)
	return true
}

// ruleBuilder makes one rule for each compiled schema.
type ruleBuilder struct {
	known map[*jsonschema.Schema]*rule
	list  []*rule
}

func (b *ruleBuilder) rule(s *jsonschema.Schema) *rule {
	if s == nil {
		return nil
	}
	if r, known := b.known[s]; known {
		return r
	}
	r := &rule{schema: s, visit: visitCost}
	b.known[s] = r
	b.list = append(b.list, r)
	b.inPlace(r, s)
	b.object(r, s)
	b.array(r, s)
	if s.Enum != nil {
		r.enum = costOfEnum(s.Enum.Values)
	}
	if s.Const != nil {
		r.enum.add(costOfEnum([]any{*s.Const}))
	}
	if s.Format != nil && s.Format.Name == "regex" {
		s.Format = &jsonschema.Format{Name: "regex", Validate: regexFormat}
	}
	if s.UniqueItems {
		s.UniqueItems, r.unique = false, true
		s.Extensions = append(s.Extensions, distinct{})
	}
	return r
}

func (b *ruleBuilder) inPlace(r *rule, s *jsonschema.Schema) {
	list := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else})
	if s.DynamicRef != nil {
		list = append(list, s.DynamicRef.Ref)
	}
	for _, one := range s.DependentSchemas {
		list = append(list, one)
	}
	for _, one := range s.Dependencies {
		if schema, ok := one.(*jsonschema.Schema); ok {
			list = append(list, schema)
		}
	}
	for _, one := range list {
		if next := b.rule(one); next != nil {
			r.inPlace = append(r.inPlace, next)
		}
	}
}

func (b *ruleBuilder) object(r *rule, s *jsonschema.Schema) {
	r.properties = make(map[string]*rule, len(s.Properties))
	for name, p := range s.Properties {
		r.properties[name] = b.rule(p)
	}
	for expression, p := range s.PatternProperties {
		r.patterns = append(r.patterns, namePattern{sizeOf(expression), b.rule(p)})
	}
	if more, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		r.additional = b.rule(more)
	}
	r.rest, r.names = b.rule(s.UnevaluatedProperties), b.rule(s.PropertyNames)
	required := len(s.Required)
	for _, list := range s.DependentRequired {
		required += len(list) + 1
	}
	r.required = float64(required)
}

func (b *ruleBuilder) array(r *rule, s *jsonschema.Schema) {
	for _, one := range s.PrefixItems {
		r.prefix = append(r.prefix, b.rule(one))
	}
	items, _ := s.Items.(*jsonschema.Schema)
	more, _ := s.AdditionalItems.(*jsonschema.Schema)
	if tuple, ok := s.Items.([]*jsonschema.Schema); ok {
		for _, one := range tuple {
			r.prefix = append(r.prefix, b.rule(one))
		}
	}
	for _, one := range []*jsonschema.Schema{s.Items2020, items, more, s.UnevaluatedItems, s.Contains} {
		if each := b.rule(one); each != nil {
			r.items = append(r.items, each)
		}
	}
}

func sizeOf(expression jsonschema.Regexp) int {
	if p, ok := expression.(*pattern.Pattern); ok {
		return p.Size()
	}
	return MaxPattern
}

func (c *enumCost) add(d enumCost) {
	c.numbers, c.strings, c.others = c.numbers+d.numbers, c.strings+d.strings, c.others+d.others
}

// costOfEnum adds up what comparing with each of the values costs. The validator compares
// one after the other, and makes fractions of numbers.
func costOfEnum(values []any) enumCost {
	var c enumCost
	for _, v := range values {
		c.numbers += typeCost
		c.strings += typeCost
		c.others += typeCost
		switch v.(type) {
		case json.Number:
			c.numbers += numberCost
		case string:
			c.strings += typeCost
		default:
			c.others += float64(countValues(v)) * numberCost
		}
	}
	return c
}

// countValues returns how many values v has, itself included.
func countValues(v any) int {
	n := 1
	switch t := v.(type) {
	case map[string]any:
		for _, one := range t {
			n += countValues(one)
		}
	case []any:
		for _, one := range t {
			n += countValues(one)
		}
	}
	return n
}

// maxRegexFormat is how many instructions an argument of the format regex may have.
const maxRegexFormat = 1_000

// regexFormat checks an argument that must be a regular expression, without compiling what
// a few bytes can make huge.
func regexFormat(v any) error {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	_, err := pattern.Compile(text, maxRegexFormat)
	return err
}

// byteFormat checks a text in base64 (OpenAPI 3.0, data types). Providers use both alphabets of
// RFC 4648, and some leave the padding out.
func byteFormat(v any) error {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	digits := strings.TrimRight(text, "=")
	padding := len(text) - len(digits)
	if len(digits)%4 == 1 || padding > 0 && len(text)%4 != 0 || padding > 2 {
		return errors.New("the length is none of base64")
	}
	for i := range len(digits) {
		if c := digits[i]; !httpfield.IsAlnum(c) && strings.IndexByte("+/-_", c) < 0 {
			return errors.New("there is a character that base64 does not have")
		}
	}
	return nil
}

// distinct is uniqueItems in linear work: the validator compares those whose hashes agree one
// by one, and a caller can make hashes that agree.
type distinct struct{}

// Validate implements jsonschema.SchemaExt.
func (distinct) Validate(c *jsonschema.ValidatorContext, v any) {
	list, ok := v.([]any)
	if !ok {
		return
	}
	seen := make(map[string]int, len(list))
	for i, item := range list {
		var b strings.Builder
		writeKey(&b, item)
		if first, twice := seen[b.String()]; twice {
			c.AddError(&kind.UniqueItems{Duplicates: [2]int{first, i}})
			return
		}
		seen[b.String()] = i
	}
}

// writeKey writes a text that two values have in common exactly where they are equal.
func writeKey(b *strings.Builder, v any) {
	switch t := v.(type) {
	case map[string]any:
		b.WriteByte('{')
		for _, name := range slices.Sorted(maps.Keys(t)) {
			fmt.Fprintf(b, "%q:", name)
			writeKey(b, t[name])
			b.WriteByte(',')
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for _, one := range t {
			writeKey(b, one)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case json.Number:
		writeNumber(b, t)
	default:
		b.WriteString(exactjson.Text(t))
	}
}

// writeNumber writes equal numbers alike: 1, 1.0 and 10e-1.
func writeNumber(b *strings.Builder, n json.Number) {
	if r, ok := new(big.Rat).SetString(n.String()); ok {
		b.WriteString(r.RatString())
		return
	}
	b.WriteString(n.String())
}
