package governance

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/strictjson"
)

// Says returns a text that two policies share if they ask for the same about the same calls: the
// same matchers, look-ups, conditions and action, and approvals by the same people. The order of entries
// does not count, nor whether a matcher has a type or a field. Names, modes and priorities do
// not either. Two policies with different texts may still mean the same.
func (p Policy) Says() string {
	p = Normalize(p)
	parts := []string{
		"any", saysOf(p.Matchers), "all", saysOf(p.Match.All), "except", saysOf(p.Match.Except),
		"look", lookupsSay(p.Lookups), "if", conditionsSay(p.Conditions, 0), "then", string(p.Action),
	}
	if p.Action == ActionRequireApproval {
		rule := p.Approval
		slices.SortFunc(rule.Approvers, func(a, b Approver) int { return strings.Compare(string(a.Type)+a.Value, string(b.Type)+b.Value) })
		text, err := json.Marshal(rule)
		if err != nil {
			panic(err) // texts, numbers and booleans always encode
		}
		parts = append(parts, string(text))
	}
	return joined(parts)
}

// joined returns one text for a list, different for different lists.
func joined(list []string) string {
	var b strings.Builder
	for _, s := range list {
		b.WriteString(strconv.Quote(s))
	}
	return b.String()
}

// set is joined without regard to order and repetition.
func set(list []string) string {
	slices.Sort(list)
	return joined(slices.Compact(list))
}

func saysOf(list []Matcher) string {
	texts := make([]string, len(list))
	for i, m := range list {
		texts[i] = joined(m.ByField().Words())
	}
	return set(texts)
}

func lookupsSay(list []Lookup) string {
	texts := make([]string, len(list))
	for i, l := range list {
		args := l.Args
		if canonical, err := strictjson.Canonical(args); err == nil {
			args = canonical
		}
		texts[i] = joined([]string{l.Name, l.Verb, string(args)})
	}
	return set(texts)
}

func conditionsSay(list []Condition, groups int) string {
	texts := make([]string, len(list))
	for i, c := range list {
		texts[i] = c.says(groups)
	}
	return set(texts)
}

func (c Condition) says(groups int) string {
	if name, parts := c.group(); name != "" && groups < maxGroups {
		return joined([]string{name, conditionsSay(parts, groups+1)})
	}
	if value, err := strictjson.Canonical(c.Value); err == nil {
		c.Value = value
	}
	text, err := json.Marshal(c)
	if err != nil { // the value is no JSON, and so equals no other
		return joined([]string{c.Field, string(c.Operator), string(c.Value)})
	}
	return string(text)
}
