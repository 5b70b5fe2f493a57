package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentruntime/internal/base/redact"
)

const secret = `s3cr"et/+&<ü>\x %=~key`

// allEscaped is the secret with every character as a \u escape.
func allEscaped(s, format string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, `\u`+format, r)
	}
	return b.String()
}

func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestScrubForms(t *testing.T) {
	t.Parallel()
	std, raw := base64.StdEncoding, base64.RawURLEncoding
	js := marshal(secret)
	js = js[1 : len(js)-1]
	percent := func(format string) string {
		var b strings.Builder
		for i := range len(secret) {
			fmt.Fprintf(&b, format, secret[i])
		}
		return b.String()
	}
	forms := map[string]string{
		"plain":                secret,
		"base64":               std.EncodeToString([]byte(secret)),
		"base64 raw URL":       raw.EncodeToString([]byte(secret)),
		"base64, one before":   std.EncodeToString([]byte("a" + secret + "tail")),
		"base64, two before":   raw.EncodeToString([]byte("ab" + secret + "tail")),
		"base64, three before": std.EncodeToString([]byte("abc" + secret + "tail!")),
		"base64 of basic":      std.EncodeToString([]byte("user:" + secret)),
		"hex":                  hex.EncodeToString([]byte(secret)),
		"hex upper":            strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"query":                url.QueryEscape(secret),
		"query lower":          strings.ToLower(url.QueryEscape(secret)),
		"path":                 url.PathEscape(secret),
		"percent all":          percent("%%%02X"),
		"percent all lower":    percent("%%%02x"),
		"JSON":                 js,
		"JSON, slash escaped":  strings.ReplaceAll(js, "/", `\/`),
		"JSON, all escaped":    allEscaped(secret, "%04x"),
		"JSON, all upper":      allEscaped(secret, "%04X"),
		"JSON in JSON":         marshal(marshal(secret)),
		"URL in JSON":          marshal("https://x/?a=" + url.QueryEscape(secret)),
		"HTML":                 html.EscapeString(secret),
		"HTML in JSON":         marshal(html.EscapeString(secret)),
		"HTML named":           strings.NewReplacer(`"`, "&quot;", "&", "&amp;", "<", "&lt;", ">", "&#x3E;").Replace(secret),
		"base64, slash escaped in JSON": strings.ReplaceAll(
			std.EncodeToString([]byte(secret)), "/", `\/`),
		"base64 percent-encoded": url.QueryEscape(std.EncodeToString([]byte(secret))),
	}
	s := redact.NewScrubber(secret)
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "before " + form + " after"
			require.True(t, s.Contains([]byte(text)))
			got := scrubbed(s, text)
			require.Contains(t, got, redact.Redacted)
			require.True(t, strings.HasPrefix(got, "before "), got)
			require.True(t, strings.HasSuffix(got, " after"), got)
			require.False(t, s.Contains([]byte(got)))
			require.Less(t, len(got), 60+len(form)/4, "most of the form is left: %s", got)
		})
	}
}

// scrubbed returns the text without the secrets of s.
func scrubbed(s *redact.Scrubber, text string) string { return string(s.Scrub([]byte(text))) }

func TestScrubKeepsJSONValid(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, secret, in, want string }{
		{"string", "hunter2x", `{"a":"x hunter2x y"}`, `{"a":"x [redacted] y"}`},
		{"name", "hunter2x", `{"hunter2x":1}`, `{"[redacted]":1}`},
		{"number", "4711", `{"a":47110,"b":[-4711.5,1]}`, `{"a":"[redacted]","b":["[redacted]",1]}`},
		{"digits in a string", "4711", `["a4711b"]`, `["a[redacted]b"]`},
		{"literal", "true", `{"true":true,"false":false}`, `{"[redacted]":true,"false":false}`},
		{"begins inside an escape", "nabc", `["\nabc!"]`, `["[redacted]!"]`},
		{"begins inside a \\u escape", "0041bcd", `["x\u0041bcd!"]`, `["x[redacted]!"]`},
		{"ends before a backslash", `abcd\`, `["abcd\\"]`, `["[redacted]"]`},
		{"over structure", `a","b`, `["a","b","c"]`, `["[redacted]","[redacted]","c"]`},
		{"twice", "pass1", `["pass1pass1 pass1"]`, `["[redacted][redacted] [redacted]"]`},
		{"nothing", "pass1", `["pass2"]`, `["pass2"]`},
		{"surrogates", "ab😀cd", `["ab\ud83d\ude00cd"]`, `["[redacted]"]`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := redact.NewScrubber(tc.secret).Scrub([]byte(tc.in))
			require.Equal(t, tc.want, string(got))
			require.True(t, json.Valid(got))
		})
	}
}

func TestScrubAtItsLimits(t *testing.T) {
	t.Parallel()
	var none *redact.Scrubber
	require.Equal(t, "abc", scrubbed(none, "abc"))
	require.Equal(t, "abcdef", scrubbed(none, "abcdef"))
	require.False(t, none.Contains([]byte("abc")))
	require.Equal(t, "abc abcdef", scrubbed(redact.NewScrubber("", "abc"), "abc abcdef"))
	require.Equal(t, "x [redacted]", scrubbed(redact.NewScrubber("token1\n"), "x token1"))
	require.Equal(t, "[redacted]", scrubbed(redact.NewScrubber("abcdef", "cdefgh"), "abcdefgh"))
	require.Equal(t, "\\", scrubbed(redact.NewScrubber("abcd"), "\\"))
	in := []byte("a token1")
	require.Equal(t, "a [redacted]", string(redact.NewScrubber("token1").Scrub(in)))
	require.Equal(t, "a token1", string(in), "the input is not changed")

	basic := redact.NewScrubber("pa55word", "user:pa55word")
	header := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:pa55word"))
	require.Equal(t, "Basic [redacted]", scrubbed(basic, header))
}

// With any text around a secret, JSON stays JSON and no part of the secret is left.
func TestScrubLeavesNothingOfASecret(t *testing.T) {
	t.Parallel()
	alphabet := rapid.SampledFrom([]rune(`ab01"\/<&%+ né😀u{},:`))
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringOfN(alphabet, 4, 12, -1).Draw(t, "secret")
		before := rapid.StringOfN(alphabet, 0, 8, -1).Draw(t, "before")
		after := rapid.StringOfN(alphabet, 0, 8, -1).Draw(t, "after")
		s := redact.NewScrubber(value)
		text := []byte(marshal(map[string]any{before + value + after: []any{1, 47110, before + value + after}}))
		got := s.Scrub(text)
		require.True(t, json.Valid(got), "%s", got)
		require.Contains(t, string(got), redact.Redacted)
		var back map[string][]any
		require.NoError(t, json.Unmarshal(got, &back))
		for name, list := range back {
			require.NotContains(t, name, value)
			require.NotContains(t, list[2], value)
		}
	})
}

func BenchmarkScrub(b *testing.B) {
	row := `{"id":12345,"name":"A customer","note":"says \"hello\"\nand more: 100% & <b>","blob":"aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ="},`
	big := []byte("[" + strings.Repeat(row, 4<<20/len(row)) + "1]")
	hit := append(bytes.Clone(big[:len(big)-2]), `"sk_live_51HqLyjWDarjtT1zdp7dc"]`...)
	secrets := []string{"sk_live_51HqLyjWDarjtT1zdp7dc"}
	for _, tc := range []struct {
		name    string
		secrets []string
		text    []byte
	}{
		{"4MiB", secrets, big},
		{"4MiB_found", secrets, hit},
		{"4MiB_short_secret", []string{"4711"}, big},
		{"4MiB_three_secrets", append([]string{"pa55word", "me:pa55word"}, secrets...), big},
		{"2KiB", secrets, big[:2048]},
	} {
		s := redact.NewScrubber(tc.secrets...)
		b.Run(tc.name, func(b *testing.B) {
			b.SetBytes(int64(len(tc.text)))
			b.ReportAllocs()
			for b.Loop() {
				s.Scrub(tc.text)
			}
		})
	}
	b.Run("make", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			redact.NewScrubber(secrets...)
		}
	})
}
