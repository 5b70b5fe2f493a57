package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentruntime/internal/base/redact"
)

// streamed returns what a stream shows of a text in pieces of n bytes.
func streamed(s *redact.Scrubber, text string, n int) string {
	var shown strings.Builder
	stream := s.Stream()
	for ; text != ""; text = text[min(n, len(text)):] {
		shown.WriteString(stream.Next(text[:min(n, len(text))]))
	}
	return shown.String() + stream.Rest()
}

func TestStreamShowsNoSecretWhereverItsPiecesEnd(t *testing.T) {
	t.Parallel()
	const key = "sk-proj-51HqLyj_WDarjt-T1zdp7dc/x+y"
	quoted := marshal(key)
	for name, form := range map[string]string{
		"plain": key, "cut": key[:15], "upper case": strings.ToUpper(key), "hex": hex.EncodeToString([]byte(key)), "query": url.QueryEscape(key),
		"base64": base64.StdEncoding.EncodeToString([]byte("user:" + key)), "base64 in lines": base64.StdEncoding.EncodeToString([]byte(key))[:20] + "\r\n" + base64.StdEncoding.EncodeToString([]byte(key))[20:],
		"JSON, all escaped": allEscaped(key, "%04x"), "JSON in JSON": marshal(quoted), "JSON in JSON, all escaped": marshal(allEscaped(key, "%04x")),
		"HTML": strings.ReplaceAll(key, "-", "&#x2d;"), "twice": key + key,
	} {
		s := redact.NewScrubber(key)
		text := "before " + form + " and\nafter 100% \\ & more"
		for n := 1; n <= len(text); n++ {
			require.Equal(t, scrubbed(s, text), streamed(s, text, n), "%s, pieces of %d bytes", name, n)
		}
	}
}

// A text without a secret is shown as it comes but for what may begin one.
func TestStreamKeepsBackOnlyWhatMayBeASecret(t *testing.T) {
	t.Parallel()
	stream := redact.NewScrubber("sk-canary-51b2").Stream()
	require.Equal(t, "Your order i", stream.Next("Your order is"), "an s may begin the secret")
	require.Equal(t, "s on its way.\n\nIt ", stream.Next(" on its way.\n\nIt s"))
	require.Equal(t, "ssk-can do", stream.Next("sk-can do"))
	require.Empty(t, stream.Next("sk-canary-51b"))
	require.Equal(t, "[redacted]", stream.Next("2")+stream.Rest())
	require.Equal(t, "any text", redact.NewScrubber().Stream().Next("any text"))
}

func TestStreamOfAnyTextShowsWhatScrubLeaves(t *testing.T) {
	t.Parallel()
	alphabet := rapid.SampledFrom([]rune(`ab01\u%&#;+ né` + "\n"))
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringOfN(alphabet, 4, 12, -1).Draw(t, "secret")
		text := rapid.StringOfN(alphabet, 0, 8, -1).Draw(t, "before") + "<" + value + rapid.SampledFrom([]string{"", ">"}).Draw(t, "end") + rapid.StringOfN(alphabet, 0, 8, -1).Draw(t, "after")
		s := redact.NewScrubber(value)
		got := streamed(s, text, rapid.IntRange(1, 9).Draw(t, "bytes"))
		require.Contains(t, got, redact.Redacted)
		require.NotContains(t, strings.ReplaceAll(got, redact.Redacted, "\x00"), value)
	})
}

func TestStreamThatKeepsTooMuchBackShowsNoMore(t *testing.T) {
	t.Parallel()
	s := redact.NewScrubber("aaaa")
	stream := s.Stream()
	for range 100 {
		require.Empty(t, stream.Next(strings.Repeat("a", 1024)))
	}
	require.Empty(t, stream.Next(" b")+stream.Rest())
}
