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
		want        string // "" where the answer becomes no result
	}{
		"an object as it is":        {"application/json; charset=utf-8", " {\"n\": 9007199254740993,\"f\":1.0}\n", "{\"n\": 9007199254740993,\"f\":1.0}"},
		"a list":                    {"application/json", `[1,2.50]`, `{"data":[1,2.50]}`},
		"a text in JSON":            {"application/vnd.x+json", `"a"`, `{"data":"a"}`},
		"null":                      {"text/json", `null`, `{"data":null}`},
		"nothing":                   {"", ``, `{"data":null}`},
		"nothing but space":         {"application/json", " \r\n", `{"data":null}`},
		"nothing of another type":   {"text/html", ``, `{"data":null}`},
		"a byte order mark":         {"application/json", "\xef\xbb\xbf{}", `{}`},
		"JSON without a type":       {"", `{"a":1}`, `{"a":1}`},
		"a number without a type":   {"", `17`, `{"data":17}`},
		"text without a type":       {"", `hello`, `{"text":"hello","media_type":""}`},
		"a brace without a type":    {"", `{hello`, `{"text":"{hello","media_type":""}`},
		"cut JSON":                  {"application/json", `{"a":`, ``},
		"text called JSON":          {"application/json", `ok`, ``},
		"two values":                {"application/json", `{} {}`, ``},
		"JSON that is not UTF-8":    {"application/json", "{\"a\":\"\xff\"}", ``},
		"a page":                    {"text/html", `<html>`, `{"text":"<html>","media_type":"text/html"}`},
		"JSON called a page":        {"text/html", `{"a":1}`, `{"text":"{\"a\":1}","media_type":"text/html"}`},
		"plain text":                {"text/plain; charset=utf-8", "a <b>\n", `{"text":"a <b>\n","media_type":"text/plain"}`},
		"XML":                       {"application/soap+xml", "<a/>", `{"text":"<a/>","media_type":"application/soap+xml"}`},
		"lines of JSON":             {"application/x-ndjson", "{}\n{}", `{"text":"{}\n{}","media_type":"application/x-ndjson"}`},
		"a malformed type":          {"text", "a", `{"text":"a","media_type":""}`},
		"JSON without end in depth": {"application/json", strings.Repeat("[", 15000) + strings.Repeat("]", 15000), ``},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, wrapped, err := httpcall.ResultObject(tc.media, []byte(tc.body))
			require.Equal(t, tc.want, string(got))
			switch {
			case name == "JSON without end in depth":
				require.ErrorIs(t, err, httpcall.ErrTooDeep)
			case tc.want == "":
				require.ErrorIs(t, err, httpcall.ErrMalformed)
			default:
				require.NoError(t, err)
				require.Equal(t, strings.HasPrefix(tc.want, `{"`+wrapped+`":`), wrapped != "", wrapped)
			}
		})
	}
}
