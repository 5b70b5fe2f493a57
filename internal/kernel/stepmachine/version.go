package stepmachine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Version is the version of this machine. A state has that of the machine that made it, and
// only goes on with the same. A change of what a stored state leads to is a new version. The
// old one then moves to a package of its own, for as long as executions have it. A mend of what no
// execution can rely on keeps the version, as that of texts beyond 32 KiB did, which were taken
// for empty ones, and that of numbers of calls that were lost where a block began again.
const Version = 1

// Revision is the newest revision of the version. A state keeps the one that it began with. So what a
// revision does otherwise changes nothing in executions that are open, whose histories are replayed.
//
//	1: the data of emit and the payload of an approval are objects, correlate is not empty, and a
//	   signal is not given to another Map that waits for one of its own.
//	2: no numbers are kept of calls that have read within an iteration, a block without steps counts like
//	   a step, on_failure has bounds of its own, and nothing that has used up its bounds goes on.
//	3: the ids of events that steps emit begin with evt_, so no sender can take one before the step.
//	4: what a workflow evaluates itself is bounded for each event.
//	5: steps ask whether their tenant has room for the events that they emit.
//	6: values that the caller has stored while it evaluated them count as kept.
const Revision = 6

// strict reports whether the execution has the rules of revision 1.
func (m *machine) strict() bool { return m.s.Revision >= 1 }

// Machine is one version of the step machine. All versions take the same events and return the
// same commands. What a state is, and where an event leads, is a matter of each.
type Machine interface {
	// Start makes a new execution, and returns it with the first commands.
	Start(p *Program, now time.Time, b Beginning) (Execution, []Command)
	// Resume takes an execution up from what Encode returned. least is the revision that it has at least.
	// The error is a *VersionError where another version made the state.
	Resume(p *Program, state json.RawMessage, least int) (Execution, error)
}

// Execution is an execution of a Map on the machine of its version.
type Execution interface {
	// Next takes an event, and returns what the caller has to do.
	Next(now time.Time, e Event) ([]Command, error)
	// Encode returns the state for Resume.
	Encode() (json.RawMessage, error)
	// Shown returns what the caller may know of the state.
	Shown() Shown
	// Asks reports whether the execution still waits for the answer to an Evaluate.
	Asks(c Evaluate) bool
	// Unsettled, CanGoOn and TakesEdit are about Again; see the functions of these names.
	Unsettled() []StartVerb
	CanGoOn(a Again) error
	TakesEdit(a Again, id string) (at Ref, sure bool)
}

// Shown is what a caller may know of a state.
type Shown struct {
	Status     Status
	WaitingFor *WaitsFor // nil where nothing is waited for
	Began      time.Time
	Revision   int // the one that the state keeps
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

// Machines are the machines that a process has, by their versions.
type Machines map[int]Machine

// Current returns the version that new executions run on: the highest.
func (m Machines) Current() int { return slices.Max(slices.Collect(maps.Keys(m))) }

// Of returns the machine of a version. The error is a *VersionError where the process has none.
func (m Machines) Of(version int) (Machine, error) {
	if machine, known := m[version]; known {
		return machine, nil
	}
	return nil, &VersionError{State: version, Machine: m.Current()}
}

// VersionError says that a state belongs to another machine.
type VersionError struct{ State, Machine int }

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the state is of version %d of the step machine, this is %d", e.State, e.Machine)
}

// This is the machine of this package.
type This struct{}

// Start implements Machine.
func (This) Start(p *Program, now time.Time, b Beginning) (Execution, []Command) {
	s, commands := Start(p, now, b)
	return &execution{p, s}, commands
}

// Resume implements Machine.
func (This) Resume(p *Program, state json.RawMessage, least int) (Execution, error) {
	s, err := Decode(state)
	if err != nil {
		return nil, err
	}
	s.Revision = max(s.Revision, least)
	return &execution{p, s}, nil
}

// execution implements Execution.
type execution struct {
	p *Program
	s *State
}

func (x *execution) Next(now time.Time, e Event) (commands []Command, err error) {
	x.s, commands, err = Next(x.p, x.s, now, e)
	return commands, err
}

func (x *execution) Encode() (json.RawMessage, error) { return x.s.Encode() }

func (x *execution) Shown() Shown {
	s := x.s
	goesOn := s.Ending == nil
	return Shown{
		Status: s.Status, WaitingFor: s.WaitingFor, Began: s.Began, Revision: s.Revision, Paused: s.Paused,
		Cancellable: goesOn || s.Ending.Phase == endOnFailure, Pausable: goesOn,
		Signalled: s.Signalled, Unused: len(s.Signals), Seen: s.Seen, Kept: s.Kept,
	}
}

func (x *execution) Asks(c Evaluate) bool {
	m := machine{p: x.p, s: x.s}
	return m.asked(c.Ref, c.Number) != nil
}

func (x *execution) Unsettled() []StartVerb { return Unsettled(x.p, x.s) }

func (x *execution) CanGoOn(a Again) error { return CanGoOn(x.p, x.s, a) }

func (x *execution) TakesEdit(a Again, id string) (Ref, bool) { return x.p.TakesEdit(x.s, a, id) }
