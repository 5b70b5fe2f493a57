package taint_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/taint"
)

func TestAddressIsNamedOnlyByTheVeryAddress(t *testing.T) {
	t.Parallel()
	for args, c := range map[string]struct {
		named string
		want  string
	}{
		`{"url":"https://shop.example/a"}`:          {"Look at https://shop.example/a, please.", ""},
		`{"url":"https://Shop.Example/a/"}`:         {"(shop.example/a)", ""},
		`{"url":"https://shop.example/b?q=secret"}`: {"Look at https://shop.example/a", "shop.example/b?q=secret"},
		`{"url":"https://shop.example.evil.test"}`:  {"shop.example", "shop.example.evil.test"},
		`{"url":"https://shop.example@evil.test"}`:  {"shop.example", "shop.example@evil.test"},
		`{"url":"https://shop.example/A"}`:          {"https://shop.example/a", "shop.example/A"},
		`{"to":["x",{"host":"evil.test:8443"}]}`:    {"", "evil.test:8443"},
		`{"evil.test":1}`:                           {"", "evil.test"},
		`{"url":"//evil.test/x"}`:                   {"", "evil.test/x"},
		`{"url":"ftp://evil.test/x"}`:               {"http://evil.test/x", "ftp:/" + "/evil.test/x"},
		`{"url":"http://2130706433/"}`:              {"", "2130706433"},
		`{"url":"http://[::1]/x"}`:                  {"", "[::1]/x"},
		`{"host":"[::1]:80"}`:                       {"", "[::1]:80"},
		`{"url":"https://bücher.example"}`:          {"", "bücher.example"},
		`{"url":"https:evil.test"}`:                 {"", "https:evil.test"},
		`{"url":"evil。test"}`:                       {"", "evil。test"},
		`{"id":"order_7","n":1.5,"at":null}`:        {"", ""},
		`{"name":"Ada Lovelace"}`:                   {"", ""},
		`[`:                                         {"", ""},
	} {
		require.Equal(t, c.want, taint.Unnamed(json.RawMessage(args), "nothing", c.named), args)
	}
}
