package credential

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// OriginOf returns the origin of an absolute http or https URL: scheme and host in lower
// case, and the port where it is not the scheme's own (RFC 6454, section 6.2). It returns ""
// for anything else, and for a port that does not exist.
func OriginOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "" {
		return ""
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		host = "[" + ip.String() + "]"
	}
	if u.Port() == "" {
		return u.Scheme + "://" + host
	}
	port, err := strconv.Atoi(u.Port())
	switch {
	case err != nil || port < 1 || port > 65535:
		return ""
	case u.Scheme == "https" && port == 443, u.Scheme == "http" && port == 80:
		return u.Scheme + "://" + host
	}
	return u.Scheme + "://" + host + ":" + strconv.Itoa(port)
}
