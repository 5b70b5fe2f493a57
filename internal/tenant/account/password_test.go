package account

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

func TestPasswordHash(t *testing.T) {
	t.Parallel()
	a := newArgon2id()
	stored := a.hash("correct horse")
	require.Regexp(t, `^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`, stored)
	require.NotEqual(t, stored, a.hash("correct horse"), "salted")

	for password, want := range map[string]bool{"correct horse": true, "correct hors": false, "": false} {
		got, err := a.matches(password, stored)
		require.NoError(t, err)
		require.Equal(t, want, got, password)
	}
	got, err := a.matches("correct horse", "")
	require.NoError(t, err)
	require.False(t, got, "nobody has no password")
}

// A vector of golang.org/x/crypto/argon2's own tests (argon2id, three passes, 256
// KiB, two lanes): a stored hash names its cost, and ours may change.
func TestPasswordHashOfAnotherCost(t *testing.T) {
	t.Parallel()
	got, err := newArgon2id().matches("password", "$argon2id$v=19$m=256,t=3,p=2$c29tZXNhbHQ$RmjTCsQYfmh47t6s8P2DxaCjDbLMFu8L")
	require.NoError(t, err)
	require.True(t, got)
}

func TestStoredHashMustBeOurs(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{
		"x", "$argon2i$v=19$m=256,t=2,p=1$c29tc2FsdA$bmY2NUVPZ0xyUU1S", "$argon2id$v=16$m=256,t=2,p=1$c29tc2FsdA$bmY2NUVPZ0xyUU1SL3VJUG",
		"$argon2id$v=19$m=256,t=0,p=1$c29tc2FsdA$bmY2NUVPZ0xyUU1SL3VJUG", "$argon2id$v=19$m=256,t=2,p=1$!$!", "$argon2id$v=19$m=256,t=2,p=1$c29tc2FsdA$",
	} {
		_, err := newArgon2id().matches("x", stored)
		require.ErrorIs(t, err, errStoredHash, stored)
	}
}

func TestCheckNewPassword(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		password string
		want     fault.Code
	}{
		"empty":                   {"", fault.CodeWeakPassword},
		"seven":                   {"1234567", fault.CodeWeakPassword},
		"seven of two bytes":      {"üüüüüüü", fault.CodeWeakPassword},
		"eight":                   {"12345678", ""},
		"eight spaces":            {"        ", ""},
		"eight of four bytes":     {"🔒🔒🔒🔒🔒🔒🔒🔒", ""},
		"the longest":             {strings.Repeat("a", 1024), ""},
		"one byte more than that": {strings.Repeat("a", 1025), fault.CodeValidation},
		"long in bytes":           {strings.Repeat("ü", 513), fault.CodeValidation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkNewPassword(tc.password)
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.Equal(t, tc.want, fault.As(err).Code)
			}
		})
	}
}

func TestNewAddress(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"Ada@Example.COM": "ada@example.com", "a+b@example.com": "a+b@example.com", "a@localhost": "a@localhost",
	} {
		got, err := newAddress(given)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{
		"", "x", "@example.com", "a@", "a b@example.com", "Ada <a@example.com>", "<a@example.com>", "a@example.com, b@example.com",
		" a@example.com", "a@example.com\n", "a@@example.com", "ä@example.com", "a@exämple.com", "a\x00@example.com", `"a b"@example.com`,
		strings.Repeat("a", 243) + "@example.com",
	} {
		_, err := newAddress(bad)
		require.Equal(t, fault.CodeValidation, fault.As(err).Code, bad)
	}
}
