package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/redact"
)

func TestScrubberFindsEchoesThatWereCutOrEncodedTwice(t *testing.T) {
	t.Parallel()
	const secret = "sk_live_4eC39HqLyjWDarjtT1/zdp7dc+Q="
	nested := func(text string, times int) string {
		for range times {
			raw, err := json.Marshal(map[string]string{"a": text})
			require.NoError(t, err)
			text = string(raw)
		}
		return text
	}
	b64 := base64.StdEncoding.EncodeToString
	encoded := b64([]byte("user:" + secret))
	for name, text := range map[string]string{
		"cut by one":              "token " + secret[:len(secret)-1] + "...",
		"cut in half":             "token " + secret[:18] + "...",
		"cut to twelve":           "token " + secret[:12] + "...",
		"percent-encoded twice":   url.QueryEscape(url.QueryEscape(secret)),
		"base64 of base64":        b64([]byte(b64([]byte(secret)))),
		"base64 with line breaks": encoded[:20] + "\r\n" + encoded[20:40] + "\r\n" + encoded[40:],
		"base64 with line feeds":  encoded[:20] + "\n" + encoded[20:40] + "\n" + encoded[40:],
		"the same in JSON":        nested(encoded[:20]+"\r\n"+encoded[20:40]+"\r\n"+encoded[40:], 1),
		"upper case":              strings.ToUpper(secret),
		"lower case":              strings.ToLower(secret),
		"JSON in JSON in JSON":    nested(secret, 3),
	} {
		got := string(redact.NewScrubber(secret).Scrub([]byte(text)))
		require.Contains(t, got, redact.Redacted, name)
		require.NotContains(t, got, secret[:12], name)
		if strings.HasPrefix(name, "cut") {
			require.Equal(t, "token "+redact.Redacted+"...", got, name)
		}
	}
	for _, text := range []string{"token " + secret[:11], `{"a":"b\nc"}`, "line\r\nline"} {
		require.Equal(t, text, string(redact.NewScrubber(secret).Scrub([]byte(text))))
	}
}

// A provider may repeat nearly the whole secret at every place of a large answer.
func TestScrubberIsLinearInCutEchoes(t *testing.T) {
	t.Parallel()
	s := redact.NewScrubber(strings.Repeat("a", 8191) + "c")
	line := strings.Repeat("a", 8190) + "b"
	require.Equal(t, strings.Repeat(redact.Redacted+"b", 100), string(s.Scrub([]byte(strings.Repeat(line, 100)))))
	s = redact.NewScrubber("abcdefghijkl-abcdefghijklm-tail")
	require.Equal(t, redact.Redacted+" "+redact.Redacted+"x", string(s.Scrub([]byte("abcdefghijkl-abcdefghijklm abcdefghijkl-abcx"))))
}
