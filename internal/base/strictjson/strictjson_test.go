package strictjson_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/strictjson"
)

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	free := []string{"/args", "/conditions/*/value", "/list/1"}
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	cases := []struct{ name, body, rule, path string }{
		{"empty", "", strictjson.RuleEmpty, ""},
		{"blank", " \n\t", strictjson.RuleEmpty, ""},
		{"byte order mark", "\xef\xbb\xbf{}", strictjson.RuleSyntax, ""},
		{"duplicate", `{"verb":1,"verb":2}`, strictjson.RuleDuplicateName, "/verb"},
		{"duplicate by case", `{"verb":"a:read","VERB":"a:delete"}`, strictjson.RuleDuplicateName, "/VERB"},
		{"duplicate by escape", `{"verb":1,"v\u0065rb":2}`, strictjson.RuleDuplicateName, "/verb"},
		{"duplicate by Kelvin sign", `{"key":1,"\u212Aey":2}`, strictjson.RuleDuplicateName, "/\u212Aey"},
		{"duplicate by long s", `{"args":1,"argſ":2}`, strictjson.RuleDuplicateName, "/argſ"},
		{"duplicate Greek sigma", `{"σ":1,"ς":2}`, strictjson.RuleDuplicateName, "/ς"},
		{"duplicate deep", `{"a":[{"b":{"c":1,"C":2}}]}`, strictjson.RuleDuplicateName, "/a/0/b/C"},
		{"duplicate in free", `{"args":{"x":{"a":1,"b":2,"a":3}}}`, strictjson.RuleDuplicateName, "/args/x/a"},
		{"free is exact", `{"ARGS":{"a":1,"A":2}}`, strictjson.RuleDuplicateName, "/ARGS/A"},
		{"free does not spread", `{"args":{"a":1,"A":2},"b":{"a":1,"A":2}}`, strictjson.RuleDuplicateName, "/b/A"},
		{"free wildcard ends", `{"conditions":[{"value":{},"x":{"a":1,"A":1}}]}`, strictjson.RuleDuplicateName, "/conditions/0/x/A"},
		{"free index is one element", `{"list":[{"a":1,"A":1}]}`, strictjson.RuleDuplicateName, "/list/0/A"},
		{"pointer is escaped", `{"a/b~c":[1,]}`, strictjson.RuleSyntax, "/a~1b~0c/1"},
		{"second value", `{} {}`, strictjson.RuleTrailingData, ""},
		{"trailing letter", `1x`, strictjson.RuleTrailingData, ""},
		{"bad UTF-8 value", "{\"a\":\"\xff\"}", strictjson.RuleUTF8, "/a"},
		{"bad UTF-8 name", "{\"\xc0\x80\":1}", strictjson.RuleUTF8, ""},
		{"UTF-8 surrogate", "\"\xed\xa0\x80\"", strictjson.RuleUTF8, ""},
		{"lone high surrogate", `["\ud800"]`, strictjson.RuleSurrogate, "/0"},
		{"high then letter", `["\ud800a"]`, strictjson.RuleSurrogate, "/0"},
		{"high then high", `["\ud800\ud800"]`, strictjson.RuleSurrogate, "/0"},
		{"lone low surrogate", `["\udc00"]`, strictjson.RuleSurrogate, "/0"},
		{"escaped NUL", `{"a":"\u0000"}`, strictjson.RuleNUL, "/a"},
		{"escaped NUL in a name", `{"a\u0000":1}`, strictjson.RuleNUL, ""},
		{"raw NUL", "[\"\x00\"]", strictjson.RuleNUL, "/0"},
		{"NUL outside", "[\x00]", strictjson.RuleNUL, "/0"},
		{"control character", "[\"\n\"]", strictjson.RuleSyntax, "/0"},
		{"unknown escape", `["\x"]`, strictjson.RuleSyntax, "/0"},
		{"short escape", `["\u12"]`, strictjson.RuleSyntax, "/0"},
		{"65 deep", deep(65), strictjson.RuleDepth, strings.Repeat("/0", 64)},
		{"deep objects", strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70), strictjson.RuleDepth, strings.Repeat("/a", 64)},
		{"long number", strings.Repeat("1", 65), strictjson.RuleNumber, ""},
		{"long fraction", `{"n":0.` + strings.Repeat("0", 63) + "}", strictjson.RuleNumber, "/n"},
		{"exponent", `{"n":1e401}`, strictjson.RuleNumber, "/n"},
		{"negative exponent", `{"n":1E-401}`, strictjson.RuleNumber, "/n"},
		{"huge exponent", `{"n":1e999999999999999999999999}`, strictjson.RuleNumber, "/n"},
		{"leading zero", `[01]`, strictjson.RuleSyntax, ""},
		{"plus", `[+1]`, strictjson.RuleSyntax, "/0"},
		{"bare dot", `[1.]`, strictjson.RuleSyntax, "/0"},
		{"bare minus", `[-]`, strictjson.RuleSyntax, "/0"},
		{"bare exponent", `[1e+]`, strictjson.RuleSyntax, "/0"},
		{"NaN", `[NaN]`, strictjson.RuleSyntax, "/0"},
		{"cut literal", `tru`, strictjson.RuleSyntax, ""},
		{"trailing comma", `{"a":1,}`, strictjson.RuleSyntax, ""},
		{"comment", `{}//`, strictjson.RuleTrailingData, ""},
		{"no colon", `{"a" 1}`, strictjson.RuleSyntax, ""},
		{"no value", `{"a":`, strictjson.RuleSyntax, "/a"},
		{"open string", `{"a":"b`, strictjson.RuleSyntax, "/a"},
		{"open escape", `"\`, strictjson.RuleSyntax, ""},
		{"open array", `[1`, strictjson.RuleSyntax, ""},
		{"open object", `{`, strictjson.RuleSyntax, ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := fault.As(strictjson.Check([]byte(tc.body), strictjson.Options{Free: free}))
			require.NotNil(t, f, "accepted")
			require.Equal(t, fault.CodeInvalidJSON, f.Code)
			require.Len(t, f.Details, 1)
			require.Equal(t, tc.rule, f.Details[0].Rule, f.Message)
			require.Equal(t, tc.path, f.Details[0].Path)
			require.Contains(t, f.Message, "at byte ")
		})
	}
}

func TestCheckAccepts(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"scalar":                "true",
		"white space":           " \t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : { } } \n",
		"case in args":          `{"args":{"a":1,"A":2,"deep":[{"x":1,"X":1}]},"verb":"a:b"}`,
		"case under a wildcard": `{"conditions":[{"value":1},{"value":{"a":1,"A":1}}]}`,
		"case under an index":   `{"list":[{},{"a":1,"A":1}]}`,
		"same name elsewhere":   `{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}`,
		"64 deep":               strings.Repeat("[", 64) + strings.Repeat("]", 64),
		"64 character number":   "-" + strings.Repeat("1", 63),
		"limits of exponents":   `[1e400,1e-400,1E+0000400,-0.0e0,9007199254740993]`,
		"escapes":               `["\"\\\/\b\f\n\r\tAé","\ud83d\ude00","\uFFFF"]`,
		"del and astral":        "[\"\x7f\U0010FFFF\"]",
	}
	for name, body := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := strictjson.Options{Free: []string{"/args", "/conditions/*/value", "/list/1"}}
			require.NoError(t, strictjson.Check([]byte(body), opts))
			require.True(t, json.Valid([]byte(body)))
		})
	}
}

func TestCheckFreeDocumentAndDepth(t *testing.T) {
	t.Parallel()
	require.NoError(t, strictjson.Check([]byte(`{"a":1,"A":{"b":1,"B":2}}`), strictjson.Options{Free: []string{""}}))
	require.Error(t, strictjson.Check([]byte(`{"a":1,"a":2}`), strictjson.Options{Free: []string{""}}))
	require.Error(t, strictjson.Check([]byte(`[[[]]]`), strictjson.Options{MaxDepth: 2}))
	require.NoError(t, strictjson.Check([]byte(`[[]]`), strictjson.Options{MaxDepth: 2}))
}

// Many names in one object use the index, in nested objects at the same time.
func TestCheckManyNames(t *testing.T) {
	t.Parallel()
	body := func(last string) []byte {
		var b strings.Builder
		b.WriteString(`{"first":{`)
		for i := range 5000 {
			fmt.Fprintf(&b, `"n%d":%d,`, i, i)
			if i == 2500 {
				b.WriteString(`"inner":{`)
				for j := range 100 {
					fmt.Fprintf(&b, `"n%d":0,`, j)
				}
				b.WriteString(`"end":1},`)
			}
		}
		b.WriteString(strconv.Quote(last) + `:1},"second":{"n1":1}}`)
		return []byte(b.String())
	}
	require.NoError(t, strictjson.Check(body("n5000"), strictjson.Options{}))
	for _, dup := range []string{"n0", "N4999", "INNER"} {
		f := fault.As(strictjson.Check(body(dup), strictjson.Options{}))
		require.NotNil(t, f, dup)
		require.Equal(t, "/first/"+dup, f.Details[0].Path)
	}
}

func TestErrorsDoNotEchoValues(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"password":"hunter2secret\ud800"}`,
		`{"n":hunter2secret}`,
		`{"n":1} hunter2secret`,
	} {
		f := fault.As(strictjson.Check([]byte(body), strictjson.Options{}))
		require.NotNil(t, f)
		require.NotContains(t, fmt.Sprintf("%+v %+v", f, f.Details), "hunter2secret")
	}
	long := `{"` + strings.Repeat("ü", 10_000) + `":!}`
	f := fault.As(strictjson.Check([]byte(long), strictjson.Options{}))
	require.Less(t, len(f.Message), 300)
}

//nolint:paralleltest // AllocsPerRun counts for the whole process and panics in parallel tests
func TestCheckAllocations(t *testing.T) {
	body := smallRun()
	opts := strictjson.Options{Free: []string{"/args", "/metadata"}}
	allocs := testing.AllocsPerRun(100, func() {
		if strictjson.Check(body, opts) != nil {
			t.Fatal("refused")
		}
	})
	require.LessOrEqual(t, allocs, 2.0)
}

func smallRun() []byte {
	return []byte(`{"verb":"sandbox:create_order","args":{"customer_id":"cus_1","amount":1999,"currency":"eur",` +
		`"items":[{"sku":"A-1","quantity":2}]},"execution_id":"exec-0001","session_id":"s-1","metadata":{"dryRun":false}}`)
}

// megabyte is a run request of 1 MiB with members of every kind.
func megabyte() []byte {
	var b strings.Builder
	b.WriteString(`{"verb":"a:b","args":{"rows":[`)
	for i := 0; b.Len() < 1<<20-200; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"name":"customer number %d","note":"a \"quoted\" line\nand more text für alle","price":%d.25,"tags":["a","b"],"open":true}`, i, i, i)
	}
	b.WriteString(`]}}`)
	return []byte(b.String())
}

func BenchmarkCheck(b *testing.B) {
	opts := strictjson.Options{Free: []string{"/args", "/metadata"}}
	for name, body := range map[string][]byte{"small": smallRun(), "1MiB": megabyte()} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := strictjson.Check(body, opts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-0.50e+3,"x\u00e9\ud83d\ude00",null,true],"A":{"b":{}}}`, `""`, `[[],{}]`, `1e400`,
		"0." + strings.Repeat("0", 50) + "1e-400", `{"b":1,"a":2,"ab":{"z":0,"y":1}}`, " [ 1 , 2 ] ",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := strictjson.Check(data, strictjson.Options{Free: []string{""}})
		if err != nil {
			require.Error(t, strictjson.Check(data, strictjson.Options{}), "less strict without free")
			return
		}
		require.True(t, json.Valid(data), "encoding/json refuses it")
		once, err := strictjson.Canonical(data)
		require.NoError(t, err)
		require.True(t, json.Valid(once))
		twice, err := strictjson.Canonical(once)
		require.NoError(t, err)
		require.Equal(t, string(once), string(twice))
		require.Empty(t, strictjson.Diff(data, once))
	})
}
