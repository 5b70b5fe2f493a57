package governance

import (
	"cmp"
	"slices"
	"strings"
)

// policy is a Policy that is ready to judge calls.
type policy struct {
	Policy
	strict     int      // of its action, see strictness
	scope      scope    // the verbs that it is about
	conditions []clause // all must be met
	count      int      // conditions, those in groups included
	entries    int      // conditions and groups
	lookups    []lookup
	// broken: the stored policy cannot be read. It blocks every call that it may be about.
	broken bool
}

// strictness orders actions; 0 is none.
func strictness(a Action) int {
	return 1 + slices.Index([]Action{ActionAllow, ActionNotify, ActionRequireApproval, ActionBlock}, a)
}

// compilePolicy reads a normalized policy.
func compilePolicy(source Policy) *policy {
	p := &policy{Policy: source, strict: strictness(source.Action)}
	p.broken = p.strict == 0
	switch p.Mode {
	case Enforce, Shadow:
	case "":
		p.Mode = Enforce
	default:
		p.Mode, p.broken = Enforce, true
	}
	read, readable := scopeOf(&p.Policy)
	p.scope, p.broken = read, p.broken || !readable
	r := &clauseReader{}
	r.readLookups(p.Lookups)
	p.conditions = r.whole("", p.Conditions)
	p.count, p.entries, p.lookups = r.count, r.entries, r.lookups
	p.broken = p.broken || len(r.problems) > 0
	for one := range conditions(p.conditions) {
		if one.window != nil {
			p.broken = !one.window.bind(one.source.Window, &p.Policy) || p.broken
		}
	}
	if p.broken {
		p.Action, p.strict, p.conditions, p.count, p.entries, p.lookups = ActionBlock, strictness(ActionBlock), nil, 0, 0, nil
	}
	return p
}

// What a compiled policy takes of memory, in bytes, besides its texts.
const (
	policySize      = 700
	scopeSize       = 200 // of a matcher, as stored, as compiled and in the index
	conditionSize   = 500
	instructionSize = 100
)

// size returns about how many bytes of memory the policy takes.
func (p *policy) size() int {
	n := policySize + len(p.Name) + 64*len(p.Approval.Approvers)
	n += scopeSize * (len(p.Matchers) + len(p.Match.All) + len(p.Match.Except))
	for c := range conditions(p.conditions) {
		n += conditionSize + len(c.source.Field) + 3*len(c.source.ValueField) + 3*len(c.source.Value) + 64*(len(c.list)+len(c.path))
		if c.window != nil {
			n += conditionSize + 3*(len(c.source.Window.By)+len(c.source.Window.Sum)) + 128*(len(c.window.scope.any)+len(c.window.scope.all)+len(c.window.scope.except))
		}
		if c.re != nil {
			n += instructionSize * c.re.Size()
		}
	}
	for _, l := range p.lookups {
		n += conditionSize + 64*(len(l.read.args)+len(l.read.keep)) + 2*len(l.read.id)
	}
	return n
}

// tightens reports whether a doubt about the call counts as a match.
func (p *policy) tightens() bool { return p.Action != ActionAllow }

// looksAtDone is after how many policies an evaluation looks whether it is still wanted.
const looksAtDone = 16

// consider adds the policy to those that match, where all its conditions are met.
func (e *evaluation) consider(p *policy) {
	if e.judged++; e.judged%looksAtDone == 0 && e.call.Done != nil {
		select {
		case <-e.call.Done:
			e.args.left = -1
		default:
		}
	}
	if e.gathers {
		e.gatherWindows(p)
		return
	}
	ok, depends := e.matches(p)
	if !ok {
		return
	}
	m := matched{policy: p, judged: e.found.judged, met: e.found.met, depends: depends}
	if e.found.doubt && e.explains {
		unsure := e.found.unsure
		m.unsure = &unsure
	}
	e.matched.add(m)
}

// before orders policies: the strictest first, enforced before shadow, then by priority,
// name and id. So the order in which they are stored does not matter.
func before(p, q *policy) int {
	return cmp.Or(
		cmp.Compare(q.strict, p.strict),
		cmp.Compare(p.Mode, q.Mode), // enforce before shadow
		cmp.Compare(q.Priority, p.Priority),
		strings.Compare(p.Name, q.Name),
		slices.Compare(p.ID[:], q.ID[:]),
		cmp.Compare(q.Version, p.Version),
	)
}
