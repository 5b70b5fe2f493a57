package yamljson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/yamljson"
)

func full() yamljson.Options {
	return yamljson.Options{What: "a document", MaxBytes: 5 << 20, MaxJSON: 1 << 20, MaxDepth: 200, MaxValues: 500_000, Full: true}
}

func TestConvertFullYAMLKeepsItsMeaning(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, yaml, want string }{
		{"exact numbers", "a: 9007199254740993\nb: 1.10\nc: 1e400\n", `{"a":9007199254740993,"b":1.10,"c":1e400}`},
		{"response codes", "200: {a: 1}\n404:\ndefault: x\n", `{"200":{"a":1},"404":null,"default":"x"}`},
		{"texts of YAML 1.2", "[no, yes, on, off, y, n, NO, 2026-01-01, 2026-01-01T10:00:00Z, 12:30, 1_000, 3.0.3, 0b11]", `["no","yes","on","off","y","n","NO","2026-01-01","2026-01-01T10:00:00Z","12:30","1_000","3.0.3","0b11"]`},
		{"booleans and nulls", "[true, False, TRUE, ~, null, Null, ]", `[true,false,true,null,null,null]`},
		{"other numbers", "[+1, 012, -007, .5, 1., 0x1F, 0o17, -.5e3, 00]", `[1,12,-7,0.5,1,31,15,-0.5e3,0]`},
		{"a large hexadecimal number", "a: 0xFFFFFFFFFFFFFFFFFF\n", `{"a":4722366482869645213695}`},
		{"not quite numbers", "[., +, 0x, 1e, e1, +.]", `[".","+","0x","1e","e1","+."]`},
		{"aliases", "a: &x {b: [1]}\nc: *x\nd: [*x, *x]\n", `{"a":{"b":[1]},"c":{"b":[1]},"d":[{"b":[1]},{"b":[1]}]}`},
		{"an alias as a name", "a: &x b\n*x : 1\n", `{"a":"b","b":1}`},
		{"merge", "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n", `{"a":{"b":1,"c":2},"d":{"c":3,"b":1}}`},
		{"the first merged counts", "{<<: [{b: 1}, {b: 2, c: 3}]}", `{"b":1,"c":3}`},
		{"a merge in a merge", "a: &x {b: 1}\nc: &y {<<: *x, d: 2}\ne: {<<: *y}\n", `{"a":{"b":1},"c":{"d":2,"b":1},"e":{"d":2,"b":1}}`},
		{"a quoted merge key is a name", "{'<<': 1}", `{"<<":1}`},
		{"tags", "a: !!str 1\nb: !!map {c: !!seq [1]}\n", `{"a":"1","b":{"c":[1]}}`},
		{"the version", "# a\n\n%YAML 1.2\n---\na: 1\n", `{"a":1}`},
		{"quoted", "a: '200'\nb: \"no\"\nc: |\n  x\n", `{"a":"200","b":"no","c":"x\n"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, faults := yamljson.Convert([]byte(tc.yaml), full())
			require.Empty(t, faults)
			require.Equal(t, tc.want, string(got))
		})
	}
}

func TestConvertFullYAMLRefusesWhatIsNoDocument(t *testing.T) {
	t.Parallel()
	var bomb, merges strings.Builder
	bomb.WriteString("a0: &a0 [lol]\n")
	fmt.Fprintf(&merges, "a0: &a0 {%s}\n", many(2_000))
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10))
		fmt.Fprintf(&merges, "a%d: &a%d {<<: [%s]}\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10))
	}
	for _, tc := range []struct{ name, yaml, path, message string }{
		{"billion laughs", bomb.String(), "", "at most 1048576 bytes of JSON"},
		{"billion merges", merges.String(), "", "too many values"},
		{"a cycle", "a: &x [*x]\n", "/a/0", "an alias of a value around it"},
		{"a cycle of merges", "a: &x {<<: *x}\n", "/a", "an alias of a value around it"},
		{"a name twice", "a:\n  b: 1\n  b: 2\n", "/a", "has the name b twice (line 3)"},
		{"a code twice", "200: 1\n'200': 2\n", "", "has the name 200 twice (line 2)"},
		{"a merged text", "a: {<<: x}\n", "/a", "merges what is no object"},
		{"a list as a name", "[1]: 2\n", "", "plain text"},
		{"infinite", "a: .inf\n", "/a", "no such number"},
		{"a long number", "a: 0x" + strings.Repeat("f", 100), "/a", "too many digits"},
		{"a tag of a language", "a: !!python/object:os.system x\n", "/a", "only the tags"},
		{"a binary", "a: !!binary aGk=\n", "/a", "only the tags"},
		{"two documents", "a: 1\n---\nb: 2\n", "", "one document of YAML"},
		{"nothing", "# only a comment\n", "", "is not one document of YAML"},
		{"a colon in a text", "a: b\nc: d: e\n", "", "is no valid YAML: mapping values are not allowed in this context (line 2)"},
		{"a list that does not end", "a: [1, 2", "", "is no valid YAML: did not find expected ',' or ']' while parsing a flow sequence (line 2)"},
		{"a tab", "a:\n\t- b\n", "", "is no valid YAML: found character that cannot start any token while scanning for the next token (line 2)"},
		{"a control character", "a: \x01\n", "", "is no valid YAML: control characters are not allowed"},
		{"an alias of nothing", "a: *canary\n", "", "is no valid YAML (line 1)"},
		{"a character in a tag", "a: !x$} z\n", "", "is no valid YAML: found character that is not allowed in a YAML tag while parsing a tag (line 1)"},
		{"half of UTF-16", "\xff\xfea", "", "is no valid YAML"},
		{"deep", strings.Repeat("[", 500) + strings.Repeat("]", 500), strings.Repeat("/0", 201), "nests too deep"},
		{"deeper than the parser goes", strings.Repeat("[", 100_000), "", ""},
		{"dense", "[" + strings.Repeat("1,", 500_000) + "]", "", "too many values"},
		{"large", "a: " + strings.Repeat("x", 5<<20), "", "at most 5242880 bytes of YAML"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, faults := yamljson.Convert([]byte(tc.yaml), full())
			require.NotEmpty(t, faults)
			if tc.message != "" {
				require.Equal(t, tc.path, faults[0].Path)
				require.Contains(t, faults[0].Message, tc.message)
				require.NotContains(t, faults[0].Message, "canary")
				require.NotContains(t, faults[0].Message, "value:")
			}
		})
	}
}

// many returns n members of an object.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1, ", i)
	}
	return b.String()
}

func FuzzConvert(f *testing.F) {
	for _, seed := range []string{
		"a: &x [1, *x]\n", "a: &x {b: 1}\nc: {<<: [*x, {d: 0x1F}]}\n", "? [a]\n: - !!binary x\n", "%YAML 1.2\n---\n|\n x\n...\n",
		"openapi: 3.0.3\npaths:\n  /a:\n    get:\n      responses:\n        200: {description: no}\n", "[+1, .5, 1., 012, .inf, !!str 1, 'x', 2026-01-01]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		for _, opts := range []yamljson.Options{full(), {What: "a document", MaxBytes: 1 << 20, MaxJSON: 1 << 20, MaxDepth: 64, MaxValues: 100_000}} {
			raw, faults := yamljson.Convert(source, opts)
			if len(faults) == 0 {
				require.True(t, json.Valid(raw), "%q", raw)
				require.LessOrEqual(t, len(raw), opts.MaxJSON)
			}
		}
	})
}

// What was read before may leave nothing, or less.
func TestConvertWithoutRoomForItsJSONIsTooLong(t *testing.T) {
	t.Parallel()
	for _, room := range []int{0, -1, -1 << 40} {
		opts := full()
		opts.MaxJSON = room
		out, list := yamljson.Convert([]byte("a: 1\n"), opts)
		require.Nil(t, out)
		require.Equal(t, []yamljson.Fault{{Rule: "maxLength", Message: "a document is too long as JSON"}}, list)
	}
}
