// Package fault is the one error type of the domain. A domain function that refuses a call
// returns a *fault.Error. The api package turns it into a status and an envelope, and the
// activities package into a Temporal application error. Every other error (a lost
// connection, a bug) reaches a caller as INTERNAL_ERROR without its text.
//
// The package does no I/O and imports nothing of the project.
package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Detail names one thing that is wrong with the input.
type Detail struct {
	// Path is a JSON Pointer into the request body ("/args/amount"), or
	// "query.limit", "header.X-Request-Id", "path.id".
	Path string `json:"path"`
	// Rule is the keyword that failed ("required", "type", "maxLength", "unknown_field").
	Rule string `json:"rule"`
	// Message says what is expected. It never repeats the value that was sent.
	Message string `json:"message"`
}

// Error is a refusal with a public code. All fields but Cause are shown to the caller.
type Error struct {
	Code    Code
	Message string
	Details []Detail

	// Suggestions are names that the caller may mean instead of an unknown one; nil where there
	// is none.
	Suggestions []string
	// ApprovalID is the approval that the call waits for, or the record of its block; ""
	// where there is none.
	ApprovalID string
	// ApprovalRequired: people have to approve before the call runs.
	ApprovalRequired bool
	// Decision is what governance decided; "" where it did not judge the call.
	Decision string
	// ExecutionID is the run that the refusal is about; "" where there is none.
	ExecutionID string
	// Status is the public status of that run; "" where there is none.
	Status string
	// Reason is why governance or an approver decided so; "" where neither did.
	Reason string
	// CachedFrom is the execution id of the stored run that answers a repeat; "" where the
	// call itself was refused.
	CachedFrom string
	// ArgsMatch says whether the arguments of a repeat are those of the run that has its id;
	// nil where the call is no repeat. ArgsDiffer has the JSON Pointers of those that are not.
	ArgsMatch *bool
	// PayloadMatch says that of a trigger's payload; nil where no execution answers it.
	PayloadMatch *bool
	ArgsDiffer   []string
	// CustomerIDs are the customers that the refusal is about; nil where there are none.
	CustomerIDs []string
	// ProviderStatus is the HTTP status of the provider's answer; 0 where there was none.
	ProviderStatus int
	// ProviderError is what the provider answered, without secrets; nil where it is not known
	// or too large to repeat.
	ProviderError json.RawMessage
	// Retryable: the same call may succeed later.
	Retryable bool
	// RetryAfter is how long the caller should wait; 0 where that is not known.
	RetryAfter time.Duration

	// Cause is for the log only; nil where there is none.
	Cause error
}

// New returns a fault of code with a public message. An empty message takes the
// code's own from the table.
func New(code Code, message string) *Error {
	if message == "" {
		message = code.Spec().Message
	}
	return &Error{Code: code, Message: message}
}

// Newf is New with a format.
func Newf(code Code, format string, args ...any) *Error {
	return New(code, fmt.Sprintf(format, args...))
}

// Invalid returns a VALIDATION_ERROR for one place of the input.
func Invalid(path, rule, message string) *Error {
	e := New(CodeValidation, message)
	e.Details = []Detail{{Path: path, Rule: rule, Message: message}}
	return e
}

// Because returns a copy of e with the cause that the log shows.
func (e *Error) Because(cause error) *Error {
	c := *e
	c.Cause = cause
	return &c
}

// Error implements error. The text is for logs; callers get Message.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Cause)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is a fault of the same code, so that
// errors.Is(err, fault.New(fault.CodeNotFound, "")) works.
func (e *Error) Is(target error) bool {
	var t *Error
	return errors.As(target, &t) && t.Code == e.Code
}

// As returns the fault in err's chain, or nil.
func As(err error) *Error {
	e, _ := errors.AsType[*Error](err)
	return e
}

// HasCode reports whether the fault in err's chain has the code.
func HasCode(err error, code Code) bool {
	e := As(err)
	return e != nil && e.Code == code
}

// PointerToken escapes a name as one token of a JSON Pointer (RFC 6901 section 3), as in the
// path of a Detail.
func PointerToken(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// PointerName returns the name that a token of a JSON Pointer stands for: it undoes PointerToken.
func PointerName(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}
