package exactjson_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentruntime/internal/base/exactjson"
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
			rapid.Map(rapid.IntRange(-99, 99), func(n int) any { return json.Number(exactjson.Text(n)) }), rapid.Map(rapid.StringN(0, 5, -1), func(s string) any { return s }),
			rapid.Just[any](strings.Repeat(`x,]}`, 70)))
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
		index := exactjson.NewIndex(raw, func(int) bool { return true })
		for range 8 { // what is searched often is remembered
			again, found := index.Lookup(path)
			require.Equal(t, ok, found)
			require.Equal(t, string(got), string(again))
		}
	})
}

// However deep a text nests, and however many paths lead into it, each of its bytes is read a few times.
func TestIndexReadsLittle(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	deep := strings.Repeat(`{"a":`, 60) + `{"p":[` + strings.Repeat("1,", size/2) + `1],"z":2}` + strings.Repeat("}", 60)
	var wide strings.Builder
	for i := range size / 16 {
		fmt.Fprintf(&wide, `"k%07d":1,`, i)
	}
	for name, tc := range map[string]struct {
		text string
		path func(n int) []any
		want string
	}{
		"one path":      {deep, func(int) []any { return append(slices.Repeat([]any{"a"}, 60), "z") }, "2"},
		"the last item": {deep, func(int) []any { return append(slices.Repeat([]any{"a"}, 60), "p", -1) }, "1"},
		"many depths":   {deep, func(n int) []any { return append(slices.Repeat([]any{"a"}, n%61), "q") }, "null"},
		"many names":    {"{" + wide.String() + `"z":2}`, func(n int) []any { return []any{fmt.Sprintf("k%07d", n)} }, "1"},
		"many items":    {"[" + strings.Repeat(`"x",`, size/4) + `1]`, func(n int) []any { return []any{n} }, `"x"`},
		"a long text":   {`{"p":"` + strings.Repeat("x", size) + `","z":2}`, func(int) []any { return []any{"z"} }, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := 0
			index := exactjson.NewIndex(json.RawMessage(tc.text), func(n int) bool {
				read += n
				return true
			})
			for n := range 2000 {
				got, ok := index.Lookup(tc.path(n))
				require.True(t, ok)
				require.Equal(t, tc.want, string(got))
			}
			require.Less(t, read, 10*len(tc.text))
			read = 0
			poor := exactjson.NewIndex(json.RawMessage(tc.text), func(n int) bool {
				read += n
				return read < 1000
			})
			for n := range 100 {
				_, ok := poor.Lookup(tc.path(n))
				require.False(t, ok, "nothing is found that is not paid for")
			}
		})
	}
}
