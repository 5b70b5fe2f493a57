package stepmachine

import (
	"time"

	"agentruntime/internal/maps/expression"
)

// Event is something that has happened. Start makes the state; all others go to Next.
type Event interface {
	// Name returns the name of the event, for traces and logs.
	Name() string
}

// CallStatus is how a call of a step ended.
type CallStatus string

// How a call can end.
const (
	CallExecuted    CallStatus = "executed"
	CallFailed      CallStatus = "failed"
	CallUnknown     CallStatus = "outcome_unknown" // Resolved goes on from there
	CallIntercepted CallStatus = "intercepted"     // a write in a dry run
	CallCancelled   CallStatus = "cancelled"       // after StopCall, without any effect
)

// CallEnd is what the ends of calls have in common.
type CallEnd struct {
	Ref    Ref        `json:"ref"`
	Status CallStatus `json:"status"`
	// Result is that of an executed call; of an intercepted one what the caller invented: the
	// read-back probe, or a value of the response schema.
	Result Value  `json:"result"`
	Error  *Error `json:"error,omitempty"` // of a failed one
	// Sent: the call reached the provider, so it counts as an action.
	Sent bool `json:"sent,omitempty"`
	// Actions is how many calls of verbs an agent has sent.
	Actions int `json:"actions,omitempty"`
	// Wrote: the call, or one within, has changed something.
	Wrote bool `json:"wrote,omitempty"`
	// MayRepeat: this end provably had no effect, so another attempt is allowed.
	MayRepeat bool `json:"may_repeat,omitempty"`
	// Call names the call, so that people find it, where it was not executed; "" where there is none.
	Call string `json:"call,omitempty"`
}

// VerbEnded answers StartVerb.
type VerbEnded struct{ CallEnd }

// ModelEnded answers StartModel. The result has the form that the step's type promises.
type ModelEnded struct{ CallEnd }

// MapEnded answers StartMap. Without Wait it comes at once; the result is {execution_id}.
type MapEnded struct{ CallEnd }

// CallWaits says that a call waits: for people, or for a kill switch to be lifted. The time
// until CallGoesOn or its end does not count against the deadline.
type CallWaits struct {
	Ref Ref     `json:"ref"`
	For Waiting `json:"for"` // WaitsApproval, WaitsKillSwitch, what a Map within waits for, or as Ask
	// Ask is the number of the question that the call of a model asks, from 1: WaitsInput, and WaitsSignal
	// where people have to look at it. TakeInput answers. 0 for none.
	Ask int `json:"ask,omitempty"`
	// Until is when the call ends by itself; zero for never.
	Until time.Time `json:"until,omitzero"`
}

// CallGoesOn says that a call no longer waits.
type CallGoesOn struct {
	Ref Ref `json:"ref"`
}

// Resolved settles a call whose outcome was not known: with CallExecuted or CallFailed.
type Resolved struct{ CallEnd }

// Evaluated answers Evaluate.
type Evaluated struct {
	Ref    Ref   `json:"ref"`
	Number int   `json:"number"` // of Evaluate
	Value  Value `json:"value"`
	// Failure is why there is no value; nil where there is one.
	Failure *expression.Failure `json:"failure,omitempty"`
}

// TimerFired answers StartTimer.
type TimerFired struct {
	Ref   Ref   `json:"ref"`
	Timer Timer `json:"timer"`
}

// Decision is what people decided about an approval.
type Decision string

// The decisions. Expired answers a CloseApproval.
const (
	Approve Decision = "approve"
	Edit    Decision = "edit"
	Reject  Decision = "reject"
	Respond Decision = "respond"
	Expired Decision = "expired"
)

// Decided answers AskApproval.
type Decided struct {
	Ref      Ref      `json:"ref"`
	Decision Decision `json:"decision"`
	By       string   `json:"by,omitempty"` // the public id of the person who decided
	Reason   string   `json:"reason,omitempty"`
	Response Value    `json:"response"` // of Respond
	Payload  Value    `json:"payload"`  // of Edit: the payload as they changed it
	// Error is why nobody could be asked; nil where people were. Then there is no decision.
	Error *Error `json:"error,omitempty"`
}

// EventArrived passes an event to a step that asked for its type with AwaitEvent.
type EventArrived struct {
	Ref   Ref    `json:"ref"`
	ID    string `json:"id"`
	Event Value  `json:"event"` // the whole event, an object
	// Data is that of a signal which can answer people's steps; nil for other events.
	Data *Value `json:"data,omitempty"`
}

// Signalled is a signal to the execution. Steps that wait for its name get it, and otherwise
// the first one that does so later.
type Signalled struct {
	Signal string `json:"signal"`
	Data   Value  `json:"data"`
	// Keeps: one for a step that asks people is kept until such a step waits, too.
	Keeps bool `json:"keeps,omitempty"`
}

// ForPeople reports whether the signal answers steps that ask people.
func (s Signalled) ForPeople() bool { return s.Signal == SignalInput || s.Signal == SignalHandled }

// CancelRequested cancels the execution.
type CancelRequested struct{}

// PauseRequested lets no further step begin.
type PauseRequested struct{}

// ResumeRequested takes a pause back.
type ResumeRequested struct{}

// CompensationEnded answers Compensate.
type CompensationEnded struct {
	Seq       int        `json:"seq"`
	Attempt   int        `json:"attempt"`
	Status    CallStatus `json:"status"`
	Error     *Error     `json:"error,omitempty"`
	Sent      bool       `json:"sent,omitempty"`
	MayRepeat bool       `json:"may_repeat,omitempty"`
	Call      string     `json:"call,omitempty"` // as CallEnd has it
}

// CompensationWaits says that a kept call waits, as CallWaits says of the call of a step.
type CompensationWaits struct {
	Seq     int     `json:"seq"`
	Attempt int     `json:"attempt"`
	For     Waiting `json:"for"`  // WaitsApproval or WaitsKillSwitch
	Ref     Ref     `json:"ref"`  // of the completed step, as KeepCompensation has it
	Call    string  `json:"call"` // names the call, as CallEnd does
}

// CompensationGoesOn says that a kept call no longer waits.
type CompensationGoesOn struct {
	Seq     int `json:"seq"`
	Attempt int `json:"attempt"`
}

// Continued answers Continue.
type Continued struct{}

// StateTooLarge says that the caller cannot store the state, or what goes along with it: the execution
// fails.
type StateTooLarge struct{}

// Again takes a failed execution up from its failed step. CanGoOn says whether it may.
type Again struct {
	// FromStep is the id of an earlier step in the same block as the failed one, or in one
	// around it; "" for the failed step. Steps that have written are not run again.
	FromStep string `json:"from_step,omitempty"`
	// Edits are inputs that take the place of those in the definition, by step, once.
	Edits []Named `json:"edits,omitempty"`
}

// Name returns the name of the event.
func (VerbEnded) Name() string { return "verb_ended" }

// Name returns the name of the event.
func (ModelEnded) Name() string { return "model_ended" }

// Name returns the name of the event.
func (MapEnded) Name() string { return "map_ended" }

// Name returns the name of the event.
func (CallWaits) Name() string { return "call_waits" }

// Name returns the name of the event.
func (CallGoesOn) Name() string { return "call_goes_on" }

// Name returns the name of the event.
func (Resolved) Name() string { return "resolved" }

// Name returns the name of the event.
func (Evaluated) Name() string { return "evaluated" }

// Name returns the name of the event.
func (TimerFired) Name() string { return "timer_fired" }

// Name returns the name of the event.
func (Decided) Name() string { return "decided" }

// Name returns the name of the event.
func (EventArrived) Name() string { return "event_arrived" }

// Name returns the name of the event.
func (Signalled) Name() string { return "signalled" }

// Name returns the name of the event.
func (CancelRequested) Name() string { return "cancel_requested" }

// Name returns the name of the event.
func (PauseRequested) Name() string { return "pause_requested" }

// Name returns the name of the event.
func (ResumeRequested) Name() string { return "resume_requested" }

// Name returns the name of the event.
func (CompensationEnded) Name() string { return "compensation_ended" }

// Name returns the name of the event.
func (CompensationWaits) Name() string { return "compensation_waits" }

// Name returns the name of the event.
func (CompensationGoesOn) Name() string { return "compensation_goes_on" }

// Name returns the name of the event.
func (Continued) Name() string { return "continued" }

// Name returns the name of the event.
func (StateTooLarge) Name() string { return "state_too_large" }

// Name returns the name of the event.
func (Again) Name() string { return "again" }
