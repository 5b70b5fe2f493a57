package egress

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/fault"
)

// maxURL is the most bytes of an address that may be stored.
const maxURL = 2048

// maxName is the most characters of a host name (RFC 1035, section 2.3.4).
const maxName = 253

// hostName is a DNS name in ASCII. Names of hosts in use also contain underscores.
var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)

// privateZones are the domains that never have a public address. Their sources are RFC 6761
// (localhost, invalid), RFC 6762 (local), RFC 7686 (onion), RFC 8375 (home.arpa), and
// ICANN's decision of 2024 (internal). Cloud providers serve their metadata under internal.
func privateZones() []string {
	return []string{"localhost", "invalid", "local", "onion", "home.arpa", "internal"}
}

// CheckURL refuses an address that must not be stored as the target of calls. It is
// URL_NOT_ALLOWED unless it is https, without credentials and fragment, and its host may be
// public; see CheckHost. Plain http passes only to loopback, where that is open. CheckURL
// looks nothing up; the guard decides when the call is made.
func (c Config) CheckURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case len(raw) > maxURL:
		return refuse("The address is too long.")
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return refuse("The address is not an absolute URL.")
	case u.Scheme != "http" && u.Scheme != "https":
		return refuse("The address must begin with https.")
	case u.User != nil:
		return refuse("The address must not carry credentials.")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return refuse("The address must not have a fragment.")
	case !validPort(u):
		return refuse("The port of the address must be a number from 1 to 65535.")
	case u.Scheme == "http" && !c.isOpenLoopback(u.Hostname()):
		return refuse("The address must begin with https.")
	}
	return c.CheckHost(u.Hostname())
}

// CheckHost refuses a host that no call can reach, with URL_NOT_ALLOWED: an address that is
// not public, in any notation, and a name that never has a public address. An address in
// another notation than four decimal numbers is refused, because programs read it in
// different ways. Loopback passes where it is open.
func (c Config) CheckHost(host string) error {
	if c.isOpenLoopback(host) {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if !allowed(guardian(c), ip) {
			return refuse("The address is not public.")
		}
		return nil
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	switch {
	case len(name) > maxName || !hostName.MatchString(name):
		return refuse("The host is not a name in ASCII. Write an international name in its xn-- form.")
	case looksLikeNumber(name[strings.LastIndexByte(name, '.')+1:]):
		return refuse("The host is not a name. Write an address as four decimal numbers.")
	case !strings.Contains(name, "."), slices.ContainsFunc(privateZones(), func(zone string) bool { return inZone(name, zone) }):
		return refuse("The host is not public.")
	}
	return nil
}

func refuse(message string) error { return fault.New(fault.CodeURLNotAllowed, message) }

// validPort reports whether the address names a port that exists, or none.
func validPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.Atoi(u.Port())
	return err == nil && n >= 1 && n <= 65535
}

// looksLikeNumber reports whether the last label of a host makes it an address, as the URL
// standard (url.spec.whatwg.org) and inet_aton read it: digits, or 0x and hexadecimal digits.
func looksLikeNumber(label string) bool {
	digits, hex := strings.CutPrefix(label, "0x")
	if hex {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func inZone(name, zone string) bool { return name == zone || strings.HasSuffix(name, "."+zone) }

// isOpenLoopback reports whether the host is this machine, and calls to it are open.
func (c Config) isOpenLoopback(host string) bool {
	if !c.AllowLoopback {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}
