package vault

import (
	"cmp"
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/credential"
)

// reach is where a credential may be sent: to its origin, or, where it has allowed hosts, to
// those in place of it.
type reach struct {
	origin string // "" where the credential is not bound yet; then it may go nowhere
	hosts  []string
}

// maySend reports whether the credential may go to target. A host without a port means the
// port of the origin. A credential that is bound to https never leaves in the clear.
func (r reach) maySend(target *url.URL) bool {
	origin, err := url.Parse(r.origin)
	if err != nil || r.origin == "" || origin.Scheme == "https" && target.Scheme != "https" {
		return false
	}
	to := credential.OriginOf(target.String())
	if to == "" || target.User != nil {
		return false
	}
	if len(r.hosts) == 0 {
		return to == credential.OriginOf(r.origin)
	}
	return slices.ContainsFunc(r.hosts, func(pattern string) bool {
		host, p := splitHost(pattern, port(origin))
		return p == port(target) && hostMatches(host, hostOf(target))
	})
}

// covers reports whether the credential could already be sent wherever one with these hosts
// in place of its own could be.
func (r reach) covers(hosts []string) bool {
	origin, err := url.Parse(r.origin)
	if err != nil || r.origin == "" {
		return len(hosts) == 0 && len(r.hosts) == 0
	}
	own := []string{origin.Hostname()}
	if len(hosts) == 0 {
		hosts = own
	}
	has := r.hosts
	if len(has) == 0 {
		has = own
	}
	return !slices.ContainsFunc(hosts, func(wanted string) bool {
		host, p := splitHost(wanted, port(origin))
		return !slices.ContainsFunc(has, func(pattern string) bool {
			domain, q := splitHost(pattern, port(origin))
			return p == q && hostMatches(domain, host)
		})
	})
}

// needsUser returns the refusal of a change that widens where a credential may be sent. Only
// users may do that: a key could otherwise have secrets sent elsewhere that it cannot read.
// The route table says which users.
func needsUser(who actor.Actor, what string) error {
	if who.Kind == actor.User {
		return nil
	}
	return fault.New(fault.CodeInsufficientPermissions, what+" An owner or an admin does that with a JWT; a key can only narrow where a credential may be sent.")
}

// parseOrigin returns an origin that a caller names in its one form. URL_NOT_ALLOWED where no
// call can go there.
func (v *Vault) parseOrigin(raw string) (string, error) {
	u, err := url.Parse(raw)
	origin := credential.OriginOf(raw)
	if err != nil || origin == "" || u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.User != nil || strings.Contains(raw, "#") {
		return "", fault.Invalid("/origin", "format", "origin has the form https://host or https://host:port.")
	}
	return origin, v.checkURL(raw)
}

// checkHosts refuses hosts that no call can reach: URL_NOT_ALLOWED.
func (v *Vault) checkHosts(hosts []string) error {
	for _, h := range hosts {
		host, p := splitHost(strings.TrimPrefix(h, "*."), "")
		if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
			host = "[" + host + "]"
		}
		if p != "" {
			host += ":" + p
		}
		if err := v.checkURL("https://" + host); err != nil {
			if f := fault.As(err); f != nil {
				return fault.Newf(f.Code, "allowed_hosts: %s cannot be called. %s", h, f.Message)
			}
			return err
		}
	}
	return nil
}

// Bounds of Unreached.
const (
	unreachedCredentials = 100
	unreachedOrigins     = maxHosts // the most that a credential can allow
)

// Unreached is a credential that may not be sent to all servers of its provider.
type Unreached struct {
	ID         uuid.UUID
	Label      string
	CustomerID string   // "" is the tenant's own
	Origins    []string // those to which it may not be sent, at most 20
}

// Unreached returns which of the provider's newest 100 active credentials may not be sent to all
// of the servers. A credential without an origin counts as bound to that of bound, and where
// bound is "" as not to be sent at all.
func (v *Vault) Unreached(ctx context.Context, tenant uuid.UUID, provider, bound string, servers []string) ([]Unreached, error) {
	page, _, err := v.List(ctx, tenant, Filter{Provider: provider, Status: string(StatusActive), Limit: unreachedCredentials})
	if err != nil {
		return nil, err
	}
	var out []Unreached
	for _, c := range page {
		u := Unreached{ID: c.ID, Label: c.Label, CustomerID: c.CustomerID}
		r := reach{origin: cmp.Or(c.Origin, credential.OriginOf(bound)), hosts: c.AllowedHosts}
		for _, server := range servers {
			target, err := url.Parse(server)
			origin := credential.OriginOf(server)
			if err != nil || r.maySend(target) || slices.Contains(u.Origins, origin) {
				continue
			}
			if u.Origins = append(u.Origins, origin); len(u.Origins) == unreachedOrigins {
				break
			}
		}
		if len(u.Origins) > 0 {
			out = append(out, u)
		}
	}
	return out, nil
}
