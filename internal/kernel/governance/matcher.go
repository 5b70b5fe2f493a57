package governance

import (
	"slices"
	"strings"

	"agentruntime/internal/kernel/glob"
)

// Normalize returns a copy of p as it is stored and compared: enumerated values in lower
// case, riskLevel as risk_level, and exists and not_exists without the value that they
// ignore. Values that it does not know stay as they are.
func Normalize(p Policy) Policy {
	p.Mode = lower(p.Mode)
	p.Action = lower(p.Action)
	p.Matchers = slices.Clone(p.Matchers)
	for i, m := range p.Matchers {
		p.Matchers[i] = NormalizeMatcher(m)
	}
	p.Conditions = normalizeConditions(p.Conditions)
	p.Approval.OnTimeout = lower(p.Approval.OnTimeout)
	p.Approval.Approvers = slices.Clone(p.Approval.Approvers)
	for i, a := range p.Approval.Approvers {
		p.Approval.Approvers[i] = Approver{Type: lower(a.Type), Value: strings.ToLower(a.Value)}
	}
	return p
}

// NormalizeMatcher is Normalize for one matcher.
func NormalizeMatcher(m Matcher) Matcher {
	m.Type = lower(m.Type)
	if m.Type == "risklevel" {
		m.Type = MatchRisk
	}
	if m.Type == MatchRisk || m.Type == MatchOperation {
		m.Value = strings.ToLower(m.Value)
	}
	return m
}

func lower[S ~string](s S) S { return S(strings.ToLower(string(s))) }

// everything reports whether the glob matches every verb.
func everything(glob string) bool { return strings.Trim(glob, "*") == "" || glob == "*:*" }

// readable reports whether the matcher has a known type, and a value.
func (m Matcher) readable() bool {
	switch m.Type {
	case MatchVerb, MatchProvider, MatchRisk, MatchOperation, MatchDomain:
		return m.Value != ""
	}
	return false
}

// matches reports whether the matcher fits the call. name is the call's provider:verb_name.
func (m Matcher) matches(c *Call, name []byte) bool {
	switch m.Type {
	case MatchVerb:
		return glob.Match(m.Value, name)
	case MatchProvider:
		return m.Value == c.Verb.Provider
	case MatchRisk:
		return m.Value == string(c.Risk)
	case MatchOperation:
		return m.Value == string(c.Operation)
	case MatchDomain:
		return m.Value == c.Domain
	}
	return false
}
