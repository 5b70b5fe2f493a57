package port_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/devserver/port"
)

func TestPickedPortsAreNotThoseOfOutgoingConnections(t *testing.T) {
	t.Parallel()
	ports, err := port.Free(20)
	require.NoError(t, err)
	seen := map[int]bool{}
	for _, p := range ports {
		require.Less(t, p, 32768)
		require.GreaterOrEqual(t, p, 1024)
		require.False(t, seen[p])
		seen[p] = true
	}
	addr, err := port.Resolve("x", "127.0.0.1:0")
	require.NoError(t, err)
	_, n, err := port.Split(addr)
	require.NoError(t, err)
	require.Less(t, n, 32768)
}

func TestPortTakenIsReported(t *testing.T) {
	t.Parallel()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(port.Loopback)})
	require.NoError(t, err)
	defer l.Close()
	_, err = port.Resolve("x", l.Addr().String())
	require.ErrorContains(t, err, "x: cannot listen on 127.0.0.1:"+strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}
