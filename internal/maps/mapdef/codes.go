package mapdef

import (
	"slices"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/expression"
)

// The codes of errors that only steps have. Calls of verbs have those of package fault too.
const (
	CodeStepTimeout      = "STEP_TIMEOUT"      // the step's timeout is over
	CodeResultMismatch   = "RESULT_MISMATCH"   // the result of a verb does not fit expect
	CodeValidation       = "VALIDATION_ERROR"  // the value of a validate step does not fit
	CodeLoopLimit        = "LOOP_LIMIT"        // a while step has had its iterations
	CodeItemsLimit       = "ITEMS_LIMIT"       // a foreach step has got more than MaxItems
	CodeWaitTimeout      = "WAIT_TIMEOUT"      // no event, or no answer, in time
	CodeApprovalRejected = "APPROVAL_REJECTED" // people said no
	CodeApprovalExpired  = "APPROVAL_EXPIRED"  // people said nothing
	CodeStepsLimit       = "STEPS_LIMIT"       // limits.max_steps
	CodeActionsLimit     = "ACTIONS_LIMIT"     // limits.max_actions
	CodeDurationLimit    = "DURATION_LIMIT"    // limits.max_duration
	CodeStorageLimit     = "STORAGE_LIMIT"     // the values of all steps together are too large
	CodeEventsLimit      = "EVENTS_LIMIT"      // emit steps have emitted, or waits in loops used, too many events
	CodeModelError       = "MODEL_ERROR"
	CodeModelMissing     = "MODEL_NOT_CONNECTED"
	CodeGoalNotReached   = "GOAL_NOT_REACHED" // the manager of an agent has not passed its work
	CodeNoSession        = "NO_SESSION"       // the manager asks, and the message is in no session
	CodeBudgetExceeded   = "BUDGET_EXCEEDED"
	CodeCircuitOpen      = "CIRCUIT_OPEN"
)

// Codes returns the codes with which a step of the type can fail by itself, sorted. Steps with
// blocks fail with the codes of the steps within too, and a map step with those of its Map.
func Codes(t Type) []string {
	codes := []string{expression.CodeFailed, expression.CodeResult, expression.CodeLimit, CodeStepTimeout}
	switch t {
	case TypeVerb:
		codes = append(codes, CodeResultMismatch, CodeCircuitOpen, CodeBudgetExceeded, CodeActionsLimit)
		for _, c := range verbCodes() {
			codes = append(codes, string(c))
		}
	case TypeValidate:
		codes = append(codes, CodeValidation)
	case TypeWhile:
		codes = append(codes, CodeLoopLimit)
	case TypeForeach:
		codes = append(codes, CodeItemsLimit)
	case TypeWait:
		codes = append(codes, CodeWaitTimeout, CodeEventsLimit)
	case TypeApproval:
		codes = append(codes, CodeApprovalRejected, CodeApprovalExpired, string(fault.CodeQuotaExceeded))
	case TypeEmit:
		codes = append(codes, CodeEventsLimit, string(fault.CodeQuotaExceeded))
	case TypeMap:
		codes = append(codes, "MAP_NOT_FOUND", string(fault.CodeConflict), string(fault.CodeInvalidArgs), string(fault.CodeIdempotencyKeyReused), string(fault.CodeQuotaExceeded))
	case TypeAgent:
		codes = append(codes, CodeModelError, CodeModelMissing, CodeBudgetExceeded, CodeActionsLimit, CodeGoalNotReached, CodeNoSession, CodeWaitTimeout, string(fault.CodeAgentNotFound), string(fault.CodeConflict))
	case TypeExtract, TypeClassify, TypeSummarize, TypeReason:
		codes = append(codes, CodeModelError, CodeModelMissing, CodeBudgetExceeded)
	default: // nothing of their own
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// verbCodes are the codes with which a call of a verb can end.
func verbCodes() []fault.Code {
	return []fault.Code{
		fault.CodeGovernanceBlocked, fault.CodeInvalidArgs, fault.CodeVerbNotFound, fault.CodeProviderNotConnected,
		fault.CodeCredentialExpired, fault.CodeCredentialNotFound, fault.CodeURLNotAllowed, fault.CodeProviderRejected,
		fault.CodeProviderError, fault.CodeProviderTimeout, fault.CodeRateLimited, fault.CodeRunExpired,
		fault.CodeOutcomeUnknown, fault.CodeConflict, fault.CodeIdempotencyKeyReused, fault.CodeAPIKeyRevoked, fault.CodeQuotaExceeded, fault.CodeServiceUnavailable, fault.CodeInternal,
	}
}

// afterSending are the ends of a call that was sent: the write may have had its effect.
func afterSending() []string {
	return []string{string(fault.CodeProviderError), string(fault.CodeProviderTimeout), string(fault.CodeProviderRejected)}
}

// isOurs reports whether a code is one of the service: raise steps may not use it.
func isOurs(code string) bool {
	for _, spec := range fault.Table() {
		if string(spec.Code) == code {
			return true
		}
	}
	return slices.ContainsFunc(Types(), func(t Type) bool { return slices.Contains(Codes(t), code) }) ||
		slices.Contains([]string{CodeStepsLimit, CodeActionsLimit, CodeDurationLimit, CodeStorageLimit}, code)
}
