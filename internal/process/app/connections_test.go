package app

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// dialled is one end of a connection; the other is what the listener accepted.
type dialled struct {
	net.Conn

	from net.Addr
}

func (d dialled) RemoteAddr() net.Addr { return d.from }

// dials is a listener whose connections come from where a test says.
type dials chan net.Conn

func (d dials) Accept() (net.Conn, error) {
	conn, open := <-d
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (d dials) Close() error   { close(d); return nil }
func (d dials) Addr() net.Addr { return &net.TCPAddr{} }

// dial makes a connection from the address. The answer is the caller's end.
func (d dials) dial(from string) net.Conn {
	ours, theirs := net.Pipe()
	d <- dialled{theirs, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}
	return ours
}

func TestConnectionsBeyondTheLimitsAreClosed(t *testing.T) {
	t.Parallel()
	l := make(dials, 100)
	c := newConnections(l, 8, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, quiet())
	accepted := func(from string) net.Conn {
		t.Helper()
		l.dial(from)
		conn, err := c.Accept()
		require.NoError(t, err)
		return conn
	}
	// refused dials, and shows that the next connection is accepted in its place.
	refused := func(from string) {
		t.Helper()
		caller := l.dial(from)
		next := accepted("10.0.0.1:1")
		_, err := caller.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, next.Close())
	}

	first := accepted("192.0.2.1:1")
	accepted("192.0.2.1:2")
	refused("192.0.2.1:3")
	accepted("[2001:db8::1]:1")
	accepted("[2001:db8::2]:1")
	refused("[2001:db8::3]:1")
	require.NoError(t, first.Close())
	_ = first.Close() // counts once
	accepted("192.0.2.1:4")
	refused("192.0.2.1:5")

	for range 3 {
		accepted("10.9.9.9:1") // a proxy has no share of its own
	}
	last := accepted("192.0.2.2:1")
	caller := l.dial("192.0.2.3:1")
	require.NoError(t, l.Close())
	_, err := c.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = caller.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "all connections are in use")
	require.NoError(t, last.Close())
	require.Equal(t, 7, c.open)
}

// While few connections are left, each is closed after its answer.
func TestCrowdedConnectionsAreClosedAfterTheirAnswer(t *testing.T) {
	t.Parallel()
	c := newConnections(make(dials), 8, nil, quiet())
	answer := func() string {
		w := httptest.NewRecorder()
		c.sparing(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Header().Get("Connection")
	}
	source := netip.MustParsePrefix("127.0.0.1/32")
	for range 6 {
		require.True(t, c.admit(source))
	}
	require.Empty(t, answer())
	require.True(t, c.admit(source))
	require.Equal(t, "close", answer())
	c.leave(source)
	require.Empty(t, answer())
}

// One that sends no request, or keeps its connection after its answer, gives it back to a new caller. One
// that waits for its answer keeps it.
func TestConnectionWithoutARequestIsGivenBackToANewCaller(t *testing.T) {
	t.Parallel()
	l := make(dials, 100)
	c := newConnections(l, 4, nil, quiet())
	accepted := func(from string) (conn, caller net.Conn) {
		t.Helper()
		caller = l.dial(from)
		conn, err := c.Accept()
		require.NoError(t, err)
		c.note(conn, http.StateNew)
		return conn, caller
	}
	gone := func(conn, caller net.Conn) {
		t.Helper()
		_, err := caller.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		c.note(conn, http.StateClosed)
	}
	const proxy = "127.0.0.1:1"
	silent, left := accepted(proxy)
	answered, after := accepted(proxy)
	busy, _ := accepted(proxy)
	c.note(busy, http.StateActive)
	other, _ := accepted("192.0.2.1:1")
	c.note(other, http.StateActive)
	c.note(answered, http.StateActive)
	c.note(answered, http.StateIdle)

	// An address beyond its quarter is refused, and nobody loses their place for it.
	beyond := l.dial("192.0.2.1:2")
	next, _ := accepted(proxy)
	c.note(next, http.StateActive)
	_, err := beyond.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	gone(silent, left)
	require.Equal(t, 1, c.idle.Len(), "only the new caller has cost a place")

	last, _ := accepted("192.0.2.2:1")
	gone(answered, after)
	c.note(last, http.StateActive)
	require.Equal(t, 4, c.open)
	refused := l.dial(proxy)
	require.NoError(t, l.Close())
	_, err = c.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = refused.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "all have a request")
	require.NoError(t, busy.Close())
}
