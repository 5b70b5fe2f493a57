package wire_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/api/wire"
	"agentruntime/internal/base/rate"
)

// pipeListener accepts connections that have no network in between, so that their
// deadlines run on the clock of a synctest bubble.
type pipeListener struct{ conns chan net.Conn }

func (l pipeListener) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l pipeListener) Close() error   { close(l.conns); return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// serve runs a handler in a server that allows one second for a call, and returns the
// client's end of a connection to it.
func serve(t *testing.T, h wire.Handler) net.Conn {
	t.Helper()
	listener := pipeListener{make(chan net.Conn, 1)}
	addresses, err := rate.NewAddresses(rate.AddressConfig{PerMinute: 1000, Loopback: 1000})
	require.NoError(t, err)
	server := &http.Server{
		Handler:     wire.Middleware(slog.New(slog.DiscardHandler), time.Now, nil, addresses, wire.Respond(h)),
		ReadTimeout: time.Second, WriteTimeout: time.Second,
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	client, end := net.Pipe()
	listener.conns <- end
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close() // it closes the listener once
		<-done
	})
	return client
}

func request(t *testing.T, conn net.Conn, in *bufio.Reader) *http.Response {
	t.Helper()
	_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	require.NoError(t, err)
	res, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	return res
}

// wait lets the time of the bubble pass.
func wait(d time.Duration) { <-time.NewTimer(d).C }

func chunks(n int) wire.Handler {
	return func(_ context.Context, c *wire.Call) (wire.Reply, error) {
		return wire.Reply{}, c.Stream(func(w io.Writer) error {
			for range n {
				if _, err := io.WriteString(w, strings.Repeat("x", 1000)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// A stream lasts longer than the server allows for a call, and its connection serves the
// next one.
func TestStreamOutlastsServerTimeouts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := serve(t, chunks(3))
		in := bufio.NewReader(conn)
		for range 2 {
			res := request(t, conn, in)
			for range 3 {
				wait(10 * time.Second)
				_, err := io.ReadFull(res.Body, make([]byte, 1000))
				require.NoError(t, err)
			}
			rest, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Empty(t, rest)
			require.NoError(t, res.Body.Close())
		}
	})
}

func TestStreamEndsWhenCallerStopsReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := serve(t, chunks(3))
		res := request(t, conn, bufio.NewReader(conn))
		defer res.Body.Close()
		wait(31 * time.Second)
		_, err := io.ReadAll(res.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
}

func TestFailedStreamClosesConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := serve(t, func(_ context.Context, c *wire.Call) (wire.Reply, error) {
			return wire.Reply{}, c.Stream(func(w io.Writer) error {
				_, _ = io.WriteString(w, "a part")
				return errors.New("the rest cannot be read")
			})
		})
		res := request(t, conn, bufio.NewReader(conn))
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, "a part", string(body))
	})
}
