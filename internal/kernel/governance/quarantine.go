package governance

import (
	"encoding/json"
	"fmt"
	"strings"

	"agentruntime/internal/kernel/verb"
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

// NamedVerbs returns the verbs that the matchers of a stored policy name exactly, without a glob.
func NamedVerbs(document json.RawMessage) (names []verb.Name) {
	var matchers struct {
		VerbMatchers, Match any
	}
	if json.Unmarshal(document, &matchers) != nil {
		return nil
	}
	add := func(text any) {
		if s, ok := text.(string); ok {
			if name, err := verb.Parse(s); err == nil {
				names = append(names, name)
			}
		}
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			add(v["verb"])
			if kind, _ := v["type"].(string); strings.EqualFold(kind, string(MatchVerb)) {
				add(v["value"])
			}
			for _, one := range v {
				walk(one)
			}
		}
	}
	walk(matchers.VerbMatchers)
	walk(matchers.Match)
	return names
}
