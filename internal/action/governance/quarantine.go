package governance

import (
	"fmt"
	"slices"
	"strings"

	"agentruntime/internal/base/verb"
)

// quarantineTold is how many changes the reason of a block names.
const quarantineTold = 3

// QuarantineVerdict returns the decision about each call of a verb that is quarantined.
func QuarantineVerdict(name verb.Name, q verb.Quarantine) Verdict {
	changes := make([]string, 0, quarantineTold)
	for _, c := range q.Changes[:min(len(q.Changes), quarantineTold)] {
		changes = append(changes, c.String())
	}
	if more := q.ChangesTotal - len(changes); more > 0 {
		changes = append(changes, fmt.Sprintf("%d more changes", more))
	}
	return Verdict{Decision: Block, ShadowDecision: Block, Reason: fmt.Sprintf(
		"quarantined: an import changed %s: %s. An owner or admin can accept it with POST /v1/providers/%s/verbs/%s/accept. Then make the call again; the same id may be used.",
		name, strings.Join(changes, "; "), name.Provider, name.Verb,
	)}
}

// NamedVerbs returns the verbs that the policy names exactly, without a glob: in its matchers, in
// those of its windows, and as reads of its look-ups.
func (p Policy) NamedVerbs() (names []verb.Name) {
	p = Normalize(p)
	matchers := slices.Concat(p.Matchers, p.Match.All, p.Match.Except)
	for _, c := range Leaves(p.Conditions) {
		if c.Window != nil {
			matchers = append(matchers, c.Window.Matching.matchers()...)
		}
	}
	texts := make([]string, 0, len(matchers)+len(p.Lookups))
	for _, m := range matchers {
		texts = append(texts, m.ByField().Verb)
	}
	for _, l := range p.Lookups {
		texts = append(texts, l.Verb)
	}
	for _, text := range texts {
		if name, err := verb.Parse(text); err == nil {
			names = append(names, name)
		}
	}
	return names
}
