package flow

// State is the state of a run's row.
type State string

// The states. internal/action/run has the table of which may follow which. A run that is
// blocked, refused, rejected, expired, intercepted or cancelled ended before anything was
// sent. After the first four the same call may run again under the same id. An intercepted
// run is a dry run of a write, and an approver can still release it.
const (
	StateClaimed        State = "claimed"
	StatePending        State = "pending_approval"
	StateSending        State = "sending"
	StateExecuted       State = "executed"
	StateFailed         State = "failed"
	StateOutcomeUnknown State = "outcome_unknown"
	StateBlocked        State = "blocked"
	StateRefused        State = "refused"
	StateIntercepted    State = "intercepted"
	StateCancelled      State = "cancelled"
	StateRejected       State = "rejected"
	StateExpired        State = "expired"
)

// States lists every state.
func States() []State {
	return []State{
		StateClaimed, StateSending, StateExecuted, StateFailed, StateOutcomeUnknown,
		StateBlocked, StateRefused, StateIntercepted, StateCancelled, StatePending, StateRejected, StateExpired,
	}
}

// Ended reports whether a run in this state does nothing further by itself.
func (s State) Ended() bool { return s != StateClaimed && s != StateSending && s != StatePending }

// Answers reports whether callers get this state as the answer: the run ended, or it
// waits for approval.
func (s State) Answers() bool { return s.Ended() || s == StatePending }

// Status returns the public name of the state: "running" for one under way, "failed" for
// a refused one, otherwise its own.
func (s State) Status() string {
	switch s {
	case StateClaimed, StateSending:
		return "running"
	case StateRefused:
		return "failed"
	default:
		return string(s)
	}
}
