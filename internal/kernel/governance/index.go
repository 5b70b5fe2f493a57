package governance

import (
	"slices"
	"strings"

	"agentruntime/internal/kernel/verb"
)

// entry is a policy and the one of its matchers that led to it.
type entry struct {
	policy  *policy
	matcher int
}

// index finds the policies that may be about a call, without reading the others.
type index struct {
	always     []*policy // no matchers, or one that says nothing
	exact      map[verb.Name][]entry
	providers  map[string][]entry
	domains    map[string][]entry
	risks      map[string][]entry
	operations map[string][]entry
	// Globs, by the text before their first * (of the whole name, or of the verb after
	// "*:"), or by the text after their last. Each is compared with the name before it
	// counts.
	whole, verbs, ends affixes
	globs              []entry // * at both ends
}

// affixes are entries by a prefix or suffix of a name.
type affixes struct {
	lists   map[string][]entry
	lengths []int // that occur, ascending
}

func (a *affixes) add(affix string, e entry) {
	a.lists = put(a.lists, affix, e)
	if i, known := slices.BinarySearch(a.lengths, len(affix)); !known {
		a.lengths = slices.Insert(a.lengths, i, len(affix))
	}
}

func put[K comparable](lists map[K][]entry, key K, e entry) map[K][]entry {
	if lists == nil {
		lists = map[K][]entry{}
	}
	lists[key] = append(lists[key], e)
	return lists
}

// add stores a policy under each of its matchers, or under always where it has none.
func (x *index) add(p *policy) {
	if p.always {
		x.always = append(x.always, p)
		return
	}
	for i, m := range p.Matchers {
		e := entry{p, i}
		switch m.Type {
		case MatchVerb:
			x.addVerb(m.Value, e)
		case MatchProvider:
			x.providers = put(x.providers, m.Value, e)
		case MatchRisk:
			x.risks = put(x.risks, m.Value, e)
		case MatchOperation:
			x.operations = put(x.operations, m.Value, e)
		case MatchDomain:
			x.domains = put(x.domains, m.Value, e)
		}
	}
}

func (x *index) addVerb(value string, e entry) {
	star := strings.IndexByte(value, '*')
	if star < 0 {
		// Cut like the name of a call: at the first colon. Without a colon it is no verb's name.
		if provider, name, ok := strings.Cut(value, ":"); ok {
			x.exact = put(x.exact, verb.Name{Provider: provider, Verb: name}, e)
		}
		return
	}
	if star > 0 {
		x.whole.add(value[:star], e)
		return
	}
	if rest, ok := strings.CutPrefix(value, "*:"); ok {
		// The index has the verb alone. It finds every call, because no provider's slug
		// contains a colon.
		if star = strings.IndexByte(rest, '*'); star > 0 {
			x.verbs.add(rest[:star], e)
			return
		}
	}
	if end := value[strings.LastIndexByte(value, '*')+1:]; end != "" {
		x.ends.add(end, e)
		return
	}
	x.globs = append(x.globs, e)
}

// consider judges every policy that may be about the call, each once. name is the call's
// provider:verb_name; it is not in e, so that it needs no memory of its own.
func (x *index) consider(e *evaluation, name []byte) {
	for _, p := range x.always {
		e.consider(p)
	}
	c := &e.call
	e.visit(name, x.exact[c.Verb])
	e.visit(name, x.providers[c.Verb.Provider])
	e.visit(name, x.domains[c.Domain])
	e.visit(name, x.risks[string(c.Risk)])
	e.visit(name, x.operations[string(c.Operation)])
	e.visit(name, x.globs)
	for _, n := range x.whole.lengths {
		if n > len(name) {
			break
		}
		e.visit(name, x.whole.lists[string(name[:n])])
	}
	for _, n := range x.verbs.lengths {
		if n > len(c.Verb.Verb) {
			break
		}
		e.visit(name, x.verbs.lists[c.Verb.Verb[:n]])
	}
	for _, n := range x.ends.lengths {
		if n > len(name) {
			break
		}
		e.visit(name, x.ends.lists[string(name[len(name)-n:])])
	}
}

// visit considers the policies whose matcher fits, unless an earlier matcher of the policy
// fits too: that matcher leads to the policy.
func (e *evaluation) visit(name []byte, list []entry) {
next:
	for _, at := range list {
		for i, m := range at.policy.Matchers[:at.matcher+1] {
			if m.matches(&e.call, name) != (i == at.matcher) {
				continue next
			}
		}
		e.consider(at.policy)
	}
}
