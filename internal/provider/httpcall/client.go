package httpcall

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
	"time"

	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/share"
)

// Limits of one attempt.
const (
	// DefaultTimeout is how long a provider may take, unless the caller says.
	DefaultTimeout = 20 * time.Second
	// DefaultMaxBytes is the largest answer that is read, after decompression.
	DefaultMaxBytes = 4 << 20

	maxRedirects  = 5
	maxRetryAfter = 24 * time.Hour
	userAgent     = "agent-runtime/1.0"
)

// SendOptions bound one attempt.
type SendOptions struct {
	Timeout time.Duration // 0 means DefaultTimeout
	// Read says that the call has no effect. Only a read may follow a redirect,
	// to the same host, or be repeated by net/http on another connection.
	Read     bool
	MaxBytes int64 // 0 means DefaultMaxBytes
	// IdempotencyHeader and IdempotencyKey are set where the provider takes a key.
	IdempotencyHeader string
	IdempotencyKey    string
	// MayBegin is asked when there is a connection, right before the first byte is written.
	// Where it is false, nothing is sent. nil means that the attempt may begin.
	MayBegin func() bool
	// Owner is whose share of the memory for large answers the attempt takes.
	Owner string
	// Keep takes the parts of a file with which a call is answered, of PartBytes each apart from the last
	// one. whole is how many bytes the provider says that the file has, -1 where it does not say. It must
	// not keep the slice. An error ends the reading. nil reads a file as text is read.
	Keep      func(part []byte, whole int64) error
	PartBytes int
}

// Outcome is all that is known after one attempt.
type Outcome struct {
	Phase       attempt.Phase
	Status      int
	RequestID   string // how the provider names the request; "" where it does not
	ContentType string
	Header      http.Header
	RetryAfter  time.Duration // 0 where none was sent or it is in the past; at most 24 h
	Body        []byte
	IsFile      bool          // the answer is a file, and not in Body
	File        *File         // the file, where all of it was given to Keep; nil otherwise
	KeepErr     error         // what Keep returned
	Truncated   bool          // the answer is larger than MaxBytes; Body is its beginning
	BodyErr     error         // the answer's body broke off
	Err         error         // why there is no answer; never contains the URL or a header
	Cause       attempt.Cause // of Err where nothing was sent
	Timeout     bool          // Err or BodyErr is from the attempt's own time limit
	Duration    time.Duration
	// Free gives the memory of a large answer back to its owner's share; nil for a small one.
	// The caller calls it once, when it no longer needs Body and what was made of it.
	Free func()
}

// A provider may close a connection that was idle just when a request is put on it. Then
// nobody knows whether the request was read. Common servers keep idle connections for 5 s and
// more, so a write takes none that was idle for longer than writeIdle.
const writeIdle = 2 * time.Second

// smallBody is the most bytes of an answer that are read at once. A larger answer takes one of
// the large places until Outcome.Free is called: it is copied three or four times while it is
// read, cleaned and stored. The rest of it must arrive within largeWithin, so that providers
// that drip do not keep the places.
const (
	smallBody   = 512 << 10
	largeWithin = 10 * time.Second
)

func largePlaces() share.Limits {
	return share.Limits{Total: 32, PerOwner: 4, PerPart: 4, Waiting: 4096, WaitingPerOwner: 1024}
}

// Client sends requests to providers.
type Client struct {
	reads, writes *http.Client
	large, files  *share.Pool
	now           func() time.Time
}

// NewClient wraps a client whose transport guards where it connects. now is the
// clock by which a Retry-After date is read.
func NewClient(guarded *http.Client, now func() time.Time) (*Client, error) {
	if guarded == nil || now == nil {
		return nil, errors.New("httpcall: a client needs an HTTP client and a clock")
	}
	reads := *guarded
	reads.Timeout, reads.Jar = 0, nil
	writes := reads
	if t, ok := reads.Transport.(*http.Transport); ok {
		t = t.Clone()
		t.IdleConnTimeout = writeIdle
		writes.Transport = t
	}
	return &Client{reads: &reads, writes: &writes, large: share.New(largePlaces()), files: share.New(largePlaces()), now: now}, nil
}

// errResend ends a second attempt that net/http makes by itself.
var errResend = errors.New("net/http began a second attempt of a write")

// Send makes exactly one attempt and never returns an error beside the outcome.
func (c *Client) Send(ctx context.Context, r *Request, opt SendOptions) Outcome {
	started := c.now()
	out := c.send(ctx, r, opt)
	out.Duration = c.now().Sub(started)
	return out
}

func (c *Client) send(ctx context.Context, r *Request, opt SendOptions) Outcome {
	limited, stop := context.WithTimeout(ctx, orDefault(opt.Timeout, DefaultTimeout))
	defer stop()
	trying, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	w := &watch{write: !opt.Read, cancel: cancel, mayBegin: opt.MayBegin}
	req, err := newRequest(httptrace.WithClientTrace(trying, w.trace()), r, opt)
	if err != nil {
		return Outcome{Phase: attempt.NotSent, Err: err, Cause: attempt.Ours}
	}
	timedOut := func(err error) bool {
		return err != nil && ctx.Err() == nil && (limited.Err() != nil || isTimeout(err))
	}
	client := *c.writes
	if opt.Read {
		client = *c.reads
	}
	client.CheckRedirect = redirects(opt.Read, r.Method)
	resp, err := client.Do(req)
	if w.late.Load() {
		if err == nil {
			_ = resp.Body.Close() // what it says is not looked at
		}
		err = errLate
	}
	if err != nil {
		out := Outcome{Phase: w.phase(), Err: publicError(err), Timeout: timedOut(err)}
		if out.Phase == attempt.NotSent {
			out.Cause = causeOf(err, out.Timeout)
		}
		return out
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// No request asks for it. Its body is the connection, and no context ends a read of that.
		_ = resp.Body.Close()
		resp.Body = http.NoBody
	}
	out := c.read(limited, stop, resp, opt)
	out.Timeout = timedOut(out.BodyErr)
	return out
}

func orDefault[T int64 | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// newRequest makes the net/http request in a form that it cannot send twice.
//
// net/http repeats a request by itself when a kept-alive connection drops and the request
// looks repeatable. It looks so where the body can be rewound (GetBody). It also looks so
// without a body, if the method is safe or a header Idempotency-Key or X-Idempotency-Key is
// there (Request.isReplayable). The provider may have acted on the first. So a write has no
// GetBody, and those headers are kept under their lower-case names. These are the same on
// the wire, and isReplayable does not find them.
func newRequest(ctx context.Context, r *Request, opt SendOptions) (*http.Request, error) {
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, body)
	if err != nil {
		return nil, errors.New("the request's method or URL is not valid")
	}
	req.GetBody = nil
	req.Header = r.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("User-Agent", userAgent)
	if opt.IdempotencyHeader != "" && opt.IdempotencyKey != "" {
		req.Header.Set(opt.IdempotencyHeader, opt.IdempotencyKey)
	}
	if opt.Read {
		return req, nil
	}
	for canonical, lower := range map[string]string{"Idempotency-Key": "idempotency-key", "X-Idempotency-Key": "x-idempotency-key"} {
		if values, has := req.Header[canonical]; has {
			delete(req.Header, canonical)
			req.Header[lower] = values
		}
	}
	return req, nil
}

// errLate ends an attempt that may no longer begin.
var errLate = errors.New("the process was stopped for too long before it could send")

// watch follows one attempt through net/http.
type watch struct {
	write    bool
	cancel   context.CancelCauseFunc
	mayBegin func() bool
	gotConn  atomic.Bool
	wrote    atomic.Bool
	// late: the attempt may no longer begin. closed: its connection was closed before it could
	// write.
	late, closed atomic.Bool
}

func (w *watch) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { w.refuseResend() },
		GotConn: func(info httptrace.GotConnInfo) {
			w.refuseResend()
			if w.mayBegin != nil && !w.mayBegin() {
				w.refuseLate(info.Conn)
				return
			}
			w.gotConn.Store(true)
		},
		WroteHeaderField: func(string, []string) { w.wrote.Store(true) },
		WroteHeaders:     func() { w.wrote.Store(true) },
	}
}

// refuseResend cancels a write that asks for a connection again after a part of it was
// written. HTTP/2 asks again for a stream that the server reset, which proves nothing about
// its effect. It looks at the context before it writes.
func (w *watch) refuseResend() {
	if w.write && w.wrote.Load() {
		w.cancel(errResend)
	}
}

// refuseLate ends the attempt before it writes. HTTP/2 looks at the context before it writes,
// and its connection serves others. HTTP/1 does not look, so its connection is closed.
func (w *watch) refuseLate(conn net.Conn) {
	w.late.Store(true)
	if t, ok := conn.(*tls.Conn); !ok || t.ConnectionState().NegotiatedProtocol != "h2" {
		_ = conn.Close() // it is not used again
		w.closed.Store(true)
	}
	w.cancel(errLate)
}

// phase returns how far an attempt without an answer got. Once there was a connection, a
// goroutine of net/http may write to it at any moment, even after the attempt has failed.
// So only an attempt without a connection was provably not sent.
func (w *watch) phase() attempt.Phase {
	if w.closed.Load() && !w.gotConn.Load() {
		return attempt.NotSent
	}
	if w.gotConn.Load() || w.wrote.Load() {
		return attempt.Sent
	}
	return attempt.NotSent
}

// redirects follows at most five redirects for a read, and only to the host it was sent to:
// the credential is in the headers. A write takes the redirect as its answer.
func redirects(read bool, method string) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		first := via[0].URL
		same := next.URL.Scheme == first.Scheme && next.URL.Host == first.Host && next.URL.User == nil
		if !read || !same || len(via) > maxRedirects || (method != http.MethodGet && method != http.MethodHead) {
			return http.ErrUseLastResponse
		}
		return nil
	}
}

// read takes the answer over. Its size counts after decompression.
func (c *Client) read(ctx context.Context, cancel func(), resp *http.Response, opt SendOptions) Outcome {
	defer resp.Body.Close()
	out := Outcome{
		Phase: attempt.Answered, Status: resp.StatusCode, RequestID: requestID(resp.Header),
		ContentType: resp.Header.Get("Content-Type"), Header: resp.Header,
		RetryAfter: retryAfter(resp.Header.Get("Retry-After"), c.now()),
	}
	mayBeFile := opt.Keep != nil && out.Status >= 200 && out.Status < 300
	head, err := io.ReadAll(io.LimitReader(resp.Body, smallBody+1))
	if err != nil || !mayBeFile || !isFile(out.ContentType, head) {
		head, err = c.readBody(ctx, cancel, head, err, resp.Body, opt, &out)
		// The head of a text may be UTF-8, and what follows something else.
		mayBeFile = mayBeFile && err == nil && isFile(out.ContentType, head)
		if !mayBeFile {
			out.take(head, err, opt)
			return out
		}
	}
	c.readFile(ctx, head, resp, opt, &out)
	return out
}

// take sets the body that was read, as much of it as is kept. err is why it ended early.
func (o *Outcome) take(body []byte, err error, opt SendOptions) {
	if limit := orDefault(opt.MaxBytes, DefaultMaxBytes); int64(len(body)) > limit {
		body, o.Truncated = body[:limit], true
	}
	o.Body = body
	if err != nil && !o.Truncated {
		o.BodyErr = publicError(err)
	}
}

// requestID returns how the provider names the request. Its own name for it comes before that of
// what stands in front of it.
func requestID(h http.Header) string {
	for _, name := range []string{
		"X-Request-Id", "Request-Id", "X-Amzn-Requestid", "X-Amz-Request-Id", "Apigw-Requestid", "X-Ms-Request-Id", "X-Github-Request-Id",
		"Paypal-Debug-Id", "Twilio-Request-Id", "X-Correlation-Id", "X-Trace-Id", "X-Vercel-Id", "Cf-Ray",
	} {
		if id := h.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// readBody reads what follows the head, and returns at most one byte more than opt.MaxBytes. A body over
// smallBody waits for a place first; cancel ends an attempt whose body does not arrive. err is that of the head.
func (c *Client) readBody(ctx context.Context, cancel func(), body []byte, err error, r io.Reader, opt SendOptions, out *Outcome) ([]byte, error) {
	limit := orDefault(opt.MaxBytes, DefaultMaxBytes)
	if err == nil && int64(len(body)) > smallBody && limit > smallBody {
		var rest []byte
		if out.Free, err = c.large.Take(ctx, opt.Owner, ""); err == nil {
			late := time.AfterFunc(largeWithin, cancel)
			rest, err = io.ReadAll(io.LimitReader(r, limit+1-int64(len(body))))
			late.Stop()
			body = append(body, rest...)
		}
	}
	return body, err
}

// retryAfter reads seconds or a date (RFC 9110 section 10.2.3).
func retryAfter(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	wait := time.Duration(0)
	if seconds, err := parseSeconds(value); err == nil {
		wait = seconds
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

func parseSeconds(value string) (time.Duration, error) {
	seconds := int64(0)
	for _, ch := range value {
		if ch < '0' || ch > '9' {
			return 0, errors.New("not a number of seconds")
		}
		seconds = min(seconds*10+int64(ch-'0'), int64(maxRetryAfter/time.Second))
	}
	return time.Duration(seconds) * time.Second, nil
}

// causeOf says why an attempt came to no connection.
func causeOf(err error, timeout bool) attempt.Cause {
	_, badName := errors.AsType[*net.DNSError](err)
	_, badCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	switch {
	case errors.Is(err, errLate), errors.Is(err, errResend), errors.Is(err, context.Canceled):
		return attempt.Ours
	case badName:
		return attempt.NoName
	case badCertificate, noTLS, alert, errors.Is(err, http.ErrSchemeMismatch):
		return attempt.NoTLS
	case timeout:
		return attempt.ConnectTimeout
	default:
		return attempt.NoConnection
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &n) && n.Timeout())
}

// publicError keeps of an error what may be logged. The URL can contain an API key, and
// net/http quotes what a server sent, which can be an echo of one.
func publicError(err error) error {
	var dns *net.DNSError
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errResend):
		return errResend
	case errors.Is(err, errLate):
		return errLate
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	case errors.As(err, &cert):
		return errors.New("the server's certificate is not valid")
	case errors.As(err, &dns):
		return &net.DNSError{Err: dns.Err, Name: dns.Name, IsNotFound: dns.IsNotFound, IsTimeout: dns.IsTimeout}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return syscall.ECONNRESET
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.As(err, &op):
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	case isTimeout(err):
		return context.DeadlineExceeded
	}
	return fmt.Errorf("the exchange failed (%T)", innermost(err))
}

// innermost returns the error at the end of the chain, whose type says the most.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
