package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"agentruntime/internal/fault"
	"agentruntime/internal/governance"
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
	Conditions  []governance.Condition
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

// Limits on a policy.
const (
	maxName        = 255  // characters
	maxDescription = 2000 // characters
	maxPriority    = 1_000_000
	maxRequired    = 10 // people
	maxApprovers   = 50
	// MaxTimeout is the longest that an approval can wait: 30 days.
	MaxTimeout = 30 * 24 * time.Hour
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
	f := fault.New(fault.CodeValidation, "")
	if len(m) == 1 {
		f.Message = m[0].Message
	}
	f.Details = m
	return f
}

// parse returns the policy that the draft describes, without its id and version.
func (d Draft) parse() (Policy, mistakes) {
	var m mistakes
	p := Policy{Description: d.Description, Policy: governance.Normalize(governance.Policy{
		Name: d.Name, Enabled: d.Enabled == nil || *d.Enabled, Mode: governance.Mode(d.Mode), Priority: d.Priority,
		Matchers: d.Matchers, Conditions: d.Conditions, Action: governance.Action(d.Action),
	})}
	if n := utf8.RuneCountInString(d.Name); n < 1 || n > maxName || strings.ContainsFunc(d.Name, unicode.IsControl) {
		m.add("/name", "length", "name has 1 to %d characters and no control characters.", maxName)
	}
	if utf8.RuneCountInString(d.Description) > maxDescription {
		m.add("/description", "length", "description has at most %d characters.", maxDescription)
	}
	if p.Mode == "" {
		p.Mode = governance.Enforce
	}
	if p.Priority < -maxPriority || p.Priority > maxPriority {
		m.add("/priority", "range", "priority is from %d to %d.", -maxPriority, maxPriority)
	}
	m = append(m, checkRules(p.Policy)...)
	switch {
	case p.Action == governance.ActionRequireApproval:
		p.Approval = d.Approval.parse(&m)
	case d.Approval != nil:
		m.add("/approval", "not_allowed", "Only a policy with the action require_approval has an approval.")
	}
	return p, m
}

func (d *ApprovalDraft) parse(m *mistakes) governance.ApprovalRule {
	r := governance.DefaultApproval()
	if d == nil {
		return r
	}
	set(&r.Required, d.Required)
	set(&r.SelfApproval, d.SelfApproval)
	set(&r.TimeoutSeconds, d.TimeoutSeconds)
	set(&r.ReasonRequired, d.ReasonRequired)
	if d.OnTimeout != nil {
		r.OnTimeout = governance.OnTimeout(strings.ToLower(*d.OnTimeout))
	}
	if r.Required < 1 || r.Required > maxRequired {
		m.add("/approval/required", "range", "required is from 1 to %d.", maxRequired)
	}
	if longest := int64(MaxTimeout / time.Second); r.TimeoutSeconds < 1 || r.TimeoutSeconds > longest {
		m.add("/approval/timeout", "range", "timeout is from 1 to %d seconds.", longest)
	}
	if r.OnTimeout != governance.OnTimeoutReject && r.OnTimeout != governance.OnTimeoutEscalate {
		m.add("/approval/on_timeout", "enum", "on_timeout is reject or escalate.")
	}
	if d.Approvers != nil {
		r.Approvers = parseApprovers(d.Approvers, m)
	}
	return r
}

func set[T any](dst, src *T) {
	if src != nil {
		*dst = *src
	}
}

// decidingRoles are the roles that a policy can leave the decision to. A member
// reads; whoever shall decide is named by his id.
func decidingRoles() []string { return []string{"owner", "admin", "approver"} }

func parseApprovers(in []governance.Approver, m *mistakes) []governance.Approver {
	if len(in) < 1 || len(in) > maxApprovers {
		m.add("/approval/approvers", "length", "approvers has 1 to %d entries: nobody could approve without any.", maxApprovers)
		return nil
	}
	out := make([]governance.Approver, len(in))
	for i, a := range in {
		path := fmt.Sprintf("/approval/approvers/%d", i)
		a.Type = governance.ApproverType(strings.ToLower(string(a.Type)))
		switch a.Type {
		case governance.ApproverRole:
			a.Value = strings.ToLower(a.Value)
			if !slices.Contains(decidingRoles(), a.Value) {
				m.add(path+"/value", "enum", "A role that approves is %s.", strings.Join(decidingRoles(), ", "))
			}
		case governance.ApproverUser:
			id, err := uuid.Parse(a.Value)
			if err != nil {
				m.add(path+"/value", "format", "A user is named by his id, a UUID.")
			}
			a.Value = id.String()
		default:
			m.add(path+"/type", "enum", "type is role or user.")
		}
		out[i] = a
	}
	return out
}
