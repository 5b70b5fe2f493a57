package vault

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

func TestCredentialIsSentToItsOriginOrHostsOnly(t *testing.T) {
	t.Parallel()
	shop := "https://api.shop.test"
	tests := map[string]struct {
		allowed        []string
		origin, target string
		want           bool
	}{
		"origin":                       {nil, shop, "https://api.shop.test/v1/orders", true},
		"origin, other case":           {nil, shop, "https://api.SHOP.test./x", true},
		"origin, default port":         {nil, shop, "https://api.shop.test:443/x", true},
		"origin, other port":           {nil, shop, "https://api.shop.test:8443/x", false},
		"loopback port":                {nil, "http://127.0.0.1:9000", "http://127.0.0.1:9000/x", true},
		"other loopback port":          {nil, "http://127.0.0.1:9000", "http://127.0.0.1:9001/x", false},
		"another host":                 {nil, shop, "https://evil.test", false},
		"a host below":                 {nil, "https://shop.test", "https://api.shop.test", false},
		"in the clear":                 {nil, shop, "http://api.shop.test", false},
		"allowed but in the clear":     {[]string{"up.shop.test"}, shop, "http://up.shop.test", false},
		"upgrade":                      {nil, "http://api.shop.test", "https://api.shop.test", false},
		"user info is no host":         {nil, shop, "https://api.shop.test@evil.test/", false},
		"user info":                    {nil, shop, "https://x@api.shop.test/", false},
		"allowed host":                 {[]string{"up.shop.test"}, shop, "https://up.shop.test", true},
		"allowed list replaces origin": {[]string{"up.shop.test"}, shop, "https://api.shop.test", false},
		"allowed host, other port":     {[]string{"up.shop.test"}, shop, "https://up.shop.test:8443", false},
		"allowed host and port":        {[]string{"up.shop.test:8443"}, shop, "https://up.shop.test:8443", true},
		"allowed port only":            {[]string{"up.shop.test:8443"}, shop, "https://up.shop.test", false},
		"port of the origin":           {[]string{"127.0.0.1"}, "http://localhost:9000", "http://127.0.0.1:9000", true},
		"not the port of the origin":   {[]string{"127.0.0.1"}, "http://localhost:9000", "http://127.0.0.1:9001", false},
		"IPv6 with port":               {[]string{"[2a00::1]:8443"}, shop, "https://[2a00::1]:8443/x", true},
		"wildcard":                     {[]string{"*.shop.test"}, shop, "https://a.b.shop.test", true},
		"wildcard, other port":         {[]string{"*.shop.test"}, shop, "https://a.shop.test:444", false},
		"wildcard is not the domain":   {[]string{"*.shop.test"}, shop, "https://shop.test", false},
		"wildcard needs the dot":       {[]string{"*.shop.test"}, shop, "https://evilshop.test", false},
		"wildcard is a suffix only":    {[]string{"*.shop.test"}, shop, "https://api.shop.test.evil.test", false},
		"wildcard, no empty label":     {[]string{"*.shop.test"}, shop, "https://.shop.test", false},
		"address":                      {[]string{"10.0.0.7"}, shop, "https://10.0.0.7", true},
		"no host":                      {nil, shop, "https:///x", false},
		"another scheme":               {[]string{"api.shop.test"}, shop, "ftp://api.shop.test", false},
		"not bound":                    {nil, "", "https://api.shop.test", false},
		"not bound, with hosts":        {[]string{"api.shop.test"}, "", "https://api.shop.test", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target, err := url.Parse(tt.target)
			require.NoError(t, err)
			require.Equal(t, tt.want, reach{origin: tt.origin, hosts: tt.allowed}.maySend(target))
		})
	}
}

func TestReachCoversWhatIsNarrower(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		has, wanted []string
		want        bool
	}{
		"the same":                        {[]string{"a.test"}, []string{"a.test"}, true},
		"fewer":                           {[]string{"a.test", "b.test"}, []string{"b.test"}, true},
		"one more":                        {[]string{"a.test"}, []string{"a.test", "b.test"}, false},
		"below a wildcard":                {[]string{"*.shop.test"}, []string{"up.shop.test"}, true},
		"a wildcard below a wildcard":     {[]string{"*.shop.test"}, []string{"*.eu.shop.test"}, true},
		"the same wildcard":               {[]string{"*.shop.test"}, []string{"*.shop.test"}, true},
		"a wider wildcard":                {[]string{"*.eu.shop.test"}, []string{"*.shop.test"}, false},
		"a wildcard of one host":          {[]string{"eu.shop.test"}, []string{"*.shop.test"}, false},
		"another port":                    {[]string{"a.test"}, []string{"a.test:8443"}, false},
		"the origin's port, named":        {[]string{"a.test"}, []string{"a.test:443"}, true},
		"none to the origin's host":       {nil, []string{"api.shop.test"}, true},
		"none to another":                 {nil, []string{"evil.test"}, false},
		"none to none":                    {nil, nil, true},
		"the origin is among the hosts":   {[]string{"api.shop.test", "b.test"}, nil, true},
		"the origin is not one of them":   {[]string{"b.test"}, nil, false},
		"the origin is below a wildcard":  {[]string{"*.shop.test"}, []string{}, true},
		"the origin has another port now": {[]string{"api.shop.test:8443"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, reach{origin: "https://api.shop.test", hosts: tt.has}.covers(tt.wanted))
		})
	}
	require.True(t, reach{}.covers(nil))
	require.False(t, reach{}.covers([]string{"a.test"}))
}

func TestParseHosts(t *testing.T) {
	t.Parallel()
	got, err := parseHosts([]string{"API.Shop.test", "*.shop.test", "api.shop.test", "10.0.0.1", "localhost", "::1", "Up.shop.test:8443", "[::1]:8443"})
	require.NoError(t, err)
	require.Equal(t, []string{"api.shop.test", "*.shop.test", "10.0.0.1", "localhost", "::1", "up.shop.test:8443", "[::1]:8443"}, got)

	got, err = parseHosts(nil)
	require.NoError(t, err)
	require.NotNil(t, got)

	for _, bad := range []string{
		"", "*", "*.com", "*.*.shop.test", "a.*.test", "https://shop.test", "shop.test/", "shop.test:", "shop.test:0", "shop.test:65536", "shop.test:0443", "shop.test:x", "user@shop.test",
		".shop.test", "shop..test", "shop.test.", "-a.test", "a_b.test", "shöp.test", "a b.test", "a\n.test", strings.Repeat("a.", 127) + "test",
	} {
		_, err := parseHosts([]string{bad})
		require.True(t, fault.HasCode(err, fault.CodeValidation), "%q", bad)
		require.Equal(t, "/allowed_hosts/0", fault.As(err).Details[0].Path)
	}
	_, err = parseHosts(make([]string, maxHosts+1))
	require.True(t, fault.HasCode(err, fault.CodeValidation))
}
