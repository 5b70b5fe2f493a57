package governance

import (
	"slices"
	"strings"

	"agentruntime/internal/base/verb"
)

// entry is a policy and the one of its alternatives that led to it.
type entry struct {
	policy *policy
	at     int // in scope.any
}

// index finds the policies that may be about a call, without reading the others. Each
// alternative of a policy is stored once, under the narrowest thing that the call must have for
// it.
type index struct {
	always     []entry // nothing narrows them
	exact      map[verb.Name][]entry
	providers  map[string][]entry
	domains    map[string][]entry
	risks      map[verb.Risk][]entry
	operations map[verb.Operation][]entry
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

// rank orders what an entry is stored under, the narrowest first.
type rank uint8

const (
	byVerb     rank = iota // one verb
	byPart                 // a provider and the beginning of its verb's name
	byProvider             // as a glob too
	byDomain
	byAffix // another beginning or end of the name
	byRisk
	byOperation
	byText // a part of the name
	byNothing
)

// key is what an entry is stored under, and its value.
type key struct {
	rank  rank
	value string
}

// narrower returns the narrowest of k and what the selector names.
func (s *selector) narrower(k key) key {
	for _, other := range [...]key{
		{rankOf(s.verb), s.verb}, {byProvider, s.provider}, {byDomain, s.domain}, {byRisk, string(s.risk)}, {byOperation, string(s.operation)},
	} {
		if other.value != "" && other.rank < k.rank {
			k = other
		}
	}
	return k
}

func rankOf(glob string) rank {
	star := strings.IndexByte(glob, '*')
	if star < 0 {
		return byVerb
	}
	switch colon := strings.IndexByte(glob[:star], ':'); {
	case colon >= 0 && colon+1 < star:
		return byPart
	case colon >= 0:
		return byProvider
	case star > 0 || !strings.HasSuffix(glob, "*"):
		return byAffix
	}
	if rest, ok := strings.CutPrefix(glob, "*:"); ok && rest[0] != '*' {
		return byAffix
	}
	return byText
}

// add stores each alternative of a policy. All narrows every one of them.
func (x *index) add(p *policy) {
	narrowest := key{rank: byNothing}
	for i := range p.scope.all {
		narrowest = p.scope.all[i].narrower(narrowest)
	}
	for i := range p.scope.any {
		x.put(p.scope.any[i].narrower(narrowest), entry{p, i})
	}
}

func (x *index) put(k key, e entry) {
	switch {
	case k.rank == byNothing:
		x.always = append(x.always, e)
	case k.rank == byDomain:
		x.domains = put(x.domains, k.value, e)
	case k.rank == byRisk:
		x.risks = put(x.risks, verb.Risk(k.value), e)
	case k.rank == byOperation:
		x.operations = put(x.operations, verb.Operation(k.value), e)
	case k.rank == byProvider && !strings.Contains(k.value, ":"): // a slug, not a glob
		x.providers = put(x.providers, k.value, e)
	default:
		x.putGlob(k.value, e)
	}
}

func (x *index) putGlob(value string, e entry) {
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
	e.visit(name, x.always)
	c := &e.call
	e.visit(name, x.exact[c.Verb])
	e.visit(name, x.providers[c.Verb.Provider])
	e.visit(name, x.domains[c.Domain])
	e.visit(name, x.risks[c.Risk])
	e.visit(name, x.operations[c.Operation])
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

// visit considers the policies whose alternative fits, unless an earlier alternative of the
// policy fits too, which leads to the policy, or all and except exclude the call.
func (e *evaluation) visit(name []byte, list []entry) {
next:
	for _, at := range list {
		any := at.policy.scope.any[:at.at+1]
		for i := range any {
			if any[i].fits(&e.call, name) != (i == at.at) {
				continue next
			}
		}
		if at.policy.scope.narrow(&e.call, name) {
			e.consider(at.policy)
		}
	}
}
