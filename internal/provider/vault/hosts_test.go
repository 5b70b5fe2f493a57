package vault

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/fault"
)

func TestMaySend(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		allowed      []string
		base, target string
		want         bool
	}{
		"base host":                  {nil, "https://api.shop.test/v1", "https://api.shop.test/v1/orders", true},
		"base host, other case":      {nil, "https://API.shop.test", "https://api.SHOP.test./x", true},
		"base host, default port":    {nil, "https://api.shop.test", "https://api.shop.test:443/x", true},
		"base host, other port":      {nil, "https://api.shop.test", "https://api.shop.test:8443/x", false},
		"loopback port":              {nil, "http://127.0.0.1:9000", "http://127.0.0.1:9000/x", true},
		"other loopback port":        {nil, "http://127.0.0.1:9000", "http://127.0.0.1:9001/x", false},
		"another host":               {nil, "https://api.shop.test", "https://evil.test", false},
		"a host below":               {nil, "https://shop.test", "https://api.shop.test", false},
		"in the clear":               {nil, "https://api.shop.test", "http://api.shop.test", false},
		"allowed but in the clear":   {[]string{"up.shop.test"}, "https://api.shop.test", "http://up.shop.test", false},
		"upgrade":                    {nil, "http://api.shop.test", "https://api.shop.test", false},
		"user info is no host":       {nil, "https://api.shop.test", "https://api.shop.test@evil.test/", false},
		"allowed host":               {[]string{"up.shop.test"}, "https://api.shop.test", "https://up.shop.test", true},
		"allowed list replaces base": {[]string{"up.shop.test"}, "https://api.shop.test", "https://api.shop.test", false},
		"wildcard":                   {[]string{"*.shop.test"}, "https://api.shop.test", "https://a.b.shop.test", true},
		"wildcard is not the domain": {[]string{"*.shop.test"}, "https://api.shop.test", "https://shop.test", false},
		"wildcard needs the dot":     {[]string{"*.shop.test"}, "https://api.shop.test", "https://evilshop.test", false},
		"wildcard is a suffix only":  {[]string{"*.shop.test"}, "https://api.shop.test", "https://api.shop.test.evil.test", false},
		"wildcard, no empty label":   {[]string{"*.shop.test"}, "https://api.shop.test", "https://.shop.test", false},
		"address":                    {[]string{"10.0.0.7"}, "https://api.shop.test", "https://10.0.0.7", true},
		"no host":                    {nil, "https://api.shop.test", "https:///x", false},
		"another scheme":             {[]string{"api.shop.test"}, "https://api.shop.test", "ftp://api.shop.test", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, err := url.Parse(tt.base)
			require.NoError(t, err)
			target, err := url.Parse(tt.target)
			require.NoError(t, err)
			require.Equal(t, tt.want, MaySend(tt.allowed, base, target))
		})
	}
}

func TestParseHosts(t *testing.T) {
	t.Parallel()
	got, err := parseHosts([]string{"API.Shop.test", "*.shop.test", "api.shop.test", "10.0.0.1", "localhost", "::1"})
	require.NoError(t, err)
	require.Equal(t, []string{"api.shop.test", "*.shop.test", "10.0.0.1", "localhost", "::1"}, got)

	got, err = parseHosts(nil)
	require.NoError(t, err)
	require.NotNil(t, got)

	for _, bad := range []string{
		"", "*", "*.com", "*.*.shop.test", "a.*.test", "https://shop.test", "shop.test/", "shop.test:443", "user@shop.test",
		".shop.test", "shop..test", "shop.test.", "-a.test", "a_b.test", "shöp.test", "a b.test", "a\n.test", strings.Repeat("a.", 127) + "test",
	} {
		_, err := parseHosts([]string{bad})
		require.True(t, fault.HasCode(err, fault.CodeValidation), "%q", bad)
		require.Equal(t, "/allowed_hosts/0", fault.As(err).Details[0].Path)
	}
	_, err = parseHosts(make([]string, maxHosts+1))
	require.True(t, fault.HasCode(err, fault.CodeValidation))
}
