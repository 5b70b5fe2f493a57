package mapdef

import (
	"encoding/json"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/maps/expression"
)

// Step is one step. What is common to all types is here, and the rest in Do.
type Step struct {
	ID      string // unique in the definition
	Name    string // for people; "" where it has none
	Pointer string // JSON Pointer of the step in the definition: the instance of its errors

	SkipIf  expression.Condition // zero: never skipped
	Timeout Duration             // 0: that of the defaults. Of an approval it is in DoApproval
	Retry   *Retry               // nil: that of the defaults
	Catch   []Catch              // the first that names the error's code handles it
	OnError OnError
	// Default is the output of a failed step with OnErrorDefault.
	Default    expression.Value
	Compensate *Compensate
	Mock       expression.Value // the output in dry runs; zero: none

	Do Action
}

// OnError says what a failure that nothing catches leads to.
type OnError string

// What a failure leads to.
const (
	OnErrorFail     OnError = "fail"
	OnErrorContinue OnError = "continue" // the step is failed, its output null, and the next one runs
	OnErrorDefault  OnError = "default"  // as continue, and the output is Default
)

// Retry is how often and when a failed step is tried again.
type Retry struct {
	MaxAttempts int      // the first one included, 1 to 100
	Initial     Duration // before the second attempt
	Backoff     float64  // factor from one wait to the next, at least 1
	MaxInterval Duration // bounds a wait
	Jitter      float64  // 0 to 1: by which part a wait may be shorter
	RetryOn     []string // codes; AnyError for all that may be retried
}

// AnyError in retry_on and in errors of a catch stands for every code. In retry_on it never
// covers OUTCOME_UNKNOWN, nor any end of a sent write that may not be repeated.
const AnyError = "*"

// Catch handles the failures of its step with the given codes. The step's status stays failed
// and its output null. The Map goes on after it where the handler completes.
type Catch struct {
	Errors []string // codes, or AnyError
	As     string   // the name of the error in Steps; "" for none
	Steps  []Step
}

// Compensate is the call that undoes a completed step.
type Compensate struct {
	Verb string
	Args expression.Value // evaluated when the step completes; sees its own output too
}

// Type is the name of a type of steps, as definitions write it.
type Type string

// The types of steps.
const (
	TypeVerb      Type = "verb"
	TypeSet       Type = "set"
	TypeTransform Type = "transform"
	TypeValidate  Type = "validate"
	TypeSwitch    Type = "switch"
	TypeWhile     Type = "while"
	TypeForeach   Type = "foreach"
	TypeParallel  Type = "parallel"
	TypeWait      Type = "wait"
	TypeApproval  Type = "approval"
	TypeMap       Type = "map"
	TypeRaise     Type = "raise"
	TypeEmit      Type = "emit"
	TypeEscalate  Type = "escalate"
	TypeReturn    Type = "return"
	TypeAgent     Type = "agent"
	TypeExtract   Type = "extract"
	TypeClassify  Type = "classify"
	TypeSummarize Type = "summarize"
	TypeReason    Type = "reason"
)

// Action is what a step does: one of the types of this package named Do….
type Action interface {
	// Type returns its name in definitions.
	Type() Type
	action()
}

// DoVerb calls a verb. Its output is the run's result.
type DoVerb struct {
	Verb         string
	Args         expression.Value // an object, or one expression that results in one
	CredentialID string           // "" for the newest active one
	Expect       json.RawMessage  // JSON Schema of the result; nil accepts any
}

// DoSet sets variables. Each value sees the variables as they were before the step. Its output
// is the object of what it has set.
type DoSet struct{ Assign []Assignment }

// DoTransform computes its output.
type DoTransform struct{ Expr expression.Value }

// DoValidate fails with VALIDATION_ERROR where the value does not fit the schema. Its output
// is the value.
type DoValidate struct {
	Value  expression.Value
	Schema json.RawMessage
}

// DoSwitch runs the steps of the first case whose condition is true.
type DoSwitch struct {
	Cases   []Case
	Default []Step
}

// Case is one case of a switch.
type Case struct {
	When  expression.Condition
	Steps []Step
}

// DoWhile runs its steps while the condition is true, and fails with CodeLoopLimit where it
// still is after MaxIterations. The condition sees the steps of the iteration before, null the
// first time. Steps after the loop cannot read them.
type DoWhile struct {
	When          expression.Condition
	MaxIterations int // 1 to MaxIterations
	Steps         []Step
}

// Mode says whether a foreach takes its items one after the other.
type Mode string

// The modes of a foreach.
const (
	Sequential   Mode = "seq"
	Concurrently Mode = "parallel"
)

// OnPartError says what a failed item or branch leads to.
type OnPartError string

// What a failed item or branch leads to.
const (
	Stop OnPartError = "stop" // the others are cancelled, and the step fails
	Skip OnPartError = "skip" // its output is null, and the others go on
)

// DoForeach runs its steps for each item. Its output is the array of the outputs of each
// item's last step, in the order of the items.
type DoForeach struct {
	Items       expression.Value // an array of at most MaxItems
	As          string           // a name of the item beside item; "" for none
	Mode        Mode
	Concurrency int // items at a time in mode parallel, 1 to MaxConcurrent
	OnItemError OnPartError
	Steps       []Step
}

// Join says for which branches a parallel step waits.
type Join string

// For which branches a parallel step waits.
const (
	JoinAll  Join = "all"
	JoinAny  Join = "any"  // the first that completes; the others are cancelled
	JoinRace Join = "race" // the first that ends, well or not; the others are cancelled
)

// DoParallel runs its branches at once. Its output is an object: by the branch's id, the
// output of its last step; null for a branch that did not complete.
type DoParallel struct {
	Branches      []Branch
	Join          Join
	OnBranchError OnPartError
}

// Branch is one branch of a parallel step.
type Branch struct {
	ID    string // unique in its step
	Steps []Step
}

// DoWait waits: exactly one of For, Until and Event is set. The output is the event, or null.
type DoWait struct {
	For   expression.Value // a text that is a duration
	Until expression.Value // a text that is an RFC 3339 time
	Event *EventWait
}

// Since says which events count.
type Since string

// Which events count.
const (
	SinceTrigger Since = "trigger" // also those before the step began
	SinceStep    Since = "step"
)

// EventWait waits for an event or a signal.
type EventWait struct {
	Type      string               // of the event, or the name of a signal
	Filter    expression.Condition // "." is the event; zero takes each
	Correlate expression.Template  // must equal the event's correlate; zero takes each
	Timeout   Duration             // 0: none
	Since     Since
}

// OnTimeout says what an approval without a decision leads to.
type OnTimeout string

// What an approval without a decision leads to.
const (
	TimeoutReject   OnTimeout = "reject"
	TimeoutContinue OnTimeout = "continue"
	TimeoutFail     OnTimeout = "fail"
)

// DoApproval asks people. Its output is {decision, by, reason, response}.
type DoApproval struct {
	Title        expression.Template
	Payload      expression.Value      // what they decide about; they may edit it
	Approvers    []governance.Approver // empty: the tenant's approvers
	Required     int                   // how many have to approve, at least 1
	Form         json.RawMessage       // JSON Schema of a response; nil: none is asked for
	SelfApproval bool
	Timeout      Duration // 0: 24 hours
	OnTimeout    OnTimeout
}

// DoMap starts another Map. Its output is that Map's.
type DoMap struct {
	MapID   string
	Version int              // 0: the published one
	Payload expression.Value // zero: {}
	Wait    bool             // for its end; otherwise the output is {execution_id}
}

// DoRaise ends its block with an error of the author's own.
type DoRaise struct {
	Code   string
	Title  expression.Template
	Detail expression.Template
}

// DoEmit emits an event. Its output is {event_id}.
type DoEmit struct {
	Event string // custom.*
	Data  expression.Value
}

// DoEscalate hands over to people. Its output is what the signal "handled" brought, or null.
type DoEscalate struct {
	Reason expression.Template
	Wait   bool // for the signal
}

// DoReturn ends the Map well.
type DoReturn struct{ Output expression.Value }

// DoAgent lets an agent work towards a goal.
type DoAgent struct {
	AgentID      string // "" for none
	Goal         expression.Template
	Tools        []string             // verbs and globs
	OutputSchema json.RawMessage      // nil: any
	CompleteWhen expression.Condition // "." is {calls, output}; zero: when the agent says so
	MaxAttempts  int                  // how many answers CompleteWhen judges; 0 for 1
	Criteria     []Criterion          // what a manager judges; none for the goal alone
}

// Criterion is one thing that an agent has to reach.
type Criterion struct {
	ID          string `json:"id"`
	Description string `json:"description"`
}

// DoExtract has a model read a value of the schema out of the input.
type DoExtract struct {
	Input  expression.Value
	Schema json.RawMessage
}

// DoClassify has a model choose a label. Its output is {label}.
type DoClassify struct {
	Input  expression.Value
	Labels []string
}

// DoSummarize has a model shorten the input. Its output is {summary}.
type DoSummarize struct {
	Input    expression.Value
	MaxWords int // 0: the model decides
}

// DoReason has a model answer a question. Its output is {answer, reason}.
type DoReason struct {
	Question expression.Template
	Context  expression.Value
}

// Type returns the name in definitions.
func (*DoVerb) Type() Type { return TypeVerb }

// Type returns the name in definitions.
func (*DoSet) Type() Type { return TypeSet }

// Type returns the name in definitions.
func (*DoTransform) Type() Type { return TypeTransform }

// Type returns the name in definitions.
func (*DoValidate) Type() Type { return TypeValidate }

// Type returns the name in definitions.
func (*DoSwitch) Type() Type { return TypeSwitch }

// Type returns the name in definitions.
func (*DoWhile) Type() Type { return TypeWhile }

// Type returns the name in definitions.
func (*DoForeach) Type() Type { return TypeForeach }

// Type returns the name in definitions.
func (*DoParallel) Type() Type { return TypeParallel }

// Type returns the name in definitions.
func (*DoWait) Type() Type { return TypeWait }

// Type returns the name in definitions.
func (*DoApproval) Type() Type { return TypeApproval }

// Type returns the name in definitions.
func (*DoMap) Type() Type { return TypeMap }

// Type returns the name in definitions.
func (*DoRaise) Type() Type { return TypeRaise }

// Type returns the name in definitions.
func (*DoEmit) Type() Type { return TypeEmit }

// Type returns the name in definitions.
func (*DoEscalate) Type() Type { return TypeEscalate }

// Type returns the name in definitions.
func (*DoReturn) Type() Type { return TypeReturn }

// Type returns the name in definitions.
func (*DoAgent) Type() Type { return TypeAgent }

// Type returns the name in definitions.
func (*DoExtract) Type() Type { return TypeExtract }

// Type returns the name in definitions.
func (*DoClassify) Type() Type { return TypeClassify }

// Type returns the name in definitions.
func (*DoSummarize) Type() Type { return TypeSummarize }

// Type returns the name in definitions.
func (*DoReason) Type() Type { return TypeReason }

func (*DoVerb) action()      {}
func (*DoSet) action()       {}
func (*DoTransform) action() {}
func (*DoValidate) action()  {}
func (*DoSwitch) action()    {}
func (*DoWhile) action()     {}
func (*DoForeach) action()   {}
func (*DoParallel) action()  {}
func (*DoWait) action()      {}
func (*DoApproval) action()  {}
func (*DoMap) action()       {}
func (*DoRaise) action()     {}
func (*DoEmit) action()      {}
func (*DoEscalate) action()  {}
func (*DoReturn) action()    {}
func (*DoAgent) action()     {}
func (*DoExtract) action()   {}
func (*DoClassify) action()  {}
func (*DoSummarize) action() {}
func (*DoReason) action()    {}
