package account

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
)

const (
	defaultPermission   = "agents:message"
	actionPermissions   = "actions:" // prefix of what makes a Runtime key
	defaultIdentityMode = "identified"

	maxOrigins   = 100
	maxNetworks  = 100
	maxOriginLen = 300 // a host name has at most 253 characters
	maxAgentID   = 255
)

// newKey checks what a key is created with, fills in the defaults and brings
// everything into the one form it is stored and compared in.
func newKey(in KeyInput, known []string, now time.Time) (Key, error) {
	key := Key{Name: in.Name, Status: KeyActive, Limits: in.Limits, ExpiresAt: in.ExpiresAt}
	if err := checkName(in.Name); err != nil {
		return Key{}, err
	}
	var err error
	if key.Permissions, err = permissions(in.Permissions, known); err != nil {
		return Key{}, err
	}
	runtime := isRuntime(key.Permissions)
	if key.AgentID, err = agentID(in.AgentID, runtime); err != nil {
		return Key{}, err
	}
	if key.IdentityMode, err = identityMode(in.IdentityMode, runtime); err != nil {
		return Key{}, err
	}
	if key.IdentityVerification = in.IdentityVerification; key.IdentityVerification && (key.IdentityMode == nil || *key.IdentityMode == "anonymous") {
		return Key{}, fault.Invalid("/identity_verification", "conflict", "identity_verification is for keys with the identity_mode identified or required.")
	}
	if key.AllowedOrigins, err = origins(in.AllowedOrigins); err != nil {
		return Key{}, err
	}
	if key.AllowedIPs, err = networks(in.AllowedIPs); err != nil {
		return Key{}, err
	}
	return key, checkExpiry(in.ExpiresAt, now)
}

// isRuntime reports whether a key with these permissions is a Runtime key.
func isRuntime(permissions []string) bool {
	return slices.ContainsFunc(permissions, func(p string) bool { return strings.HasPrefix(p, actionPermissions) })
}

// checkExpiry refuses a time that has passed. To end a key now, revoke it.
func checkExpiry(at *time.Time, now time.Time) error {
	if at != nil && !at.After(now) {
		return fault.Invalid("/expires_at", "minimum", "expires_at is in the future. To end a key now, revoke it.")
	}
	return nil
}

func permissions(given, known []string) ([]string, error) {
	if given == nil {
		return []string{defaultPermission}, nil
	}
	if len(given) == 0 {
		return nil, fault.Invalid("/permissions", "minItems", "permissions has at least one entry; leave it out for agents:message.")
	}
	out := make([]string, 0, len(known))
	for i, p := range given {
		if !slices.Contains(known, p) {
			return nil, fault.Invalid("/permissions/"+strconv.Itoa(i), "enum",
				"There is no such permission; the permissions are "+strings.Join(known, ", ")+"."+near.Sentence(p, known))
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, separate(out)
}

// calling are the permissions that lead to calls. Who manages an agent or a Map decides what
// it calls.
func calling() []string {
	return []string{"actions:run", "agents:message", "maps:trigger", "agents:manage", "maps:manage"}
}

// governing are the permissions over what calls are judged by and sent with.
func governing() []string {
	return []string{"providers:manage", "policies:manage", "credentials:manage", "customers:manage"}
}

// separate refuses a key that could both make calls and change what governs them: it could
// open for itself whatever is blocked. The refusal names both permissions.
func separate(given []string) error {
	calls := slices.IndexFunc(given, func(p string) bool { return slices.Contains(calling(), p) })
	governs := slices.IndexFunc(given, func(p string) bool { return slices.Contains(governing(), p) })
	if calls < 0 || governs < 0 {
		return nil
	}
	return fault.Invalid("/permissions/"+strconv.Itoa(max(calls, governs)), "conflict",
		"A key with "+given[governs]+" cannot also have "+given[calls]+". Create one key for each.")
}

// agentID checks the form of the lock to one agent. CreateKey looks whether the agent exists.
func agentID(given *string, runtime bool) (*string, error) {
	if given == nil {
		return nil, nil //nolint:nilnil // no lock is a value, not an error
	}
	if runtime {
		return nil, fault.Invalid("/agent_id", "not_for_runtime_keys", "A key with an actions permission takes no agent_id.")
	}
	visible := !strings.ContainsFunc(*given, func(r rune) bool { return r <= ' ' || r > '~' })
	if *given == "" || len(*given) > maxAgentID || !visible {
		return nil, fault.Invalid("/agent_id", "format", "agent_id has 1 to 255 visible ASCII characters.")
	}
	id := *given
	if parsed, err := uuid.Parse(id); err == nil {
		id = parsed.String() // the form in which the path's id is compared
	}
	return &id, nil
}

func identityMode(given *string, runtime bool) (*string, error) {
	switch {
	case given == nil && runtime:
		return nil, nil //nolint:nilnil // a Runtime key has none
	case given == nil:
		mode := defaultIdentityMode
		return &mode, nil
	case runtime:
		return nil, fault.Invalid("/identity_mode", "not_for_runtime_keys", "A key with an actions permission takes no identity_mode.")
	}
	mode := strings.ToLower(*given)
	if modes := []string{"anonymous", "identified", "required"}; !slices.Contains(modes, mode) {
		return nil, fault.Invalid("/identity_mode", "enum", near.Enum("identity_mode", mode, modes...))
	}
	return &mode, nil
}

func origins(given []string) ([]string, error) {
	if len(given) > maxOrigins {
		return nil, fault.Invalid("/allowed_origins", "maxItems", "allowed_origins has at most 100 entries.")
	}
	out := make([]string, 0, len(given))
	for i, o := range given {
		normal, ok := origin(o)
		if !ok {
			return nil, fault.Invalid("/allowed_origins/"+strconv.Itoa(i), "format",
				"An origin has the form scheme://host or scheme://host:port, for example https://app.example.com.")
		}
		if !slices.Contains(out, normal) {
			out = append(out, normal)
		}
	}
	return out, nil
}

// networks reads addresses and networks into the form in which they are stored and shown.
func networks(given []string) ([]string, error) {
	if len(given) > maxNetworks {
		return nil, fault.Invalid("/allowed_ips", "maxItems", "allowed_ips has at most 100 entries.")
	}
	out := make([]string, 0, len(given))
	for i, text := range given {
		network, ok := network(text)
		if !ok {
			return nil, fault.Invalid("/allowed_ips/"+strconv.Itoa(i), "format",
				"An entry is an address or a network, for example 203.0.113.7 or 203.0.113.0/24 or 2001:db8::/32. A network has no bits behind its prefix.")
		}
		if !slices.Contains(out, network) {
			out = append(out, network)
		}
	}
	return out, nil
}

// network returns an address or a network in CIDR form. IPv4 has only one form: callers are
// compared in it too.
func network(text string) (string, bool) {
	if address, err := netip.ParseAddr(text); err == nil {
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()).String(), address.Zone() == ""
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() || prefix != prefix.Masked() {
		return "", false
	}
	return prefix.String(), true
}

// hostName is a DNS name in ASCII (xn-- for the others), as browsers send it.
var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)

// origin returns an origin as a browser serialises it: lower case and without the
// scheme's default port (RFC 6454, section 6).
func origin(given string) (string, bool) {
	lower := strings.ToLower(given)
	u, err := url.Parse(lower)
	if err != nil || len(given) > maxOriginLen || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != lower {
		return "", false
	}
	host, port := u.Hostname(), u.Port()
	if strings.HasSuffix(u.Host, ":") {
		return "", false
	}
	if strings.HasPrefix(u.Host, "[") {
		addr, err := netip.ParseAddr(host)
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", false
		}
		host = "[" + addr.String() + "]"
	} else if len(host) > 253 || !hostName.MatchString(host) {
		return "", false
	}
	if port != "" {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 65535 {
			return "", false
		}
		port = strconv.Itoa(n)
	}
	if port == "" || u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		return u.Scheme + "://" + host, true
	}
	return u.Scheme + "://" + host + ":" + port, true
}
