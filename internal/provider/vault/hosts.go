package vault

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"agentruntime/internal/kernel/fault"
)

// Limits on allowed_hosts.
const (
	maxHosts      = 20
	maxHostLength = 253 // RFC 1035
)

var hostPattern = regexp.MustCompile(`^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$`)

// parseHosts checks and normalises allowed_hosts: host names or addresses
// without scheme, port or path, and "*.example.com" for every host below a
// domain of at least two labels.
func parseHosts(hosts []string) ([]string, error) {
	if len(hosts) > maxHosts {
		return nil, fault.Invalid("/allowed_hosts", "maxItems", fmt.Sprintf("allowed_hosts must have at most %d entries.", maxHosts))
	}
	out := make([]string, 0, len(hosts))
	for i, h := range hosts {
		h = strings.ToLower(h)
		if !validHost(h) {
			return nil, fault.Invalid(fmt.Sprintf("/allowed_hosts/%d", i), "pattern",
				"A host is a name or address without scheme, port or path, or *.example.com.")
		}
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out, nil
}

// validHost reports whether h (lower case) may stand in allowed_hosts.
func validHost(h string) bool {
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

// MaySend reports whether a credential with these allowed hosts may go to
// target. Without allowed hosts that is the origin of the provider's base URL
// only, port included. A credential never leaves in the clear for a provider
// whose base URL is https.
func MaySend(allowed []string, base, target *url.URL) bool {
	if base.Scheme == "https" && target.Scheme != "https" {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(target.Hostname()), ".")
	if len(allowed) == 0 {
		return host != "" && target.Scheme == base.Scheme && host == strings.TrimSuffix(strings.ToLower(base.Hostname()), ".") && port(base) == port(target)
	}
	return slices.ContainsFunc(allowed, func(pattern string) bool { return hostMatches(pattern, host) })
}

// hostMatches reports whether host is pattern, or lies below "*.domain". A
// wildcard never matches an address or the domain itself.
func hostMatches(pattern, host string) bool {
	domain, wildcard := strings.CutPrefix(pattern, "*")
	if !wildcard {
		return host == pattern
	}
	return net.ParseIP(host) == nil && len(host) > len(domain) && strings.HasSuffix(host, domain)
}

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
