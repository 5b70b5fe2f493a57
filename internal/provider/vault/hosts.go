package vault

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/fault"
)

// Limits on allowed_hosts.
const (
	maxHosts      = 20
	maxHostLength = 253 // RFC 1035
)

var hostPattern = regexp.MustCompile(`^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$`)

// parseHosts checks and normalises allowed_hosts: host names or addresses without scheme
// and path, and "*.example.com" for every host below a domain of at least two labels. Each
// may have a port; an IPv6 address with a port has brackets.
func parseHosts(hosts []string) ([]string, error) {
	if len(hosts) > maxHosts {
		return nil, fault.Invalid("/allowed_hosts", "maxItems", fmt.Sprintf("allowed_hosts must have at most %d entries.", maxHosts))
	}
	out := make([]string, 0, len(hosts))
	for i, h := range hosts {
		h = strings.ToLower(h)
		if !validHost(h) {
			return nil, fault.Invalid(fmt.Sprintf("/allowed_hosts/%d", i), "pattern",
				"A host is a name or address without scheme and path, or *.example.com. It may have a port: host:8443.")
		}
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out, nil
}

// validHost reports whether h (lower case) may stand in allowed_hosts.
func validHost(h string) bool {
	h, p := splitHost(h, "443")
	if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != p {
		return false
	}
	if len(h) > maxHostLength {
		return false
	}
	if _, err := netip.ParseAddr(h); err == nil {
		return true
	}
	domain, wildcard := strings.CutPrefix(h, "*.")
	if wildcard && !strings.Contains(domain, ".") {
		return false // "*.com" would be everyone
	}
	return hostPattern.MatchString(domain)
}

// hostMatches reports whether host is pattern, or lies below "*.domain". A wildcard never
// matches an address or the domain itself. It matches a wildcard below its domain.
func hostMatches(pattern, host string) bool {
	domain, wildcard := strings.CutPrefix(pattern, "*")
	if !wildcard {
		return host == pattern
	}
	return net.ParseIP(host) == nil && len(host) > len(domain) && strings.HasSuffix(host, domain)
}

// splitHost takes the port from an entry of allowed_hosts; an entry without one has the
// port given.
func splitHost(entry, otherwise string) (host, port string) {
	if h, p, err := net.SplitHostPort(entry); err == nil {
		return h, p
	}
	return entry, otherwise
}

// hostOf returns u's host in the form in which hosts are compared.
func hostOf(u *url.URL) string { return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".") }

// port returns u's port, or its scheme's own.
func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}
