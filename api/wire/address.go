package wire

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the networks of the proxies in front of the service. Only they are believed
// when they say in X-Forwarded-For from where a request came.
type Proxies []netip.Prefix

// maxHops is the most proxies in a row that a request may pass. Real chains have two or
// three; the bound keeps a long header cheap.
const maxHops = 20

// CallerOf returns the address from which the request comes. That is the peer of the
// connection, unless the peer is a trusted proxy. Then it is the right-most address of
// X-Forwarded-For that is no trusted proxy: each proxy appends the address that it saw, so
// the caller may have invented what is left of it. It is the peer too where the addresses up
// to that one are malformed or more than maxHops, and where all of them are trusted.
// Forwarded and X-Real-IP are not read. The address has no port, brackets or zone, and an
// IPv4 address has its own form. A peer that is no IP address is returned as it is.
func (p Proxies) CallerOf(r *http.Request) string {
	peer, ok := addressOf(r.RemoteAddr)
	if !ok {
		return r.RemoteAddr
	}
	if !p.has(peer) {
		return peer.String()
	}
	lines := r.Header.Values("X-Forwarded-For")
	hops := 0
	for _, line := range slices.Backward(lines) { // several lines are one list, in their order
		for more := true; more; {
			var hop string
			line, hop, more = cutLast(line)
			if hops++; hops > maxHops {
				return peer.String()
			}
			switch address, ok := addressOf(hop); {
			case !ok:
				return peer.String()
			case !p.has(address):
				return address.String()
			}
		}
	}
	return peer.String()
}

func (p Proxies) has(address netip.Addr) bool {
	for _, network := range p {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// cutLast takes the last element from a list with commas.
func cutLast(list string) (before, last string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return "", strings.Trim(list, " \t"), false
	}
	return list[:i], strings.Trim(list[i+1:], " \t"), true
}

// addressOf reads an address as proxies and net/http write it: with a port or without, and
// IPv6 with brackets or without.
func addressOf(text string) (netip.Addr, bool) {
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return plain(withPort.Addr()), true
	}
	if inner, found := strings.CutPrefix(text, "["); found {
		if text, found = strings.CutSuffix(inner, "]"); !found || !strings.Contains(text, ":") {
			return netip.Addr{}, false
		}
	}
	address, err := netip.ParseAddr(text)
	return plain(address), err == nil
}

func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
