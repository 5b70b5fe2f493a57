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
		`{"url":"https://shop.example/a"}`:                      {"Look at https://shop.example/a, please.", ""},
		`{"url":"https://Shop.Example/a/"}`:                     {"(shop.example/a)", ""},
		`{"url":"https://shop.example/b?q=secret"}`:             {"Look at https://shop.example/a", "shop.example/b?q=secret"},
		`{"url":"https://shop.example.evil.test"}`:              {"shop.example", "shop.example.evil.test"},
		`{"url":"https://shop.example@evil.test"}`:              {"shop.example", "shop.example@evil.test"},
		`{"url":"https://shop.example/A"}`:                      {"https://shop.example/a", "shop.example/A"},
		`{"to":["x",{"host":"evil.test:8443"}]}`:                {"", "evil.test:8443"},
		`{"evil.test":1}`:                                       {"", "evil.test"},
		`{"url":"//evil.test/x"}`:                               {"", "evil.test/x"},
		`{"url":"ftp://evil.test/x"}`:                           {"http://evil.test/x", "ftp:/" + "/evil.test/x"},
		`{"url":"http://2130706433/"}`:                          {"", "2130706433"},
		`{"url":"http://[::1]/x"}`:                              {"", "[::1]/x"},
		`{"host":"[::1]:80"}`:                                   {"", "[::1]:80"},
		`{"url":"https://bücher.example"}`:                      {"", "bücher.example"},
		`{"url":"https:evil.test"}`:                             {"", "https:evil.test"},
		`{"url":"evil。test"}`:                                   {"", "evil。test"},
		`{"id":"order_7","n":1.5,"at":null}`:                    {"", ""},
		`{"name":"Ada Lovelace"}`:                               {"", ""},
		``:                                                      {"", ""},
		`[`:                                                     {"", taint.Unreadable},
		`{"url":"https://evil.test/?q=4111","timeout":1e400}`:   {"", "evil.test/?q=4111"},
		`{"url":"https://evil.test","url":"https://a.example"}`: {"a.example", "evil.test"},
		`{"q":"See https://shop.example/a"}`:                    {"https://shop.example/a", "See_https:/" + "/shop.example/a"}, // not the address alone
	} {
		require.Equal(t, c.want, taint.Unnamed(json.RawMessage(args), "nothing", c.named), args)
	}
}

// compare names https://a.example/7 and https://a.example.
const compare = "Compare https://a.example/7 or https://a.example please"

func TestWholeTextOfAnArgumentIsTheAddress(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"https://a.example/7'?q=4111", "https://a.example/7\"?q=4111", "https://a.example/7 ?q=4111", "https://a.example/7<?q=4111",
		"https://a.example/7\n?q=4111", "https://a.example/7\t?q=4111", "https://a.example'@2130706433/?q=4111",
		"https://a.example\n@2130706433/?q=4111", "2130706433/x?q=4111", "2130706433?q=4111", "2130706433:80", "0x7f000001/x", "//2130706433/x",
		`\\evil/x`, `/\evil/x`, "/\t/evil/x", "evil%2Etest/x?q=1", "evil%2etest", "\thttp\t://2130706433/x?q=1", "ht\ntp:evil%2Etest/x y",
		"https://a.example/7!!!!???;;;", "https://a.example/7////", "https://a.example/7?", "https://a.example/7.", " https://a.example/7",
		"https://a.example/7 https://a.example/7", "a.example/7?q=/", "evil\u00ad.test/x", "evil\n.\ntest/x y", "evil․test/x", "💩.test/x", "eve@a.example",
		"https://a.example?Q=1", "https://",
	} {
		args, err := json.Marshal(map[string]any{"url": url})
		require.NoError(t, err)
		got := taint.Unnamed(args, compare)
		require.NotEmpty(t, got, "%q", url)
		require.NotRegexp(t, `[\s\x00-\x1f]`, got, "%q", url)
	}
	for _, url := range []string{
		"https://a.example/7", "http://A.example/7", "a.example/7", "https://a.example/7/", "https://a.example", "https://a.example/", "a.example",
	} {
		args, err := json.Marshal(map[string]any{"url": url})
		require.NoError(t, err)
		require.Empty(t, taint.Unnamed(args, compare), "%q", url)
	}
}

func TestAddressInProseMayHaveOneClosingSign(t *testing.T) {
	t.Parallel()
	args := json.RawMessage(`{"url":"https://a.example/7"}`)
	for _, prose := range []string{"https://a.example/7.", "(https://a.example/7)", "<https://a.example/7>", "'https://a.example/7'", "https://a.example/7。", "https://a.example/7?"} {
		require.Empty(t, taint.Unnamed(args, prose), prose)
	}
	for _, prose := range []string{"https://a.example/7).", "bob@a.example", "https://a.example/7x"} {
		require.NotEmpty(t, taint.Unnamed(args, prose), prose)
	}
	require.Empty(t, taint.Unnamed(json.RawMessage(`{"to":"Bob@shop.example"}`), "Write to bob@shop.example."))
	require.NotEmpty(t, taint.Unnamed(json.RawMessage(`{"to":"eve@shop.example"}`), "Write to bob@shop.example, shop.example"))
}

func TestOrdinaryArgumentsAreNoAddresses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "shoes size 42", "size 42.5", "12.50", "€ 1,234.50", "-3.5", "12.50 EUR", "ord_1001", "4111", "4111111111111111", "550e8400-e29b-41d4-a716-446655440000",
		"2026-11-28", "28.11.2026", "2026/11/28", "11/28/2026", "2026-11-28T10:00:00Z", "2026-11-28T10:00:00.123+01:00", "10:30", "1/2", "and/or", "50% off",
		"Note: call Ann", "Hello.\nThank you very much", "Dear Ann,\n\nthank you.", "Ada Lovelace", "+49 30 1234567", "/customers/7", "Why?", "...", "#12", "true",
	} {
		args, err := json.Marshal(map[string]any{"q": text, "timeout": 5, "page_size": 1.5})
		require.NoError(t, err)
		require.Empty(t, taint.Unnamed(args), "%q", text)
	}
}
