package vault

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// keyText returns a key entry for NewLocalKMS whose bytes are all b.
func keyText(id string, b byte) string {
	return id + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(b), keyBytes)))
}

func newKMS(t *testing.T, keys ...string) *LocalKMS {
	t.Helper()
	k, err := NewLocalKMS(strings.Join(keys, "\n"))
	require.NoError(t, err)
	return k
}

func testBinding() binding {
	return binding{
		tenant:     uuid.MustParse("0199a0a0-0000-7000-8000-000000000001"),
		credential: uuid.MustParse("0199a0a0-0000-7000-8000-000000000002"),
		field:      fieldData, version: 3,
	}
}

func TestSealedValueOpensOnlyWhereItBelongs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	kms := newKMS(t, keyText("k1", 'a'))
	home := testBinding()
	sealed, err := seal(ctx, kms, home, []byte("sk_live_canary"))
	require.NoError(t, err)
	require.NotContains(t, string(sealed.ciphertext), "canary")

	plain, err := open(ctx, kms, home, sealed)
	require.NoError(t, err)
	require.Equal(t, "sk_live_canary", string(plain))

	for name, move := range map[string]func(*binding){
		"another tenant":     func(b *binding) { b.tenant[15]++ },
		"another credential": func(b *binding) { b.credential[15]++ },
		"another field":      func(b *binding) { b.field = "refresh" },
		"another version":    func(b *binding) { b.version++ },
		"ids exchanged":      func(b *binding) { b.tenant, b.credential = b.credential, b.tenant },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			away := home
			move(&away)
			_, err := open(ctx, kms, away, sealed)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "canary")

			// Each layer is bound by itself: the data key of the row opened in its
			// proper place does not help with the ciphertext in another.
			other, err := seal(ctx, kms, away, []byte("other"))
			require.NoError(t, err)
			_, err = open(ctx, kms, away, envelope{kekID: sealed.kekID, wrappedKey: other.wrappedKey, ciphertext: sealed.ciphertext})
			require.Error(t, err)
			_, err = open(ctx, kms, away, envelope{kekID: sealed.kekID, wrappedKey: sealed.wrappedKey, ciphertext: other.ciphertext})
			require.Error(t, err)
		})
	}
}

// nakedKMS hands the data key through, so that only the data layer's binding is
// left to refuse.
type nakedKMS struct{}

func (nakedKMS) Current() string { return "" }

func (nakedKMS) Wrap(_ context.Context, dataKey, _ []byte) (string, []byte, error) {
	return "naked", append([]byte(nil), dataKey...), nil
}

func (nakedKMS) Unwrap(_ context.Context, _ string, wrapped, _ []byte) ([]byte, error) {
	return append([]byte(nil), wrapped...), nil
}

func TestDataLayerIsBoundByItself(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	home := testBinding()
	sealed, err := seal(ctx, nakedKMS{}, home, []byte("secret"))
	require.NoError(t, err)
	_, err = open(ctx, nakedKMS{}, home, sealed)
	require.NoError(t, err)

	away := home
	away.tenant[0]++
	_, err = open(ctx, nakedKMS{}, away, sealed)
	require.Error(t, err)
}

func TestKeyLayerIsBoundByItself(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	kms := newKMS(t, keyText("k1", 'a'))
	home := testBinding()
	id, wrapped, err := kms.Wrap(ctx, []byte(strings.Repeat("d", keyBytes)), home.additionalData(layerKey))
	require.NoError(t, err)
	_, err = kms.Unwrap(ctx, id, wrapped, home.additionalData(layerKey))
	require.NoError(t, err)
	_, err = kms.Unwrap(ctx, id, wrapped, home.additionalData(layerData))
	require.Error(t, err)
	home.version++
	_, err = kms.Unwrap(ctx, id, wrapped, home.additionalData(layerKey))
	require.Error(t, err)
}

func TestTamperedEnvelopeDoesNotOpen(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	kms := newKMS(t, keyText("k1", 'a'))
	sealed, err := seal(ctx, kms, testBinding(), []byte("secret"))
	require.NoError(t, err)
	for i := range sealed.ciphertext {
		bad := envelope{kekID: sealed.kekID, wrappedKey: sealed.wrappedKey, ciphertext: append([]byte(nil), sealed.ciphertext...)}
		bad.ciphertext[i] ^= 1
		_, err := open(ctx, kms, testBinding(), bad)
		require.Error(t, err, "byte %d", i)
	}
	_, err = open(ctx, kms, testBinding(), envelope{kekID: "k1"})
	require.Error(t, err)
}

func TestEachSealIsItsOwn(t *testing.T) {
	t.Parallel()
	kms := newKMS(t, keyText("k1", 'a'))
	a, err := seal(context.Background(), kms, testBinding(), []byte("same"))
	require.NoError(t, err)
	b, err := seal(context.Background(), kms, testBinding(), []byte("same"))
	require.NoError(t, err)
	require.NotEqual(t, a.ciphertext, b.ciphertext)
	require.NotEqual(t, a.wrappedKey, b.wrappedKey)
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	before := newKMS(t, keyText("2025", 'a'))
	sealed, err := seal(ctx, before, testBinding(), []byte("secret"))
	require.NoError(t, err)
	require.Equal(t, "2025", sealed.kekID)

	after := newKMS(t, keyText("2026", 'b'), keyText("2025", 'a'))
	plain, err := open(ctx, after, testBinding(), sealed)
	require.NoError(t, err)
	require.Equal(t, "secret", string(plain))
	fresh, err := seal(ctx, after, testBinding(), []byte("secret"))
	require.NoError(t, err)
	require.Equal(t, "2026", fresh.kekID)

	_, err = open(ctx, before, testBinding(), fresh)
	require.ErrorIs(t, err, errUnknownKey)
	impostor := newKMS(t, keyText("2025", 'c'))
	_, err = open(ctx, impostor, testBinding(), sealed)
	require.Error(t, err)
}

func TestLocalKMSRefusesBadKeys(t *testing.T) {
	t.Parallel()
	const secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="
	for name, keys := range map[string]string{
		"none":      "",
		"comment":   "# only a comment",
		"no id":     secret,
		"empty id":  ":" + secret,
		"bad id":    "a b:" + secret,
		"short":     "k1:" + secret,
		"no base64": "k1:" + strings.Repeat("!", 44),
		"twice":     keyText("k1", 'a') + "," + keyText("k1", 'b'),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewLocalKMS(keys)
			require.Error(t, err)
			require.NotContains(t, err.Error(), secret)
		})
	}
}
