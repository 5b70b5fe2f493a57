package governance

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/actor"
)

// Policy is one rule of a tenant (docs/policies.md). It applies to a call that any of its
// matchers matches (every call where it has none) and for which all its conditions hold.
type Policy struct {
	ID      uuid.UUID
	Version int32
	Name    string
	Enabled bool
	Mode    Mode
	// Priority orders policies of one action: the name of the highest is reported.
	Priority   int32
	Matchers   []Matcher
	Conditions []Condition
	Action     Action
	// Approval is what a require_approval policy asks for; ignored for others.
	Approval ApprovalRule
}

// Mode says whether a policy decides or is only watched.
type Mode string

// Modes.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow"
)

// Action is what a policy asks for.
type Action string

// Actions, the strictest last.
const (
	ActionAllow           Action = "allow"
	ActionNotify          Action = "notify"
	ActionRequireApproval Action = "require_approval"
	ActionBlock           Action = "block"
)

// MatcherType is what of a verb a matcher looks at.
type MatcherType string

// Matcher types. The value of a verb matcher may hold the glob *.
const (
	MatchVerb      MatcherType = "verb"
	MatchProvider  MatcherType = "provider"
	MatchRisk      MatcherType = "risk_level"
	MatchOperation MatcherType = "operation_type"
	MatchDomain    MatcherType = "domain"
)

// Matcher is one entry of verbMatchers.
type Matcher struct {
	Type  MatcherType `json:"type"`
	Value string      `json:"value"`
}

// Operator compares a field with a condition's value.
type Operator string

// Operators.
const (
	OpEquals         Operator = "equals"
	OpNotEquals      Operator = "not_equals"
	OpGreater        Operator = "greater"
	OpGreaterOrEqual Operator = "greater_or_equal"
	OpLess           Operator = "less"
	OpLessOrEqual    Operator = "less_or_equal"
	OpIn             Operator = "in"
	OpNotIn          Operator = "not_in"
	OpContains       Operator = "contains"
	OpNotContains    Operator = "not_contains"
	OpStartsWith     Operator = "starts_with"
	OpEndsWith       Operator = "ends_with"
	OpMatches        Operator = "matches" // RE2
	OpExists         Operator = "exists"
	OpNotExists      Operator = "not_exists"
)

// Condition compares one field of a call with a value.
type Condition struct {
	// Field is args.<path>, agent_id, customer_id or session.tainted.
	Field    string          `json:"field"`
	Operator Operator        `json:"operator"`
	Value    json.RawMessage `json:"value,omitempty"` // ignored for exists and not_exists
}

// ApprovalRule is what a human's approval has to be worth.
type ApprovalRule struct {
	// Required is how many different people have to approve (1 to 10).
	Required  int32      `json:"required"`
	Approvers []Approver `json:"approvers"`
	// SelfApproval lets one approve what one asked for or whose arguments one edited.
	SelfApproval bool `json:"self_approval"`
	// TimeoutSeconds is how long the approval waits for its decisions.
	TimeoutSeconds int64     `json:"timeout"`
	OnTimeout      OnTimeout `json:"on_timeout"`
	// ReasonRequired: a rejection has to say why.
	ReasonRequired bool `json:"reason_required"`
}

// Timeout is TimeoutSeconds as a duration.
func (r ApprovalRule) Timeout() time.Duration { return time.Duration(r.TimeoutSeconds) * time.Second }

// OnTimeout says what happens when the time is over.
type OnTimeout string

// Choices for the end of the time. Escalate turns to owners and admins once, for the
// same time again, before it rejects.
const (
	OnTimeoutReject   OnTimeout = "reject"
	OnTimeoutEscalate OnTimeout = "escalate"
)

// ApproverType is how an approver is named.
type ApproverType string

// Approver types.
const (
	ApproverRole ApproverType = "role"
	ApproverUser ApproverType = "user"
)

// Approver is a role or a user that may decide.
type Approver struct {
	Type  ApproverType `json:"type"`
	Value string       `json:"value"` // a role's name, a user's id
}

// DefaultApprovalTimeout is how long an approval waits where the policy does not say.
const DefaultApprovalTimeout = 24 * time.Hour

// DefaultApproval is the rule of a policy that says nothing of it, and of a dry
// run that no policy holds: one owner, admin or approver, within a day.
func DefaultApproval() ApprovalRule {
	return ApprovalRule{
		Required: 1,
		Approvers: []Approver{
			{Type: ApproverRole, Value: string(actor.RoleOwner)}, {Type: ApproverRole, Value: string(actor.RoleAdmin)},
			{Type: ApproverRole, Value: string(actor.RoleApprover)},
		},
		TimeoutSeconds: int64(DefaultApprovalTimeout / time.Second),
		OnTimeout:      OnTimeoutReject,
	}
}

// Requirement is one approval that a call needs: of the policy that asks for it, in
// the version that was judged. A call that several policies hold needs all of theirs.
type Requirement struct {
	PolicyID   *uuid.UUID   `json:"policy_id"` // nil: DefaultApproval of a dry run
	Version    int32        `json:"version"`
	PolicyName string       `json:"policy_name"`
	Rule       ApprovalRule `json:"rule"`
}

// Context is what a call says of itself besides its arguments. Absent fields are null
// in conditions.
type Context struct {
	AgentID    *string
	CustomerID *string
	Tainted    *bool // session.tainted
}

// Match is a policy that matched a call, in either mode.
type Match struct {
	PolicyID   uuid.UUID        `json:"policy_id"`
	PolicyName string           `json:"policy_name"`
	Version    int32            `json:"version"`
	Mode       Mode             `json:"mode"`
	Action     Action           `json:"action"`
	Conditions []ConditionMatch `json:"conditions"`
	// Decided: the policy whose name the verdict reports.
	Decided bool `json:"decided"`
}

// ConditionMatch is how a condition of a matching policy turned out.
type ConditionMatch struct {
	Field    string          `json:"field"`
	Operator Operator        `json:"operator"`
	Value    json.RawMessage `json:"value"`
	// Actual is the call's value, masked; null where the call has none.
	Actual json.RawMessage `json:"actual"`
	// FailClosed says why a condition that could not be judged counts as held ("the call
	// lacks it", "not a number"); "" where it was judged.
	FailClosed string `json:"fail_closed,omitempty"`
}
