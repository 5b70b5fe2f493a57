package exactjson_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentruntime/internal/kernel/exactjson"
)

func TestLookupFollowsAPath(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage(` { "a" : [ 1.10 , {"b\"c":"x,]}"} , [] , -2e5 ] , "a\u0062" : null, "t":true, "d":1, "d":2 , "":{}} `)
	for name, tc := range map[string]struct {
		path []any
		want string
		ok   bool
	}{
		"all":               {nil, string(raw[1 : len(raw)-1]), true},
		"item":              {[]any{"a", 0}, "1.10", true},
		"last item":         {[]any{"a", -1}, "-2e5", true},
		"quoted name":       {[]any{"a", 1, `b"c`}, `"x,]}"`, true},
		"escaped name":      {[]any{"ab"}, "null", true},
		"below null":        {[]any{"ab", "c", 3}, "null", true},
		"empty name":        {[]any{""}, "{}", true},
		"the last of two":   {[]any{"d"}, "2", true},
		"missing":           {[]any{"z"}, "null", true},
		"beyond the end":    {[]any{"a", 9}, "null", true},
		"before the start":  {[]any{"a", -9}, "null", true},
		"name in an array":  {[]any{"a", "x"}, "", false},
		"item of an object": {[]any{0}, "", false},
		"name in a boolean": {[]any{"t", "x"}, "", false},
		"item of a number":  {[]any{"d", 0}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := exactjson.Lookup(raw, tc.path)
			require.Equal(t, tc.ok, ok)
			require.Equal(t, tc.want, string(got))
		})
	}
	for _, broken := range []string{"", "{", `{"a"`, `{"a":`, `{"a":1`, `["`, `["a`, `{"a" 1}`, `[1,`} {
		_, ok := exactjson.Lookup(json.RawMessage(broken), []any{"a"})
		require.False(t, ok, broken)
		_, ok = exactjson.Lookup(json.RawMessage(broken), []any{5})
		require.False(t, ok, broken)
	}
}

// What Lookup finds is what decoding the whole finds.
func TestLookupAgreesWithADecoder(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", `c"d`, "é"}
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
			rapid.Map(rapid.IntRange(-99, 99), func(n int) any { return json.Number(exactjson.Text(n)) }), rapid.Map(rapid.StringN(0, 5, -1), func(s string) any { return s }))
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(value(depth-1), 0, 4), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.SampledFrom(names), value(depth-1), 0, 4), func(m map[string]any) any { return m }))
	}
	rapid.Check(t, func(t *rapid.T) {
		v := value(3).Draw(t, "value")
		raw, err := json.MarshalIndent(v, "", rapid.SampledFrom([]string{"", " "}).Draw(t, "indent"))
		require.NoError(t, err)
		var path []any
		want, fits := v, true
		for range rapid.IntRange(0, 4).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "name") {
				name := rapid.SampledFrom(names).Draw(t, "member")
				path = append(path, name)
				object, is := want.(map[string]any)
				fits = fits && (is || want == nil)
				want = object[name]
				continue
			}
			i := rapid.IntRange(-3, 3).Draw(t, "item")
			path = append(path, i)
			list, is := want.([]any)
			fits = fits && (is || want == nil)
			if i < 0 {
				i += len(list)
			}
			want = nil
			if i >= 0 && i < len(list) {
				want = list[i]
			}
		}
		got, ok := exactjson.Lookup(raw, path)
		require.Equal(t, fits, ok)
		if ok {
			decoded, err := exactjson.Decode(got)
			require.NoError(t, err)
			require.Equal(t, exactjson.Text(want), exactjson.Text(decoded))
		}
	})
}
