package yamljson_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/yamljson"
)

// joined is n lines of the format, each with its number.
func joined(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// nested is a value in so many lists or objects, each of which is a name of the one around it.
func nested(n int, begin, value, end string) string {
	return "a: " + strings.Repeat(begin, n) + value + strings.Repeat(end+": 1", n)
}

// inUTF16 is a text in UTF-16 with its mark.
func inUTF16(text string) string {
	out := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		out = append(out, byte(unit), byte(unit>>8))
	}
	return string(out)
}

// chain is n objects, each with the members of all before it and one of its own.
func chain(n int) string {
	return "a0: &a0 {k0: 1}\n" + joined(n, "b%[1]d: &b%[1]d {<<: [*a0], k%[1]d: 1}\nc%[1]d: &a0 {<<: *b%[1]d}\n")
}

// Each document is small and would have cost many times what a plain one of its size costs.
func TestConvertCostlyDocumentIsRefused(t *testing.T) {
	t.Parallel()
	const (
		values = "too many values once its aliases and merge keys are written out"
		names  = "too many lists or objects as names"
		tags   = "%TAG"
	)
	long := "x: &x {" + strings.Repeat("n", 100_000) + ": 1}\n"
	objects := "x: &x {" + many(1000) + "}\n"
	hidden := "1, \"x: " + strings.Repeat("[", 2000) + strings.Repeat("1,", 1000) + strings.Repeat("]: 1", 2000) + "\"\n]\n"
	for _, tc := range []struct{ name, yaml, message string }{
		{"a large object, merged often", objects + joined(1000, "y%d: {<<: *x}\n"), values},
		{"a large object, merged again and again", objects + "y: {<<: [" + strings.Repeat("*x,", 1000) + "]}\n", values},
		{"a long name, merged again and again", long + "y: {<<: [" + strings.Repeat("*x,", 5000) + "]}\n", values},
		{"a chain of merges", chain(1000), values},
		{"lists of lists of merges", "x: &x {}\ny: {<<: [" + strings.Repeat("&z [*x,*x],*z,*z,*z,*z,*z,*z,*z,*z,*z,", 10_000) + "]}\n", values},
		{"objects of no members, merged in each other", "c: &c {}\n" + joined(1000, "b%[1]d: &b {<<: *c}\nc%[1]d: &c {<<: *b}\n"), values},
		{"a list, repeated often", "x: &x [" + strings.Repeat("1,", 1000) + "]\ny: [" + strings.Repeat("*x,", 2000) + "]\n", values},
		{"lists as names", nested(2000, "[", strings.Repeat("1,", 1000), "]"), names},
		{"lists as names with spaces", nested(2000, "[", strings.Repeat("1,", 1000), "] \t"), names},
		{"objects as names", nested(2000, "{", strings.Repeat("1,", 1000), "}"), names},
		{"texts in lists as names", nested(2000, "[", strings.Repeat(`""`, 1000), "]"), names},
		{"tags in lists as names", nested(2000, "[", strings.Repeat(`!a &a `, 1000), "]"), names},
		{"lists as names in UTF-16", inUTF16(nested(2000, "[", "\"\u0a0a\u0d0d\","+strings.Repeat("1,", 1000), "]")), names},
		{"lists as names after JSON", "a: {\"b\": 1}\n" + nested(2000, "[", strings.Repeat("1,", 1000), "]"), names},
		{"lists as names in JSON in a comment", "# {\"a\": [\n" + strings.TrimSuffix(hidden, "\n") + "}\n", names},
		{"lists as names in JSON in a plain text", "a: x [\n" + hidden, names},
		{"lists as names in JSON in the second line of a plain text", "a: x\n  [\n" + hidden, names},
		{"lists as names in JSON in a directive", "%FOO a: [\n" + hidden, names},
		{"lists as names in JSON after another end of a line", "# a\u2028b: x\n  [\n" + hidden, names},
		{"lists as names around JSON", nested(2000, "[", "{\"b\": ["+strings.Repeat("1,", 1000)+"1]}", "]"), names},
		{"lists as names that are JSON in a text", "a: [ 'x\n[\"', " + strings.Repeat("[", 2000) + strings.Repeat("1,", 1000) + strings.Repeat("]: 1", 2000) + "\"]\n", names},
		{"many lines of tags", joined(5000, "%%TAG !e%d! tag:a\n") + "---\na: 1\n", tags},
		{"many lines of tags, that end otherwise", "# a\r" + joined(5000, "%%TAG !e%d! tag:a\r") + "---\ra: 1\r", tags},
		{"a long line of a tag, repeated", "%TAG !e! tag:" + strings.Repeat("a", 100_000) + "\n---\n[" + strings.Repeat("!e!x 1,", 1000) + "]\n", tags},
		{"many lines of tags in UTF-16", inUTF16(joined(5000, "%%TAG !e%d! tag:a\n") + "---\na: 1\n"), tags},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Less(t, len(tc.yaml), 500_000)
			opts := full()
			opts.MaxJSON = 25 << 20
			_, faults := yamljson.Convert([]byte(tc.yaml), opts)
			require.NotEmpty(t, faults)
			require.Contains(t, faults[0].Message, tc.message)
		})
	}
}

// Who wrote the document has to find what costs too much.
func TestConvertCostlyDocumentNamesTheLine(t *testing.T) {
	t.Parallel()
	const head = "openapi: 3.1.0\r\ninfo:\r\n  title: t\r\n"
	opts := full()
	opts.MaxJSON = 25 << 20
	for name, tc := range map[string]struct {
		yaml string
		line int
	}{
		"merges":           {head + "x: &x {" + many(1000) + "}\n" + joined(5, "y%d: {<<: *x}\n") + "z: {<<: [" + strings.Repeat("*x,", 1000) + "]}\n", 10},
		"aliases":          {head + "x: &x [" + strings.Repeat("1,", 1000) + "]\ny: [" + strings.Repeat("*x,", 2000) + "]\nz: 1\n", 5},
		"texts":            {head + "x: &x " + strings.Repeat("a", 400_000) + "\n" + joined(10, "y%d: [*x, *x]\n"), 12},
		"lists as names":   {head + "[a, b]: {c: d}\n" + nested(2000, "[", strings.Repeat("1,", 1000), "]") + "\nz: 1\n", 5},
		"lines of tags":    {"# a\r\n# b\r\n" + joined(20, "%%TAG !e%d! tag:a\n") + "---\na: 1\n", 19},
		"a long line":      {"# a\r%TAG !e! tag:" + strings.Repeat("a", 1000) + "\n---\na: 1\n", 2},
		"the line of a CR": {strings.ReplaceAll(head, "\r\n", "\r") + nested(2000, "[", strings.Repeat("1,", 1000), "]"), 4},
	} {
		_, faults := yamljson.Convert([]byte(tc.yaml), opts)
		require.Len(t, faults, 1, name)
		require.Contains(t, faults[0].Message, fmt.Sprintf("(line %d)", tc.line), name)
	}
}

// Many small texts, such as the files of an archive, have the bounds of one.
func TestConvertMeterCountsTextsTogether(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ yaml, message string }{
		"merges":         {"x: &x {" + many(100) + "}\ny: {<<: [" + strings.Repeat("*x,", 100) + "]}\n", "merge keys are written out"},
		"values":         {"x: &x [" + strings.Repeat("1,", 100) + "]\ny: [" + strings.Repeat("*x,", 1000) + "]\n", "merge keys are written out"},
		"lists as names": {nested(200, "[", "1", "]"), "as names"},
		"lines":          {strings.Repeat("- 1\n", 10_000), "too many values"},
	} {
		opts := full()
		opts.Meter = &yamljson.Meter{}
		var messages []string
		for range 100 {
			if _, faults := yamljson.Convert([]byte(tc.yaml), opts); len(faults) > 0 && faults[0].Rule == "maxLength" {
				messages = append(messages, faults[0].Message)
			}
		}
		require.NotEmpty(t, messages, name)
		require.Less(t, len(messages), 100, name)
		require.Contains(t, messages[0], tc.message, name)
	}
}

func TestConvertUsualDocumentIsWithinTheBounds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, yaml string }{
		{"common members, merged into each operation", "x: &x {" + many(20) + "}\n" + joined(1000, "y%d: {<<: *x, own: 1}\n")},
		{"a common list, repeated in each operation", "x: &x [" + strings.Repeat("{a: b},", 50) + "]\n" + joined(2000, "y%d: *x\n")},
		{"a chain of a few merges", chain(20)},
		{"links in a long text", "a: \"" + strings.Repeat(`See [the guide]: https://a.example/x, and {this}: \"it\".\n`, 200) + "\"\n"},
		{"links in many texts", joined(5000, "a%d: |\n  [the guide]: https://a.example/x\n")},
		{"JSON in one line with brackets in texts", "# a\nslug: shop\nopenapi: {\"a\": [" + strings.Repeat(`{"pattern": "^[a-z]{2}:[0-9]{2}:$", "b": 1},`, 5000) + "1]}\n"},
		{"a few tags", "%TAG !! tag:yaml.org,2002:\n---\na: !!str 1\n"},
		{"UTF-16", inUTF16("a: ü😀\n")},
		{"UTF-16, the other order", "\xfe\xff\x00a\x00:\x00 \x00b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, faults := yamljson.Convert([]byte(tc.yaml), full())
			require.Empty(t, faults)
		})
	}
}

func TestConvertAliasIsWrittenLikeItsValue(t *testing.T) {
	t.Parallel()
	deep := full()
	deep.MaxDepth = 4
	for _, tc := range []struct{ name, yaml, want, path, message string }{
		{name: "an alias of aliases", yaml: "{a: &x [1], b: &y [*x, *x], c: [*y]}", want: `{"a":[1],"b":[[1],[1]],"c":[[[1],[1]]]}`},
		{name: "an anchor that is there twice", yaml: "{a: &x 1, b: *x, c: &x 2, d: *x}", want: `{"a":1,"b":1,"c":2,"d":2}`},
		{name: "merged members, repeated", yaml: "{a: &x {k: [1], l: +2}, b: {<<: *x}, c: {<<: *x, k: 3}}", want: `{"a":{"k":[1],"l":2},"b":{"k":[1],"l":2},"c":{"k":3,"l":2}}`},
		{name: "an alias as deep as may be", yaml: "{a: &x [1], b: [[*x]]}", want: `{"a":[1],"b":[[[1]]]}`},
		{name: "an alias that is too deep", yaml: "{a: &x [1], b: [[[*x]]]}", path: "/b/0/0/0/0", message: "nests too deep"},
		{name: "an alias of an alias that is too deep", yaml: "{a: &x [1], b: &y [*x], c: [[*y]]}", path: "/c/0/0/0/0", message: "nests too deep"},
		{name: "a merged member that is too deep", yaml: "{a: &x {k: [1]}, b: [[{<<: *x}]]}", path: "/b/0/0/k/0", message: "nests too deep"},
		{name: "an alias of what is refused", yaml: "{a: &x [.inf], b: *x, c: {<<: *x}}", path: "/a/0", message: "no such number"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, faults := yamljson.Convert([]byte(tc.yaml), deep)
			if tc.message == "" {
				require.Empty(t, faults)
				require.Equal(t, tc.want, string(got))
				return
			}
			require.Len(t, faults, 1)
			require.Equal(t, tc.path, faults[0].Path)
			require.Contains(t, faults[0].Message, tc.message)
		})
	}
}

// The bombs of the same size as a plain document have it allocate little more.
func TestConvertBombAllocatesLikeAPlainDocument(t *testing.T) { //nolint:paralleltest // it counts what is allocated
	const size = 200_000
	opts := full()
	opts.MaxJSON = 25 << 20
	filled := func(text, line string) string {
		return text + strings.Repeat(line, (size-len(text))/len(line))
	}
	allocated := func(text string) (objects, bytes uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = yamljson.Convert([]byte(text), opts)
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
	}
	plain := joined(size/8, "a%d: 1\n")[:size]
	objects, bytes := allocated(plain[:strings.LastIndexByte(plain, '\n')])
	big := "- &x {" + many(1000) + "}\n"
	merges := chain(5000)[:size]
	for name, text := range map[string]string{
		"merges of a large object":              filled(big, "- {<<: *x}\n"),
		"a chain of merges":                     merges[:strings.LastIndexByte(merges, '\n')],
		"an object with a name twice, repeated": filled("- &x {"+many(5000)+"k0: 1}\n", "- *x\n"),
	} {
		more, moreBytes := allocated(text)
		require.Less(t, more, objects*3/2, name)
		require.Less(t, moreBytes, 4*bytes, name)
	}
}
