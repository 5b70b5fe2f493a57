package httpcall_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"agentruntime/internal/base/attempt"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/provider/httpcall"
)

// now is the clock of the tests.
func now() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func newClient(t *testing.T, transport *http.Transport) *httpcall.Client {
	t.Helper()
	if transport == nil {
		transport = &http.Transport{}
	}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := httpcall.NewClient(&http.Client{Transport: transport}, now)
	require.NoError(t, err)
	return c
}

func post(url string) *httpcall.Request {
	return &httpcall.Request{Method: http.MethodPost, URL: url, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"a":1}`)}
}

func get(url string) *httpcall.Request {
	return &httpcall.Request{Method: http.MethodGet, URL: url, Header: http.Header{}}
}

// rawServer answers each connection with handle and counts requests that it read
// whole.
type rawServer struct {
	url      string
	requests atomic.Int32
	conns    atomic.Int32
}

func newRaw(t *testing.T, handle func(s *rawServer, conn *net.TCPConn, r *bufio.Reader)) *rawServer {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	s := &rawServer{url: "http://" + l.Addr().String()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			go func() {
				defer conn.Close()
				handle(s, conn.(*net.TCPConn), bufio.NewReader(conn))
			}()
		}
	}()
	return s
}

// readRequest reads a whole request: from here on it has had its effect.
func (s *rawServer) readRequest(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return false
	}
	s.requests.Add(1)
	return true
}

// reset closes so that the other side gets a reset instead of an end.
func reset(conn *net.TCPConn) { _ = conn.SetLinger(0) }

func TestProviderFaultsBecomeOutcomes(t *testing.T) {
	t.Parallel()
	answer := func(head, body string) func(*rawServer, *net.TCPConn, *bufio.Reader) {
		return func(s *rawServer, conn *net.TCPConn, r *bufio.Reader) {
			if s.readRequest(r) {
				_, _ = io.WriteString(conn, head+"\r\n\r\n"+body)
			}
		}
	}
	tests := map[string]struct {
		handle   func(*rawServer, *net.TCPConn, *bufio.Reader)
		phase    attempt.Phase
		status   int
		err      error
		bodyErr  error
		requests int32
		check    func(*testing.T, httpcall.Outcome)
	}{
		"reset before reading": {handle: func(_ *rawServer, conn *net.TCPConn, r *bufio.Reader) {
			_, _ = r.Peek(1) // a reset before the first byte may fail the dial instead
			reset(conn)
		}, phase: attempt.Sent},
		"closed before reading": {handle: func(*rawServer, *net.TCPConn, *bufio.Reader) {}, phase: attempt.Sent},
		"reset after reading": {handle: func(s *rawServer, conn *net.TCPConn, r *bufio.Reader) {
			s.readRequest(r)
			reset(conn)
		}, phase: attempt.Sent, requests: 1},
		"closed after reading": {handle: func(s *rawServer, _ *net.TCPConn, r *bufio.Reader) { s.readRequest(r) }, phase: attempt.Sent, requests: 1},
		"hang": {handle: func(s *rawServer, _ *net.TCPConn, r *bufio.Reader) {
			s.readRequest(r)
			_, _ = r.ReadByte() // until the client gives up
		}, phase: attempt.Sent, err: context.DeadlineExceeded, requests: 1, check: func(t *testing.T, o httpcall.Outcome) {
			t.Helper()
			require.True(t, o.Timeout)
		}},
		"a body that breaks off": {
			handle: answer("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100", `{"id":"1"`),
			phase:  attempt.Answered, status: 200, bodyErr: io.ErrUnexpectedEOF, requests: 1,
		},
		"a chunk that breaks off": {
			handle: answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", "5\r\nab"),
			phase:  attempt.Answered, status: 200, bodyErr: io.ErrUnexpectedEOF, requests: 1,
		},
		"a body that hangs": {
			handle: func(s *rawServer, conn *net.TCPConn, r *bufio.Reader) {
				s.readRequest(r)
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
				_, _ = r.ReadByte()
			},
			phase: attempt.Answered, status: 200, bodyErr: context.DeadlineExceeded, requests: 1,
			check: func(t *testing.T, o httpcall.Outcome) {
				t.Helper()
				require.True(t, o.Timeout)
			},
		},
		"another protocol": {
			handle: func(s *rawServer, conn *net.TCPConn, r *bufio.Reader) {
				s.readRequest(r)
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
				_, _ = r.ReadByte() // until the client closes the connection
			},
			phase: attempt.Answered, status: 101, requests: 1,
		},
		"no HTTP": {handle: answer("S3CRET nonsense", ""), phase: attempt.Sent, requests: 1},
		"a 500":   {handle: answer("HTTP/1.1 500 Oops\r\nContent-Length: 2", "{}"), phase: attempt.Answered, status: 500, requests: 1},
		"another type": {handle: answer("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2", "hi"), phase: attempt.Answered, status: 200, requests: 1, check: func(t *testing.T, o httpcall.Outcome) {
			t.Helper()
			require.Equal(t, "text/html", o.ContentType)
			result, wrapped, err := httpcall.ResultObject(o.ContentType, o.Body)
			require.NoError(t, err)
			require.Equal(t, "text", wrapped)
			require.JSONEq(t, `{"text":"hi","media_type":"text/html"}`, string(result))
		}},
		"429 in seconds":   {handle: answer("HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0", ""), phase: attempt.Answered, status: 429, requests: 1, check: waits(7 * time.Second)},
		"429 at a time":    {handle: answer("HTTP/1.1 429 Slow\r\nRetry-After: Sun, 01 Mar 2026 12:01:30 GMT\r\nContent-Length: 0", ""), phase: attempt.Answered, status: 429, requests: 1, check: waits(90 * time.Second)},
		"429 in the past":  {handle: answer("HTTP/1.1 429 Slow\r\nRetry-After: Sun, 01 Mar 2020 12:00:30 GMT\r\nContent-Length: 0", ""), phase: attempt.Answered, status: 429, requests: 1, check: waits(0)},
		"429 for ever":     {handle: answer("HTTP/1.1 429 Slow\r\nRetry-After: 99999999999999999999999\r\nContent-Length: 0", ""), phase: attempt.Answered, status: 429, requests: 1, check: waits(24 * time.Hour)},
		"429 and nonsense": {handle: answer("HTTP/1.1 429 Slow\r\nRetry-After: soon\r\nContent-Length: 0", ""), phase: attempt.Answered, status: 429, requests: 1, check: waits(0)},
		"a huge body": {handle: answer("HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(5<<20), strings.Repeat("x", 5<<20)), phase: attempt.Answered, status: 200, requests: 1, check: func(t *testing.T, o httpcall.Outcome) {
			t.Helper()
			require.True(t, o.Truncated)
			require.Len(t, o.Body, 4<<20)
		}},
		"headers without end": {handle: answer("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("S3CRET", 1<<20), ""), phase: attempt.Sent, requests: 1},
		"a redirect elsewhere": {
			handle: answer("HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/steal\r\nContent-Length: 0", ""),
			phase:  attempt.Answered, status: 307, requests: 1,
		},
		"a redirect to itself": {
			handle: answer("HTTP/1.1 303 Go\r\nLocation: /again\r\nContent-Length: 0", ""),
			phase:  attempt.Answered, status: 303, requests: 1,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRaw(t, tc.handle)
			o := newClient(t, &http.Transport{MaxResponseHeaderBytes: 64 << 10}).
				Send(t.Context(), post(s.url+"/x?key=S3CRET"), httpcall.SendOptions{Timeout: 2 * time.Second})
			require.Equal(t, tc.phase, o.Phase, "%v", o.Err)
			require.Equal(t, tc.status, o.Status)
			require.Equal(t, tc.requests, s.requests.Load())
			require.Equal(t, tc.phase != attempt.Answered, o.Err != nil)
			if tc.err != nil {
				require.ErrorIs(t, o.Err, tc.err)
			}
			require.Equal(t, tc.bodyErr != nil, o.BodyErr != nil)
			if tc.bodyErr != nil {
				require.ErrorIs(t, o.BodyErr, tc.bodyErr)
			}
			require.NotContains(t, fmt.Sprint(o.Err, o.BodyErr), "S3CRET")
			if tc.check != nil {
				tc.check(t, o)
			}
		})
	}
}

func waits(d time.Duration) func(*testing.T, httpcall.Outcome) {
	return func(t *testing.T, o httpcall.Outcome) {
		t.Helper()
		require.Equal(t, d, o.RetryAfter)
	}
}

func TestFailedConnectionIsNotSent(t *testing.T) {
	t.Parallel()
	closed := newRaw(t, func(*rawServer, *net.TCPConn, *bufio.Reader) {})
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	taken := "http://" + free.Addr().String()
	require.NoError(t, free.Close())
	noDNS := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "gone.example", IsNotFound: true}}
	}}
	hang := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	tests := map[string]struct {
		url       string
		transport *http.Transport
		timeout   bool
		cause     attempt.Cause
	}{
		"refused":               {url: taken, cause: attempt.NoConnection},
		"no such name":          {url: "https://gone.example/?key=S3CRET", transport: noDNS, cause: attempt.NoName},
		"a hanging dial":        {url: "https://slow.example/", transport: hang, timeout: true, cause: attempt.ConnectTimeout},
		"closed instead of TLS": {url: strings.Replace(closed.url, "http:", "https:", 1), cause: attempt.NoConnection},
		"HTTP instead of TLS":   {url: strings.Replace(plain.URL, "http:", "https:", 1), cause: attempt.NoTLS},
		"a bad certificate":     {url: secure.URL, cause: attempt.NoTLS},
		"a bad URL":             {url: "http://%zz/", cause: attempt.Ours},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := time.Minute
			if tc.timeout {
				limit = time.Second
			}
			o := newClient(t, tc.transport).Send(t.Context(), post(tc.url), httpcall.SendOptions{Timeout: limit})
			require.Equal(t, attempt.NotSent, o.Phase)
			require.Error(t, o.Err)
			require.NotContains(t, o.Err.Error(), "S3CRET")
			require.Equal(t, tc.timeout, o.Timeout)
			require.Equal(t, tc.cause, o.Cause)
		})
	}
}

// TestWriteIsNeverSentTwice is the trap in net/http: a server that keeps a connection,
// takes a second request on it, has its effect and drops the connection. A
// request that looks repeatable is sent again without a word.
func TestWriteIsNeverSentTwice(t *testing.T) {
	t.Parallel()
	drops := func(s *rawServer, conn *net.TCPConn, r *bufio.Reader) {
		for s.readRequest(r) {
			if s.requests.Load() == 2 {
				return
			}
			if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
				return
			}
		}
	}
	noBody := func(method string) func(string) *httpcall.Request {
		return func(url string) *httpcall.Request {
			return &httpcall.Request{Method: method, URL: url, Header: http.Header{}}
		}
	}
	tests := map[string]struct {
		request func(string) *httpcall.Request
		opt     httpcall.SendOptions
	}{
		"post with a body":              {post, httpcall.SendOptions{}},
		"post with a body and a key":    {post, httpcall.SendOptions{IdempotencyHeader: "Idempotency-Key", IdempotencyKey: "k"}},
		"post without a body":           {noBody(http.MethodPost), httpcall.SendOptions{}},
		"post without a body and a key": {noBody(http.MethodPost), httpcall.SendOptions{IdempotencyHeader: "Idempotency-Key", IdempotencyKey: "k"}},
		"delete and another key":        {noBody(http.MethodDelete), httpcall.SendOptions{IdempotencyHeader: "x-idempotency-key", IdempotencyKey: "k"}},
		"put without a body and a key":  {noBody(http.MethodPut), httpcall.SendOptions{IdempotencyHeader: "Idempotency-Key", IdempotencyKey: "k"}},
		"a key that is an argument": {func(url string) *httpcall.Request {
			return &httpcall.Request{Method: http.MethodPost, URL: url, Header: http.Header{"Idempotency-Key": {"k"}}}
		}, httpcall.SendOptions{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRaw(t, drops)
			c := newClient(t, nil)
			first := c.Send(t.Context(), tc.request(s.url), tc.opt)
			require.Equal(t, attempt.Answered, first.Phase)
			second := c.Send(t.Context(), tc.request(s.url), tc.opt)
			require.Equal(t, attempt.Sent, second.Phase)
			require.Equal(t, int32(1), s.conns.Load(), "both went over one connection")
			require.Equal(t, int32(2), s.requests.Load(), "the second request arrived exactly once")
		})
	}
}

// TestHTTP2WriteIsNeverSentTwice: over HTTP/2, net/http repeats a request without a body
// when the server resets its stream with PROTOCOL_ERROR, effect or not.
func TestHTTP2WriteIsNeverSentTwice(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]http2.ErrCode{"protocol error": http2.ErrCodeProtocol, "refused": http2.ErrCodeRefusedStream} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var effects atomic.Int32
			url := newHTTP2(t, func(f *http2.Framer, stream uint32) error {
				effects.Add(1)
				return f.WriteRSTStream(stream, code)
			})
			transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			o := newClient(t, transport).Send(t.Context(), &httpcall.Request{Method: http.MethodPost, URL: url, Header: http.Header{}},
				httpcall.SendOptions{Timeout: 5 * time.Second, IdempotencyHeader: "Idempotency-Key", IdempotencyKey: "k"})
			require.Equal(t, attempt.Sent, o.Phase, "%v", o.Err)
			require.Equal(t, int32(1), effects.Load())
		})
	}
}

// newHTTP2 serves HTTP/2 frame by frame; answer is called for each request.
func newHTTP2(t *testing.T, answer func(*http2.Framer, uint32) error) string {
	t.Helper()
	certificates := httptest.NewUnstartedServer(nil)
	certificates.EnableHTTP2 = true
	certificates.StartTLS()
	t.Cleanup(certificates.Close)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificates.TLS.Certificates, NextProtos: []string{"h2"}})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	serve := func(conn net.Conn) {
		defer conn.Close()
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(conn, conn)
		if err := f.WriteSettings(); err != nil {
			return
		}
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					err = f.WriteSettingsAck()
				}
			case *http2.HeadersFrame:
				err = answer(f, frame.StreamID)
			}
			if err != nil {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return "https://" + l.Addr().String()
}

// TestPrivateAddressIsRefused: what the egress guard refuses was never sent, and its
// reason stays in the chain.
func TestPrivateAddressIsRefused(t *testing.T) {
	t.Parallel()
	s := newRaw(t, func(s *rawServer, _ *net.TCPConn, r *bufio.Reader) { s.readRequest(r) })
	c, err := httpcall.NewClient(egress.NewClient(egress.Config{}), now)
	require.NoError(t, err)
	o := c.Send(t.Context(), post(s.url), httpcall.SendOptions{})
	require.Equal(t, attempt.NotSent, o.Phase)
	require.ErrorIs(t, o.Err, egress.ErrRefused)
	require.Zero(t, s.conns.Load())
}

func TestHeadersOnTheWire(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r
		w.Header().Set("X-Request-Id", "req_1")
	}))
	t.Cleanup(srv.Close)
	o := newClient(t, nil).Send(t.Context(), &httpcall.Request{Method: http.MethodPost, URL: srv.URL, Header: http.Header{}},
		httpcall.SendOptions{IdempotencyHeader: "Idempotency-Key", IdempotencyKey: "run-1"})
	require.NoError(t, o.Err)
	r := <-got
	require.Equal(t, "run-1", r.Header.Get("Idempotency-Key"))
	require.Equal(t, "agent-runtime/1.0", r.UserAgent())
	require.Equal(t, int64(0), r.ContentLength)
	require.Empty(t, r.TransferEncoding)
	require.Equal(t, "req_1", o.RequestID)
}

func TestOnlyReadsFollowRedirects(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	mux := http.NewServeMux()
	mux.Handle("/same", http.RedirectHandler("/end", http.StatusFound))
	mux.HandleFunc("/end", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	mux.Handle("/other", http.RedirectHandler(other.URL, http.StatusFound))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	tests := map[string]struct {
		request *httpcall.Request
		status  int
	}{
		"the same host":       {get(srv.URL + "/same"), 200},
		"without end":         {get(srv.URL + "/loop"), 302},
		"another host":        {get(srv.URL + "/other"), 302},
		"a read that is POST": {post(srv.URL + "/same"), 302},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newClient(t, nil).Send(t.Context(), tc.request, httpcall.SendOptions{Read: true})
			require.NoError(t, o.Err)
			require.Equal(t, tc.status, o.Status)
			require.Zero(t, elsewhere.Load())
		})
	}
}

func TestCompressedAnswerCountsUncompressed(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := z.Write(make([]byte, 32<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	}))
	t.Cleanup(srv.Close)
	o := newClient(t, nil).Send(t.Context(), get(srv.URL), httpcall.SendOptions{Read: true, MaxBytes: 1000})
	require.True(t, o.Truncated)
	require.Len(t, o.Body, 1000)
}

func TestCancelledAttemptIsNoTimeout(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := newRaw(t, func(s *rawServer, _ *net.TCPConn, r *bufio.Reader) {
		s.readRequest(r)
		cancel()
		_, _ = r.ReadByte()
	})
	o := newClient(t, nil).Send(ctx, post(s.url), httpcall.SendOptions{})
	require.Equal(t, attempt.Sent, o.Phase)
	require.ErrorIs(t, o.Err, context.Canceled)
	require.False(t, o.Timeout)
}

func TestResetIsNamedInTheOutcome(t *testing.T) {
	t.Parallel()
	s := newRaw(t, func(s *rawServer, conn *net.TCPConn, r *bufio.Reader) {
		s.readRequest(r)
		reset(conn)
	})
	o := newClient(t, nil).Send(t.Context(), post(s.url), httpcall.SendOptions{})
	require.True(t, errors.Is(o.Err, syscall.ECONNRESET) || errors.Is(o.Err, io.EOF), "%v", o.Err)
}
