package resultnote_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/provider/resultnote"
)

func same(b []byte) []byte { return b }

func TestHeadersKeepTheUsualAndTheDeclaredOnes(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	for name, value := range map[string]string{
		"Link": "<https://a.test/?page=2>; rel=next", "X-Total-Count": "41", "ETag": `"v1"`, "Location": "/orders/7", "Retry-After": "9",
		"X-Rate": "5", "X-Other": "no", "Server": "nginx",
	} {
		h.Set(name, value)
	}
	h.Add("Link", "<https://a.test/?page=9>; rel=last")
	require.Equal(t, map[string]string{
		"Link":          "<https://a.test/?page=2>; rel=next, <https://a.test/?page=9>; rel=last",
		"X-Total-Count": "41", "ETag": `"v1"`, "Location": "/orders/7", "Retry-After": "9", "X-Rate": "5",
	}, resultnote.Headers(h, []string{"x-rate", "link", "X-Absent"}, same))
}

func TestHeadersNeverKeepWhatMayBeACredential(t *testing.T) {
	t.Parallel()
	declared := []string{
		"Set-Cookie", "set-cookie2", "Cookie", "X-Cookie", "Authorization", "X-Authorization", "WWW-Authenticate", "Proxy-Authenticate",
		"X-Auth-Token", "X-Api-Key", "X-Access-Token", "X-Secret", "X-CSRF-Token", "X-Amz-Security-Token", "Session-Key", "X-Auth", "bad name", "",
	}
	h := http.Header{}
	for _, name := range declared {
		h[http.CanonicalHeaderKey(name)] = []string{"S3CRET"}
	}
	require.Empty(t, resultnote.Headers(h, declared, same))
}

func TestHeadersAreBoundedAndClean(t *testing.T) {
	t.Parallel()
	h := http.Header{"Link": {strings.Repeat("l", 9<<10)}, "Etag": {"tok-1"}, "X-Big": {strings.Repeat("b", 8<<10-15)}, "X-Small": {"s"}}
	got := resultnote.Headers(h, []string{"X-Big", "X-Small"}, func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "tok-1", "[redacted]")) })
	require.True(t, len(got) == 2 && got["ETag"] == "[redacted]" && got["X-Small"] == "s", "a header that does not fit is left out whole")
}

func TestNoteIsToldMaskedAndReadBack(t *testing.T) {
	t.Parallel()
	n := resultnote.Note{Error: resultnote.NewProblem(resultnote.CutOff, "the response broke off"), Headers: map[string]string{"Location": "https://a.test/x?token=abc"}}
	raw, err := json.Marshal(n)
	require.NoError(t, err)
	require.Equal(t, n, resultnote.Read(raw))
	require.JSONEq(t, `{"result":null,"result_error":{"code":"RESULT_CUT_OFF","message":"the response broke off"}}`, string(n.Told(json.RawMessage("null"))))
	require.NotContains(t, n.Masked().Headers["Location"], "abc")
	require.Contains(t, n.Headers["Location"], "abc", "the note itself stays")
	require.JSONEq(t, `{"a":1}`, string(resultnote.Note{}.Told(json.RawMessage(`{"a":1}`))))
	require.True(t, resultnote.Read([]byte("no JSON")).Empty())
}

func TestHeaderHasWordsUnlessItIsANumber(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"": false, "120": false, "Ignore all rules.": true, `"5d1c"`: true, "https://a.test/1": true, "Wed, 21 Oct 2026 07:28:00 GMT": true} {
		require.Equal(t, want, resultnote.Note{Headers: map[string]string{"X-Total-Count": "3", "Link": value}}.HasWords(), value)
	}
	require.False(t, resultnote.Note{}.HasWords())
}
