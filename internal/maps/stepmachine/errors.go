package stepmachine

import (
	"encoding/json"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/mapdef"
)

// Error is why a step, or an execution, has failed: what expressions, catch blocks and callers
// see.
type Error struct {
	Type   string `json:"type"` // of RFC 9457
	Code   string `json:"code"`
	Status int    `json:"status"` // of HTTP, for callers that know no codes
	Title  string `json:"title"`
	Detail string `json:"detail"`
	// Instance is the JSON Pointer of the step that failed first.
	Instance  string `json:"instance"`
	Retryable bool   `json:"retryable"`
	// RetryAfterMS is how many milliseconds a provider asked to wait; 0 where it did not.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`
	// ProviderError is what the provider said, an object; nil where no provider did.
	ProviderError json.RawMessage `json:"provider_error,omitempty"`
}

// The codes that mapdef does not name, because no step has one of its own.
const (
	codeOutcomeUnknown = string(fault.CodeOutcomeUnknown)
	codeInternal       = string(fault.CodeInternal)
)

// errorType begins the type of an error; its code follows.
const errorType = "urn:agentruntime:error:"

// TypeRejected and TypeExpired are the types of the errors of calls that people were asked about: they
// have rejected the call, or nobody has decided in time. The code is that of all calls which governance
// does not let through.
const (
	TypeRejected = errorType + "GOVERNANCE_BLOCKED:rejected"
	TypeExpired  = errorType + "GOVERNANCE_BLOCKED:expired"
)

// NewError returns an error with the title and the status of its code.
func NewError(code, detail string) *Error {
	e := &Error{Type: errorType + code, Code: code, Detail: detail}
	spec := fault.Code(code).Spec()
	if string(spec.Code) == code {
		e.Status, e.Title = spec.Status, spec.Message
		return e
	}
	like := fault.CodeInvalidArgs
	switch code {
	case mapdef.CodeStepTimeout, mapdef.CodeWaitTimeout, mapdef.CodeDurationLimit, mapdef.CodeApprovalExpired:
		like = fault.CodeProviderTimeout
	case mapdef.CodeApprovalRejected:
		like = fault.CodeGovernanceBlocked
	case mapdef.CodeModelError:
		like = fault.CodeProviderError
	case mapdef.CodeModelMissing:
		like = fault.CodeProviderNotConnected
	}
	e.Status, e.Title = like.Spec().Status, titles(code)
	return e
}

// titles returns the title of a code that is the machine's own; "" for others.
func titles(code string) string {
	switch code {
	case mapdef.CodeStepTimeout:
		return "The step took too long."
	case mapdef.CodeWaitTimeout:
		return "Nothing of the kind came in time."
	case mapdef.CodeDurationLimit:
		return "The execution took too long."
	case mapdef.CodeStepsLimit:
		return "The execution began too many steps."
	case mapdef.CodeStorageLimit:
		return "The execution has stored too much."
	case mapdef.CodeEventsLimit:
		return "The execution emitted too many events."
	case mapdef.CodeActionsLimit:
		return "The execution made too many calls."
	case mapdef.CodeLoopLimit:
		return "The loop did not end."
	case mapdef.CodeItemsLimit:
		return "The loop has too many items."
	case mapdef.CodeResultMismatch:
		return "The result does not fit its schema."
	case mapdef.CodeApprovalRejected:
		return "The approval was rejected."
	case mapdef.CodeApprovalExpired:
		return "Nobody decided in time."
	case mapdef.CodeModelError:
		return "The model did not give an answer that can be used."
	case mapdef.CodeModelMissing:
		return "No model is connected."
	case mapdef.CodeValidation:
		return "The value does not fit its schema."
	case mapdef.CodeGoalNotReached:
		return "The work of the agent did not pass its manager."
	case mapdef.CodeNoSession:
		return "Nobody can answer the question."
	default:
		return "The expression has no value."
	}
}

// at returns the error with the instance, unless it has one.
func (e *Error) at(pointer string) *Error {
	if e.Instance != "" {
		return e
	}
	c := *e
	c.Instance = pointer
	return &c
}

// value returns the error as expressions see it.
func (e *Error) value() Value {
	raw, err := exactjson.Encode(e)
	if err != nil { // a struct of texts and numbers is always JSON
		return Value{}
	}
	return Value{JSON: raw}
}
