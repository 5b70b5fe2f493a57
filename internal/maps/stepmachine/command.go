package stepmachine

import (
	"encoding/json"
	"fmt"
	"time"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/maps/mapdef"
)

// Ref names one step of an execution, in one iteration of each loop around it.
type Ref struct {
	// Path is the JSON Pointer of the step in the definition; "" for the Map itself.
	Path string `json:"path"`
	// Iteration has the indices of the loops around the step, outermost first: "17", "2.17".
	Iteration string `json:"iteration,omitempty"`
	// Attempt counts the calls of the step, from 1. It rises only after an end that provably
	// had no effect. 0 for steps that call nothing.
	Attempt int `json:"attempt,omitempty"`
}

// String returns the reference as one text: "/steps/3@2.17#1".
func (r Ref) String() string {
	text := r.Path
	if text == "" {
		text = "/"
	}
	if r.Iteration != "" {
		text += "@" + r.Iteration
	}
	if r.Attempt > 0 {
		text += fmt.Sprintf("#%d", r.Attempt)
	}
	return text
}

// Command is what the caller has to do after an event, in the order of the list. Each that
// begins something has one event as its answer.
type Command interface {
	// Name returns the name of the command, for traces and logs.
	Name() string
}

// StartVerb calls a verb, under the run id that the caller derives from Ref. VerbEnded
// answers.
type StartVerb struct {
	Ref          Ref    `json:"ref"`
	Verb         string `json:"verb"`
	Args         Value  `json:"args"`
	CredentialID string `json:"credential_id,omitempty"`
	// Deadline is when the call must have been sent and answered. A wait for people does not
	// count; the caller adds it.
	Deadline time.Time `json:"deadline"`
	// DryRun: a read runs, a write is intercepted.
	DryRun bool `json:"dry_run,omitempty"`
}

// StartModel has a model do the step. ModelEnded answers.
type StartModel struct {
	Ref      Ref         `json:"ref"`
	Type     mapdef.Type `json:"type"`
	Input    Value       `json:"input"` // an object: the evaluated fields of the step
	Deadline time.Time   `json:"deadline"`
	DryRun   bool        `json:"dry_run,omitempty"`
	// Scope is what Program.Asked and Program.IsComplete read.
	Scope Scope `json:"scope"`
	// Edited: a person has written Input in the place of the step's own.
	Edited bool `json:"edited,omitempty"`
	// HeldSince is since when a call of an agent waits, in the turn HeldTurn. The caller sets it, and
	// moves Deadline by that time; zero where none waits.
	HeldSince time.Time `json:"held_since,omitzero"`
	HeldTurn  int       `json:"held_turn,omitempty"`
	// ActionsLeft is how many calls an agent may send; nil for any number.
	ActionsLeft *int `json:"actions_left,omitempty"`
	// Given is what TakeInput has brought, until the caller has used it.
	Given *Value `json:"given,omitempty"`
}

// TakeInput gives the call of a model what a signal has brought, for which it waits.
type TakeInput struct {
	Ref  Ref   `json:"ref"`
	Data Value `json:"data"`
}

// StartMap starts another Map. MapEnded answers, at once where Wait is false. The caller passes
// Invented of the payload on to it, and that of its output back.
type StartMap struct {
	Ref     Ref    `json:"ref"`
	MapID   string `json:"map_id"`
	Version int    `json:"version,omitempty"` // 0: the published one
	Payload Value  `json:"payload"`
	Wait    bool   `json:"wait,omitempty"`
	DryRun  bool   `json:"dry_run,omitempty"`
}

// StopCall ends a call of a verb, a model or a Map as soon as possible. Its usual answer
// still comes, and tells what has happened: cancelled, ended before, or outcome unknown.
type StopCall struct {
	Ref Ref `json:"ref"`
}

// Evaluate evaluates an expression that reads stored values or needs the sandbox, by
// Program.Evaluate. Evaluated answers.
type Evaluate struct {
	Ref    Ref    `json:"ref"`
	What   string `json:"what"`   // the field of the step
	Number int    `json:"number"` // of the question, in the execution
	Scope  Scope  `json:"scope"`
}

// StartTimer asks for a TimerFired at a time.
type StartTimer struct {
	Ref   Ref       `json:"ref"`
	Timer Timer     `json:"timer"`
	At    time.Time `json:"at"`
}

// CancelTimer takes a StartTimer back.
type CancelTimer struct {
	Ref   Ref   `json:"ref"`
	Timer Timer `json:"timer"`
}

// Timer says what a timer of a step is for.
type Timer string

// The timers of a step.
const (
	TimerTimeout  Timer = "timeout"  // of the step
	TimerEvent    Timer = "event"    // until an event has to come
	TimerApproval Timer = "approval" // until people have to decide
	TimerRetry    Timer = "retry"    // until the next attempt
	TimerWait     Timer = "wait"     // of a wait step
	TimerDuration Timer = "duration" // of the whole execution, with the empty Ref
)

// AskApproval asks people. Decided answers.
type AskApproval struct {
	Ref   Ref    `json:"ref"`
	Title string `json:"title"`
	// StoredTitle takes the place of Title where the question is too large for the state; nil where
	// it is not.
	StoredTitle  *Value                `json:"stored_title,omitempty"`
	Payload      Value                 `json:"payload"`
	Approvers    []governance.Approver `json:"approvers,omitempty"`
	Required     int                   `json:"required"`
	Form         json.RawMessage       `json:"form,omitempty"`
	SelfApproval bool                  `json:"self_approval,omitempty"`
	ExpiresAt    time.Time             `json:"expires_at"`
}

// CloseApproval closes an approval that has no decision: it expired, or nothing asks for it
// any longer. In the first case Decided answers, with the decision if there was one.
type CloseApproval struct {
	Ref     Ref  `json:"ref"`
	Expired bool `json:"expired,omitempty"`
}

// AwaitEvent asks for EventArrived with each event of the type, those since a time included.
type AwaitEvent struct {
	Ref       Ref       `json:"ref"`
	Type      string    `json:"type"`
	Correlate string    `json:"correlate,omitempty"` // "": any
	Since     time.Time `json:"since"`
}

// StopAwaiting takes an AwaitEvent back.
type StopAwaiting struct {
	Ref Ref `json:"ref"`
}

// Emit emits an event with this id.
type Emit struct {
	Ref  Ref    `json:"ref"`
	ID   string `json:"id"`
	Type string `json:"type"`
	Data Value  `json:"data"`
}

// Escalate hands over to people.
type Escalate struct {
	Ref    Ref    `json:"ref"`
	Reason string `json:"reason"`
	Wait   bool   `json:"wait,omitempty"` // the Map waits for the signal "handled"
}

// StoreValue keeps a value that is too large for the state. A second one with the same id
// takes its place.
type StoreValue struct {
	ID    string `json:"id"`
	Value Value  `json:"value"`
}

// StoreIteration keeps the end of one iteration of a foreach. A second one of the same index
// takes its place. A value that refers to Iterations is made of these.
type StoreIteration struct {
	Ref    Ref    `json:"ref"` // of the foreach
	Index  int    `json:"index"`
	Output Value  `json:"output"`
	Error  *Error `json:"error,omitempty"` // of an iteration that failed and was skipped
}

// RecordStep writes how far a step is. The last one of a Ref counts.
type RecordStep struct {
	Ref     Ref         `json:"ref"`
	ID      string      `json:"id"`
	Type    mapdef.Type `json:"type"`
	Status  StepStatus  `json:"status"`
	Input   *Value      `json:"input,omitempty"`
	Output  *Value      `json:"output,omitempty"`
	Error   *Error      `json:"error,omitempty"`
	Began   time.Time   `json:"began"`
	Ended   time.Time   `json:"ended,omitzero"`
	Waiting string      `json:"waiting,omitempty"` // what for, where the step waits
	// Reused: an earlier attempt of the execution has done the step, and it was not run again. It
	// began and ended then: Began and Ended are only when it was taken over.
	Reused bool `json:"reused,omitempty"`
}

// RecordChange adds an intercepted write to the change set of a dry run. The changes of Maps
// within belong to the same set, in the order in which they are recorded.
type RecordChange struct {
	ID   string `json:"id"` // the execution's, and a number
	Ref  Ref    `json:"ref"`
	Verb string `json:"verb"`
	Args Value  `json:"args"`
	// CredentialID is the credential that the step names, "" for none.
	CredentialID string `json:"credential_id,omitempty"`
	// DependsOn are the changes whose invented results the arguments were built from, or
	// AnyChange for all before it.
	DependsOn []string `json:"depends_on,omitempty"`
}

// KeepCompensation keeps the call that undoes a completed step until Compensate names it.
type KeepCompensation struct {
	Seq  int    `json:"seq"` // from 1, in the order in which the steps completed
	Ref  Ref    `json:"ref"` // of the completed step
	Verb string `json:"verb"`
	Args Value  `json:"args"`
	// CredentialID is the credential that the step names, where the call is of the same provider;
	// "" for the newest active one.
	CredentialID string `json:"credential_id,omitempty"`
	// Error is why the arguments could not be made; nil where they could. Compensate never names
	// such a call.
	Error *Error `json:"error,omitempty"`
}

// Compensate makes the kept call. CompensationEnded answers.
type Compensate struct {
	Seq      int       `json:"seq"`
	Attempt  int       `json:"attempt"`
	Deadline time.Time `json:"deadline"`
}

// Continue asks for a Continued event at once: the machine has more to do than it does after
// one event.
type Continue struct{}

// Finish ends the execution. It is the last command.
type Finish struct {
	Status Status `json:"status"` // completed, failed or cancelled
	Output Value  `json:"output"`
	Error  *Error `json:"error,omitempty"`
	// Actions is how many calls of verb steps were sent.
	Actions int `json:"actions"`
	// Unknown are the calls whose outcome is not known. They were not compensated.
	Unknown []Ref `json:"unknown,omitempty"`
	// Compensated is how many steps were undone. NotCompensated lists the first 100 kept calls that
	// did not undo their step, in the order in which they were made, and MoreNotCompensated is how
	// many it does not list.
	Compensated        int         `json:"compensated,omitempty"`
	NotCompensated     []NotUndone `json:"not_compensated,omitempty"`
	MoreNotCompensated int         `json:"more_not_compensated,omitempty"`
	// OnFailureError is why on_failure failed; nil where it did not.
	OnFailureError *Error `json:"on_failure_error,omitempty"`
}

// NotUndone is a kept call that did not undo its step.
type NotUndone struct {
	Seq int `json:"seq"`
	// Call names the call, as CallEnd does; "" where none was made.
	Call string `json:"call,omitempty"`
	// Status is how it ended; "" where its arguments could not be made. KeepCompensation has why.
	Status CallStatus `json:"status,omitempty"`
	// Code and Title are those of its error; "" where it has none.
	Code  string `json:"code,omitempty"`
	Title string `json:"title,omitempty"`
}

// Name returns the name of the command.
func (StartVerb) Name() string { return "start_verb" }

// Name returns the name of the command.
func (StartModel) Name() string { return "start_model" }

// Name returns the name of the command.
func (TakeInput) Name() string { return "take_input" }

// Name returns the name of the command.
func (StartMap) Name() string { return "start_map" }

// Name returns the name of the command.
func (StopCall) Name() string { return "stop_call" }

// Name returns the name of the command.
func (Evaluate) Name() string { return "evaluate" }

// Name returns the name of the command.
func (StartTimer) Name() string { return "start_timer" }

// Name returns the name of the command.
func (CancelTimer) Name() string { return "cancel_timer" }

// Name returns the name of the command.
func (AskApproval) Name() string { return "ask_approval" }

// Name returns the name of the command.
func (CloseApproval) Name() string { return "close_approval" }

// Name returns the name of the command.
func (AwaitEvent) Name() string { return "await_event" }

// Name returns the name of the command.
func (StopAwaiting) Name() string { return "stop_awaiting" }

// Name returns the name of the command.
func (Emit) Name() string { return "emit" }

// Name returns the name of the command.
func (Escalate) Name() string { return "escalate" }

// Name returns the name of the command.
func (StoreValue) Name() string { return "store_value" }

// Name returns the name of the command.
func (StoreIteration) Name() string { return "store_iteration" }

// Name returns the name of the command.
func (RecordStep) Name() string { return "record_step" }

// Name returns the name of the command.
func (RecordChange) Name() string { return "record_change" }

// Name returns the name of the command.
func (KeepCompensation) Name() string { return "keep_compensation" }

// Name returns the name of the command.
func (Compensate) Name() string { return "compensate" }

// Name returns the name of the command.
func (Continue) Name() string { return "continue" }

// Name returns the name of the command.
func (Finish) Name() string { return "finish" }
