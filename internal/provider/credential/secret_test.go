package credential

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const canary = "canary-5f3a9c"

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	s := newSecret(&content{
		Type: Basic, Key: canary, Token: canary, Username: canary, Password: canary,
		Headers: map[string]string{"X-Key": canary},
	})
	type holder struct {
		Exported Secret
		hidden   Secret
		pointer  *Secret
	}
	h := holder{Exported: s, hidden: s, pointer: &s}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%T", "%10.3s", "%t"} {
		for _, v := range []any{s, &s, h, &h, []Secret{s}, map[string]Secret{"k": s}} {
			out := fmt.Sprintf(format, v)
			require.NotContains(t, out, canary, format)
			require.NotContains(t, out, fmt.Sprintf("%x", canary), format)
		}
	}
	require.Equal(t, redacted, s.String())
	require.Equal(t, redacted, fmt.Sprint(s))

	for _, v := range []any{s, &s, h, map[string]any{"s": s}, []any{s}} {
		out, err := json.Marshal(v)
		require.NoError(t, err)
		require.NotContains(t, string(out), canary)
	}

	var log bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(handler).Info("sent", "secret", s, "pointer", &s, "holder", h, "list", []Secret{s})
	}
	require.NotContains(t, log.String(), canary)
	require.Contains(t, log.String(), redacted)
}

func TestSecretValues(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		content content
		want    []string
	}{
		"key":     {content{Type: APIKey, Key: "k-1"}, []string{"k-1"}},
		"token":   {content{Type: Bearer, Token: "t-1"}, []string{"t-1"}},
		"basic":   {content{Type: Basic, Username: "user", Password: "pass"}, []string{"dXNlcjpwYXNz", "pass", "user"}},
		"no pass": {content{Type: Basic, Username: "sk_1"}, []string{"c2tfMTo=", "sk_1"}},
		"headers": {content{Type: CustomHeader, Headers: map[string]string{"A": "one", "B": "three", "C": "one"}}, []string{"three", "one"}},
		"empty":   {content{}, []string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, newSecret(&tt.content).Values())
		})
	}
	require.Empty(t, Secret{}.Values())
	pair := base64.StdEncoding.EncodeToString([]byte("billing@acme.example:pass word"))
	require.Equal(t, []string{pair, "pass word"}, NewBasic("billing@acme.example", "pass word").Hidden())
	require.Contains(t, NewBasic("sk_live_of_some_provider", "").Hidden(), "sk_live_of_some_provider", "the user name is the key")
	require.NotContains(t, NewSchemes(map[string]Secret{"a": NewBasic("billing@acme.example", "pass word")}).Hidden(), "billing@acme.example")
}

func TestParseSecretKeepsPlaintextOutOfErrors(t *testing.T) {
	t.Parallel()
	for _, plaintext := range []string{canary, `{"type":"bearer","key":"` + canary + `"}`, `{"type":` + canary, strings.Repeat(canary, 3)} {
		_, err := ParseSecret([]byte(plaintext), APIKey)
		require.Error(t, err)
		require.NotContains(t, err.Error(), canary)
	}
}

func TestSecretSurvivesSealing(t *testing.T) {
	t.Parallel()
	for _, s := range []Secret{NewAPIKey("k"), NewBearer("t"), NewBasic("u", "p"), NewCustomHeader(map[string]string{"X-Key": "v"})} {
		plaintext, err := s.Plaintext()
		require.NoError(t, err)
		opened, err := ParseSecret(plaintext, s.Kind())
		require.NoError(t, err)
		require.Equal(t, s.get(), opened.get())
		_, err = ParseSecret(plaintext, WebhookSecret)
		require.Error(t, err)
	}
}
