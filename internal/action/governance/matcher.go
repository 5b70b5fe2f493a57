package governance

import (
	"slices"
	"strings"

	"agentruntime/internal/base/glob"
	"agentruntime/internal/base/verb"
)

// Normalize returns a copy of p as it is stored and compared: enumerated values in lower
// case, riskLevel as risk_level, and exists and not_exists without the value that they
// ignore. Values that it does not know stay as they are.
func Normalize(p Policy) Policy {
	p.Mode = lower(p.Mode)
	p.Action = lower(p.Action)
	p.Matchers = normalizeMatchers(p.Matchers)
	p.Match = p.Match.normalize()
	p.Conditions = normalizeConditions(p.Conditions)
	p.Lookups = slices.Clone(p.Lookups)
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
	if m.Type == MatchVerb || m.Type == MatchProvider {
		m.Value = verb.Canonical(m.Value)
	}
	m.Verb, m.Provider = verb.Canonical(m.Verb), verb.Canonical(m.Provider)
	m.Risk, m.Operation = strings.ToLower(m.Risk), strings.ToLower(m.Operation)
	return m
}

func (n Narrowing) normalize() Narrowing {
	return Narrowing{All: normalizeMatchers(n.All), Except: normalizeMatchers(n.Except)}
}

func normalizeMatchers(list []Matcher) []Matcher {
	list = slices.Clone(list)
	for i, m := range list {
		list[i] = NormalizeMatcher(m)
	}
	return list
}

func lower[S ~string](s S) S { return S(strings.ToLower(string(s))) }

// everything reports whether the glob matches every verb.
func everything(glob string) bool { return strings.Trim(glob, "*") == "" || glob == "*:*" }

// matcherField is one property that a matcher may name.
type matcherField struct {
	name  MatcherType // its JSON name too
	value string
}

// fields returns the properties that a matcher without a type names, "" where it does not.
func (m Matcher) fields() []matcherField {
	return []matcherField{{MatchVerb, m.Verb}, {MatchProvider, m.Provider}, {MatchRisk, m.Risk}, {MatchOperation, m.Operation}, {MatchDomain, m.Domain}}
}

// about says in words which verbs the matcher fits.
func (m Matcher) about() string {
	var parts []string
	for _, f := range m.ByField().fields() {
		switch {
		case f.value == "":
		case f.name == MatchVerb:
			parts = append(parts, f.value)
		default:
			parts = append(parts, string(f.name)+" "+f.value)
		}
	}
	return strings.Join(parts, " and ")
}

// ByField returns a matcher with a type as one with that field; the zero value where the type is
// not known. Others it returns as they are.
func (m Matcher) ByField() (out Matcher) {
	if m.Type == "" {
		return m
	}
	switch m.Type {
	case MatchVerb:
		out.Verb = m.Value
	case MatchProvider:
		out.Provider = m.Value
	case MatchRisk:
		out.Risk = m.Value
	case MatchOperation:
		out.Operation = m.Value
	case MatchDomain:
		out.Domain = m.Value
	}
	return out
}

// Words returns what a matcher without a type asks for, each as "provider shop".
func (m Matcher) Words() (words []string) {
	for _, f := range m.fields() {
		if f.value != "" {
			words = append(words, string(f.name)+" "+f.value)
		}
	}
	return words
}

// selector is a matcher that is ready to compare. Each field that is not "" must fit.
type selector struct {
	verb             string // a glob, never one that matches every verb
	provider, domain string
	risk             verb.Risk
	operation        verb.Operation
}

// selector reads a normalized matcher. ok is false where it cannot be read.
func (m Matcher) selector() (s selector, ok bool) {
	if m.unknown {
		return selector{}, false
	}
	if m.Type != "" && m == (Matcher{Type: m.Type, Value: m.Value}) {
		m = m.ByField()
	}
	if m == (Matcher{}) || m.Type != "" || m.Value != "" {
		return selector{}, false
	}
	s = selector{verb: m.Verb, provider: m.Provider, domain: m.Domain, risk: verb.Risk(m.Risk), operation: verb.Operation(m.Operation)}
	if everything(s.verb) {
		s.verb = ""
	}
	return s, true
}

// fits reports whether the selector fits the call. name is the call's provider:verb_name.
func (s *selector) fits(c *Call, name []byte) bool {
	return (s.provider == "" || s.provider == c.Verb.Provider) &&
		(s.operation == "" || s.operation == c.Operation) &&
		(s.risk == "" || s.risk == c.Risk) &&
		(s.domain == "" || s.domain == c.Domain) &&
		(s.verb == "" || glob.Match(s.verb, name))
}

// scope is the verbs that a policy is about.
type scope struct {
	any    []selector // one must fit; never empty
	all    []selector // each must fit
	except []selector // none may fit
}

// scopeOf reads the matchers of a normalized policy. What cannot be read never makes the scope
// smaller: such an entry of the alternatives fits every verb, one of all is left out, and with
// one of except nothing is exempt.
func scopeOf(p *Policy) (s scope, readable bool) {
	readable = true
	for _, m := range p.Matchers {
		one, ok := m.selector()
		readable = readable && ok
		s.any = append(s.any, one)
	}
	if len(s.any) == 0 || slices.Contains(s.any, selector{}) {
		s.any = []selector{{}}
	}
	for _, m := range p.Match.All {
		one, ok := m.selector()
		readable = readable && ok
		if one != (selector{}) {
			s.all = append(s.all, one)
		}
	}
	for _, m := range p.Match.Except {
		one, ok := m.selector()
		if !ok {
			return scope{any: s.any, all: s.all}, false
		}
		s.except = append(s.except, one)
	}
	return s, readable
}

// narrow reports whether all and except let the call through.
func (s *scope) narrow(c *Call, name []byte) bool {
	for i := range s.all {
		if !s.all[i].fits(c, name) {
			return false
		}
	}
	for i := range s.except {
		if s.except[i].fits(c, name) {
			return false
		}
	}
	return true
}

// has reports whether the call is within the scope.
func (s *scope) has(c *Call, name []byte) bool {
	return s.narrow(c, name) && slices.ContainsFunc(s.any, func(one selector) bool { return one.fits(c, name) })
}

// Covers reports whether the policy's matchers fit the call, whatever its conditions. It
// reads only the name, domain, risk and operation of the call. A matcher that cannot be read
// counts as it does in a decision.
func (p Policy) Covers(c Call) bool {
	p = Normalize(Policy{Matchers: p.Matchers, Match: p.Match})
	s, _ := scopeOf(&p)
	return s.has(&c, []byte(c.Verb.String()))
}
