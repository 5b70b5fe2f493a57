package run

import "agentruntime/internal/record/audit"

// endedAction returns the action of a run that ended in a state after it was sent, or
// that was refused at that moment.
func endedAction(s State) audit.Action {
	switch s {
	case StateExecuted:
		return audit.RunExecuted
	case StateFailed:
		return audit.RunFailed
	case StateOutcomeUnknown:
		return audit.RunOutcomeUnknown
	default:
		return audit.RunRefused
	}
}

// closedAction returns the action of an approval that was closed with a status and
// without a decision.
func closedAction(status string) audit.Action {
	switch status {
	case approvalSuperseded:
		return audit.ApprovalSuperseded
	case approvalExpired:
		return audit.ApprovalExpired
	default:
		return audit.ApprovalCancelled
	}
}
