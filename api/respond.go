package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strconv"

	"agentruntime/internal/kernel/fault"
)

type envelope struct {
	Success    bool        `json:"success"`
	Data       any         `json:"data,omitempty"`
	Pagination *pagination `json:"pagination,omitempty"`
	Error      *problem    `json:"error,omitempty"`
}

// problem is the error object of the envelope.
type problem struct {
	Code             fault.Code     `json:"code"`
	Message          string         `json:"message"`
	RequestID        string         `json:"requestId"`
	Details          []fault.Detail `json:"details,omitempty"`
	ApprovalID       string         `json:"approval_id,omitempty"`
	ApprovalRequired *bool          `json:"approval_required,omitempty"`
	Decision         string         `json:"decision,omitempty"`
	ExecutionID      string         `json:"execution_id,omitempty"`
	ProviderStatus   int            `json:"provider_status,omitempty"`
	Retryable        *bool          `json:"retryable,omitempty"`
	RetryAfterMS     int64          `json:"retry_after_ms,omitempty"`
}

// plain runs a handler and writes what it answers. It is the one place where a
// fault becomes a status and is logged.
func (s *Server) plain(h handlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		c.w, c.r = w, r
		rep, err := h(r.Context(), c)
		if c.streamed {
			if err != nil {
				c.log.WarnContext(r.Context(), "an answer was broken off", slog.String("error", err.Error()))
			}
			return
		}
		allowOrigin(c)
		if err != nil {
			s.fail(c, err)
			return
		}
		maps.Copy(w.Header(), rep.header)
		if rep.status == 0 {
			rep.status = http.StatusOK
		}
		s.write(c, rep.status, envelope{Success: true, Data: rep.data, Pagination: rep.page})
	}
}

// refusal turns an error into what the caller is told, and logs it once. Only a
// fault's own message reaches the caller.
func (c *call) refusal(err error) *fault.Error {
	f := fault.As(err)
	if f == nil {
		if errors.Is(err, context.Canceled) && c.r.Context().Err() != nil {
			c.log.Info("caller went away")
		} else {
			c.log.Error("request failed", slog.String("error", err.Error()))
		}
		return fault.New(fault.CodeInternal, "")
	}
	if f.Code.Spec().Status >= http.StatusInternalServerError && f.Cause != nil {
		c.log.Warn("request refused", slog.String("code", string(f.Code)), slog.String("error", f.Cause.Error()))
	}
	return f
}

// fail writes the envelope of an error.
func (s *Server) fail(c *call, err error) {
	f := c.refusal(err)
	spec := f.Code.Spec()
	p := &problem{
		Code: f.Code, Message: f.Message, RequestID: c.requestID, Details: f.Details,
		ApprovalID: f.ApprovalID, Decision: f.Decision, ExecutionID: f.ExecutionID,
		ProviderStatus: f.ProviderStatus, RetryAfterMS: f.RetryAfter.Milliseconds(),
	}
	if f.Decision != "" {
		p.ApprovalRequired = &f.ApprovalRequired
	}
	if f.Retryable || f.Code == fault.CodeProviderRejected {
		p.Retryable = &f.Retryable
	}
	if f.RetryAfter > 0 {
		// Retry-After has whole seconds; rounding down would invite a call too early.
		seconds := int64((f.RetryAfter + 999_999_999) / 1_000_000_000)
		c.w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if spec.Status == http.StatusUnauthorized {
		c.w.Header().Set("WWW-Authenticate", `Bearer realm="agentruntime", ApiKey realm="agentruntime"`)
	}
	s.write(c, spec.Status, envelope{Error: p})
}

func (s *Server) write(c *call, status int, body envelope) {
	raw, err := json.Marshal(body)
	if err != nil {
		c.log.Error("encoding the response failed", slog.String("error", err.Error()))
		status = http.StatusInternalServerError
		raw = []byte(`{"success":false,"error":{"code":"INTERNAL_ERROR","message":"Something failed on our side.","requestId":` + strconv.Quote(c.requestID) + `}}`)
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(raw)))
	h.Set("Cache-Control", "no-store")
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		if _, err := c.w.Write(raw); err != nil {
			c.log.Debug("caller went away while being answered")
		}
	}
}
