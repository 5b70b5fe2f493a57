package credential_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/provider/credential"
)

func TestOriginOfURLHasOneForm(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://api.shop.test":             "https://api.shop.test",
		"HTTPS://API.Shop.test./v1?x=1":     "https://api.shop.test",
		"https://api.shop.test:443/v1":      "https://api.shop.test",
		"https://api.shop.test:0443/v1":     "https://api.shop.test",
		"https://api.shop.test:80":          "https://api.shop.test:80",
		"https://api.shop.test:8443":        "https://api.shop.test:8443",
		"http://127.0.0.1:80/":              "http://127.0.0.1",
		"http://127.0.0.1:9000":             "http://127.0.0.1:9000",
		"https://[0:0:0:0:0:0:0:1]:8443/x":  "https://[::1]:8443",
		"https://api.shop.test@evil.test/x": "https://evil.test",
		"https://api.shop.test:70000":       "",
		"ftp://api.shop.test":               "",
		"https:///x":                        "",
		"https:api.shop.test":               "",
		"api.shop.test":                     "",
		"":                                  "",
		"https://%zz":                       "",
	} {
		require.Equal(t, want, credential.OriginOf(raw), raw)
	}
}
