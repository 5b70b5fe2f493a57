package flow

// State is the state of a run's row.
type State string

// The states. The run domain has the table of which may follow which. blocked, refused, rejected, expired,
// intercepted and cancelled end a run before anything was sent. All of these but the last
// two free the id: the same call may run later under it. An approver can still release an
// intercepted run (a dry run of a write).
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

// Ended reports whether nothing more happens to a run in this state by itself.
func (s State) Ended() bool { return s != StateClaimed && s != StateSending && s != StatePending }

// Answers reports whether callers get this state as the answer: the run ended, or it
// waits for approval.
func (s State) Answers() bool { return s.Ended() || s == StatePending }

// Status returns the public name of the state.
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
