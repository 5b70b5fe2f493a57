package policy

import (
	"fmt"
	"unicode/utf8"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/fault"
)

// Draft is a policy as a caller writes it. Enumerations are read without regard to
// case; what is absent takes its default.
type Draft struct {
	Name        string
	Description string
	Enabled     *bool  // true
	Mode        string // "": enforce
	Priority    int32
	Matchers    []governance.Matcher
	Match       governance.Narrowing
	Conditions  []governance.Condition
	Lookups     []governance.Lookup
	Action      string
	Approval    *ApprovalDraft // for require_approval only
}

// ApprovalDraft is an approval rule as a caller writes it; what is nil takes the
// value of governance.DefaultApproval.
type ApprovalDraft struct {
	Required       *int32
	Approvers      []governance.Approver
	SelfApproval   *bool
	TimeoutSeconds *int64
	OnTimeout      *string
	ReasonRequired *bool
}

// Limits that governance does not set.
const (
	maxDescription = 2000 // characters
	maxPriority    = 1_000_000
)

// mistakes gathers everything that is wrong with a draft, with paths as in the
// request body.
type mistakes []fault.Detail

func (m *mistakes) add(path, rule, format string, args ...any) {
	*m = append(*m, fault.Detail{Path: path, Rule: rule, Message: fmt.Sprintf(format, args...)})
}

func (m mistakes) err() error {
	if len(m) == 0 {
		return nil
	}
	message := m[0].Path + ": " + m[0].Message
	if n := len(m); n > 1 {
		message += fmt.Sprintf(" (and %d more)", n-1)
	}
	f := fault.New(fault.CodeValidation, message)
	f.Details = m
	return f
}

// parse returns the policy that the draft describes, without its id and version.
func (d Draft) parse() (Policy, mistakes) {
	p := Policy{Description: d.Description, Policy: governance.Policy{
		Name: d.Name, Enabled: d.Enabled == nil || *d.Enabled, Mode: governance.Mode(d.Mode), Priority: d.Priority,
		Matchers: d.Matchers, Match: d.Match, Conditions: d.Conditions, Lookups: d.Lookups, Action: governance.Action(d.Action), Approval: d.Approval.rule(),
	}}
	p.Policy = governance.Normalize(p.Policy)
	if p.Mode == "" {
		p.Mode = governance.Enforce
	}
	m := mistakes(governance.CheckPolicy(p.Policy))
	if utf8.RuneCountInString(d.Description) > maxDescription {
		m.add("/description", "maxLength", "must have at most %d characters", maxDescription)
	}
	if p.Priority < -maxPriority || p.Priority > maxPriority {
		m.add("/priority", "range", "must be %d to %d", -maxPriority, maxPriority)
	}
	if d.Approval != nil && p.Action != governance.ActionRequireApproval {
		m.add("/approval", "unexpected", "must be absent: only the action require_approval has one")
	}
	return p, m
}

func (d *ApprovalDraft) rule() governance.ApprovalRule {
	r := governance.DefaultApproval()
	if d == nil {
		return r
	}
	set(&r.Required, d.Required)
	set(&r.SelfApproval, d.SelfApproval)
	set(&r.TimeoutSeconds, d.TimeoutSeconds)
	set(&r.ReasonRequired, d.ReasonRequired)
	if d.OnTimeout != nil {
		r.OnTimeout = governance.OnTimeout(*d.OnTimeout)
	}
	if d.Approvers != nil {
		r.Approvers = d.Approvers
	}
	return r
}

func set[T any](dst, src *T) {
	if src != nil {
		*dst = *src
	}
}
