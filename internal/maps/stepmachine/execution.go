package stepmachine

import (
	"encoding/json"
	"fmt"
	"time"
)

// Version is the version of this machine. A state has that of the machine that made it, and only goes on with
// the same. A change of what a stored state leads to is a new version.
const Version = 1

// VersionError says that a state belongs to another machine.
type VersionError struct{ State, Machine int }

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the state is of version %d of the step machine, this is %d", e.State, e.Machine)
}

// Execution is an execution of a Map: its program and its state.
type Execution struct {
	p *Program
	s *State
}

// Begin makes a new execution, and returns it with the first commands.
func Begin(p *Program, now time.Time, b Beginning) (*Execution, []Command) {
	s, commands := Start(p, now, b)
	return &Execution{p, s}, commands
}

// Resume takes an execution up from what Encode returned. The error is a *VersionError where another version
// made the state.
func Resume(p *Program, state json.RawMessage) (*Execution, error) {
	s, err := Decode(state)
	if err != nil {
		return nil, err
	}
	return &Execution{p, s}, nil
}

// Next takes an event, and returns what the caller has to do.
func (x *Execution) Next(now time.Time, e Event) (commands []Command, err error) {
	x.s, commands, err = Next(x.p, x.s, now, e)
	return commands, err
}

// Encode returns the state for Resume.
func (x *Execution) Encode() (json.RawMessage, error) { return x.s.Encode() }

// Shown is what a caller may know of a state.
type Shown struct {
	Status     Status
	WaitingFor *WaitsFor // nil where nothing is waited for
	Began      time.Time
	Paused     bool
	// Cancellable: a cancellation changes what comes. Pausable: a pause does.
	Cancellable, Pausable bool
	// Signalled is how many signals have come, Unused how many of them no step has used.
	Signalled, Unused int
	// Seen has the ids of the events that a step in a loop has used, by path.
	Seen map[string][]string
	// Kept is how many bytes of values the execution has had the caller keep, over all its attempts.
	Kept int64
}

// Shown returns what the caller may know of the state.
func (x *Execution) Shown() Shown {
	s := x.s
	goesOn := s.Ending == nil
	return Shown{
		Status: s.Status, WaitingFor: s.WaitingFor, Began: s.Began, Paused: s.Paused,
		Cancellable: goesOn || s.Ending.Phase == endOnFailure, Pausable: goesOn,
		Signalled: s.Signalled, Unused: len(s.Signals), Seen: s.Seen, Kept: s.Kept,
	}
}

// Asks reports whether the execution still waits for the answer to an Evaluate.
func (x *Execution) Asks(c Evaluate) bool {
	m := machine{p: x.p, s: x.s}
	return m.asked(c.Ref, c.Number) != nil
}

// Unsettled returns the calls whose outcome is not known; see the function of this name.
func (x *Execution) Unsettled() []StartVerb { return Unsettled(x.p, x.s) }

// CanGoOn returns nil where Again takes the execution up; see the function of this name.
func (x *Execution) CanGoOn(a Again) error { return CanGoOn(x.p, x.s, a) }

// TakesEdit returns which step takes the edit; see Program.TakesEdit.
func (x *Execution) TakesEdit(a Again, id string) (at Ref, sure bool) {
	return x.p.TakesEdit(x.s, a, id)
}
