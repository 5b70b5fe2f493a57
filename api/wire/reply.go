package wire

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"time"

	"agentruntime/internal/base/fault"
)

// Reply is what a handler answers with.
type Reply struct {
	Status int // 0 means 200
	Data   any
	// Page is set by lists with cursors, whose data is an array.
	Page   *Pagination
	Header http.Header
}

// OK answers 200 with data.
func OK(data any) Reply { return Reply{Data: data} }

// Created answers 201 with data and the path of the new resource.
func Created(location string, data any) Reply {
	return Reply{Status: http.StatusCreated, Data: data, Header: http.Header{"Location": {location}}}
}

// Deleted answers that the resource no longer exists.
func Deleted() Reply { return OK(map[string]bool{"deleted": true}) }

// DeletedUnless is Deleted, or the refusal err.
func DeletedUnless(err error) (Reply, error) {
	if err != nil {
		return Reply{}, err
	}
	return Deleted(), nil
}

// Answer answers 200 with a value as view shows it. Where err is a refusal, there is no value.
func Answer[T, V any](view func(T) V, value T, err error) (Reply, error) {
	if err != nil {
		return Reply{}, err
	}
	return OK(view(value)), nil
}

// Array returns items, and an empty array for nil: arrays are never null.
func Array[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

type envelope struct {
	Success    bool        `json:"success"`
	Data       any         `json:"data,omitempty"`
	Pagination *Pagination `json:"pagination,omitempty"`
	Error      *ErrorBody  `json:"error,omitempty"`
}

// The values of fence_status: the call has started what goes on, it has executed it, or it read what an
// earlier call had started.
const (
	fenceStarted  = "started"
	fenceExecuted = "executed"
	FenceCached   = "cached"
)

// FenceStatus returns the fence_status of an answer. cached means that an earlier call began it.
func FenceStatus(ended, cached bool) string {
	switch {
	case cached:
		return FenceCached
	case ended:
		return fenceExecuted
	}
	return fenceStarted
}

// StartedUnless returns the fence_status of an execution: "" once it has ended.
func StartedUnless(ended bool) string {
	if ended {
		return ""
	}
	return fenceStarted
}

// ErrorBody is the error object of the envelope.
type ErrorBody struct {
	Code             fault.Code      `json:"code"`
	Message          string          `json:"message"`
	RequestID        string          `json:"requestId"`
	Details          []fault.Detail  `json:"details,omitempty"`
	Suggestions      []string        `json:"suggestions,omitempty"`
	ApprovalID       string          `json:"approval_id,omitempty"`
	ApprovalRequired *bool           `json:"approval_required,omitempty"`
	Decision         string          `json:"decision,omitempty"`
	ExecutionID      string          `json:"execution_id,omitempty"`
	Status           string          `json:"status,omitempty"`
	Reason           string          `json:"reason,omitempty"`
	FenceStatus      string          `json:"fence_status,omitempty"`
	Idempotent       bool            `json:"idempotent,omitempty"`
	CachedFrom       string          `json:"cached_from,omitempty"`
	ArgsMatch        *bool           `json:"args_match,omitempty"`
	ArgsDiffer       []string        `json:"args_differ,omitempty"`
	PayloadMatch     *bool           `json:"payload_match,omitempty"`
	CustomerIDs      []string        `json:"customer_ids,omitempty"`
	ProviderStatus   int             `json:"provider_status,omitempty"`
	ProviderError    json.RawMessage `json:"provider_error,omitempty"`
	Retryable        *bool           `json:"retryable,omitempty"`
	RetryAfterMS     int64           `json:"retry_after_ms,omitempty"`
}

// Respond returns an http.Handler that runs h and writes its answer. It is the one place
// where a fault becomes a status and is logged. It must run inside Middleware.
func Respond(h Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		c.w, c.Request = w, r
		defer c.done()
		rep, err := h(r.Context(), c)
		if c.streamed {
			if err != nil {
				c.Log.WarnContext(r.Context(), "a stream was broken off", slog.String("error", err.Error()))
			}
			return
		}
		c.allowOrigin()
		if err != nil {
			c.fail(err)
			return
		}
		if rep.Status == 0 {
			rep.Status = http.StatusOK
		}
		c.succeed(rep)
	}
}

// unavailableRetry is when to repeat a call for which something that the service needs was away: the
// engine, the database or the KMS. Their restarts take a few seconds.
const unavailableRetry = 5 * time.Second

// Fault returns what the caller is told of err, and logs err once. The text of an error
// that is no fault stays in the log.
func (c *Call) Fault(err error) *fault.Error {
	f := fault.As(err)
	if f == nil {
		if c.abandoned(err) {
			c.Log.Info("the caller disconnected")
		} else {
			c.Log.Error("request failed", slog.String("error", err.Error()))
		}
		return fault.New(fault.CodeInternal, "")
	}
	if f.Code.Spec().Status >= http.StatusInternalServerError && f.Cause != nil {
		c.Log.Warn("request refused", slog.String("code", string(f.Code)), slog.String("error", f.Cause.Error()))
	}
	if f.Code == fault.CodeServiceUnavailable && f.Retryable && f.RetryAfter == 0 {
		later := *f // other callers may be told of the same fault
		later.RetryAfter = unavailableRetry
		return &later
	}
	return f
}

// statusAbandoned is the status in the log of a call whose caller disconnected before there was an answer.
// nginx brought it in. Nobody gets it.
const statusAbandoned = 499

// abandoned reports whether a call failed because its caller disconnected.
func (c *Call) abandoned(err error) bool {
	return errors.Is(err, context.Canceled) && c.Request.Context().Err() != nil
}

// fail writes the envelope of an error.
func (c *Call) fail(err error) {
	f := c.Fault(err)
	spec := f.Code.Spec()
	if spec.Status == http.StatusInternalServerError && c.abandoned(err) {
		spec.Status = statusAbandoned
	}
	body := c.ErrorBody(f)
	if f.RetryAfter > 0 {
		// Retry-After has whole seconds. Rounding down would invite a call that is too early.
		seconds := int64((f.RetryAfter + 999_999_999) / 1_000_000_000)
		c.w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if spec.Status == http.StatusUnauthorized {
		c.w.Header().Set("WWW-Authenticate", `Bearer realm="agentruntime", ApiKey realm="agentruntime"`)
	}
	c.write(spec.Status, envelope{Error: body})
}

// ErrorBody returns the error object of a fault.
func (c *Call) ErrorBody(f *fault.Error) *ErrorBody {
	body := &ErrorBody{
		Code: f.Code, Message: f.Message, RequestID: c.Actor.RequestID, Details: f.Details, Suggestions: f.Suggestions,
		ApprovalID: f.ApprovalID, Decision: f.Decision, ExecutionID: f.ExecutionID,
		Status: f.Status, Reason: f.Reason, ArgsMatch: f.ArgsMatch, ArgsDiffer: f.ArgsDiffer, PayloadMatch: f.PayloadMatch,
		CustomerIDs:    f.CustomerIDs,
		ProviderStatus: f.ProviderStatus, ProviderError: f.ProviderError, RetryAfterMS: f.RetryAfter.Milliseconds(),
	}
	if f.CachedFrom != "" {
		body.FenceStatus, body.Idempotent, body.CachedFrom = FenceCached, true, f.CachedFrom
	}
	if f.Decision != "" {
		body.ApprovalRequired = &f.ApprovalRequired
	}
	if f.Retryable || f.Code == fault.CodeProviderRejected {
		body.Retryable = &f.Retryable
	}
	return body
}

// succeed writes a reply. One object gets its ETag, and a GET that the caller made for another
// state of the object gets 304 or 412.
func (c *Call) succeed(rep Reply) {
	raw, err := json.Marshal(envelope{Success: true, Data: rep.Data, Pagination: rep.Page.sealed(c)})
	if err != nil {
		c.unreadable(err)
		return
	}
	h := c.w.Header()
	maps.Copy(h, rep.Header)
	if c.tagged(rep) {
		if h.Get("ETag") == "" {
			h.Set("ETag", rep.tag(raw))
		}
		notModified, err := c.unsent(h.Get("ETag"))
		switch {
		case err != nil:
			h.Del("ETag") // of an answer that is not sent
			c.fail(err)
			return
		case notModified:
			h.Set("Cache-Control", "no-store")
			c.w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	c.send(rep.Status, raw)
}

// tag returns the ETag of a reply whose bytes are raw.
func (rep Reply) tag(raw []byte) string {
	if _, is := rep.Data.(Steady); is {
		return ViewTag(rep.Data)
	}
	return tagOf(raw)
}

func (c *Call) write(status int, body envelope) {
	raw, err := json.Marshal(body)
	if err != nil {
		c.unreadable(err)
		return
	}
	c.send(status, raw)
}

// unreadable answers where JSON cannot say what there is.
func (c *Call) unreadable(err error) {
	c.Log.Error("encoding the response failed", slog.String("error", err.Error()))
	c.send(http.StatusInternalServerError,
		[]byte(`{"success":false,"error":{"code":"INTERNAL_ERROR","message":"Something failed on our side.","requestId":`+strconv.Quote(c.Actor.RequestID)+`}}`))
}

func (c *Call) send(status int, raw []byte) {
	h := c.w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(raw)))
	h.Set("Cache-Control", "no-store")
	// A caller that does not read must not keep the answer in memory.
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(chunkTimeout)) // only the recorder of a test has none
	c.w.WriteHeader(status)
	if c.Request.Method != http.MethodHead {
		if _, err := c.w.Write(raw); err != nil { //nolint:gosec // JSON with nosniff: no browser shows it as a page
			c.Log.Debug("the caller disconnected before the response was written")
		}
	}
}
