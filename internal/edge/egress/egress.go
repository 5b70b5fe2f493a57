// Package egress has the one HTTP client for calls to addresses that a tenant may choose
// (providers, webhooks, fetched pages, OAuth). It refuses addresses that are not public.
// It does so when it dials, after the name was resolved. So a name that changes its
// address between check and use gains nothing. The client ignores proxy variables and
// follows no redirect: each caller decides about those.
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// Defaults of a client. Nothing here bounds a whole call: the caller's context
// does.
const (
	dialTimeout         = 10 * time.Second
	handshakeTimeout    = 10 * time.Second
	idleTimeout         = 30 * time.Second
	maxIdle             = 512
	maxIdlePerHost      = 64
	maxResponseHeaders  = 256 << 10 // bytes
	keepAliveProbeEvery = 15 * time.Second
)

// ErrRefused is in the chain of a dial that the guard refused.
var ErrRefused = errors.New("the address is not public")

// Config says what a client may reach.
type Config struct {
	// AllowLoopback opens 127.0.0.0/8 and ::1, and plain http to them. For
	// development and tests.
	AllowLoopback bool
}

// NewClient returns a client that reaches public addresses only. It has no
// timeout of its own: give each request a context that ends.
func NewClient(cfg Config) *http.Client {
	return &http.Client{
		Transport: NewTransport(cfg),
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

// NewUnguarded returns a client that reaches every address, for those that the operator has listed. It
// ignores proxy variables and follows no redirect, so it goes nowhere else.
func NewUnguarded() *http.Client {
	transport := NewTransport(Config{})
	transport.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAliveProbeEvery}).DialContext
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// NewTransport returns the transport of NewClient, for callers that wrap it.
func NewTransport(cfg Config) *http.Transport {
	dialer := &net.Dialer{
		Timeout:        dialTimeout,
		KeepAlive:      keepAliveProbeEvery,
		ControlContext: Guard(cfg),
	}
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxResponseHeaderBytes: maxResponseHeaders,
	}
}

// Guard returns the check of the very address that is about to be dialed, for a
// net.Dialer's ControlContext.
func Guard(cfg Config) func(context.Context, string, string, syscall.RawConn) error {
	rules := guardian(cfg)
	return func(_ context.Context, network, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: it cannot be read", ErrRefused)
		}
		if network != "tcp4" && network != "tcp6" {
			return fmt.Errorf("%w: only TCP is dialed", ErrRefused)
		}
		if !allowed(rules, at.Addr()) {
			return ErrRefused
		}
		return nil
	}
}

// allowed judges an address. One that carries an IPv4 address inside counts as
// that too, so that no notation of a private address passes.
func allowed(rules *ssrf.Guardian, ip netip.Addr) bool {
	if ip.Zone() != "" {
		return false
	}
	return rules.SafeAddr(ip.Unmap()) == nil
}

// guardian adds the ranges that the list of ssrf v0.3 lacks or leaves to the
// check of global unicast, named so that a change there opens nothing.
func guardian(cfg Config) *ssrf.Guardian {
	options := []ssrf.Option{
		ssrf.WithAnyPort(),
		ssrf.WithNetworks("tcp4", "tcp6"),
		ssrf.WithDeniedV4Prefixes(prefixes(
			"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
			"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
			"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		)...),
		ssrf.WithDeniedV6Prefixes(prefixes(
			"::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23",
			"2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7",
			"fe80::/10", "fec0::/10", "ff00::/8",
		)...),
	}
	if cfg.AllowLoopback {
		options = append(options,
			ssrf.WithAllowedV4Prefixes(prefixes("127.0.0.0/8")...),
			ssrf.WithAllowedV6Prefixes(prefixes("::1/128")...),
		)
	}
	return ssrf.New(options...)
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}
