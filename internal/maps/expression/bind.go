package expression

import (
	"slices"
	"strings"
	"sync"

	"github.com/itchyny/gojq"
)

// The names of the roots.
const (
	rootTrigger = "trigger_data"
	rootVars    = "vars"
	rootContext = "context"
	rootItem    = "item"
	rootIndex   = "index"
	rootSteps   = "steps"
	rootNow     = "$now"
)

// prefix begins the names of the variables that roots become. Authors cannot use it.
const prefix = "$__"

// IsReserved reports whether "as" may not give a value this name, because an expression reads
// something else under it.
func IsReserved(name string) bool {
	switch name {
	case rootTrigger, rootVars, rootContext, rootItem, rootIndex, rootSteps, "now",
		"or", "and", "module", "import", "include", "def", "as", "label", "break", "null", "true",
		"false", "if", "then", "elif", "else", "end", "try", "catch", "reduce", "foreach", "not":
		return true
	}
	return builtins()[name+"/0"] || builtins()[name+"/1"]
}

// refused returns why an expression or a program may not use a function, "" where it may.
func (b *binder) refused(name string) string {
	switch name {
	case "now", "localtime", "strflocaltime", "mktime_local":
		if b.program {
			return name + " is not allowed: results must not depend on the time or the machine"
		}
		return name + " is not allowed: results must not depend on the machine. Use $now"
	case "input", "inputs", "input_filename", "input_line_number", "modulemeta", "get_search_list":
		if b.program {
			return name + " is not allowed: " + programForm
		}
		return name + " is not allowed: an expression reads only trigger_data, steps, vars, context, item, index and $now"
	case "debug", "stderr", "halt", "halt_error", "env", "builtins":
		return name + " is not allowed" + b.place()
	}
	return ""
}

// place returns where something is not allowed, for a message.
func (b *binder) place() string {
	if b.program {
		return " in a program"
	}
	return " in a Map"
}

// builtins returns the functions of jq as name/arity.
//
//nolint:gochecknoglobals // immutable after the first use
var builtins = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	query, err := gojq.Parse("builtins[]")
	if err != nil {
		return names
	}
	for results := query.Run(nil); ; {
		v, ok := results.Next()
		if !ok {
			return names
		}
		if name, ok := v.(string); ok {
			names[name] = true
		}
	}
})

// binder walks an expression once. It turns roots into variables, notes them, and refuses
// what an expression may not do.
type binder struct {
	refs    *References
	fault   *SyntaxError
	depth   int
	defs    int
	program bool // there are no roots but "."
}

// Bounds of the form of an expression. Compiling takes time that grows with the square of
// either.
const (
	maxNesting   = 400 // parts within parts; the terms of a sum are within each other
	maxFunctions = 64  // that an expression defines
)

// scope is what is known at a place of the expression.
type scope struct {
	// top: "." is what the definition passes, and no result of another part.
	top   bool
	local []local // functions that the expression defines, innermost last
}

type local struct {
	name  string
	arity int
}

func (s scope) below() scope { s.top = false; return s }

func (s scope) defines(name string, arity int) bool {
	for _, l := range s.local {
		if l.name == name && l.arity == arity {
			return true
		}
	}
	return false
}

func (b *binder) refuse(message string) {
	if b.fault == nil {
		b.fault = &SyntaxError{Message: message}
	}
}

func (b *binder) query(q *gojq.Query, s scope) {
	if q == nil || b.fault != nil {
		return
	}
	b.depth++
	defer func() { b.depth-- }()
	if b.depth > maxNesting {
		b.refuse("the expression nests too deep")
		return
	}
	if len(q.Imports) > 0 || q.Meta != nil {
		b.refuse("import, include and module are not allowed" + b.place())
		return
	}
	for _, def := range q.FuncDefs {
		s = b.define(def, s)
	}
	if q.Term != nil {
		b.term(q.Term, s)
		return
	}
	b.query(q.Left, s)
	for _, p := range q.Patterns {
		b.pattern(p, s)
	}
	if q.Op == gojq.OpPipe && len(q.Patterns) == 0 {
		s = s.below()
	}
	if isUpdate(q.Op) && q.Op != gojq.OpAssign {
		s = s.below()
	}
	b.query(q.Right, s)
}

func isUpdate(op gojq.Operator) bool { return op >= gojq.OpAssign }

// define binds the body of a function and returns the scope that knows it.
func (b *binder) define(def *gojq.FuncDef, s scope) scope {
	if b.defs++; b.defs > maxFunctions {
		b.refuse("an expression defines at most 64 functions")
		return s
	}
	if len(def.Args) == 0 && b.isRoot(def.Name) {
		b.refuse("a function may not have the name of a root: " + def.Name)
	}
	s.local = append(slices.Clip(s.local), local{def.Name, len(def.Args)})
	inner := s.below()
	for _, arg := range def.Args {
		name := strings.TrimPrefix(arg, "$")
		if b.isRoot(name) {
			b.refuse("an argument of a function may not have the name of a root: " + name)
		}
		b.variable(arg)
		inner.local = append(slices.Clip(inner.local), local{name, 0})
	}
	b.query(def.Body, inner)
	return s
}

func (b *binder) isRoot(name string) bool {
	switch name {
	case rootTrigger, rootVars, rootContext, rootItem, rootIndex, rootSteps:
		return true
	}
	return false
}

// variable refuses names of variables that are ours.
func (b *binder) variable(name string) {
	if strings.HasPrefix(name, prefix) {
		b.refuse("names of variables may not begin with " + prefix)
	}
}

func (b *binder) pattern(p *gojq.Pattern, s scope) {
	b.variable(p.Name)
	for _, e := range p.Array {
		b.pattern(e, s)
	}
	for _, e := range p.Object {
		b.variable(e.Key)
		b.text(e.KeyString, s)
		b.query(e.KeyQuery, s.below())
		if e.Val != nil {
			b.pattern(e.Val, s)
		}
	}
}

func (b *binder) text(t *gojq.String, s scope) {
	if t != nil {
		for _, q := range t.Queries {
			b.query(q, s)
		}
	}
}

func (b *binder) term(t *gojq.Term, s scope) {
	b.depth++
	defer func() { b.depth-- }()
	if b.fault != nil {
		return
	}
	if b.depth > maxNesting {
		b.refuse("the expression nests too deep")
		return
	}
	if t.Type == gojq.TermTypeIdentity || t.Type == gojq.TermTypeRecurse || t.Type == gojq.TermTypeIndex {
		b.refs.Dot = b.refs.Dot || s.top
	}
	b.index(t.Index, s)
	if t.Func != nil {
		b.call(t, s)
	}
	b.text(t.Str, s)
	if t.Object != nil {
		for _, kv := range t.Object.KeyVals {
			b.member(kv, s)
		}
	}
	if t.Array != nil {
		b.query(t.Array.Query, s)
	}
	if t.Unary != nil {
		b.term(t.Unary.Term, s)
	}
	b.control(t, s)
	b.query(t.Query, s)
	for _, suffix := range t.SuffixList {
		b.index(suffix.Index, s)
	}
}

func (b *binder) member(kv *gojq.ObjectKeyVal, s scope) {
	if kv.Key != "" && kv.Val == nil {
		if strings.HasPrefix(kv.Key, "$") {
			b.dollar(kv.Key)
		} else {
			b.refs.Dot = b.refs.Dot || s.top
		}
	}
	b.text(kv.KeyString, s)
	b.query(kv.KeyQuery, s)
	b.query(kv.Val, s)
}

func (b *binder) index(i *gojq.Index, s scope) {
	if i != nil {
		b.text(i.Str, s)
		b.query(i.Start, s)
		b.query(i.End, s)
	}
}

// control walks the terms that decide and loop.
func (b *binder) control(t *gojq.Term, s scope) {
	if t.If != nil {
		b.query(t.If.Cond, s)
		b.query(t.If.Then, s)
		for _, e := range t.If.Elif {
			b.query(e.Cond, s)
			b.query(e.Then, s)
		}
		b.query(t.If.Else, s)
	}
	if t.Try != nil {
		b.query(t.Try.Body, s)
		b.query(t.Try.Catch, s.below())
	}
	if t.Reduce != nil {
		b.query(t.Reduce.Query, s)
		b.patterns(t.Reduce.Patterns, s)
		b.query(t.Reduce.Start, s)
		b.query(t.Reduce.Update, s.below())
	}
	if t.Foreach != nil {
		b.query(t.Foreach.Query, s)
		b.patterns(t.Foreach.Patterns, s)
		b.query(t.Foreach.Start, s)
		b.query(t.Foreach.Update, s.below())
		b.query(t.Foreach.Extract, s.below())
	}
	if t.Label != nil {
		b.query(t.Label.Body, s)
	}
}

func (b *binder) patterns(list []*gojq.Pattern, s scope) {
	for _, p := range list {
		b.pattern(p, s)
	}
}

// dollar notes a variable that is read.
func (b *binder) dollar(name string) {
	switch name {
	case rootNow:
		if b.program {
			b.refuse("$now is not allowed: results must not depend on the time or the machine")
		}
		b.refs.Now = true
	case "$ENV":
		b.refuse("$ENV is not allowed" + b.place())
	default:
		b.variable(name)
	}
}

// call binds the call of a function, or a root.
func (b *binder) call(t *gojq.Term, s scope) {
	f := t.Func
	for _, arg := range f.Args {
		b.query(arg, s.below())
	}
	if strings.HasPrefix(f.Name, "$") {
		b.dollar(f.Name)
		return
	}
	if s.defines(f.Name, len(f.Args)) {
		return
	}
	if strings.HasPrefix(f.Name, "_") || strings.Contains(f.Name, "::") {
		b.refuse("there is no function " + clip(f.Name, maxToken))
		return
	}
	if why := b.refused(f.Name); why != "" {
		b.refuse(why)
		return
	}
	if len(f.Args) > 0 {
		return
	}
	if _, rounds := roundings()[f.Name]; rounds {
		f.Name = wholePrefix + f.Name
		return
	}
	b.root(t)
}

// root turns a root into its variable.
func (b *binder) root(t *gojq.Term) {
	f := t.Func
	if b.program && !builtins()[f.Name+"/0"] {
		b.refuse("there is no " + clip(f.Name, maxToken) + ": " + programForm)
		return
	}
	switch f.Name {
	case rootTrigger:
		b.refs.TriggerData = true
	case rootVars:
		b.refs.Vars = true
		if len(t.SuffixList) > 0 {
			b.refs.addVariable(nameOf(t.SuffixList[0]))
		}
	case rootContext:
		b.refs.Context = true
	case rootItem:
		b.refs.Item = true
	case rootIndex:
		b.refs.Index = true
	case rootSteps:
		b.step(t.SuffixList)
	default:
		if builtins()[f.Name+"/0"] {
			return
		}
		b.refs.addName(f.Name)
	}
	f.Name = prefix + f.Name
}

const stepForm = "read a step as steps.<id>.output, steps.<id>.error or steps.<id>.status"

// step notes which field of which step the suffixes read.
func (b *binder) step(suffixes []*gojq.Suffix) {
	if len(suffixes) < 2 {
		b.refuse(stepForm)
		return
	}
	id, field := nameOf(suffixes[0]), Field(nameOf(suffixes[1]))
	if id == "" || (field != Output && field != Error && field != Status) {
		b.refuse(stepForm)
		return
	}
	b.refs.addStep(StepReference{id, field})
}

// nameOf returns the name that a suffix reads, "" where it is no plain name.
func nameOf(s *gojq.Suffix) string {
	switch {
	case s.Index == nil:
		return ""
	case s.Index.Name != "":
		return s.Index.Name
	case s.Index.Str != nil && s.Index.Str.Queries == nil:
		return s.Index.Str.Str
	case s.Index.Start != nil && !s.Index.IsSlice && s.Index.Start.Term != nil && len(s.Index.Start.Term.SuffixList) == 0 &&
		s.Index.Start.Term.Type == gojq.TermTypeString && s.Index.Start.Term.Str.Queries == nil:
		return s.Index.Start.Term.Str.Str
	}
	return ""
}
