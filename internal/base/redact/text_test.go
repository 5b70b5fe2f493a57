package redact_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/redact"
)

func TestSecretsInFreeTextAreMasked(t *testing.T) {
	t.Parallel()
	long := "Xk29" + strings.Repeat("aB3d", 8)
	for text, want := range map[string]string{
		"Use ark_" + long + " for it.":                                 "Use [masked] for it.",
		"sk_" + "live_" + long:                                         "[masked]",
		"with gh" + "p_" + long + ", please":                           "with [masked], please",
		"key AK" + "IAABCDEFGHIJKLMNOP":                                "key [masked]",
		"jwt eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl!":                  "jwt [masked]!",
		"The password: hunter2 is wrong.":                              "The password: [masked] is wrong.",
		"api key=abc, again":                                           "api key=[masked], again",
		`{"client_secret": "a b"}`:                                     `{"client_secret": [masked]}`,
		"Authorization: Bearer abcdefghijklmnopqrst":                   "Authorization: [masked] [masked]",
		"sent with bearer abcdefghijklmnopqrst":                        "sent with bearer [masked]",
		"see https://ada:pw@example.com/a?token=t&x=1":                 "see https://[masked]@example.com/a?token=[masked]&x=1",
		"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----": "[masked]",
		"-----BEGIN RSA PRIVATE KEY-----\ncut off":                     "[masked]",
		"card 4242 4242 4242 4242 refunded":                            "card ***4242 refunded",
		"it was " + long:                                               "it was [masked]",
	} {
		require.Equal(t, want, redact.Text(text))
	}
}

func TestPlainReasonStaysAsItIs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "No.", "Refund of order 1006: the customer returned it.", "Ticket OPS-4711, see https://tracker.example.com/browse/OPS-4711?tab=all#c1",
		"appr_0199a1ef-58a2-7d10-8c1e-6f0c9c8c2b01 took its place", "found in 9f2a6c0e9b6f1a4d5c3e8b7a6f5d4c3b2a1908f7e6d5c4b3a291807f6e5d4c3b",
		"The token has expired.", "max_tokens: 5 is too low", "a bearer of bad news", "Grüße: ja", "10:30 = too late",
	} {
		require.Equal(t, text, redact.Text(text))
	}
}
