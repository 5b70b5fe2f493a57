package overlay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/registry"
	"github.com/theory/jsonpath/spec"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/pattern"
)

// maxInstructions bounds a regular expression in a path.
const maxInstructions = 500

// budget is how much may still be done, in units of about a microsecond. nil has no bound.
type budget struct {
	left int
	more func() bool // asked now and then whether to go on
	used int
}

const askEvery = 10_000

// spend takes units and reports whether there were as many.
func (b *budget) spend(units int) bool {
	if b == nil {
		return true
	}
	if b.left < 0 {
		return false
	}
	b.left -= units
	if b.used += units; b.used > askEvery {
		b.used = 0
		if !b.more() {
			b.left = -1
		}
	}
	return b.left >= 0
}

// parsePath reads a JSONPath (RFC 9535). Its functions take from the budget, because they may
// look at long texts.
func parsePath(text string, b *budget) (*spec.PathQuery, error) {
	f := functions{b: b, patterns: map[string]*pattern.Pattern{}}
	reg := registry.New()
	*reg.Get("match") = *spec.Extension("match", spec.FuncLogical, f.checkPattern, f.matches(`\A(?:`, `)\z`))
	*reg.Get("search") = *spec.Extension("search", spec.FuncLogical, f.checkPattern, f.matches("", ""))
	*reg.Get("length") = *spec.Extension("length", spec.FuncValue, checkOne, f.length)
	parsed, err := jsonpath.NewParser(jsonpath.WithRegistry(reg)).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("it is not a JSONPath: %s", strings.TrimPrefix(err.Error(), "jsonpath: "))
	}
	for _, segment := range parsed.Query().Segments() {
		for _, s := range segment.Selectors() {
			if filter, ok := s.(*spec.FilterSelector); ok {
				if _, err := widthOf(filter); err != nil {
					return nil, err
				}
			}
		}
	}
	return parsed.Query(), nil
}

// functions are those of RFC 9535 that look into texts.
type functions struct {
	b        *budget
	patterns map[string]*pattern.Pattern
}

func checkOne(args []spec.FuncExprArg) error {
	if len(args) != 1 || !args[0].ConvertsTo(spec.FuncValue) {
		return errors.New("length has one value")
	}
	return nil
}

func (f functions) checkPattern(args []spec.FuncExprArg) error {
	if len(args) != 2 || !args[0].ConvertsTo(spec.FuncValue) {
		return errors.New("match and search have a value and a pattern")
	}
	literal, ok := args[1].(*spec.LiteralArg)
	if !ok {
		return errors.New("the pattern of match and search is a literal text")
	}
	text, ok := literal.Value().(string)
	if !ok {
		return errors.New("the pattern of match and search is a literal text")
	}
	if _, err := pattern.Compile(text, maxInstructions); err != nil {
		return fmt.Errorf("the pattern %w", err)
	}
	return nil
}

func (f functions) matches(before, after string) spec.Evaluator {
	return func(args []spec.PathValue) spec.PathValue {
		value, expression := spec.ValueFrom(args[0]), spec.ValueFrom(args[1])
		if value == nil || expression == nil {
			return spec.LogicalFalse
		}
		text, isText := value.Value().(string)
		source, _ := expression.Value().(string)
		source = before + source + after
		p := f.patterns[source]
		if p == nil && isText {
			var err error
			if p, err = pattern.Compile(source, 2*maxInstructions); err != nil {
				return spec.LogicalFalse
			}
			f.patterns[source] = p
		}
		if !isText || !f.b.spend(1+p.Cost(len(text))/50) {
			return spec.LogicalFalse
		}
		return spec.Logical(p.MatchString(text))
	}
}

func (f functions) length(args []spec.PathValue) spec.PathValue {
	value := spec.ValueFrom(args[0])
	if value == nil {
		return nil
	}
	switch v := value.Value().(type) {
	case string:
		if !f.b.spend(1 + len(v)/1000) {
			return nil
		}
		return spec.Value(utf8.RuneCountInString(v))
	case []any:
		return spec.Value(len(v))
	case map[string]any:
		return spec.Value(len(v))
	}
	return nil
}

// widthOf returns how often one test of the filter may look at all of what it tests; 0 where it
// looks at single places only. It refuses filters whose cost no bound of that kind covers.
func widthOf(filter *spec.FilterSelector) (int, error) {
	const refuse = "it has a filter that is too costly: %s"
	// The canonical text has names in quotes, and each selector in brackets.
	var open []byte
	queries, descents, nested, wide := 0, 0, 0, 0
	text := filter.String()
	for i := 0; i < len(text); i++ {
		inBrackets := len(open) > 0 && open[len(open)-1] == '['
		switch c := text[i]; {
		case c == '"' || c == '\'':
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == '[' || c == '(':
			open = append(open, c)
		case c == ']' || c == ')':
			open = open[:max(len(open)-1, 0)]
		case c == '$':
			return 0, fmt.Errorf(refuse, "it looks at $; a filter looks at @ only")
		case c == '@':
			queries++
		case c == ',' && inBrackets:
			return 0, fmt.Errorf(refuse, "it has several selectors in one pair of brackets")
		case c == '.' && i+1 < len(text) && text[i+1] == '.':
			descents, i = descents+1, i+1
		case c == '?' && inBrackets:
			nested++
		case (c == '*' || c == ':') && inBrackets:
			wide++
		}
	}
	if descents > 1 || descents == 1 && nested > 0 {
		return 0, fmt.Errorf(refuse, "it searches at every depth more than once")
	}
	wide += descents + nested
	if queries > 1 {
		wide += queries
	}
	return wide, nil
}

// place is a value of the document and where it is.
type place struct {
	parent *place // nil for the document itself
	name   string // in an object
	index  int    // in an array
	value  any
}

func (p *place) depth() (n int) {
	for at := p; at.parent != nil; at = at.parent {
		n++
	}
	return n
}

// key is where the place is, as one text.
func (p *place) key() string {
	var parts []string
	for at := p; at.parent != nil; at = at.parent {
		if _, inObject := at.parent.value.(map[string]any); inObject {
			parts = append(parts, "/"+fault.PointerToken(at.name))
		} else {
			parts = append(parts, fmt.Sprintf("/%d", at.index))
		}
	}
	slices.Reverse(parts)
	return strings.Join(parts, "")
}

// selecting is one evaluation of a path.
type selecting struct {
	b     *budget
	root  any
	found []*place
	depth int // of the walk
}

// maxWalk is how deep a walk goes. A document of several files may lead back to itself.
const maxWalk = 2 * exactjson.MaxDepth

// enter reports whether the walk may go one level down. leave ends that level.
func (s *selecting) enter() bool {
	if s.depth++; s.depth > maxWalk {
		s.b.left = -1
	}
	return s.depth <= maxWalk
}

func (s *selecting) leave() { s.depth-- }

// selectPlaces returns the places that the path leads to, each once, in the order of names and
// positions. It stops where the budget is used up.
func selectPlaces(q *spec.PathQuery, root any, b *budget) []*place {
	at := []*place{{value: root}}
	descents := 0
	for _, segment := range q.Segments() {
		s := &selecting{b: b, root: root}
		for _, p := range at {
			s.segment(segment, p)
		}
		if segment.IsDescendant() {
			descents++
		}
		if at = s.found; descents > 1 || len(segment.Selectors()) > 1 {
			at = s.distinct()
		}
	}
	return at
}

// distinct returns what was found without repetitions.
func (s *selecting) distinct() []*place {
	seen := map[string]bool{}
	return slices.DeleteFunc(s.found, func(p *place) bool {
		key := p.key()
		known := seen[key]
		seen[key] = true
		return known || !s.b.spend(2+len(key)/32)
	})
}

func (s *selecting) segment(segment *spec.Segment, p *place) {
	for _, one := range segment.Selectors() {
		s.selector(one, p)
	}
	if !segment.IsDescendant() || s.b.left < 0 {
		return
	}
	defer s.leave()
	if !s.enter() {
		return
	}
	s.children(p, func(child *place) {
		switch child.value.(type) {
		case map[string]any, []any:
			s.segment(segment, child)
		}
	})
}

func (s *selecting) selector(one spec.Selector, p *place) {
	if !s.b.spend(1) {
		return
	}
	switch one := one.(type) {
	case spec.Name:
		if object, ok := p.value.(map[string]any); ok {
			if value, has := object[string(one)]; has {
				s.found = append(s.found, &place{parent: p, name: string(one), value: value})
			}
		}
	case spec.Index:
		if list, ok := p.value.([]any); ok {
			i := int(one)
			if i < 0 {
				i += len(list)
			}
			if i >= 0 && i < len(list) {
				s.found = append(s.found, &place{parent: p, index: i, value: list[i]})
			}
		}
	case spec.WildcardSelector:
		s.children(p, func(child *place) { s.found = append(s.found, child) })
	case spec.SliceSelector:
		s.slice(one, p)
	case *spec.FilterSelector:
		width, _ := widthOf(one)
		s.children(p, func(child *place) {
			if s.b.spend(3+len(one.String())/16) && s.weigh(child.value, width) && one.Eval(child.value, s.root) {
				s.found = append(s.found, child)
			}
		})
	}
}

func (s *selecting) slice(one spec.SliceSelector, p *place) {
	list, ok := p.value.([]any)
	if !ok || one.Step() == 0 {
		return
	}
	lower, upper := one.Bounds(len(list))
	add := func(i int) bool {
		s.found = append(s.found, &place{parent: p, index: i, value: list[i]})
		return s.b.spend(1)
	}
	if one.Step() > 0 {
		for i := lower; i < upper && add(i); i += one.Step() {
		}
		return
	}
	for i := upper; i > lower && add(i); i += one.Step() {
	}
}

// children calls fn for each child, in the order of names or positions.
func (s *selecting) children(p *place, fn func(*place)) {
	switch v := p.value.(type) {
	case map[string]any:
		for _, name := range sortedKeys(v) {
			if !s.b.spend(1) {
				return
			}
			fn(&place{parent: p, name: name, value: v[name]})
		}
	case []any:
		for i, value := range v {
			if !s.b.spend(1) {
				return
			}
			fn(&place{parent: p, index: i, value: value})
		}
	}
}

// weigh takes from the budget what looking that often at all of a value costs.
func (s *selecting) weigh(value any, width int) bool {
	if width == 0 {
		return true
	}
	defer s.leave()
	if !s.enter() {
		return false
	}
	switch v := value.(type) {
	case string:
		return s.b.spend(width * (1 + len(v)/256))
	case map[string]any:
		for _, member := range v {
			if !s.weigh(member, width) {
				return false
			}
		}
	case []any:
		for _, entry := range v {
			if !s.weigh(entry, width) {
				return false
			}
		}
	}
	return s.b.spend(width)
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for name := range m {
		keys = append(keys, name)
	}
	slices.Sort(keys)
	return keys
}
