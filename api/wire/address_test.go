package wire_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/api/wire"
)

func TestCallerOfTakesTheRightMostUntrustedAddress(t *testing.T) {
	t.Parallel()
	trusted := wire.Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:f::/48")}
	for name, c := range map[string]struct {
		peer string
		// forwarded are the lines of X-Forwarded-For.
		forwarded []string
		want      string
	}{
		"no header":                         {"10.0.0.1:9", nil, "10.0.0.1"},
		"an untrusted peer is not believed": {"192.0.2.1:9", []string{"203.0.113.9"}, "192.0.2.1"},
		"one hop":                           {"10.0.0.1:9", []string{"203.0.113.9"}, "203.0.113.9"},
		"what the caller invented does not count":    {"10.0.0.1:9", []string{"198.51.100.7, 203.0.113.9"}, "203.0.113.9"},
		"garbage of the caller's does not count":     {"10.0.0.1:9", []string{"garbage,, 203.0.113.9"}, "203.0.113.9"},
		"a long list of the caller's does not count": {"10.0.0.1:9", []string{strings.Repeat("1.1.1.1,", 9000) + "203.0.113.9"}, "203.0.113.9"},
		"trusted hops are passed":                    {"10.0.0.1:9", []string{"198.51.100.7, 203.0.113.9, 10.1.1.1, 10.2.2.2"}, "203.0.113.9"},
		"several lines are one list":                 {"10.0.0.1:9", []string{"198.51.100.7", "203.0.113.9, 10.1.1.1", "10.2.2.2"}, "203.0.113.9"},
		"spaces and tabs":                            {"10.0.0.1:9", []string{" \t203.0.113.9\t ,  10.2.2.2 "}, "203.0.113.9"},
		"a port":                                     {"10.0.0.1:9", []string{"203.0.113.9:1234"}, "203.0.113.9"},
		"IPv6":                                       {"10.0.0.1:9", []string{"2001:db8::1"}, "2001:db8::1"},
		"IPv6 with brackets":                         {"10.0.0.1:9", []string{"[2001:db8::1]"}, "2001:db8::1"},
		"IPv6 with brackets and a port":              {"10.0.0.1:9", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		"IPv6 with a zone":                           {"10.0.0.1:9", []string{"fe80::1%eth0"}, "fe80::1"},
		"IPv4 as IPv6":                               {"10.0.0.1:9", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		"a trusted hop as IPv6":                      {"10.0.0.1:9", []string{"203.0.113.9, ::ffff:10.1.1.1"}, "203.0.113.9"},
		"a peer as IPv6":                             {"[::ffff:10.0.0.1]:9", []string{"203.0.113.9"}, "203.0.113.9"},
		"an IPv6 peer":                               {"[2001:db8:f::5]:9", []string{"203.0.113.9"}, "203.0.113.9"},
		"an untrusted IPv6 peer":                     {"[2001:db8:e::5%eth0]:9", []string{"203.0.113.9"}, "2001:db8:e::5"},
		"all trusted":                                {"10.0.0.1:9", []string{"10.3.3.3, 10.2.2.2"}, "10.0.0.1"},
		"malformed":                                  {"10.0.0.1:9", []string{"203.0.113.9, unknown"}, "10.0.0.1"},
		"malformed behind a trusted hop":             {"10.0.0.1:9", []string{"203.0.113.9, unknown, 10.2.2.2"}, "10.0.0.1"},
		"an empty element":                           {"10.0.0.1:9", []string{"203.0.113.9,"}, "10.0.0.1"},
		"an empty line":                              {"10.0.0.1:9", []string{""}, "10.0.0.1"},
		"IPv4 with brackets":                         {"10.0.0.1:9", []string{"[203.0.113.9]"}, "10.0.0.1"},
		"a bracket too few":                          {"10.0.0.1:9", []string{"[2001:db8::1"}, "10.0.0.1"},
		"an address with leading zeros":              {"10.0.0.1:9", []string{"203.0.113.009"}, "10.0.0.1"},
		"a name":                                     {"10.0.0.1:9", []string{"localhost"}, "10.0.0.1"},
		"20 hops":                                    {"10.0.0.1:9", []string{"203.0.113.9" + strings.Repeat(", 10.2.2.2", 19)}, "203.0.113.9"},
		"21 hops":                                    {"10.0.0.1:9", []string{"203.0.113.9" + strings.Repeat(", 10.2.2.2", 20)}, "10.0.0.1"},
		"a peer that is no address":                  {"@", []string{"203.0.113.9"}, "@"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = c.peer
			r.Header["X-Forwarded-For"] = c.forwarded
			r.Header.Set("X-Real-IP", "192.0.2.200")
			r.Header.Set("Forwarded", "for=192.0.2.201")
			require.Equal(t, c.want, trusted.CallerOf(r))
		})
	}
}

func TestCallerOfWithoutTrustedProxiesIsThePeer(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "127.0.0.1:5"
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	require.Equal(t, "127.0.0.1", wire.Proxies(nil).CallerOf(r))
}
