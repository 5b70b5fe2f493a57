package app

import (
	"container/list"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// sourceShare is the part of all connections that one address may have: a quarter.
const sourceShare = 4

// reserved is the part of all connections that is kept for new callers: another quarter. Where the others
// are open, each closes after its answer. So those of a caller who only keeps them open are given back.
const reserved = 4

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

	mu   sync.Mutex
	open int
	// idle are those without a request, the longest first.
	idle    list.List
	waiting map[net.Conn]*list.Element // of idle
	sources map[netip.Prefix]int
	refused int
	told    time.Time
}

func newConnections(l net.Listener, most int, proxies []netip.Prefix, log *slog.Logger) *connections {
	return &connections{Listener: l, most: most, many: proxies, log: log, now: time.Now, sources: map[netip.Prefix]int{}, waiting: map[net.Conn]*list.Element{}}
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

// admit takes a place for a connection of the source. Where all are taken, the connection is closed that
// has been without a request for longest. One whose source has its quarter costs nobody their place.
func (c *connections) admit(source netip.Prefix) bool {
	c.mu.Lock()
	within := c.sources[source] < max(1, c.most/sourceShare) || c.shared(source)
	at := c.idle.Front()
	if !within || c.open >= c.most && at == nil {
		c.refuse(source)
		c.mu.Unlock()
		return false
	}
	var given net.Conn
	if c.open >= c.most {
		given = c.idle.Remove(at).(net.Conn)
		delete(c.waiting, given)
	}
	c.open++
	c.sources[source]++
	c.mu.Unlock()
	if given != nil {
		_ = given.Close() // which counts it off
	}
	return true
}

// refuse counts a refused connection, and logs now and then. The caller has the lock.
func (c *connections) refuse(source netip.Prefix) {
	c.refused++
	if now := c.now(); now.Sub(c.told) >= refusedEvery {
		c.log.Warn("connections refused: too many are open", "refused", c.refused, "open", c.open, "of_this_source", c.sources[source], "source", source.Addr().String())
		c.refused, c.told = 0, now
	}
}

// sparing has the connection closed after an answer while few are left.
func (c *connections) sparing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.crowded() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// note follows which connections have no request: their callers have their answers, or have not sent a whole
// request yet. Those who send none, or slowly, take nobody's place that way.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, is := c.waiting[conn]; is {
		c.idle.Remove(at)
		delete(c.waiting, conn)
	}
	if state == http.StateIdle || state == http.StateNew {
		c.waiting[conn] = c.idle.PushBack(conn)
	}
}

func (c *connections) crowded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open > c.most-c.most/reserved
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
