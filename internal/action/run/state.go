package run

import "agentruntime/internal/base/flow"

// State of a run's row; see the flow package.
type State = flow.State

// The states by the names that the rest of the package uses.
const (
	StateClaimed        = flow.StateClaimed
	StatePending        = flow.StatePending
	StateSending        = flow.StateSending
	StateExecuted       = flow.StateExecuted
	StateFailed         = flow.StateFailed
	StateOutcomeUnknown = flow.StateOutcomeUnknown
	StateBlocked        = flow.StateBlocked
	StateRefused        = flow.StateRefused
	StateIntercepted    = flow.StateIntercepted
	StateCancelled      = flow.StateCancelled
	StateRejected       = flow.StateRejected
	StateExpired        = flow.StateExpired
)

// StatesOf returns the states that have a public status. ok is false for a status that does
// not exist.
func StatesOf(status string) (states []string, ok bool) {
	for _, s := range flow.States() {
		if s.Status() == status {
			states = append(states, string(s))
		}
	}
	return states, len(states) > 0
}

// A move is a change of state, and the query in queries/runs.sql that makes it.
type move struct {
	query    string
	from, to []State
}

// moves is the whole state machine. A test checks the queries and the diagram in
// docs/use/runs-and-the-fence.md against it.
func moves() []move {
	unsent := []State{StateBlocked, StateRefused}
	return []move{
		// claim_run: an id that was refused before anything was sent runs again. What people
		// rejected, or nobody approved in time, is final.
		{"ClaimRun", []State{StateBlocked, StateRefused}, []State{StateClaimed}},
		// A crash can leave sending behind; a call that may be repeated is sent again.
		{"MarkSending", []State{StateClaimed, StateSending}, []State{StateSending}},
		{"BackToClaimed", []State{StateSending}, []State{StateClaimed}},
		{"HoldRun", []State{StateClaimed}, []State{StatePending, StateIntercepted}},
		{"ReleaseRun", []State{StateClaimed, StatePending, StateIntercepted}, []State{StateClaimed}},
		{"CloseHeldRun", []State{StatePending}, []State{StateRefused, StateRejected, StateExpired}},
		// A dry run that is discarded stays intercepted.
		{"CloseHeldRun", []State{StateIntercepted}, []State{StateIntercepted}},
		{"LetThrough", []State{StateClaimed}, []State{StateClaimed}},
		// A call that waits for a kill switch to be lifted loses no time.
		{"ProlongRun", []State{StateClaimed}, nil},
		// The engine could not be reached, and the caller has no id to repeat the call by.
		{"WithdrawRun", []State{StateClaimed}, []State{StateCancelled}},
		{"RequestCancel", []State{StateClaimed, StatePending, StateIntercepted}, []State{StateCancelled}},
		{"ResolveRun", []State{StateOutcomeUnknown}, []State{StateExecuted, StateFailed}},
		// FinishRun gets the states to come from as a parameter; see endsFrom.
		{"FinishRun", []State{StateClaimed}, unsent},
		// The provider was not reached, or its rate limit refused the call.
		{"FinishRun", []State{StateSending}, []State{StateRefused}},
		// A late answer settles an outcome that a crash had left unknown.
		{"FinishRun", []State{StateSending, StateOutcomeUnknown}, []State{StateExecuted, StateFailed}},
		{"FinishRun", []State{StateSending, StateClaimed}, []State{StateOutcomeUnknown}},
		{"HandOverRun", []State{StateClaimed, StateSending, StatePending, StateIntercepted}, nil},
		{"MarkAlive", []State{StateSending}, nil},
		// Their answers serve all attempts of the run.
		{"KeepLookups", []State{StateClaimed, StateSending}, nil},
		// What a customer's calls contain is erased when they have ended, and that of all some time
		// after.
		{"EraseRuns", []State{
			StateBlocked, StateRefused, StateRejected, StateExpired, StateCancelled, StateIntercepted, StateExecuted, StateFailed, StateOutcomeUnknown,
		}, nil},
		{"EraseOldRuns", []State{
			StateBlocked, StateRefused, StateRejected, StateExpired, StateCancelled, StateIntercepted, StateExecuted, StateFailed, StateOutcomeUnknown,
		}, nil},
	}
}
