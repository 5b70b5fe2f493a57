// Package port checks and picks the TCP ports of the development servers. Some
// of those servers end the whole process when their port is taken, so it is
// asked for first, and the answer says what to do.
package port

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Loopback is the only address that the development servers listen on unless
// the caller names another.
const Loopback = "127.0.0.1"

// Resolve checks that addr (host:port) can be listened on and returns it with an
// IP address as host and, in place of port 0, a free port. The port is free at
// the moment of the answer only: nothing reserves it.
func Resolve(what, addr string) (string, error) {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("%s: %q is not an address of the form host:port: %w", what, addr, err)
	}
	if tcp.IP == nil {
		tcp.IP = net.ParseIP(Loopback)
	}
	l, err := listen(tcp)
	if err != nil {
		return "", fmt.Errorf("%s: cannot listen on %s: %w; stop the program that has the port, or choose another, for example by make dev ARGS='--listen 127.0.0.1:0 --temporal 127.0.0.1:0 --temporal-ui 127.0.0.1:0' (port 0 picks a free one)",
			what, tcp, err)
	}
	defer l.Close() // nothing was accepted on it
	return l.Addr().String(), nil
}

// Picked ports lie below those that the kernel gives to outgoing connections (32768 and
// up on Linux). Another process could take one of those before the server listens, and
// Temporal's server would end.
const (
	lowest  = 15000
	highest = 32767
	tries   = 100
)

// picked are the ports that this process has picked. None is picked twice: the server that
// gets a port may not listen on it yet.
var picked sync.Map //nolint:gochecknoglobals // ports belong to the whole process

// listen listens on addr, and in place of port 0 on one that is picked.
func listen(addr *net.TCPAddr) (*net.TCPListener, error) {
	if addr.Port != 0 {
		return net.ListenTCP("tcp", addr)
	}
	for range tries {
		port := lowest + rand.IntN(highest-lowest+1) //nolint:gosec // no secret
		if _, before := picked.LoadOrStore(port, true); before {
			continue
		}
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: addr.IP, Zone: addr.Zone, Port: port})
		if err == nil {
			return l, nil
		}
	}
	return net.ListenTCP("tcp", addr)
}

// Free returns n different TCP ports of the loopback interface that are free now.
func Free(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := listen(&net.TCPAddr{IP: net.ParseIP(Loopback)})
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // kept open until all are found, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// Split returns host and port of an address that Resolve returned.
func Split(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("split %q: %w", addr, err)
	}
	port, err = strconv.Atoi(text)
	if err != nil {
		return "", 0, fmt.Errorf("split %q: %w", addr, err)
	}
	return host, port, nil
}
