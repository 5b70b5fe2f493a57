package redact_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/redact"
)

func TestAlsoMasksWhatThePathsName(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ path, in, want string }{
		"string":                {"card.note", `{"card":{"note":"x","kind":"y"}}`, `{"card":{"note":"[masked]","kind":"y"}}`},
		"number":                {"n", `{"n":12.50e3,"m":1}`, `{"n":0,"m":1}`},
		"boolean":               {"b", `{"b":true,"c":true}`, `{"b":false,"c":true}`},
		"null":                  {"x", `{"x":null}`, `{"x":null}`},
		"object":                {"o", `{"o":{"a":"x","b":[1,true,{"c":null}]},"p":1}`, `{"o":{"a":"[masked]","b":[0,false,{"c":null}]},"p":1}`},
		"any name":              {"*.note", `{"a":{"note":"x","n":1},"b":{"note":2}}`, `{"a":{"note":"[masked]","n":1},"b":{"note":0}}`},
		"everything":            {"*", `{"a":1,"b":{"c":"x"}}`, `{"a":0,"b":{"c":"[masked]"}}`},
		"any position":          {"l.*.x", `{"l":[{"x":1,"y":1},{"x":2}]}`, `{"l":[{"x":0,"y":1},{"x":0}]}`},
		"one position":          {"l.1.x", `{"l":[{"x":1},{"x":2}]}`, `{"l":[{"x":1},{"x":0}]}`},
		"array not named":       {"l.x", `{"l":[{"x":1,"y":1},[{"x":2}]]}`, `{"l":[{"x":0,"y":1},[{"x":0}]]}`},
		"number as a name":      {"1", `{"1":5,"2":5}`, `{"1":0,"2":5}`},
		"case does not count":   {"Note", `{"note":"x","Note":"y"}`, `{"note":"[masked]","Note":"[masked]"}`},
		"escaped name":          {"note", `{"n\u006fte":"x"}`, `{"n\u006fte":"[masked]"}`},
		"path beyond a leaf":    {"a.b.c", `{"a":{"b":7}}`, `{"a":{"b":7}}`},
		"card number, whole":    {"n", `{"n":"4242 4242 4242 4242"}`, `{"n":"[masked]"}`},
		"beside what is secret": {"note", `{"password":"x","note":"y","z":"z"}`, `{"password":"[masked]","note":"[masked]","z":"z"}`},
		"a plural":              {"tokens", `{"tokens":7}`, `{"tokens":0}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := redact.NewMasker(nil).Also(strings.Split(tt.path, ".")).Mask(json.RawMessage(tt.in))
			require.Equal(t, tt.want, string(got))
		})
	}
}

func TestAlsoLeavesTheMaskerAsItIs(t *testing.T) {
	t.Parallel()
	plain := redact.NewMasker(nil)
	one := plain.Also([]string{"a"})
	two, _ := one.Also([]string{"b"}).Mask(json.RawMessage(`{"a":1,"b":1,"c":1}`))
	require.JSONEq(t, `{"a":0,"b":0,"c":1}`, string(two))
	got, _ := one.Mask(json.RawMessage(`{"a":1,"b":1}`))
	require.JSONEq(t, `{"a":0,"b":1}`, string(got))
	got, _ = plain.Mask(json.RawMessage(`{"a":1,"b":1}`))
	require.JSONEq(t, `{"a":1,"b":1}`, string(got))
	require.Same(t, plain, plain.Also())
}

// For any document and any path: names, order, lengths and types stay. What a path names is
// hidden, and everything else stays byte for byte.
func TestMaskingNeverChangesTheShape(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		doc, err := json.Marshal(someObject(r, 4))
		require.NoError(t, err)
		paths := make([][]string, 1+r.IntN(3))
		for i := range paths {
			for range 1 + r.IntN(3) {
				paths[i] = append(paths[i], []string{"a", "b", "c", "*", "0", "1"}[r.IntN(6)])
			}
		}
		masked, _ := redact.NewMasker(nil).Also(paths...).Mask(doc)
		require.Equal(t, shape(t, doc), shape(t, masked), "seed %d: %s by %v", seed, doc, paths)
		again, _ := redact.NewMasker(nil).Also(paths...).Mask(masked)
		require.Equal(t, string(masked), string(again), "seed %d: masking twice", seed)
		plain, _ := redact.NewMasker(nil).Mask(doc)
		require.Equal(t, string(doc), string(plain), "seed %d: there is nothing secret in it", seed)
		whole, _ := redact.NewMasker(nil).Also([]string{"*"}).Mask(doc)
		require.NotRegexp(t, `[1-9]|true|text`, string(whole), "seed %d", seed)
	}
}

// someObject returns a random object of up to depth levels.
func someObject(r *rand.Rand, depth int) map[string]any {
	out := map[string]any{}
	for _, name := range []string{"a", "b", "c"} {
		if r.IntN(3) > 0 {
			out[name] = someValue(r, depth-1)
		}
	}
	return out
}

func someValue(r *rand.Rand, depth int) any {
	switch kind := r.IntN(7); {
	case kind < 2 && depth > 0:
		return someObject(r, depth)
	case kind < 4 && depth > 0:
		list := make([]any, r.IntN(3))
		for i := range list {
			list[i] = someValue(r, depth-1)
		}
		return list
	case kind == 4:
		return "text"
	case kind == 5:
		return true
	case kind == 6:
		return nil
	}
	return json.Number(strconv.Itoa(1 + r.IntN(9)))
}

// shape is a document with every leaf replaced by its type.
func shape(t *testing.T, doc []byte) string {
	t.Helper()
	var b strings.Builder
	d := json.NewDecoder(bytes.NewReader(doc))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		require.NoError(t, err)
		switch v := token.(type) {
		case json.Delim:
			b.WriteString(v.String())
		case string:
			if v == "a" || v == "b" || v == "c" {
				b.WriteString(v)
			} else {
				b.WriteByte('s')
			}
		case float64:
			b.WriteByte('n')
		case bool:
			b.WriteByte('t')
		default:
			b.WriteByte('0')
		}
	}
}
