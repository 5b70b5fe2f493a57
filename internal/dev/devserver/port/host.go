package port

import (
	"io"
	"net"
	"net/http"
	"net/netip"
)

// IsLocalName reports whether the Host of a request names a machine by an IP address or as
// localhost, with or without a port.
func IsLocalName(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	_, err = netip.ParseAddr(host)
	return err == nil || host == "localhost"
}

// LocalNames returns a handler that serves next, and at a loopback address only to callers that
// name this machine by an IP address or as localhost. A page on the web can point a name of its
// own at the loopback address (DNS rebinding), and would be of one origin with next. At other
// addresses any name is served.
func LocalNames(addr string, next http.Handler) http.Handler {
	if at, err := netip.ParseAddrPort(addr); err != nil || !at.Addr().IsLoopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsLocalName(r.Host) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "This server is for this machine. Name it localhost or 127.0.0.1.\n") // the caller may be gone
			return
		}
		next.ServeHTTP(w, r)
	})
}
