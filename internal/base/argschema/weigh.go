package argschema

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// What parts of a check cost, in units of 0.1 to 0.3 µs (measured on 2 cores, idle and busy).
// A visit is a value met by a schema. It includes the message where the value does not fit,
// which repeats the way to the value.
const (
	visitCost  = 10
	levelCost  = 1    // one level of the way to the value, a visit
	typeCost   = 0.2  // looking at a value's type, or comparing a short text
	numberCost = 15   // making fractions of two numbers
	boundCost  = 20   // comparing a number with a bound of the schema
	powerCost  = 100  // the same where the number has an exponent
	byteCost   = 0.05 // looking at one byte of a text
	stepCost   = 0.2  // one instruction of an expression at one byte
	memberCost = 2
	keyCost    = 10   // writing one value of an array whose items are unique
	stepUp     = 0.02 // one step up the way that led to a schema
)

// budget is what checking the arguments of one call may cost: half a second at most, and 120
// MB. 10,000 rows of five fields take less than half of it.
const budget = 2_000_000

// quick is what a check may cost in a workflow: some tenths of a millisecond. Costs are sums of fractions,
// whose order is not the same each time. No sum comes so close to this one that the order matters.
const quick = 1000.0005

// Quick reports whether checking args takes some tenths of a millisecond at most. For the same args it
// always says the same, as a workflow needs it.
func (s *Schema) Quick(args json.RawMessage) bool {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	return s.compiled == nil || err != nil || budget-s.weigh(value) <= quick
}

// part is how often a value meets a rule.
type part struct {
	rule  *rule
	times float64
}

// weigher adds up the most that checking a value can cost, without checking it: each schema
// that speaks about a value counts as often as the validator may ask it.
type weigher struct {
	left  float64
	depth float64   // levels above the value
	times []float64 // by the order of rules, while the rules of one value are gathered
	heap  []int32   // the orders that times has, the least first
	byNo  []*rule
	stack []part
}

// affords reports whether checking the value stays within the budget.
func (s *Schema) affords(v any) bool { return s.weigh(v) >= 0 }

// weigh returns what checking the value leaves of the budget.
func (s *Schema) weigh(v any) float64 {
	w := &weigher{left: budget, times: make([]float64, s.rules), byNo: make([]*rule, s.rules)}
	w.push(s.root, 1)
	w.value(v)
	return w.left
}

// push says that the next value meets the rule so many times more.
func (w *weigher) push(r *rule, times float64) {
	if r == nil {
		return
	}
	if w.times[r.order] == 0 {
		w.byNo[r.order] = r
		w.up(int32(r.order))
	}
	w.times[r.order] += times
}

// gather takes what was pushed, adds what it leads to in place, and leaves it on the stack.
// It returns where it begins there.
func (w *weigher) gather() int {
	from := len(w.stack)
	for len(w.heap) > 0 {
		no := w.down()
		r, times := w.byNo[no], w.times[no]
		w.times[no] = 0
		if w.left -= (r.visit + w.depth*levelCost) * times; w.left < 0 {
			continue // only to empty the heap
		}
		w.stack = append(w.stack, part{r, times})
		for _, next := range r.inPlace {
			w.push(next, times)
		}
	}
	return from
}

// value takes the cost of a value, which meets what was pushed, off what is left.
func (w *weigher) value(v any) {
	from := w.gather()
	w.depth++
	defer func() { w.depth-- }()
	switch t := v.(type) {
	case map[string]any:
		w.object(from, t)
	case []any:
		w.array(from, t)
	case string:
		for _, p := range w.stack[from:] {
			w.left -= p.times * p.rule.text(t)
		}
	case json.Number:
		for _, p := range w.stack[from:] {
			w.left -= p.times * p.rule.number(t)
		}
	default:
		for _, p := range w.stack[from:] {
			w.left -= p.times * p.rule.enum.others
		}
	}
	w.stack = w.stack[:from]
}

func (w *weigher) object(from int, object map[string]any) {
	end := len(w.stack)
	for _, p := range w.stack[from:end] {
		w.left -= p.times * (p.rule.enum.others + p.rule.required*typeCost + float64(len(object))*memberCost)
	}
	for name, v := range object {
		if w.left < 0 {
			return
		}
		for _, p := range w.stack[from:end] {
			for _, one := range p.rule.patterns {
				w.left -= p.times * stepCost * float64(one.size*(len(name)+1))
			}
			w.push(p.rule.names, p.times)
		}
		if len(w.heap) > 0 {
			w.value(name)
		}
		for _, p := range w.stack[from:end] {
			p.rule.member(w, name, p.times)
		}
		if len(w.heap) > 0 {
			w.value(v)
		}
	}
}

// member pushes the rules that a member of the name meets, and those that it may meet.
func (r *rule) member(w *weigher, name string, times float64) {
	named, known := r.properties[name]
	w.push(named, times)
	for _, one := range r.patterns {
		w.push(one.rule, times)
	}
	if !known {
		w.push(r.additional, times)
	}
	w.push(r.rest, times)
}

func (w *weigher) array(from int, list []any) {
	end := len(w.stack)
	for _, p := range w.stack[from:end] {
		w.left -= p.times * (p.rule.enum.others + float64(len(list))*typeCost)
		if p.rule.unique {
			w.left -= p.times * keyCost * float64(countValues(list))
		}
	}
	for i, v := range list {
		if w.left < 0 {
			return
		}
		for _, p := range w.stack[from:end] {
			if i < len(p.rule.prefix) {
				w.push(p.rule.prefix[i], p.times)
			}
			for _, one := range p.rule.items {
				w.push(one, p.times)
			}
		}
		if len(w.heap) > 0 {
			w.value(v)
		}
	}
}

// text returns what the rule's checks of a string cost.
func (r *rule) text(s string) float64 {
	cost := r.enum.strings
	if r.schema.MinLength != nil || r.schema.MaxLength != nil || r.schema.Format != nil {
		cost += float64(len(s)) * byteCost
	}
	if r.schema.Pattern != nil {
		cost += stepCost * float64(sizeOf(r.schema.Pattern)*(len(s)+1))
	}
	return cost
}

// number returns what the rule's checks of a number cost.
func (r *rule) number(n json.Number) float64 {
	s, cost := r.schema, r.enum.numbers
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MultipleOf == nil {
		return cost
	}
	if strings.ContainsAny(n.String(), "eE") {
		return cost + powerCost
	}
	return cost + boundCost
}

// up adds an order to the heap.
func (w *weigher) up(no int32) {
	w.heap = append(w.heap, no)
	for i := len(w.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if w.heap[parent] <= w.heap[i] {
			return
		}
		w.heap[parent], w.heap[i] = w.heap[i], w.heap[parent]
		i = parent
	}
}

// down takes the least order off the heap.
func (w *weigher) down() int32 {
	least, last := w.heap[0], len(w.heap)-1
	w.heap[0] = w.heap[last]
	w.heap = w.heap[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return least
		}
		if child+1 < last && w.heap[child+1] < w.heap[child] {
			child++
		}
		if w.heap[i] <= w.heap[child] {
			return least
		}
		w.heap[i], w.heap[child] = w.heap[child], w.heap[i]
		i = child
	}
}
