package governance

import (
	"fmt"
	"iter"
	"slices"
	"strconv"

	"agentruntime/internal/base/fault"
)

// maxGroups is how many groups may be within each other.
const maxGroups = 4

// join says how a clause follows from its parts.
type join uint8

const (
	joinNone join = iota // the clause is a condition
	joinAll
	joinAny
	joinNot // of its one part
)

// clause is an entry of a policy's conditions that is ready to be judged: a condition, or a
// group of clauses.
//
// A condition has three values: it is met, unmet, or in doubt. It is in doubt where it cannot
// be judged, and where the field leads to several values of which some meet it. Doubt passes
// through all, any and not, and the top resolves it: to true for a policy that tightens, to
// false for one that allows. Judging each condition once, on the side that the top needs, has
// the same result: not asks its part for the other side.
type clause struct {
	join  join
	parts []clause
	one   *condition
	index int // of the condition among all of the policy, in the order written
	// looksUp: it may need the answer of a look-up. What needs none is judged before it.
	looksUp bool
}

// isMet reports whether the clause counts as true. Where strict, doubt counts as true. It notes
// in e the conditions that could not be judged.
func (c *clause) isMet(e *evaluation, strict bool) bool {
	switch c.join {
	case joinAll:
		return !c.has(e, strict, false)
	case joinAny:
		return c.has(e, strict, true)
	case joinNot:
		return !c.parts[0].isMet(e, !strict)
	default:
		ok, reason := c.one.isMet(e, strict)
		e.found.note(c.index, ok, reason)
		return ok
	}
}

// has reports whether one of the parts counts as want.
func (c *clause) has(e *evaluation, strict, want bool) bool {
	for _, later := range []bool{false, true} {
		for i := range c.parts {
			if p := &c.parts[i]; p.looksUp == later && p.isMet(e, strict) == want {
				return true
			}
		}
		if !c.looksUp {
			break
		}
	}
	return false
}

// conditions yields the conditions of clauses in the order written.
func conditions(clauses []clause) iter.Seq[*condition] {
	return func(yield func(*condition) bool) { eachCondition(clauses, yield) }
}

func eachCondition(clauses []clause, yield func(*condition) bool) bool {
	for i := range clauses {
		c := &clauses[i]
		if c.join == joinNone && !yield(c.one) || !eachCondition(c.parts, yield) {
			return false
		}
	}
	return true
}

// clauseReader reads the conditions of one policy or grant, and notes what is wrong with them.
type clauseReader struct {
	count        int // conditions so far
	entries      int // conditions and groups
	instructions int // of their regular expressions
	windows      int // of their conditions
	problems     []fault.Detail
	lookups      []lookup // of the policy
	wrong        []string // the names of its look-ups that are not among these
	anyLookup    bool     // also those that lookups does not have
}

// whole reads a whole list, which is normalized. path is its place.
func (r *clauseReader) whole(path string, list []Condition) []clause {
	clauses := r.list(path, list, 0)
	if r.full() {
		r.problems = []fault.Detail{{Path: path, Rule: ruleMaxItems, Message: fmt.Sprintf("must have at most %d conditions, those in groups included", MaxConditions)}}
	}
	return clauses
}

// readLookups reads the look-ups of a policy, before its conditions.
func (r *clauseReader) readLookups(list []Lookup) {
	if len(list) > MaxLookups {
		r.fail("/lookups", ruleMaxItems, fmt.Sprintf(messageAtMost, MaxLookups))
		for _, source := range list[MaxLookups:] {
			r.wrong = append(r.wrong, source.Name)
		}
	}
	for i, source := range list[:min(len(list), MaxLookups)] {
		path := "/lookups/" + strconv.Itoa(i)
		l, p := readLookup(source)
		switch {
		case p != nil:
			r.fail(path+"/"+p.field, p.rule, p.message)
			r.wrong = append(r.wrong, source.Name)
		case slices.ContainsFunc(r.lookups, func(other lookup) bool { return other.name == l.name }):
			r.fail(path+"/name", "unique", "is the name of another look-up of the policy")
		default:
			r.lookups = append(r.lookups, *l)
		}
	}
}

// bind has a field of a look-up's answer know the look-up. It is false where the policy has none of
// that name. A wrong one has its own fault, and the policy is not judged.
func (r *clauseReader) bind(f *field) bool {
	if f == nil || f.from != ofLookup || r.anyLookup {
		return true
	}
	f.lookup = slices.IndexFunc(r.lookups, func(l lookup) bool { return l.name == f.lookupName })
	if f.lookup < 0 {
		return slices.Contains(r.wrong, f.lookupName)
	}
	r.lookups[f.lookup].read.keep[f.name[len(lookupPrefix)+len(f.lookupName)+1:]] = f.path
	return true
}

// full reports whether there are more entries than a policy may have. Groups have at least one
// entry each, so the conditions bound the groups.
func (r *clauseReader) full() bool {
	return r.count > MaxConditions || r.entries > MaxConditions*(1+maxGroups)
}

func (r *clauseReader) fail(path, rule, message string) {
	r.problems = append(r.problems, fault.Detail{Path: path, Rule: rule, Message: message})
}

// list reads entries within that many groups.
func (r *clauseReader) list(path string, list []Condition, groups int) []clause {
	clauses := make([]clause, 0, min(len(list), MaxConditions))
	for i, source := range list {
		if r.full() {
			break
		}
		clauses = append(clauses, r.entry(path+"/"+strconv.Itoa(i), source, groups))
	}
	return clauses
}

// entry reads a condition or a group.
func (r *clauseReader) entry(path string, source Condition, groups int) clause {
	r.entries++
	name, parts := source.group()
	switch {
	case parts == nil:
		return r.condition(path, source)
	case !source.onlyGroup():
		r.fail(path, "oneOf", "must be a condition, with a field and an operator, or one group: any, all or not")
	case groups == maxGroups:
		r.fail(path+"/"+name, "maxDepth", fmt.Sprintf("is within too many groups: at most %d may be within each other", maxGroups))
	case len(parts) == 0:
		r.fail(path+"/"+name, "minItems", "must have at least one entry")
	case name == memberNot:
		// Its one entry has no index.
		part := r.entry(path+"/"+name, parts[0], groups+1)
		return clause{join: joinNot, parts: []clause{part}, looksUp: part.looksUp}
	default:
		c := clause{join: joinAll, parts: r.list(path+"/"+name, parts, groups+1)}
		if name == memberAny {
			c.join = joinAny
		}
		c.looksUp = slices.ContainsFunc(c.parts, func(part clause) bool { return part.looksUp })
		return c
	}
	return clause{join: joinAll}
}

func (r *clauseReader) condition(path string, source Condition) clause {
	c := clause{index: r.count}
	r.count++
	var problems []*problem
	c.one, problems = compileCondition(source)
	for _, p := range problems {
		r.fail(path+"/"+p.field, p.rule, p.message)
	}
	if source.Window != nil {
		r.window(path+"/"+memberWindow, *source.Window)
	}
	if c.one == nil {
		return clause{join: joinAll}
	}
	c.looksUp = c.one.looksUp
	switch {
	case !r.bind(&c.one.field):
		r.fail(path+"/field", "lookup", "names no look-up of the policy")
	case !r.bind(c.one.other):
		r.fail(path+"/value_field", "lookup", "names no look-up of the policy")
	}
	if c.one.re != nil {
		r.instructions += c.one.re.Size()
	}
	return c
}

// window counts a condition on a window, and checks the matchers that it has.
func (r *clauseReader) window(path string, w Window) {
	if r.windows++; r.windows == maxWindows+1 {
		r.fail(path, ruleMaxItems, fmt.Sprintf("is one too many: a policy may have at most %d conditions on windows", maxWindows))
	}
	var c checker
	c.matching(path+"/matching", w.Matching)
	r.problems = append(r.problems, c.details...)
}

// The members of groups.
const (
	memberAny = "any"
	memberAll = "all"
	memberNot = "not"
)

// group returns the name and the entries of a group; nil entries where c is none.
func (c Condition) group() (name string, parts []Condition) {
	switch {
	case c.Any != nil:
		return memberAny, c.Any
	case c.All != nil:
		return memberAll, c.All
	case c.Not != nil:
		return memberNot, []Condition{*c.Not}
	}
	return "", nil
}

// onlyGroup reports whether c, which is a group, is one group and nothing else.
func (c Condition) onlyGroup() bool {
	groups := 0
	for _, there := range []bool{c.Any != nil, c.All != nil, c.Not != nil} {
		if there {
			groups++
		}
	}
	return groups == 1 && c.Field == "" && c.Operator == "" && c.Value == nil && c.ValueField == "" && c.Zone == "" && c.Window == nil
}

// normalizeConditions is Normalize for conditions.
func normalizeConditions(list []Condition) []Condition { return normalizeGroups(list, 0) }

// normalizeGroups leaves what is within too many groups as it is: it is refused.
func normalizeGroups(list []Condition, groups int) []Condition {
	if groups > maxGroups {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		c := &list[i]
		c.Any, c.All = normalizeGroups(c.Any, groups+1), normalizeGroups(c.All, groups+1)
		if c.Not != nil {
			c.Not = &normalizeGroups([]Condition{*c.Not}, groups+1)[0]
		}
		if c.Operator = lower(c.Operator); c.Operator.asksPresence() {
			c.Value = nil
		}
		if c.Window != nil {
			c.Window = c.Window.normalize()
		}
	}
	return list
}

// Leaves yields the conditions within a list and its groups, each with its place ("0",
// "1/any/0"), in the order written. Entries beyond the limits of a policy are left out.
func Leaves(list []Condition) iter.Seq2[string, Condition] {
	return func(yield func(string, Condition) bool) { eachLeaf("", list, 0, yield) }
}

func eachLeaf(path string, list []Condition, groups int, yield func(string, Condition) bool) bool {
	for i, c := range list[:min(len(list), MaxConditions)] {
		if !leavesOf(path+strconv.Itoa(i), c, groups, yield) {
			return false
		}
	}
	return true
}

func leavesOf(place string, c Condition, groups int, yield func(string, Condition) bool) bool {
	name, parts := c.group()
	switch {
	case parts == nil:
		return yield(place, c)
	case groups == maxGroups:
		return true
	case name == memberNot:
		return leavesOf(place+"/"+name, parts[0], groups+1, yield)
	default:
		return eachLeaf(place+"/"+name+"/", parts, groups+1, yield)
	}
}
