package governance

import (
	"slices"
	"strings"

	"agentruntime/internal/base/glob"
	"agentruntime/internal/base/verb"
)

// NeverFits says why the matchers of the policy fit no verb that can be, whatever the catalog
// has. It returns "" where they may fit one, and where they cannot be read. It finds what two
// matchers say against each other, and what one entry of except covers whole.
func (p Policy) NeverFits() string {
	p = Normalize(Policy{Matchers: p.Matchers, Match: p.Match})
	s, readable := scopeOf(&p)
	if !readable {
		return ""
	}
	reason := ""
	for _, one := range s.any {
		var c conjunction
		for _, part := range append([]selector{one}, s.all...) {
			c.add(part)
		}
		switch {
		case c.conflict != "":
			reason = c.conflict
		case c.exempt(s.except):
			reason = "except exempts each verb that they fit"
		default:
			return ""
		}
	}
	return reason
}

// conjunction is selectors that must all fit.
type conjunction struct {
	globs     []string // a provider among them, as provider:*
	domain    string
	risk      verb.Risk
	operation verb.Operation
	conflict  string // why no verb fits them all
}

func (c *conjunction) add(s selector) {
	globs := []string{s.verb}
	if s.provider != "" {
		globs = append(globs, s.provider+":*")
	}
	for _, g := range globs {
		if g == "" || slices.Contains(c.globs, g) {
			continue
		}
		for _, other := range c.globs {
			if disjoint(g, other) {
				c.conflict = "no verb is both " + other + " and " + g
			}
		}
		c.globs = append(c.globs, g)
	}
	c.conflict = agree(&c.domain, s.domain, "domain", c.conflict)
	c.conflict = agree(&c.risk, s.risk, "risk_level", c.conflict)
	c.conflict = agree(&c.operation, s.operation, "operation_type", c.conflict)
}

// agree sets have to what is wanted, and returns why both cannot be true, or conflict.
func agree[S ~string](have *S, want S, name, conflict string) string {
	switch {
	case want == "" || want == *have:
	case *have != "":
		return "no verb has both " + name + " " + string(*have) + " and " + string(want)
	default:
		*have = want
	}
	return conflict
}

// disjoint reports that no text fits both globs. It compares what is before their first * and
// after their last, so it does not find all of them.
func disjoint(a, b string) bool {
	if !strings.Contains(a, "*") {
		return !glob.Match(b, a)
	}
	if !strings.Contains(b, "*") {
		return !glob.Match(a, b)
	}
	begin, other := a[:strings.IndexByte(a, '*')], b[:strings.IndexByte(b, '*')]
	end, last := a[strings.LastIndexByte(a, '*')+1:], b[strings.LastIndexByte(b, '*')+1:]
	return !strings.HasPrefix(begin, other) && !strings.HasPrefix(other, begin) ||
		!strings.HasSuffix(end, last) && !strings.HasSuffix(last, end)
}

// exempt reports whether for each risk level and operation type that the conjunction leaves
// open one entry of the list fits all its verbs.
func (c *conjunction) exempt(list []selector) bool {
	risks, operations := []verb.Risk{c.risk}, []verb.Operation{c.operation}
	if c.risk == "" {
		risks = []verb.Risk{verb.RiskLow, verb.RiskMedium, verb.RiskHigh}
	}
	if c.operation == "" {
		operations = []verb.Operation{verb.Read, verb.Write}
	}
	for _, risk := range risks {
		for _, operation := range operations {
			if !slices.ContainsFunc(list, func(s selector) bool {
				return (s.risk == "" || s.risk == risk) && (s.operation == "" || s.operation == operation) && c.within(&s)
			}) {
				return false
			}
		}
	}
	return true
}

// within reports whether the selector fits each verb of the conjunction, as far as names and
// domain say.
func (c *conjunction) within(s *selector) bool {
	// A * that stands for itself is matched by a * of the pattern only, which matches all that
	// it may stand for too.
	inGlob := func(pattern string) bool {
		return pattern == "" || slices.ContainsFunc(c.globs, func(g string) bool { return glob.Match(pattern, g) })
	}
	return (s.domain == "" || s.domain == c.domain) && inGlob(s.verb) && (s.provider == "" || inGlob(s.provider+":*"))
}
