package expression

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// An evaluation in this process has to be cheap whatever the values are. So what an
// expression may cost is computed from its form alone, as a multiple of the bytes that it
// reads. Forms that loop, or whose results can be larger than a multiple of what they read,
// have no bound: they run in a sandbox.

// Bounds of an evaluation in this process.
const (
	// maxWork bounds the work per byte: with a thousand steps over each byte, the form itself
	// makes the cost.
	maxWork = 1_000
	// maxBytes bounds work times bytes. Comparing and copying takes some 2 ns a byte.
	maxBytes = 8 << 20
	// leastBytes is what a small evaluation counts as, so that literals are a part of it.
	leastBytes = 64
)

// Simple reports whether the expression runs in this process, where the roots are not very
// large.
func (e *Expr) Simple() bool { return e.work <= maxWork }

// fits reports whether the expression runs in this process on these roots.
func (e *Expr) fits(roots Roots) bool {
	if !e.Simple() {
		return false
	}
	return e.cost(roots) <= maxBytes
}

// cost returns what the expression takes on these roots once they are decoded, in bytes that are read.
func (e *Expr) cost(roots Roots) int {
	return int(e.work * float64(leastBytes+len(e.source)+roots.size(e.refs)))
}

// yield is what a part of an expression results in, at most: how many results, and how large
// each is as a multiple of the bytes that the expression reads.
type yield struct{ count, size float64 }

// scalar is the size of a number or of true and false: its bytes over leastBytes.
const scalar = 24.0 / leastBytes

// estimate adds up the work of an expression. Work that has no bound is infinite.
type estimate struct {
	work float64
	vars []variable // what "as" binds, innermost last
}

type variable struct {
	name string
	size float64
}

// workOf returns what an evaluation costs per byte that it reads.
func workOf(q *gojq.Query) float64 {
	var e estimate
	out := e.query(q, 1, 1)
	return e.work + out.count*out.size
}

func (e *estimate) unbounded() yield {
	e.work = math.Inf(1)
	return yield{1, 1}
}

// charge adds the work of something that happens that many times.
func (e *estimate) charge(times, size float64) { e.work += times * (size + 1.0/leastBytes) }

// query estimates a part that runs the given times, on a "." of the given size.
func (e *estimate) query(q *gojq.Query, times, dot float64) yield {
	if q == nil {
		return yield{1, dot}
	}
	if len(q.FuncDefs) > 0 || e.work > maxWork || times > maxWork {
		return e.unbounded()
	}
	if q.Term != nil {
		return e.term(q.Term, times, dot)
	}
	if q.Op == gojq.OpPipe {
		return e.pipe(q, times, dot)
	}
	if isUpdate(q.Op) {
		return e.unbounded()
	}
	left := e.query(q.Left, times, dot)
	right := e.query(q.Right, times*math.Max(left.count, 1), dot)
	return e.operator(q, times, left, right)
}

func (e *estimate) pipe(q *gojq.Query, times, dot float64) yield {
	left := e.query(q.Left, times, dot)
	inner := left.size
	if len(q.Patterns) > 0 {
		if len(q.Patterns) != 1 || q.Patterns[0].Name == "" {
			return e.unbounded()
		}
		e.vars = append(e.vars, variable{q.Patterns[0].Name, left.size})
		defer func() { e.vars = e.vars[:len(e.vars)-1] }()
		inner = dot
	}
	right := e.query(q.Right, times*left.count, inner)
	return yield{left.count * right.count, right.size}
}

func (e *estimate) operator(q *gojq.Query, times float64, left, right yield) yield {
	count := left.count * right.count
	e.charge(times*count, left.size+right.size)
	switch q.Op {
	case gojq.OpComma, gojq.OpAlt:
		return yield{left.count + right.count, math.Max(left.size, right.size)}
	case gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpLt, gojq.OpGe, gojq.OpLe:
		// Comparing objects sorts their names.
		e.charge(times*count, 4*(left.size+right.size))
		return yield{count, scalar}
	case gojq.OpAnd, gojq.OpOr:
		return yield{count, scalar}
	case gojq.OpAdd:
		return yield{count, left.size + right.size}
	case gojq.OpSub, gojq.OpMod:
		// Without a number on one side it can be the difference of two arrays, which
		// compares each item with each.
		if q.Op == gojq.OpSub && literal(q.Left) < 0 && literal(q.Right) < 0 {
			return e.unbounded()
		}
		return yield{count, left.size + right.size + scalar}
	case gojq.OpMul:
		// A text times a number repeats the text.
		factor := math.Max(literal(q.Left), literal(q.Right))
		if factor < 0 {
			return e.unbounded()
		}
		out := yield{count, (left.size + right.size) * math.Max(factor, 1)}
		e.charge(times*count, out.size)
		return out
	case gojq.OpDiv:
		if literal(q.Right) >= 0 {
			return yield{count, scalar}
		}
		// A text divided by a text is an array of its characters: some 40 bytes each.
		out := yield{count, 40 * left.size}
		e.charge(times*count, out.size)
		return out
	default:
		return e.unbounded()
	}
}

// literal returns the number that a part is, or -1 where it is none.
func literal(q *gojq.Query) float64 {
	if q.Term == nil || q.Term.Type != gojq.TermTypeNumber || len(q.Term.SuffixList) > 0 {
		return -1
	}
	n, err := strconv.ParseFloat(q.Term.Number, 64)
	if err != nil {
		return -1
	}
	return n
}

func (e *estimate) term(t *gojq.Term, times, dot float64) yield {
	out := e.base(t, times, dot)
	for _, s := range t.SuffixList {
		switch {
		case s.Iter:
			return e.unbounded()
		case s.Index != nil:
			out = e.index(s.Index, times*out.count, out)
		}
	}
	return out
}

// base estimates a term without what follows it.
func (e *estimate) base(t *gojq.Term, times, dot float64) yield {
	switch t.Type {
	case gojq.TermTypeIdentity:
		return yield{1, dot}
	case gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse:
		return yield{1, scalar}
	case gojq.TermTypeNumber:
		return yield{1, math.Max(scalar, float64(len(t.Number))/leastBytes)}
	case gojq.TermTypeIndex:
		return e.index(t.Index, times, yield{1, dot})
	case gojq.TermTypeFunc:
		return e.call(t.Func, times, dot)
	case gojq.TermTypeObject:
		return e.object(t.Object, times, dot)
	case gojq.TermTypeArray:
		if t.Array.Query == nil {
			return yield{1, scalar}
		}
		items := e.query(t.Array.Query, times, dot)
		out := yield{1, items.count*items.size + scalar}
		e.charge(times, out.size)
		return out
	case gojq.TermTypeUnary:
		return e.term(t.Unary.Term, times, dot)
	case gojq.TermTypeString:
		return e.text(t.Str, times, dot)
	case gojq.TermTypeIf:
		return e.branch(t.If, times, dot)
	case gojq.TermTypeTry:
		body := e.query(t.Try.Body, times, dot)
		if t.Try.Catch == nil {
			return body
		}
		// jq's messages repeat at most the beginning of a value.
		caught := e.query(t.Try.Catch, times, 4)
		return yield{body.count + caught.count, math.Max(body.size, caught.size)}
	case gojq.TermTypeQuery:
		return e.query(t.Query, times, dot)
	default: // recursion, formats, loops
		return e.unbounded()
	}
}

// index estimates the reading of a member, an item or a slice. Only fixed ones are bounded:
// an array as an index searches.
func (e *estimate) index(i *gojq.Index, times float64, of yield) yield {
	if i.Str != nil && i.Str.Queries != nil {
		return e.unbounded()
	}
	for _, q := range []*gojq.Query{i.Start, i.End} {
		if q != nil && !fixed(q) {
			return e.unbounded()
		}
	}
	if i.IsSlice {
		e.charge(times, of.size)
	}
	return of
}

// fixed reports whether a part is a literal, or the number of an iteration.
func fixed(q *gojq.Query) bool {
	if q.Term == nil || len(q.FuncDefs) > 0 || len(q.Term.SuffixList) > 0 {
		return false
	}
	switch t := q.Term; t.Type {
	case gojq.TermTypeNumber:
		return true
	case gojq.TermTypeUnary:
		return t.Unary.Term.Type == gojq.TermTypeNumber && len(t.Unary.Term.SuffixList) == 0
	case gojq.TermTypeString:
		return t.Str.Queries == nil
	case gojq.TermTypeFunc:
		return t.Func.Name == prefix+rootIndex
	default:
		return false
	}
}

func (e *estimate) object(o *gojq.Object, times, dot float64) yield {
	out := yield{1, scalar}
	for _, kv := range o.KeyVals {
		key := yield{1, float64(len(kv.Key)) / leastBytes}
		switch {
		case kv.KeyString != nil:
			key = e.text(kv.KeyString, times*out.count, dot)
		case kv.KeyQuery != nil:
			key = e.query(kv.KeyQuery, times*out.count, dot)
		}
		val := yield{1, math.Max(dot, e.largest())}
		if kv.Val != nil {
			val = e.query(kv.Val, times*out.count*key.count, dot)
		}
		out.count *= key.count * val.count
		out.size += key.size + val.size
		e.charge(times*out.count, out.size)
	}
	return out
}

// largest returns the size of the largest variable, 1 at least: {$x} reads one by its name.
func (e *estimate) largest() float64 {
	most := 1.0
	for _, v := range e.vars {
		most = math.Max(most, v.size)
	}
	return most
}

func (e *estimate) text(t *gojq.String, times, dot float64) yield {
	out := yield{1, math.Max(scalar, float64(len(t.Str))/leastBytes)}
	for _, q := range t.Queries {
		part := e.query(q, times*out.count, dot)
		out.count *= part.count
		out.size += jsonFactor * part.size
		e.charge(times*out.count, out.size)
	}
	return out
}

// digitsFactor is what a byte of a text costs that becomes a number. The time grows with the square
// of the digits: 8 s for a million. So only what reads little becomes one in this process.
const digitsFactor = 200

// jsonFactor is by how much a value can grow when it is written as JSON into a text: a
// control character takes six bytes.
const jsonFactor = 6

func (e *estimate) branch(i *gojq.If, times, dot float64) yield {
	cond := e.query(i.Cond, times, dot)
	out := e.query(i.Then, times*cond.count, dot)
	rest := yield{1, dot}
	switch {
	case len(i.Elif) > 0:
		rest = e.branch(&gojq.If{Cond: i.Elif[0].Cond, Then: i.Elif[0].Then, Elif: i.Elif[1:], Else: i.Else}, times*cond.count, dot)
	case i.Else != nil:
		rest = e.query(i.Else, times*cond.count, dot)
	}
	return yield{cond.count * math.Max(out.count, rest.count), math.Max(out.size, rest.size)}
}

// call estimates roots, variables and the functions of jq that only read what they get, once.
func (e *estimate) call(f *gojq.Func, times, dot float64) yield {
	if len(f.Args) == 0 && f.Name[0] == '$' {
		for _, v := range slices.Backward(e.vars) {
			if v.name == f.Name {
				return yield{1, v.size}
			}
		}
		return yield{1, 1} // a root
	}
	if len(f.Args) == 0 {
		return e.function(strings.TrimPrefix(f.Name, wholePrefix), times, dot)
	}
	if len(f.Args) != 1 {
		return e.unbounded()
	}
	arg := e.query(f.Args[0], times, dot)
	e.charge(times*arg.count, dot+arg.size)
	switch f.Name {
	case "has", "startswith", "endswith":
		return yield{arg.count, scalar}
	case "ltrimstr", "rtrimstr", "trimstr", "select":
		return yield{arg.count, dot}
	default:
		return e.unbounded()
	}
}

// function estimates a function without arguments.
func (e *estimate) function(name string, times, dot float64) yield {
	e.charge(times, dot)
	switch name {
	case "empty":
		return yield{0, 0}
	case "tonumber":
		e.charge(times, digitsFactor*dot)
		return yield{1, dot + scalar}
	case "not", "length", "utf8bytelength", "type", "floor", "round", "ceil", "trunc", "fabs", "sqrt",
		"isnan", "isinfinite", "isfinite", "isnormal", "toboolean", "fromdate", "todate",
		"fromdateiso8601", "todateiso8601":
		return yield{1, dot + scalar}
	case "ascii_downcase", "ascii_upcase", "trim", "ltrim", "rtrim", "first", "last", "abs",
		"values", "nulls", "strings", "numbers", "booleans", "arrays", "objects", "iterables", "scalars":
		return yield{1, dot}
	case "tostring":
		e.charge(times, jsonFactor*dot)
		return yield{1, jsonFactor * dot}
	default:
		return e.unbounded()
	}
}
