package httpfield_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/httpfield"
)

func TestForbiddenIsWithoutRegardToCase(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Host", "content-LENGTH", "Authorization", "Cookie", "TE", "Proxy-Authorization", "proxy-anything"} {
		require.True(t, httpfield.Forbidden(name), name)
	}
	for _, name := range []string{"X-Api-Key", "Idempotency-Key", "Proxied", ""} {
		require.False(t, httpfield.Forbidden(name), name)
	}
}

func TestArgumentsMayNotSetHeadersThatSteer(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Host", "Content_Length", "Transfer-Encoding", "X-HTTP-Method-Override", "x_http_method_override", "X-Method-Override", "X-HTTP-Method", "X-Original-URL",
		"X-Rewrite-Url", "X-Forwarded-For", "X_Forwarded_Host", "X-Forwarded", "Forwarded", "Connection", "Via", "X-Real-IP",
	} {
		require.True(t, httpfield.ForbiddenArg(name), name)
	}
	for _, name := range []string{"X-Api-Key", "Idempotency-Key", "X-Request-Id", "If-Match", "Range", "X-GitHub-Api-Version", "Stripe-Account", ""} {
		require.False(t, httpfield.ForbiddenArg(name), name)
	}
}

func TestTokensAndValuesCannotSplitAHeader(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"X-Key": true, "a!#$%&'*+-.^_`|~9": true, "": false, "a b": false, "a:b": false, "a\r\nb": false, "a\x00": false, "é": false,
	} {
		require.Equal(t, want, httpfield.IsToken(name), "%q", name)
	}
	for value, want := range map[string]bool{"": true, "a b\tc": true, "é": true, "a\nb": false, "a\rb": false, "a\x00b": false, "\x7f": false} {
		require.Equal(t, want, httpfield.ValidValue(value), "%q", value)
	}
}

func TestMediaTypeIsLowerCaseWithoutParameters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Application/JSON; charset=utf-8": "application/json", "text/csv": "text/csv", "json": "", "": "", "a/b; =": "",
	} {
		require.Equal(t, want, httpfield.MediaType(text), "%q", text)
	}
	for media, want := range map[string]bool{"application/json": true, "application/problem+json": true, "text/plain": false, "application/jsonp": false} {
		require.Equal(t, want, httpfield.IsJSON(media), media)
	}
}

func TestDecodedKeepsWhatIsNoEncoding(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "a b": "a b", "a+b": "a b", "%2e%2E/%zz": "../%zz", "100%": "100%", "%2": "%2", "%%2e": "%.", "%25252e": ".", "%2525252e": "%2e",
	} {
		require.Equal(t, want, httpfield.Decoded(text), "%q", text)
	}
}
