package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Answer is what the API said.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// Err is set where no answer came; everything else is zero then.
	Err error
}

// Envelope is the shape of every answer.
type Envelope struct {
	Success    bool            `json:"success"`
	Data       json.RawMessage `json:"data"`
	Pagination json.RawMessage `json:"pagination"`
	Error      *struct {
		Code           string          `json:"code"`
		Message        string          `json:"message"`
		RequestID      string          `json:"requestId"`
		ApprovalID     string          `json:"approval_id"`
		Decision       string          `json:"decision"`
		Status         string          `json:"status"`
		Reason         string          `json:"reason"`
		FenceStatus    string          `json:"fence_status"`
		ArgsMatch      *bool           `json:"args_match"`
		PayloadMatch   *bool           `json:"payload_match"`
		ArgsDiffer     []string        `json:"args_differ"`
		ExecutionID    string          `json:"execution_id"`
		ProviderStatus int             `json:"provider_status"`
		Retryable      bool            `json:"retryable"`
		RetryAfterMS   int64           `json:"retry_after_ms"`
		Details        json.RawMessage `json:"details"`
	} `json:"error"`
}

// Envelope decodes the body; a body that is none fails the test.
func (a Answer) Envelope(tb testing.TB) Envelope {
	tb.Helper()
	var e Envelope
	require.NoError(tb, a.Err)
	require.NoError(tb, json.Unmarshal(a.Body, &e), "HTTP %d: %s", a.Status, a.Body)
	return e
}

// Data decodes the data of a success into out.
func (a Answer) Data(tb testing.TB, out any) {
	tb.Helper()
	e := a.Envelope(tb)
	require.True(tb, e.Success, "HTTP %d: %s", a.Status, a.Body)
	require.NoError(tb, json.Unmarshal(e.Data, out))
}

// Code returns the error code, "" for a success.
func (a Answer) Code(tb testing.TB) string {
	tb.Helper()
	if e := a.Envelope(tb); e.Error != nil {
		return e.Error.Code
	}
	return ""
}

// Client calls the API with one credential.
type Client struct {
	Base string
	// Key or Token, as the credential goes.
	Key, Token string
	HTTP       *http.Client
}

// NewHTTP returns a client for many callers at once.
func NewHTTP() *http.Client {
	return &http.Client{Timeout: 90 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxConnsPerHost: 512}}
}

// Do sends a request; body may be nil, a []byte or anything that encodes to JSON.
func (c *Client) Do(method, path string, body any, headers ...string) Answer {
	var reader io.Reader = http.NoBody
	switch b := body.(type) {
	case nil:
	case []byte:
		reader = bytes.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return Answer{Err: err}
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, c.Base+path, reader)
	if err != nil {
		return Answer{Err: err}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Key != "" {
		req.Header.Set("X-API-Key", c.Key)
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return Answer{Err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: raw, Err: err}
}

// Run calls POST /v1/runtime/actions/run.
func (c *Client) Run(verb string, args any, executionID string) Answer {
	body := map[string]any{"verb": verb, "args": args}
	if executionID != "" {
		body["execution_id"] = executionID
	}
	return c.Do(http.MethodPost, "/v1/runtime/actions/run", body)
}

// Callers repeat what the service could not take at that moment, as its answer asks them to, and count
// that. On a busy machine the engine may be late for one of hundreds of calls at once.
type Callers struct{ calls, repeats atomic.Int64 }

// mostRepeats is how often one call is made again.
const mostRepeats = 9

// Settled makes the call until the answer is none that asks for a repeat. The call needs an id of its own.
func (c *Callers) Settled(call func() Answer) Answer {
	c.calls.Add(1)
	for n := 0; ; n++ {
		a := call()
		after, again := a.asksToRepeat()
		if !again || n == mostRepeats {
			return a
		}
		c.repeats.Add(1)
		time.Sleep(after) //nolint:forbidigo // the answer says how long, and no event says more
	}
}

// asksToRepeat returns when the call is to be made again, because a part of the service could not be
// reached.
func (a Answer) asksToRepeat() (after time.Duration, again bool) {
	var e Envelope
	if a.Err != nil || a.Status != http.StatusServiceUnavailable || json.Unmarshal(a.Body, &e) != nil ||
		e.Error == nil || e.Error.Code != "SERVICE_UNAVAILABLE" || !e.Error.Retryable {
		return 0, false
	}
	if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	return time.Second, true // nobody knows when the engine can be reached
}

// RepeatedFew fails the test where the service could not take most of the calls: more repeats than calls,
// or than ten where there are few calls. How many there are besides says how busy the machine is, and
// nothing about the service.
func (c *Callers) RepeatedFew(tb testing.TB) {
	tb.Helper()
	calls, repeats := c.calls.Load(), c.repeats.Load()
	require.LessOrEqual(tb, repeats, max(calls, 10), "repeats of %d calls", calls)
}

// RunData is what tests read of a run's answer.
type RunData struct {
	Result      json.RawMessage `json:"result"`
	ExecutionID string          `json:"execution_id"`
	FenceStatus string          `json:"fence_status"`
	Status      string          `json:"status"`
	ApprovalID  string          `json:"approval_id"`
}

// AwaitAPI waits until the API says that it is ready.
func (s *Stack) AwaitAPI() {
	s.t.Helper()
	c := &Client{Base: s.APIURL, HTTP: &http.Client{Timeout: 5 * time.Second}}
	Until(s.t, 60*time.Second, "the API is ready", func() bool { return c.Do(http.MethodGet, "/readyz", nil).Status == http.StatusOK })
}

// Serve runs h on a loopback port for the length of the test.
func Serve(tb testing.TB, h http.Handler) string {
	tb.Helper()
	srv := httptest.NewServer(h)
	tb.Cleanup(srv.Close)
	return srv.URL
}
