package httpcall_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/httpplan"
)

const base = "https://api.shop.example/v1"

// The table of styles of OpenAPI 3.1 (4.8.12.3), with its values, and what a hostile value
// becomes.
func TestParametersAreWrittenInTheirStyle(t *testing.T) {
	t.Parallel()
	const (
		list   = `["blue","black","brown"]`
		object = `{"R":100,"G":200,"B":150}`
	)
	tests := map[string]struct {
		p     httpplan.Param
		value string
		url   string
		head  string
	}{
		"path simple":                {httpplan.Param{In: "path", Style: "simple"}, `"blue"`, "/p/blue", ""},
		"path simple list":           {httpplan.Param{In: "path", Style: "simple"}, list, "/p/blue,black,brown", ""},
		"path simple object":         {httpplan.Param{In: "path", Style: "simple"}, object, "/p/B,150,G,200,R,100", ""},
		"path simple object explode": {httpplan.Param{In: "path", Style: "simple", Explode: true}, object, "/p/B=150,G=200,R=100", ""},
		"path label":                 {httpplan.Param{In: "path", Style: "label"}, `"blue"`, "/p/.blue", ""},
		"path label list":            {httpplan.Param{In: "path", Style: "label"}, list, "/p/.blue,black,brown", ""},
		"path label list explode":    {httpplan.Param{In: "path", Style: "label", Explode: true}, list, "/p/.blue.black.brown", ""},
		"path label object":          {httpplan.Param{In: "path", Style: "label"}, object, "/p/.B,150,G,200,R,100", ""},
		"path label object explode":  {httpplan.Param{In: "path", Style: "label", Explode: true}, object, "/p/.B=150.G=200.R=100", ""},
		"path matrix":                {httpplan.Param{In: "path", Style: "matrix"}, `"blue"`, "/p/;v=blue", ""},
		"path matrix list":           {httpplan.Param{In: "path", Style: "matrix"}, list, "/p/;v=blue,black,brown", ""},
		"path matrix list explode":   {httpplan.Param{In: "path", Style: "matrix", Explode: true}, list, "/p/;v=blue;v=black;v=brown", ""},
		"path matrix object":         {httpplan.Param{In: "path", Style: "matrix"}, object, "/p/;v=B,150,G,200,R,100", ""},
		"path matrix object explode": {httpplan.Param{In: "path", Style: "matrix", Explode: true}, object, "/p/;B=150;G=200;R=100", ""},
		"path json":                  {httpplan.Param{In: "path", Style: "json"}, `{"a":1}`, "/p/%7B%22a%22%3A1%7D", ""},
		"path with a slash":          {httpplan.Param{In: "path", Style: "simple"}, `"a/b?c#d"`, "/p/a%2Fb%3Fc%23d", ""},
		"path with percent":          {httpplan.Param{In: "path", Style: "simple"}, `"50%25 a"`, "/p/50%2525%20a", ""},
		"path beyond ASCII":          {httpplan.Param{In: "path", Style: "simple"}, `"é"`, "/p/%C3%A9", ""},
		"path number":                {httpplan.Param{In: "path", Style: "simple"}, `9007199254740993`, "/p/9007199254740993", ""},
		"query form":                 {httpplan.Param{In: "query", Style: "form", Explode: true}, `"a b&c=d"`, "/p?v=a%20b%26c%3Dd", ""},
		"query form list":            {httpplan.Param{In: "query", Style: "form", Explode: true}, list, "/p?v=blue&v=black&v=brown", ""},
		"query form list as one":     {httpplan.Param{In: "query", Style: "form"}, list, "/p?v=blue,black,brown", ""},
		"query form object":          {httpplan.Param{In: "query", Style: "form", Explode: true}, object, "/p?B=150&G=200&R=100", ""},
		"query form object as one":   {httpplan.Param{In: "query", Style: "form"}, object, "/p?v=B,150,G,200,R,100", ""},
		"query space":                {httpplan.Param{In: "query", Style: "spaceDelimited"}, list, "/p?v=blue%20black%20brown", ""},
		"query pipe":                 {httpplan.Param{In: "query", Style: "pipeDelimited"}, list, "/p?v=blue%7Cblack%7Cbrown", ""},
		"query deep":                 {httpplan.Param{In: "query", Style: "deepObject", Explode: true}, object, "/p?v%5BB%5D=150&v%5BG%5D=200&v%5BR%5D=100", ""},
		"query deep list":            {httpplan.Param{In: "query", Style: "deepObject", Explode: true}, `["a",{"b":[1]}]`, "/p?v%5B0%5D=a&v%5B1%5D%5Bb%5D%5B0%5D=1", ""},
		"query deep of a text":       {httpplan.Param{In: "query", Style: "deepObject", Explode: true}, `"a"`, "/p?v=a", ""},
		"query json":                 {httpplan.Param{In: "query", Style: "json"}, `{"n":1.50}`, "/p?v=%7B%22n%22%3A1.50%7D", ""},
		"query reserved":             {httpplan.Param{In: "query", Style: "form", Reserved: true}, `"a/b:c?&#+x"`, "/p?v=a/b:c?%26%23%2Bx", ""},
		"query list with a comma":    {httpplan.Param{In: "query", Style: "form"}, `["a,b","c"]`, "/p?v=a%2Cb,c", ""},
		"query object with null":     {httpplan.Param{In: "query", Style: "deepObject", Explode: true}, `{"a":null,"b":1}`, "/p?v%5Bb%5D=1", ""},
		"path with its slashes":      {httpplan.Param{In: "path", Style: "simple", Reserved: true}, `"dir/a b,c;d?e#f%2F:@g"`, "/p/dir/a%20b%2Cc%3Bd%3Fe%23f%252F:@g", ""},
		"query true":                 {httpplan.Param{In: "query", Style: "form"}, `true`, "/p?v=true", ""},
		"query null":                 {httpplan.Param{In: "query", Style: "form"}, `null`, "/p", ""},
		"query empty":                {httpplan.Param{In: "query", Style: "form"}, `""`, "/p?v=", ""},
		"query empty list":           {httpplan.Param{In: "query", Style: "form", Explode: true}, `[]`, "/p", ""},
		"query empty list as one":    {httpplan.Param{In: "query", Style: "form"}, `[]`, "/p", ""},
		"query list of objects":      {httpplan.Param{In: "query", Style: "form", Explode: true}, `[{"a":1}]`, "/p?v=%7B%22a%22%3A1%7D", ""},
		"header simple":              {httpplan.Param{In: "header", Style: "simple"}, list, "/p", "blue,black,brown"},
		"header object explode":      {httpplan.Param{In: "header", Style: "simple", Explode: true}, object, "/p", "B=150,G=200,R=100"},
		"header json":                {httpplan.Param{In: "header", Style: "json"}, object, "/p", `{"B":150,"G":200,"R":100}`},
		"cookie":                     {httpplan.Param{In: "cookie", Style: "form", Explode: true}, `"a; b=c"`, "/p", "v=a%3B%20b%3Dc"},
		"cookie list as one":         {httpplan.Param{In: "cookie", Style: "form"}, list, "/p", "v=blue,black,brown"},
		"cookie list":                {httpplan.Param{In: "cookie", Style: "form", Explode: true}, `["a","b"]`, "/p", "v=a; v=b"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.p.Arg, tc.p.Name = "arg", "v"
			plan := httpplan.Plan{Method: "GET", Path: "/p", Params: []httpplan.Param{tc.p}}
			if tc.p.In == "path" {
				plan.Path = "/p/{v}"
			}
			req, err := httpcall.BuildRequest(plan, base+"/", json.RawMessage(`{"arg":`+tc.value+`}`))
			require.NoError(t, err)
			require.Equal(t, base+tc.url, req.URL)
			_, err = url.Parse(req.URL)
			require.NoError(t, err)
			switch tc.p.In {
			case "header":
				require.Equal(t, tc.head, req.Header.Get("V"))
			case "cookie":
				require.Equal(t, tc.head, req.Header.Get("Cookie"))
			}
		})
	}
}

func TestUnsendableArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	path := httpplan.Plan{Method: "GET", Path: "/a/{x}/{y}", Params: []httpplan.Param{{Arg: "x", In: "path", Style: "simple"}, {Arg: "y", In: "path", Style: "simple"}}}
	joined := httpplan.Plan{Method: "GET", Path: "/a/{x}{y}", Params: path.Params}
	header := httpplan.Plan{Method: "GET", Path: "/a", Params: []httpplan.Param{{Arg: "h", In: "header", Style: "simple"}}}
	reserved := httpplan.Plan{Method: "GET", Path: "/a/{x}", Params: []httpplan.Param{{Arg: "x", In: "path", Style: "simple", Reserved: true}}}
	formPlan := httpplan.Plan{Method: "POST", Path: "/a", Body: &httpplan.Body{Type: "application/x-www-form-urlencoded", Kind: "form", Fields: map[string]httpplan.Encoding{
		"deep": {Style: "deepObject", Explode: true}, "pipe": {Style: "pipeDelimited"},
	}}}
	lists := func(style string, explode bool) httpplan.Plan {
		return httpplan.Plan{Method: "GET", Path: "/a", Params: []httpplan.Param{{Arg: "x", In: "query", Style: style, Explode: explode}}}
	}
	tests := map[string]struct {
		plan       httpplan.Plan
		args, path string
	}{
		"nothing":                     {path, `{"y":"1"}`, "/args/x"},
		"null":                        {path, `{"x":null,"y":"1"}`, "/args/x"},
		"an empty text":               {path, `{"x":"","y":"1"}`, "/args/x"},
		"an empty list":               {path, `{"x":[],"y":"1"}`, "/args/x"},
		"a dot":                       {path, `{"x":".","y":"1"}`, "/args/x"},
		"two dots":                    {path, `{"x":"..","y":"1"}`, "/args/x"},
		"dots behind a slash":         {path, `{"x":"a/../../b","y":"1"}`, "/args/x"},
		"dots and a backslash":        {path, `{"x":"a\\..\\b","y":"1"}`, "/args/x"},
		"dots in a list":              {path, `{"x":[".."],"y":"1"}`, "/args/x"},
		"one dot and another":         {joined, `{"x":"a","y":"../b"}`, "/args/y"},
		"a null in a form's list":     {formPlan, `{"a":[1,null]}`, "/args/a/1"},
		"a null deep in a form":       {formPlan, `{"deep":{"b":[{"c":[null]}]}}`, "/args/deep/b/0/c/0"},
		"a null in a query's list":    {lists("form", true), `{"x":["a",null]}`, "/args/x/1"},
		"a pipe in a piped item":      {lists("pipeDelimited", false), `{"x":["a","b|c"]}`, "/args/x/1"},
		"a space in a spaced item":    {lists("spaceDelimited", false), `{"x":["a b"]}`, "/args/x/0"},
		"a pipe in a piped field":     {formPlan, `{"pipe":["a","b|c"]}`, "/args/pipe/1"},
		"a comma that is not encoded": {httpplan.Plan{Method: "GET", Path: "/a", Params: []httpplan.Param{{Arg: "x", In: "query", Style: "form", Reserved: true}}}, `{"x":["a,b"]}`, "/args/x/0"},
		"a dot in a dotted item":      {httpplan.Plan{Method: "GET", Path: "/a/{x}", Params: []httpplan.Param{{Arg: "x", In: "path", Style: "label", Explode: true}}}, `{"x":["a.b"]}`, "/args/x/0"},
		"dots in a path of slashes":   {reserved, `{"x":"a/../b"}`, "/args/x"},
		"a slash at the beginning":    {reserved, `{"x":"/a"}`, "/args/x"},
		"a slash at the end":          {reserved, `{"x":"a/"}`, "/args/x"},
		"two slashes":                 {reserved, `{"x":"a//b"}`, "/args/x"},
		"a line break":                {header, `{"h":"a\r\nX-Evil: 1"}`, "/args/h"},
		"a line break in a list":      {header, `{"h":["a\n"]}`, "/args/h"},
		"a comma in a header's list":  {header, `{"h":["a",["b","c"]]}`, "/args/h/1"},
		"a null in a path's list":     {path, `{"x":["a",null],"y":"1"}`, "/args/x/1"},
		"a null in a path's object":   {path, `{"x":{"a":null},"y":"1"}`, "/args/x/a"},
		"an empty text in a list":     {path, `{"x":["a",""],"y":"1"}`, "/args/x/1"},
		"dots in a name":              {path, `{"x":{"../a":"b"},"y":"1"}`, "/args/x"},
		"slashes in a list":           {reserved, `{"x":["a//b"]}`, "/args/x"},
		"no object":                   {path, `[]`, "/args"},
		"null for all":                {path, `null`, "/args"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := httpcall.BuildRequest(tc.plan, base, json.RawMessage(tc.args))
			f := fault.As(err)
			require.NotNil(t, f)
			require.Equal(t, fault.CodeInvalidArgs, f.Code)
			require.Equal(t, tc.path, f.Details[0].Path)
		})
	}
}

// Items of nothing would make a dot segment of the dots that a label writes.
func TestEmptyItemsInAPathAreRefused(t *testing.T) {
	t.Parallel()
	for _, explode := range []bool{false, true} {
		plan := httpplan.Plan{Method: "GET", Path: "/a/.{x}/b", Params: []httpplan.Param{{Arg: "x", In: "path", Style: "label", Explode: explode}}}
		_, err := httpcall.BuildRequest(plan, base, json.RawMessage(`{"x":["",""]}`))
		require.True(t, fault.HasCode(err, fault.CodeInvalidArgs))
		require.Equal(t, "/args/x/0", fault.As(err).Details[0].Path)
	}
}

func TestBodyIsWrittenByItsKind(t *testing.T) {
	t.Parallel()
	withParam := []httpplan.Param{{Arg: "q", In: "query", Style: "form"}}
	jsonFlat := &httpplan.Body{Type: "application/json", Kind: "json"}
	form := &httpplan.Body{Type: "application/x-www-form-urlencoded", Kind: "form", Fields: map[string]httpplan.Encoding{
		"deep": {Style: "deepObject", Explode: true}, "one": {Style: "form"}, "pipe": {Style: "pipeDelimited"}, "json": {Style: "json"},
	}}
	tests := map[string]struct {
		body       *httpplan.Body
		args       string
		want, kind string
	}{
		"JSON keeps every digit": {jsonFlat, `{"q":1,"n":9007199254740993,"f":1.10,"e":1E+2,"s":"<é>\u0001"}`, `{"e":1E+2,"f":1.10,"n":9007199254740993,"s":"<é>\u0001"}`, "application/json"},
		"JSON not needed":        {jsonFlat, `{"q":1}`, ``, ""},
		"JSON needed but empty":  {&httpplan.Body{Type: "application/json", Kind: "json", Required: true}, `{"q":1}`, `{}`, "application/json"},
		"a whole body":           {&httpplan.Body{Type: "application/json", Kind: "json", Arg: "body"}, `{"q":1,"body":[1.0, 2]}`, `[1.0, 2]`, "application/json"},
		"no whole body":          {&httpplan.Body{Type: "application/json", Kind: "json", Arg: "body"}, `{"q":1}`, ``, ""},
		"text":                   {&httpplan.Body{Type: "text/plain", Kind: "text", Arg: "body"}, `{"body":"a\nb"}`, "a\nb", "text/plain"},
		"bytes":                  {&httpplan.Body{Type: "image/png", Kind: "binary", Arg: "body"}, `{"body":"AAEC"}`, "\x00\x01\x02", "image/png"},
		"a form":                 {form, `{"q":1,"a":"x y&z=1","b":[1,2],"n":12345678901234567890}`, "a=x%20y%26z%3D1&b=1&b=2&n=12345678901234567890", "application/x-www-form-urlencoded"},
		"a form with encodings":  {form, `{"deep":{"k":{"l":[1,{"m":2}]}},"one":[1,2],"pipe":["a","b"],"json":["x"]}`, "deep%5Bk%5D%5Bl%5D%5B0%5D=1&deep%5Bk%5D%5Bl%5D%5B1%5D%5Bm%5D=2&json=%5B%22x%22%5D&one=1,2&pipe=a%7Cb", "application/x-www-form-urlencoded"},
		"a form with an object":  {form, `{"o":{"a":1}}`, "o=%7B%22a%22%3A1%7D", "application/x-www-form-urlencoded"},
		"a form with null":       {form, `{"a":null,"b":"","deep":{"x":null,"y":[{"z":null,"w":1}]},"json":[null],"o":{"n":null}}`, "b=&deep%5By%5D%5B0%5D%5Bw%5D=1&json=%5Bnull%5D&o=%7B%22n%22%3Anull%7D", "application/x-www-form-urlencoded"},
		"base64 without padding": {&httpplan.Body{Type: "image/png", Kind: "binary", Arg: "body"}, `{"body":"__8"}`, "\xff\xff", "image/png"},
		"a form as one argument": {&httpplan.Body{Type: "application/x-www-form-urlencoded", Kind: "form", Arg: "body"}, `{"body":{"a":1,"b":"c"}}`, "a=1&b=c", "application/x-www-form-urlencoded"},
		"a body where none is":   {nil, `{"x":1}`, ``, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := httpplan.Plan{Method: "POST", Path: "/p", Params: withParam, Body: tc.body}
			req, err := httpcall.BuildRequest(plan, base, json.RawMessage(tc.args))
			require.NoError(t, err)
			require.Equal(t, tc.want, string(req.Body))
			require.Equal(t, tc.kind, req.Header.Get("Content-Type"))
		})
	}
}

// TestDeclaredBodyIsSent takes a call from the document to the bytes.
// TestAnyTextArrivesUnchanged: whatever text is in a path, a query, a form or a JSON
// body, the other side reads the same text, and nothing else changes.
func TestAnyTextArrivesUnchanged(t *testing.T) {
	t.Parallel()
	plan := httpplan.Plan{
		Method: "POST", Path: "/p/{a}/end", Params: []httpplan.Param{{Arg: "a", In: "path", Style: "simple"}, {Arg: "b", In: "query", Style: "form"}},
		Body: &httpplan.Body{Type: "application/x-www-form-urlencoded", Kind: "form"},
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b"), rapid.String().Draw(t, "c")
		args, err := json.Marshal(map[string]string{"a": a, "b": b, "c": c})
		require.NoError(t, err)
		req, err := httpcall.BuildRequest(plan, base, args)
		if err != nil {
			require.True(t, fault.HasCode(err, fault.CodeInvalidArgs))
			return
		}
		u, err := url.Parse(req.URL)
		require.NoError(t, err)
		require.Equal(t, "api.shop.example", u.Host)
		require.Equal(t, "/v1/p/"+a+"/end", u.Path)
		require.Equal(t, 5, strings.Count(u.EscapedPath(), "/")+1)
		require.Equal(t, url.Values{"b": {b}}, u.Query())
		form, err := url.ParseQuery(string(req.Body))
		require.NoError(t, err)
		require.Equal(t, url.Values{"c": {c}}, form)
	})
}
