package app

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// sourceShare is the part of all connections that one address may have: a quarter.
const sourceShare = 4

// refusedEvery is how often the log names refused connections.
const refusedEvery = 10 * time.Second

// connections accepts at most so many connections at once, and of one address a quarter of
// them. It closes others at once, so that the callers who wait in the queue of the system
// are not those of an attacker. Every connection costs memory and a file descriptor before
// anything is known of its caller.
type connections struct {
	net.Listener

	most int
	// many are networks whose addresses stand for many callers: proxies.
	many []netip.Prefix
	log  *slog.Logger
	now  func() time.Time

	mu      sync.Mutex
	open    int
	sources map[netip.Prefix]int
	refused int
	told    time.Time
}

func newConnections(l net.Listener, most int, proxies []netip.Prefix, log *slog.Logger) *connections {
	return &connections{Listener: l, most: most, many: proxies, log: log, now: time.Now, sources: map[netip.Prefix]int{}}
}

// Accept implements net.Listener.
func (c *connections) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, fmt.Errorf("app: accept: %w", err)
		}
		source := sourceOf(conn.RemoteAddr())
		if c.admit(source) {
			return &admitted{Conn: conn, leave: sync.OnceFunc(func() { c.leave(source) })}, nil
		}
		_ = conn.Close() // the caller is told nothing but that
	}
}

// sourceOf returns the network that counts as one address: an IPv4 address, or the /64 of an
// IPv6 address, which one machine has for itself.
func sourceOf(a net.Addr) netip.Prefix {
	from, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}
	}
	addr := from.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	source, _ := addr.Prefix(bits) // the bits fit
	return source
}

// shared reports whether the source stands for many callers: a trusted proxy, or a program
// on this machine.
func (c *connections) shared(source netip.Prefix) bool {
	return source.Addr().IsLoopback() || slices.ContainsFunc(c.many, func(p netip.Prefix) bool { return p.Contains(source.Addr()) })
}

func (c *connections) admit(source netip.Prefix) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open < c.most && (c.sources[source] < max(1, c.most/sourceShare) || c.shared(source)) {
		c.open++
		c.sources[source]++
		return true
	}
	c.refused++
	if now := c.now(); now.Sub(c.told) >= refusedEvery {
		c.log.Warn("connections refused: too many are open", "refused", c.refused, "open", c.open, "of_this_source", c.sources[source], "source", source.Addr().String())
		c.refused, c.told = 0, now
	}
	return false
}

func (c *connections) leave(source netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.sources[source]--; c.sources[source] == 0 {
		delete(c.sources, source)
	}
}

// admitted is a connection that counts until it is closed.
type admitted struct {
	net.Conn

	leave func()
}

// Close implements net.Conn.
func (a *admitted) Close() error {
	a.leave()
	return a.Conn.Close()
}
