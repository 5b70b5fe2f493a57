package event

import (
	"encoding/json"
	"regexp"
	"time"
)

// Type is the type of an event. Rows store it as text and receivers subscribe to it, so a value
// is never renamed.
type Type string

// The types. Types below has what is known of each.
const (
	ActionExecuted       Type = "action.executed"
	ActionFailed         Type = "action.failed"
	ActionOutcomeUnknown Type = "action.outcome_unknown"
	ActionBlocked        Type = "action.blocked"
	ActionNotified       Type = "action.notified"
	ApprovalRequested    Type = "approval.requested"
	ApprovalDecided      Type = "approval.decided"
	EscalationCreated    Type = "escalation.created"
	// ConversationCompleted is the reply of an agent.
	ConversationCompleted Type = "conversation.completed"
	// GoalReached and GoalMissed are the ends of a goal of an agent.
	GoalReached       Type = "goal.completed"
	GoalMissed        Type = "goal.failed"
	SessionTakenOver  Type = "session.taken_over"
	SessionMessage    Type = "session.message"
	SessionHandedBack Type = "session.handed_back"
	FeedbackGiven     Type = "feedback.given"
	KeyRevoked        Type = "key.revoked"
	LimitExceeded     Type = "limit.exceeded"
	WebhookDisabled   Type = "webhook.disabled"
	WebhookTest       Type = "webhook.test"

	// CustomAny stands in the table for all types that begin so. Senders name the rest.
	CustomAny Type = customPrefix + "*"
)

const customPrefix = "custom."

// ValidCustom reports whether senders may use the type: custom. and 1 to 100 of a-z, 0-9, dot,
// dash and underscore.
func (t Type) ValidCustom() bool { return customType.MatchString(string(t)) }

var customType = regexp.MustCompile(`^custom\.[a-z0-9_.-]{1,100}$`)

// Body has the members of one type of event. A Go type is the body of each: the JSON Schema is
// made of its fields.
type Body interface{ Type() Type }

// Call are the members of an event about an action run.
type Call struct {
	Verb      string `json:"verb" about:"The verb, as provider:verb_name. Empty where the event is about no call, but about a step of a Map that asks people."`
	Provider  string `json:"provider" about:"The slug of the provider. Empty as verb."`
	RiskLevel string `json:"risk_level" about:"The verb's risk. Empty where the run ended before it was known." enum:",low,medium,high"`
	// OperationType is "" as RiskLevel.
	OperationType string `json:"operation_type" about:"Whether the verb reads or writes. Empty where the run ended before that was known." enum:",read,write"`
	DryRun        bool   `json:"dry_run" about:"True for a dry run. A write that a person released from a dry run is sent and has an event too."`
}

// Outcome are the members of an event about the end of an action run.
type Outcome struct {
	Call
	Attempt        int             `json:"attempt" about:"How often the execution was claimed, 1 for the first time."`
	DurationMS     int64           `json:"duration_ms" about:"Milliseconds from the call to its end."`
	ProviderStatus int             `json:"provider_status,omitempty" about:"The provider's HTTP status. Absent where none came back."`
	ApprovalID     string          `json:"approval_id,omitempty" about:"The approval that released the call, or that tells why it was blocked."`
	Error          *Problem        `json:"error,omitempty" about:"What went wrong. Absent where the call was executed."`
	Resolved       bool            `json:"resolved,omitempty" about:"True where the outcome was unknown before, and a person or a read-back settled it."`
	Result         json.RawMessage `json:"result,omitempty" about:"The provider's answer, masked. Absent where there is none and in an event that is truncated."`
	ResultError    *Problem        `json:"result_error,omitempty" about:"Why the answer of an executed call became no result. Absent where it did."`
}

// Problem is why a call failed.
type Problem struct {
	Code    string `json:"code" about:"A code of the error reference."`
	Message string `json:"message" about:"What went wrong, for people."`
}

func (o Outcome) weight() int { return len(o.Result) }

func (o Outcome) without() Outcome {
	o.Result = nil
	return o
}

// Executed is the body of action.executed.
type Executed struct{ Outcome }

// Type implements Body.
func (Executed) Type() Type    { return ActionExecuted }
func (b Executed) small() Body { return Executed{b.without()} }

// Failed is the body of action.failed.
type Failed struct{ Outcome }

// Type implements Body.
func (Failed) Type() Type    { return ActionFailed }
func (b Failed) small() Body { return Failed{b.without()} }

// Unknown is the body of action.outcome_unknown.
type Unknown struct{ Outcome }

// Type implements Body.
func (Unknown) Type() Type    { return ActionOutcomeUnknown }
func (b Unknown) small() Body { return Unknown{b.without()} }

// Blocked is the body of action.blocked.
type Blocked struct {
	Call
	ApprovalID string          `json:"approval_id" about:"The closed approval that tells why."`
	PolicyName string          `json:"policy_name" about:"The policy that decided. Empty where none did."`
	Reason     string          `json:"reason" about:"Why the call was blocked."`
	Args       json.RawMessage `json:"args,omitempty" about:"The arguments, masked. Absent in an event that is truncated."`
}

// Type implements Body.
func (Blocked) Type() Type    { return ActionBlocked }
func (b Blocked) weight() int { return len(b.Args) }
func (b Blocked) small() Body {
	b.Args = nil
	return b
}

// Notified is the body of action.notified.
type Notified struct {
	Call
	PolicyName string          `json:"policy_name" about:"The policy that asks for the notice. Empty where the verb's risk does."`
	Reason     string          `json:"reason" about:"Why the call is allowed."`
	Args       json.RawMessage `json:"args,omitempty" about:"The arguments, masked. Absent in an event that is truncated."`
}

// Type implements Body.
func (Notified) Type() Type    { return ActionNotified }
func (b Notified) weight() int { return len(b.Args) }
func (b Notified) small() Body {
	b.Args = nil
	return b
}

// Requested is the body of approval.requested.
type Requested struct {
	ApprovalID string `json:"approval_id" about:"The approval that people decide about."`
	Kind       string `json:"kind" about:"Whether a call waits, a dry run whose request can be sent, a step of a Map, or the change set of a dry run of a Map." enum:"hold,dry_run,step,changes"`
	Call
	PolicyName string          `json:"policy_name" about:"The policy that holds the call. Empty where none does."`
	Reason     string          `json:"reason" about:"Why the call waits."`
	ExpiresAt  time.Time       `json:"expires_at" about:"Until when people can decide."`
	Args       json.RawMessage `json:"args,omitempty" any:"" about:"The arguments, or what the step shows, masked. Absent in an event that is truncated."`
}

// Type implements Body.
func (Requested) Type() Type    { return ApprovalRequested }
func (b Requested) weight() int { return len(b.Args) }
func (b Requested) small() Body {
	b.Args = nil
	return b
}

// Decided is the body of approval.decided.
type Decided struct {
	ApprovalID string `json:"approval_id" about:"The approval."`
	Status     string `json:"status" about:"How the approval ended." enum:"approved,rejected,expired,cancelled,superseded"`
	DecidedBy  string `json:"decided_by,omitempty" about:"The user, key or operator that ended it, as user:<id>. Absent where time or a change did."`
	Reason     string `json:"reason" about:"The reason that was given. Empty where none was."`
	Verb       string `json:"verb" about:"The verb, as provider:verb_name. Empty where it is about no call."`
	Provider   string `json:"provider" about:"The slug of the provider. Empty as verb."`
	Edited     bool   `json:"edited" about:"True where an approver replaced the arguments; another approval then asks about them."`
}

// Type implements Body.
func (Decided) Type() Type { return ApprovalDecided }

// Escalated is the body of escalation.created.
type Escalated struct {
	Kind       string    `json:"kind" about:"Why people are asked: a call or a step waits for approval, the first approvers did not decide in time, a step of a Map hands over to people, or an agent does." enum:"approval,approval_timeout,step,session"`
	Reason     string    `json:"reason" about:"Why people are asked, in words."`
	Summary    string    `json:"summary,omitempty" about:"What an agent hands over: what the customer wants, what was done, what is open. Customers and providers have written parts of it."`
	ApprovalID string    `json:"approval_id,omitempty" about:"The approval that people decide about."`
	Verb       string    `json:"verb,omitempty" about:"The verb that waits, as provider:verb_name."`
	MapID      string    `json:"map_id,omitempty" about:"The Map whose step hands over."`
	Step       string    `json:"step,omitempty" about:"The place of that step in the execution."`
	Waits      bool      `json:"waits,omitempty" about:"True where the execution waits for the signal handled."`
	ExpiresAt  time.Time `json:"expires_at,omitzero" about:"Until when people can decide."`
}

// Type implements Body.
func (Escalated) Type() Type { return EscalationCreated }

// Conversation is the body of conversation.completed.
type Conversation struct {
	Message         string `json:"message" about:"The reply of the agent. Empty where there is none."`
	Status          string `json:"status" about:"How the message stands." enum:"completed,pending_approval,failed,escalated,cancelled"`
	StopReason      string `json:"stop_reason" about:"Why the agent has stopped."`
	ActionsExecuted int    `json:"actions_executed" about:"How many calls of the message were sent."`
	TokensUsed      int64  `json:"tokens_used" about:"How many tokens the models have used for the message."`
}

// Type implements Body.
func (Conversation) Type() Type { return ConversationCompleted }

// Goal is what the events of goals have in common.
type Goal struct {
	Status          string          `json:"status" about:"How the goal stands." enum:"completed,failed,escalated,cancelled"`
	StopReason      string          `json:"stop_reason" about:"Why the agent has stopped."`
	Reason          string          `json:"reason" about:"Why, in words: of the planner where there are some. Empty where there are none."`
	Criteria        []GoalCriterion `json:"criteria" about:"How the criteria stand. Empty where nobody has looked yet."`
	ActionsExecuted int             `json:"actions_executed" about:"How many calls of the goal were sent."`
	TokensUsed      int64           `json:"tokens_used" about:"How many tokens the models have used for the goal."`
	DryRun          bool            `json:"dry_run" about:"True for a dry run: its writes were not made."`
}

// GoalCriterion is a criterion of a goal.
type GoalCriterion struct {
	ID  string `json:"id" about:"The id that the criterion was given."`
	Met bool   `json:"met" about:"Whether it is met."`
}

// GoalCompleted is the body of goal.completed.
type GoalCompleted struct{ Goal }

// Type implements Body.
func (GoalCompleted) Type() Type { return GoalReached }

// GoalFailed is the body of goal.failed.
type GoalFailed struct{ Goal }

// Type implements Body.
func (GoalFailed) Type() Type { return GoalMissed }

// TakenOver is the body of session.taken_over.
type TakenOver struct {
	By string `json:"by" about:"The user who answers in the session from now on, as user:<id>."`
}

// Type implements Body.
func (TakenOver) Type() Type { return SessionTakenOver }

// HandedBack is the body of session.handed_back.
type HandedBack struct {
	By string `json:"by" about:"The user who handed the session back, as user:<id>."`
}

// Type implements Body.
func (HandedBack) Type() Type { return SessionHandedBack }

// SessionSaid is the body of session.message.
type SessionSaid struct {
	MessageID string `json:"message_id" about:"What was said, as GET /v1/agents/{id}/sessions/{sid}/messages names it; of a customer's message the execution has the same id."`
	From      string `json:"from" about:"Who has said it." enum:"customer,person"`
	By        string `json:"by,omitempty" about:"The user, where a person has said it, as user:<id>."`
	Message   string `json:"message" about:"What was said."`
}

// Type implements Body.
func (SessionSaid) Type() Type { return SessionMessage }

// Rated is the body of feedback.given.
type Rated struct {
	Rating  string `json:"rating" about:"What the rating is." enum:"up,down"`
	Comment string `json:"comment,omitempty" about:"Why, in words."`
	By      string `json:"by" about:"The key or user who rated, as key:<id> or user:<id>."`
}

// Type implements Body.
func (Rated) Type() Type { return FeedbackGiven }

// Revoked is the body of key.revoked.
type Revoked struct {
	APIKeyID  string `json:"api_key_id" about:"The key."`
	RevokedBy string `json:"revoked_by,omitempty" about:"The user who revoked it, as user:<id>."`
}

// Type implements Body.
func (Revoked) Type() Type { return KeyRevoked }

// Exceeded is the body of limit.exceeded.
type Exceeded struct {
	Window   string    `json:"window" about:"The window that is full." enum:"minute,hour,day"`
	Callers  string    `json:"callers" about:"Whose window: that of the tenant's keys, or that of its people." enum:"keys,people"`
	Limit    int64     `json:"limit" about:"The most requests in the window."`
	ResetsAt time.Time `json:"resets_at" about:"When the window ends and the next one begins."`
}

// Type implements Body.
func (Exceeded) Type() Type { return LimitExceeded }
