package governance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/actor"
)

// Policy is one rule of a tenant (docs/use/policies.md). It applies to a call if one of its
// matchers fits, or it has none, if Match does not exclude the call, and if all its conditions
// are true.
// Conditions are entries that must all be met; each is a condition or a group.
//
// The JSON names of the types in this file are what rows store and what the API answers
// with, so none is ever renamed; stored_test.go keeps them.
type Policy struct {
	ID      uuid.UUID
	Version int32
	Name    string
	Enabled bool
	Mode    Mode
	// Priority orders policies of one action: the name of the highest is reported.
	Priority   int32
	Matchers   []Matcher
	Match      Narrowing
	Conditions []Condition
	// Lookups are reads whose results the conditions use.
	Lookups []Lookup
	Action  Action
	// Approval is what a require_approval policy asks for; other policies ignore it.
	Approval ApprovalRule
}

// Mode says whether a policy decides, or only reports what it would decide.
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

// MatcherType is the property of a verb that a matcher compares.
type MatcherType string

// Matcher types. The value of a verb matcher may contain the glob *.
const (
	MatchVerb      MatcherType = "verb"
	MatchProvider  MatcherType = "provider"
	MatchRisk      MatcherType = "risk_level"
	MatchOperation MatcherType = "operation_type"
	MatchDomain    MatcherType = "domain"
)

// Matcher is one entry of verbMatchers, all or except. It has Type and Value, or any of the
// other fields. Of these each one that is not "" must fit.
type Matcher struct {
	Type      MatcherType `json:"type,omitempty"`
	Value     string      `json:"value,omitempty"`
	Verb      string      `json:"verb,omitempty"`
	Provider  string      `json:"provider,omitempty"`
	Risk      string      `json:"risk_level,omitempty"`
	Operation string      `json:"operation_type,omitempty"`
	Domain    string      `json:"domain,omitempty"`

	// unknown: it was read with a member that is empty, or that this version does not know.
	unknown bool
}

// UnmarshalJSON reads a matcher. One with a member that is empty or not known counts as one that
// cannot be read: to ignore the member would let the matcher fit more.
func (m *Matcher) UnmarshalJSON(data []byte) error {
	type plain Matcher
	var read struct {
		plain

		RiskLevel string `json:"riskLevel"` // another name of risk_level
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return err //nolint:wrapcheck // json adds its own words
	}
	var members map[string]*string
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	unknown := strict.Decode(&read) != nil || json.Unmarshal(data, &members) != nil || read.Risk != "" && read.RiskLevel != ""
	for _, text := range members {
		unknown = unknown || text == nil || *text == ""
	}
	*m = Matcher(read.plain)
	m.Risk, m.unknown = cmp.Or(m.Risk, read.RiskLevel), unknown
	return nil
}

// Narrowing excludes verbs that the matchers of a policy fit.
type Narrowing struct {
	All    []Matcher `json:"all,omitempty"`    // each must fit
	Except []Matcher `json:"except,omitempty"` // none may fit
}

// Condition compares one field of a call with a value, or is a group of conditions. A group
// has one of Any, All and Not, and nothing else.
type Condition struct {
	// Field is args.<path>, metadata.<path>, or one of the others of field.go.
	Field    string          `json:"field,omitempty"`
	Operator Operator        `json:"operator,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"` // absent for exists and not_exists
	// ValueField is the field to compare with, in place of Value.
	ValueField string `json:"value_field,omitempty"`
	// Zone is the IANA time zone of time.hour and time.weekday; "" is UTC.
	Zone string `json:"zone,omitempty"`
	// Window is compared with Value in the place of a field.
	Window *Window `json:"window,omitempty"`
	// Any is met where one of its entries is, All where each is, Not where its entry is not.
	Any []Condition `json:"any,omitempty"`
	All []Condition `json:"all,omitempty"`
	Not *Condition  `json:"not,omitempty"`
}

// ApprovalRule says who must approve a call, and for how long the call waits for them.
type ApprovalRule struct {
	// Required is how many different people must approve (1 to MaxRequired).
	Required  int32      `json:"required"`
	Approvers []Approver `json:"approvers"`
	// SelfApproval lets people approve a call that they asked for or whose arguments they
	// edited.
	SelfApproval bool `json:"self_approval"`
	// TimeoutSeconds is how long the approval waits for its decisions (1 to MaxTimeout).
	TimeoutSeconds int64     `json:"timeout"`
	OnTimeout      OnTimeout `json:"on_timeout"`
	// ReasonRequired: a rejection must say why.
	ReasonRequired bool `json:"reason_required"`
}

// Timeout returns TimeoutSeconds as a duration.
func (r ApprovalRule) Timeout() time.Duration { return time.Duration(r.TimeoutSeconds) * time.Second }

// OnTimeout says what happens when the time is over.
type OnTimeout string

// Choices for the end of the time. Escalate asks owners and admins too, once and for the
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

// Approver is a role or a user who may decide.
type Approver struct {
	Type  ApproverType `json:"type"`
	Value string       `json:"value"` // a role's name, a user's id
}

// DefaultApprovalTimeout is how long an approval waits where the policy does not say.
const DefaultApprovalTimeout = 24 * time.Hour

// DefaultApproval returns the rule for a policy without a rule of its own, and for a dry
// run that no policy holds: one owner, admin or approver, within a day.
func DefaultApproval() ApprovalRule {
	return ApprovalRule{
		Required: 1,
		Approvers: []Approver{
			{Type: ApproverRole, Value: string(actor.RoleOwner)},
			{Type: ApproverRole, Value: string(actor.RoleAdmin)},
			{Type: ApproverRole, Value: string(actor.RoleApprover)},
		},
		TimeoutSeconds: int64(DefaultApprovalTimeout / time.Second),
		OnTimeout:      OnTimeoutReject,
	}
}

// Requirement is the approval that one policy asks for, in the version that judged the
// call. A call that several policies hold needs the approvals of all of them.
type Requirement struct {
	PolicyID   *uuid.UUID   `json:"policy_id"` // nil: DefaultApproval of a dry run
	Version    int32        `json:"version"`
	PolicyName string       `json:"policy_name"`
	Rule       ApprovalRule `json:"rule"`
}

// MaxRequirements is how many policies can each ask for an approval of one call. A call for
// which more of them do so is blocked: nobody could read what they are asked.
const MaxRequirements = 100

// Context is what conditions can ask about a call besides its arguments. Absent fields are
// null in conditions.
type Context struct {
	// AgentID is the agent that the caller says they are. For a call that an agent of ours makes or has
	// led to it is OwnAgentID.
	AgentID *string
	// OwnAgentID is the agent of ours that makes the call or has led to it; nil for calls over HTTP.
	OwnAgentID *string
	// MapID is the Map whose step makes the call; nil for any other call.
	MapID *string
	// CustomerID is the text by which the caller names the customer.
	CustomerID *string
	// CustomerRef names the same customer where the service knows them better: by the id of their record.
	// nil where CustomerID is all that is known.
	CustomerRef *string
	// Customer is the record of the customer that CustomerID names: an object with id,
	// external_id, tags and metadata; nil where the tenant has no such customer.
	Customer json.RawMessage
	// CustomerNames are the texts that name the same customer as CustomerID, itself among them; nil
	// where that is not known.
	CustomerNames []string
	Tainted       *bool // session.tainted
	// TaintSources are what has tainted the session: verbs, tools, fact:<id>, map:<id>, event. At most 20;
	// the last one is "more" where there are others.
	TaintSources []string
	// UnnamedAddress is an address in the arguments that neither the tenant nor the customer has named, in a
	// tainted session; "" for none. It is set only
	// for a verb that reaches an address of the caller's choice.
	UnnamedAddress string
	// SessionID and KeyID are those of the call; nil where it has none.
	SessionID, KeyID *string
	DryRun           *bool // nil where it is not known
	// Metadata is the object that the caller has written about the call; nil for none.
	Metadata json.RawMessage
	// Agent describes the agent of ours that makes the call: an object with name, version and
	// executionMode; nil where none does, or where it is not known.
	Agent json.RawMessage
	// Now is the time of the decision; zero where it is not known.
	Now time.Time
	// RunID is the run that is judged: it does not count itself. Zero for none.
	RunID uuid.UUID
	// Lookups are the answers of the look-ups that were made for the call, by LookupCall.Key.
	Lookups map[string]Answer
	// LookupsLater: the call is judged again before it is sent, so a policy that depends on a look-up
	// that was not made does not match yet.
	LookupsLater bool
	// LookupsNow is a policy that LookupsLater does not apply to; zero for none.
	LookupsNow uuid.UUID
}

// Named returns the text by which the record of the customer is found; nil where the call names none.
func (c Context) Named() *string {
	if c.CustomerRef != nil {
		return c.CustomerRef
	}
	return c.CustomerID
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
	// ConditionsOmitted is how many conditions there was no room for.
	ConditionsOmitted int `json:"conditions_omitted,omitempty"`
}

// ConditionMatch is the result of a condition, or of a group, of a policy that matched. A group
// has Any, All or Not, as the policy has it; a condition has the other members.
type ConditionMatch struct {
	Field    string          `json:"field,omitempty"`
	Operator Operator        `json:"operator,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
	// ValueField is the field that was compared with; Value is then the call's value of it.
	ValueField string `json:"value_field,omitempty"`
	Zone       string `json:"zone,omitempty"`
	// Window is what is compared in the place of a field. Actual is then its number.
	Window *Window `json:"window,omitempty"`
	// Actual is the call's value, masked; null where the call has none.
	Actual json.RawMessage `json:"actual,omitempty"`
	// Met: it counts as true. In a group it need not.
	Met bool `json:"met"`
	// FailClosed says why a condition could not be judged, so that it counts on the stricter
	// side ("the call lacks it", "not a number"); "" where it was judged.
	FailClosed string           `json:"fail_closed,omitempty"`
	Any        []ConditionMatch `json:"any,omitempty"`
	All        []ConditionMatch `json:"all,omitempty"`
	Not        *ConditionMatch  `json:"not,omitempty"`
}
