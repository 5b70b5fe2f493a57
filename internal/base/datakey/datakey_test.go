package datakey_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/datakey"
)

func newKey(tb testing.TB, b byte) *datakey.Key {
	tb.Helper()
	k, err := datakey.New(bytes.Repeat([]byte{b}, datakey.Bytes))
	require.NoError(tb, err)
	return k
}

func somePlace() datakey.Place {
	return datakey.Place{Tenant: uuid.New(), Row: uuid.New(), Field: datakey.RunArgs}
}

func TestSealedTextOpensAtItsPlace(t *testing.T) {
	t.Parallel()
	k, p := newKey(t, 1), somePlace()
	for _, text := range []string{"", "{}", `{"pin":"1234"}`, strings.Repeat("long ", 1<<18)} {
		stored := k.Seal(p, []byte(text))
		require.True(t, datakey.Sealed(stored))
		require.NotEqual(t, stored, k.Seal(p, []byte(text)), "equal texts look different")
		if text != "" {
			require.NotContains(t, stored, text)
		}
		got, err := k.Open(p, stored)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
}

func TestSealedTextElsewhereDoesNotOpen(t *testing.T) {
	t.Parallel()
	k, p := newKey(t, 1), somePlace()
	stored := k.Seal(p, []byte(`{"pin":"1234"}`))
	for name, change := range map[string]func(*datakey.Place){
		"another tenant": func(p *datakey.Place) { p.Tenant = uuid.New() },
		"another row":    func(p *datakey.Place) { p.Row = uuid.New() },
		"another field":  func(p *datakey.Place) { p.Field = datakey.RunResult },
		"ids swapped":    func(p *datakey.Place) { p.Tenant, p.Row = p.Row, p.Tenant },
	} {
		other := p
		change(&other)
		_, err := k.Open(other, stored)
		require.Error(t, err, name)
	}
	_, err := newKey(t, 2).Open(p, stored)
	require.Error(t, err, "another key")
}

func TestSealedTextChangedDoesNotOpen(t *testing.T) {
	t.Parallel()
	k, p := newKey(t, 1), somePlace()
	stored := k.Seal(p, []byte(`{"pin":"1234"}`))
	raw, err := base64.RawStdEncoding.DecodeString(stored[3:])
	require.NoError(t, err)
	for i := range raw {
		changed := bytes.Clone(raw)
		changed[i] ^= 1
		_, err := k.Open(p, stored[:3]+base64.RawStdEncoding.EncodeToString(changed))
		require.Error(t, err, "byte %d", i)
	}
	for _, cut := range []string{stored[:3], stored[:10], stored[:len(stored)-4], stored + "!"} {
		_, err := k.Open(p, cut)
		require.Error(t, err, cut)
		require.NotContains(t, err.Error(), cut, "an error shows nothing of the row")
	}
}

func TestPlainTextOpensAsItIs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{}", `{"s1.":"x"}`} {
		got, err := newKey(t, 1).Open(somePlace(), text)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		require.False(t, datakey.Sealed(text))
	}
}

func TestDigestDependsOnKeyAndValue(t *testing.T) {
	t.Parallel()
	k := newKey(t, 1)
	require.Equal(t, k.Digest([]byte("a")), newKey(t, 1).Digest([]byte("a")))
	require.NotEqual(t, k.Digest([]byte("a")), k.Digest([]byte("b")))
	require.NotEqual(t, k.Digest([]byte("a")), newKey(t, 2).Digest([]byte("a")))
}

func TestKeyPrintsNothingOfItself(t *testing.T) {
	t.Parallel()
	secret := []byte(strings.Repeat("canary-k", 4))
	k, err := datakey.New(secret)
	require.NoError(t, err)
	clear(secret) // the key has a copy
	require.NotEqual(t, k.Digest(nil), newKey(t, 0).Digest(nil))
	encoded, err := json.Marshal(map[string]any{"key": k})
	require.NoError(t, err)
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%+v %#v %x %s", k, k, k, struct{ K *datakey.Key }{k}), string(encoded), k.LogValue().String()} {
		require.NotContains(t, text, "canary")
		require.NotContains(t, text, fmt.Sprintf("%x", "canary"))
		require.NotContains(t, text, "[99 97 110")
	}
	_, err = datakey.New(make([]byte, 31))
	require.ErrorContains(t, err, "32")
}

func BenchmarkSealAndOpen(b *testing.B) {
	k, p := newKey(b, 1), somePlace()
	for _, size := range []int{200, 32 << 10, 1 << 20} {
		text := bytes.Repeat([]byte("x"), size)
		stored := k.Seal(p, text)
		b.Run(fmt.Sprintf("seal %d bytes", size), func(b *testing.B) {
			for b.Loop() {
				k.Seal(p, text)
			}
		})
		b.Run(fmt.Sprintf("open %d bytes", size), func(b *testing.B) {
			for b.Loop() {
				if _, err := k.Open(p, stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
