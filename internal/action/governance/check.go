package governance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/verb"
)

// Limits of a policy.
const (
	MaxPolicyName   = 255 // characters
	MaxMatchers     = 50
	MaxConditions   = 50
	MaxApprovers    = 50
	MaxRequired     = 10             // people who must approve
	MaxTimeout      = 30 * 24 * 3600 // seconds
	maxMatcherValue = 255            // bytes, as a verb's name
	verbCharacters  = "abcdefghijklmnopqrstuvwxyz0123456789_-:"
	ruleRequired    = "required"
	ruleEnum        = "enum"
	ruleMaxItems    = "maxItems"
	messageAtMost   = "must have at most %d entries"
)

// CheckPolicy returns what is wrong with a policy before it is stored, or nil. The paths
// are those of the request body (/verbMatchers/0/type). It checks what Normalize returns
// for p. Messages never repeat a value.
func CheckPolicy(p Policy) []fault.Detail {
	p = Normalize(p)
	var c checker
	c.name(p.Name)
	if p.Mode != "" && p.Mode != Enforce && p.Mode != Shadow {
		c.fail("/mode", ruleEnum, near.OneOf(p.Mode, Enforce, Shadow))
	}
	c.matchers("/verbMatchers", p.Matchers)
	c.matchers("/match/all", p.Match.All)
	c.matchers("/match/except", p.Match.Except)
	r := &clauseReader{}
	r.readLookups(p.Lookups)
	c.details = append(c.details, r.check("/conditions", p.Conditions)...)
	if strictness(p.Action) == 0 {
		c.fail("/action/type", ruleEnum, near.OneOf(p.Action, ActionAllow, ActionNotify, ActionRequireApproval, ActionBlock))
	}
	if p.Action == ActionRequireApproval {
		c.approval(p.Approval)
	}
	return c.details
}

// CheckConditions is CheckPolicy for conditions alone, of a grant, which has no look-ups. path is the
// place of the list.
func CheckConditions(path string, list []Condition) []fault.Detail {
	problems := (&clauseReader{}).check(path, normalizeConditions(list))
	for place, c := range Leaves(list) {
		if c.Window != nil {
			problems = append(problems, fault.Detail{Path: path + "/" + place + "/" + memberWindow, Rule: "unexpected", Message: onlyPolicies})
		}
	}
	return problems
}

// onlyPolicies says why a grant has no windows: it counts its own uses.
const onlyPolicies = "must be absent: only policies ask about windows"

func (r *clauseReader) check(path string, list []Condition) []fault.Detail {
	r.whole(path, list)
	if r.instructions > maxPrograms {
		r.fail(path, "regexp", "have regular expressions that are too costly together")
	}
	return r.problems
}

type checker struct{ details []fault.Detail }

func (c *checker) fail(path, rule, message string) {
	c.details = append(c.details, fault.Detail{Path: path, Rule: rule, Message: message})
}

func (c *checker) atMost(path string, n, most int) {
	if n > most {
		c.fail(path, ruleMaxItems, fmt.Sprintf(messageAtMost, most))
	}
}

func (c *checker) name(name string) {
	switch n := utf8.RuneCountInString(name); {
	case strings.TrimSpace(name) == "":
		c.fail("/name", ruleRequired, "is missing")
	case n > MaxPolicyName:
		c.fail("/name", "maxLength", fmt.Sprintf("must have at most %d characters", MaxPolicyName))
	}
}

func (c *checker) matchers(path string, list []Matcher) {
	c.atMost(path, len(list), MaxMatchers)
	for i, m := range list[:min(len(list), MaxMatchers)] {
		c.matcher(path+"/"+strconv.Itoa(i), m)
	}
}

func (c *checker) matcher(path string, m Matcher) {
	switch {
	case m.unknown:
		c.fail(path, "unknown", "has a member that is empty or not known; the members are type and value, or verb, provider, risk_level, operation_type and domain")
	case m == (Matcher{Type: m.Type, Value: m.Value}):
		c.typed(path, m)
	case m.Type != "" || m.Value != "":
		c.fail(path, "exclusive", "must have either type and value, or fields such as provider and operation_type")
	default:
		for _, f := range m.fields() {
			if f.value != "" {
				c.field(path+"/"+string(f.name), f.name, f.value)
			}
		}
	}
}

// typed checks a matcher that has a type and a value.
func (c *checker) typed(path string, m Matcher) {
	switch {
	case m.Type == "":
		c.fail(path+"/type", ruleRequired, "is missing; a matcher without type has at least one of verb, provider, risk_level, operation_type and domain")
	case m.Value == "":
		c.fail(path+"/value", ruleRequired, "is missing")
	case !slices.ContainsFunc(m.fields(), func(f matcherField) bool { return f.name == m.Type }):
		c.fail(path+"/type", ruleEnum, near.OneOf(m.Type, MatchVerb, MatchProvider, MatchRisk, MatchOperation, MatchDomain))
	default:
		c.field(path+"/value", m.Type, m.Value)
	}
}

// field checks what a matcher wants of one property.
func (c *checker) field(path string, name MatcherType, value string) {
	if len(value) > maxMatcherValue {
		c.fail(path, "maxLength", fmt.Sprintf("must have at most %d bytes", maxMatcherValue))
		return
	}
	switch name {
	case MatchVerb:
		c.verb(path, value)
	case MatchProvider:
		if value != verb.ReservedSlug && !verb.ValidSlug(value) {
			c.fail(path, "provider", "must be a provider's slug; a matcher of type verb takes *, as in stripe:*")
		}
	case MatchRisk:
		if risk := verb.Risk(value); risk != verb.RiskLow && risk != verb.RiskMedium && risk != verb.RiskHigh {
			c.fail(path, ruleEnum, near.OneOf(risk, verb.RiskLow, verb.RiskMedium, verb.RiskHigh))
		}
	case MatchOperation:
		if op := verb.Operation(value); op != verb.Read && op != verb.Write {
			c.fail(path, ruleEnum, near.OneOf(op, verb.Read, verb.Write))
		}
	case MatchDomain:
	}
}

// verb refuses a value that can match no verb's name. A policy that never matches would
// protect nothing, and its author would not notice.
func (c *checker) verb(path, value string) {
	if glob := strings.ReplaceAll(value, "*", ""); glob != value {
		if strings.Trim(glob, verbCharacters) != "" || strings.Count(glob, ":") > 1 {
			c.fail(path, "verb", "must be <provider>:<verb_name>, with * for any text")
		}
		return
	}
	if _, err := verb.Parse(value); err != nil {
		c.fail(path, "verb", "must be <provider>:<verb_name>, with * for any text")
	}
}

func (c *checker) approval(r ApprovalRule) {
	if r.Required < 1 || r.Required > MaxRequired {
		c.fail("/approval/required", "range", fmt.Sprintf("must be 1 to %d", MaxRequired))
	}
	if len(r.Approvers) == 0 {
		c.fail("/approval/approvers", ruleRequired, "must name at least one role or user")
	}
	c.atMost("/approval/approvers", len(r.Approvers), MaxApprovers)
	for i, a := range r.Approvers[:min(len(r.Approvers), MaxApprovers)] {
		c.approver("/approval/approvers/"+strconv.Itoa(i), a)
	}
	if r.TimeoutSeconds < 1 || r.TimeoutSeconds > MaxTimeout {
		c.fail("/approval/timeout", "range", fmt.Sprintf("must be 1 to %d seconds", MaxTimeout))
	}
	if r.OnTimeout != OnTimeoutReject && r.OnTimeout != OnTimeoutEscalate {
		c.fail("/approval/on_timeout", ruleEnum, near.OneOf(r.OnTimeout, OnTimeoutReject, OnTimeoutEscalate))
	}
}

func (c *checker) approver(path string, a Approver) {
	switch a.Type {
	case ApproverRole:
		if !actor.Role(a.Value).Valid() {
			c.fail(path+"/value", ruleEnum, near.OneOf(actor.Role(a.Value), actor.RoleOwner, actor.RoleAdmin, actor.RoleApprover, actor.RoleMember))
		}
	case ApproverUser:
		// There is one way to write an id: uuid.Parse would also read braces and urn:.
		if id, err := uuid.Parse(a.Value); err != nil || id == uuid.Nil || id.String() != a.Value {
			c.fail(path+"/value", "uuid", "must be a user's id")
		}
	default:
		c.fail(path+"/type", ruleEnum, near.OneOf(a.Type, ApproverRole, ApproverUser))
	}
}
