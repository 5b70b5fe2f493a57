package strictjson_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/strictjson"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, in, want string }{
		{"white space", " { \"a\" : [ 1 , true , null ] } ", `{"a":[1,true,null]}`},
		{"order", `{"b":1,"a":{"d":1,"c":[]},"":0}`, `{"":0,"a":{"c":[],"d":1},"b":1}`},
		{"prefix before longer", `{"ab":1,"a":2,"a\u0001":3}`, `{"a":2,"a\u0001":3,"ab":1}`},
		{"code points, not UTF-16", `{"\ud83d\ude00":1,"\uffff":2}`, "{\"\uffff\":2,\"\U0001F600\":1}"},
		{"escaped name sorts by meaning", `{"b":1,"\u0061":2}`, `{"a":2,"b":1}`},
		{"escapes", `"\u0041\/\u00e9\u001f\u0022\u005c\u000a"`, "\"A/é\\u001f\\\"\\\\\\n\""},
		{"empty", `[{},[],""]`, `[{},[],""]`},
		{"one", `[1,1.0,1e0,10e-1,0.1E+1]`, `[1,1,1,1,1]`},
		{"zero", `[0,-0,0.000,-0e5,0e-400]`, `[0,0,0,0,0]`},
		{"exact", `[9007199254740993,-9007199254740993.10]`, `[9007199254740993,-9007199254740993.1]`},
		{"fractions", `[0.5,5e-1,0.050,123.4500,-12e-3]`, `[0.5,0.5,0.05,123.45,-0.012]`},
		{
			"large", `[1e20,1e39,1e40,1.5e100,1e-400,0.001e-400]`,
			`[100000000000000000000,1` + strings.Repeat("0", 39) + `,1e40,15e99,1e-400,1e-403]`,
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := strictjson.Canonical([]byte(tc.in))
			require.NoError(t, err)
			require.Equal(t, tc.want, string(got))
			again, err := strictjson.Canonical(got)
			require.NoError(t, err)
			require.Equal(t, string(got), string(again))
		})
	}
	_, err := strictjson.Canonical([]byte(`{"a":1,"a":2}`))
	require.True(t, fault.HasCode(err, fault.CodeInvalidJSON))
}

// Two number tokens have one canonical text exactly when they mean one number.
func TestCanonicalNumbersAreExact(t *testing.T) {
	t.Parallel()
	token := rapid.StringMatching(`-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,4})?(e[+-]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := token.Draw(t, "a"), token.Draw(t, "b")
		x, okX := new(big.Rat).SetString(a)
		y, okY := new(big.Rat).SetString(b)
		require.True(t, okX && okY)
		left, err := strictjson.Canonical([]byte(a))
		require.NoError(t, err)
		right, err := strictjson.Canonical([]byte(b))
		require.NoError(t, err)
		require.Equal(t, x.Cmp(y) == 0, string(left) == string(right), "%s %s", left, right)
		z, ok := new(big.Rat).SetString(string(left))
		require.True(t, ok)
		require.Zero(t, x.Cmp(z), "%s became %s", a, left)
	})
}

func TestDiff(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, a, b string
		want       []string
	}{
		{"same", `{"a":1,"b":[1.0]}`, `{"b":[1],"a":1}`, nil},
		{"value", `{"a":1,"b":{"c":"x"}}`, `{"a":1,"b":{"c":"y"}}`, []string{"/b/c"}},
		{"missing and new", `{"a":1,"b":1}`, `{"b":1,"c":1}`, []string{"/a", "/c"}},
		{"array", `[1,2,3]`, `[1,5]`, []string{"/1", "/2"}},
		{"kind", `{"a":{}}`, `{"a":[]}`, []string{"/a"}},
		{"root", `1`, `2`, []string{""}},
		{"escaped", `{"a/b":{"~":1}}`, `{"a/b":{"~":2}}`, []string{"/a~1b/~0"}},
		{"not JSON", `{`, `{}`, []string{""}},
		{"ten at most", `[1,1,1,1,1,1,1,1,1,1,1,1]`, `[]`, []string{"/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, strictjson.Diff([]byte(tc.a), []byte(tc.b)))
		})
	}
}

func BenchmarkCanonical(b *testing.B) {
	for name, body := range map[string][]byte{"small": smallRun(), "1MiB": megabyte()} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := strictjson.Canonical(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
