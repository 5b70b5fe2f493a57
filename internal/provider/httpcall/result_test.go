package httpcall_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/provider/httpcall"
)

func TestAnswerBecomesOneObject(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		media, body string
		declared    []string
		want        string
		ok          bool
	}{
		"an object as it is":        {"application/json; charset=utf-8", " {\"n\": 9007199254740993,\"f\":1.0}\n", nil, "{\"n\": 9007199254740993,\"f\":1.0}", true},
		"a list":                    {"application/json", `[1,2.50]`, nil, `{"data":[1,2.50]}`, true},
		"a text":                    {"application/vnd.x+json", `"a"`, nil, `{"data":"a"}`, true},
		"null":                      {"text/json", `null`, nil, `{"data":null}`, true},
		"nothing":                   {"", ``, nil, `{"data":null}`, true},
		"nothing but space":         {"application/json", " \r\n", nil, `{"data":null}`, true},
		"nothing of another type":   {"text/html", ``, nil, `{"data":null}`, true},
		"a byte order mark":         {"application/json", "\xef\xbb\xbf{}", nil, `{}`, true},
		"JSON without a type":       {"", `{"a":1}`, nil, `{"a":1}`, true},
		"no JSON without a type":    {"", `hello`, nil, ``, false},
		"cut JSON":                  {"application/json", `{"a":`, nil, ``, false},
		"two values":                {"application/json", `{} {}`, nil, ``, false},
		"JSON that is not UTF-8":    {"application/json", "{\"a\":\"\xff\"}", nil, ``, false},
		"a page":                    {"text/html", `<html>`, []string{"application/json"}, ``, false},
		"JSON called a page":        {"text/html", `{"a":1}`, []string{"application/json"}, ``, false},
		"declared text":             {"text/plain; charset=utf-8", "a <b>\n", []string{"text/plain"}, `{"data":"a <b>\n"}`, true},
		"a declared range":          {"text/csv", "a,b", []string{"text/*"}, `{"data":"a,b"}`, true},
		"anything declared":         {"image/svg+xml", "<svg/>", []string{"*/*"}, `{"data":"<svg/>"}`, true},
		"declared but not text":     {"image/png", "\x89PNG\xff", []string{"image/png"}, ``, false},
		"a malformed type":          {"text", "a", []string{"text/plain"}, ``, false},
		"JSON without end in depth": {"application/json", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), nil, ``, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := httpcall.ResultObject(tc.media, []byte(tc.body), tc.declared)
			require.Equal(t, tc.ok, ok)
			require.Equal(t, tc.want, string(got))
		})
	}
}
