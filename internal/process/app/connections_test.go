package app

import (
	"io"
	"net"
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
