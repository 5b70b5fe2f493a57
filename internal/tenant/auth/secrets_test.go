package auth_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/tenant/auth"
)

func newSecrets(t *testing.T) *auth.Secrets {
	t.Helper()
	s, err := auth.NewSecrets(bytes.Repeat([]byte{7}, auth.MinPepper))
	require.NoError(t, err)
	return s
}

func TestNewSecretsRefusesShortPepper(t *testing.T) {
	t.Parallel()
	_, err := auth.NewSecrets(make([]byte, auth.MinPepper-1))
	require.Error(t, err)
}

func TestKeyForm(t *testing.T) {
	t.Parallel()
	s := newSecrets(t)
	seen := map[string]bool{}
	for range 200 {
		secret, preview, hash := s.NewKey()
		require.Regexp(t, `^ark_[0-9A-Za-z]{36}$`, secret)
		require.Equal(t, secret[:8]+"…"+secret[36:], preview)
		got, ok := s.KeyHash(secret)
		require.True(t, ok)
		require.Equal(t, hash, got)
		require.False(t, seen[secret])
		seen[secret] = true
	}
}

func TestMistypedKeyIsRecognised(t *testing.T) {
	t.Parallel()
	s := newSecrets(t)
	secret, _, _ := s.NewKey()
	swap := func(i int) string {
		b := []byte(secret)
		if b[i] == 'x' {
			b[i] = 'y'
		} else {
			b[i] = 'x'
		}
		return string(b)
	}
	cases := map[string]string{
		"empty":                "",
		"prefix only":          "ark_",
		"too short":            secret[:39],
		"too long":             secret + "0",
		"other prefix":         "sk__" + secret[4:],
		"upper-case prefix":    "ARK_" + secret[4:],
		"first character":      swap(4),
		"last random one":      swap(33),
		"checksum":             swap(39),
		"not base62":           secret[:10] + "-" + secret[11:],
		"two-byte characters":  "ark_" + strings.Repeat("é", 18),
		"surrounding space":    " " + secret[:39],
		"NUL":                  secret[:20] + "\x00" + secret[21:],
		"swapped neighbours":   secret[:4] + "ab" + secret[6:],
		"checksum of zeroes":   secret[:34] + "000000",
		"forty spaces":         strings.Repeat(" ", 40),
		"another key's digits": secret[:34] + "zzzzzz",
	}
	for name, raw := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, ok := s.KeyHash(raw)
			require.False(t, ok)
		})
	}
}

func TestPepperAndPurposeSeparateHashes(t *testing.T) {
	t.Parallel()
	s := newSecrets(t)
	other, err := auth.NewSecrets(bytes.Repeat([]byte{8}, auth.MinPepper))
	require.NoError(t, err)

	secret, _, hash := s.NewKey()
	elsewhere, ok := other.KeyHash(secret)
	require.True(t, ok)
	require.NotEqual(t, hash, elsewhere)

	token, tokenHash := s.NewRefreshToken()
	got, ok := s.RefreshTokenHash(token)
	require.True(t, ok)
	require.Equal(t, tokenHash, got)
	for _, bad := range []string{"", "art_", token[1:], token + "A", secret} {
		_, ok := s.RefreshTokenHash(bad)
		require.False(t, ok, bad)
	}
}

func TestSubjectIsKeyedByKindAndText(t *testing.T) {
	t.Parallel()
	s := newSecrets(t)
	base := s.Subject("login", "a@example.com")
	require.Len(t, base, 32)
	require.Equal(t, base, s.Subject("login", "a@example.com"))
	require.NotEqual(t, base, s.Subject("login", "b@example.com"))
	require.NotEqual(t, base, s.Subject("invitation", "a@example.com"))
}
