package httpcall_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/httpplan"
)

// open is a plan with free-form objects beside parameters of their own.
func open(kind string) httpplan.Plan {
	plan := httpplan.Plan{Method: "POST", Path: "/p/{m}/{label}", Query: "action=pay", Params: []httpplan.Param{
		{Arg: "m", In: "path", Style: "matrix", Explode: true},
		{Arg: "amount", In: "query", Style: "form", Explode: true},
		{Arg: "size", Name: "page[size]", In: "query", Style: "form"},
		{Arg: "per", Name: "per.page", In: "query", Style: "form"},
		{Arg: "extra", In: "query", Style: "form", Explode: true},
		{Arg: "more", In: "query", Style: "form", Explode: true},
		{Arg: "page", In: "query", Style: "deepObject", Explode: true},
		{Arg: "sid", In: "cookie", Style: "form", Explode: true},
		{Arg: "prefs", In: "cookie", Style: "form", Explode: true},
		{Arg: "over", Name: "X-HTTP-Method-Override", In: "header", Style: "simple"},
		{Arg: "Action", In: "query", Style: "form"},
		{Arg: "opts", In: "header", Style: "simple", Explode: true},
		{Arg: "joined", In: "query", Style: "form"},
		{Arg: "piped", In: "query", Style: "pipeDelimited"},
		{Arg: "label", In: "path", Style: "label", Explode: true},
	}}
	if kind != "" {
		plan.Body = &httpplan.Body{Type: "x/y", Kind: kind, Names: []string{"total"}, Fields: map[string]httpplan.Encoding{
			"fields": {Style: "form", Explode: true}, "deep": {Style: "deepObject", Explode: true},
		}}
	}
	return plan
}

func TestArgumentsDoNotWriteNamesOfOthers(t *testing.T) {
	t.Parallel()
	whole := open("form")
	whole.Body.Arg = "body"
	wholeJSON := open("json")
	wholeJSON.Body.Arg = "body"
	for name, tc := range map[string]struct {
		plan       httpplan.Plan
		args, path string
	}{
		"the same name":                     {open(""), `{"amount":5,"extra":{"amount":"9"}}`, "/args/extra/amount"},
		"of an argument that is absent":     {open(""), `{"extra":{"amount":"9"}}`, "/args/extra/amount"},
		"in another case":                   {open(""), `{"extra":{"AMOUNT":"9"}}`, "/args/extra/AMOUNT"},
		"encoded":                           {open(""), `{"extra":{"%61mount":"9"}}`, "/args/extra/%61mount"},
		"encoded twice":                     {open(""), `{"extra":{"%2561mount":"9"}}`, "/args/extra/%2561mount"},
		"a part of it":                      {open(""), `{"extra":{"amount[]":"9"}}`, "/args/extra/amount[]"},
		"a part of it by a dot":             {open(""), `{"extra":{"amount.x":"9"}}`, "/args/extra/amount.x"},
		"the whole of it":                   {open(""), `{"extra":{"page":"9"}}`, "/args/extra/page"},
		"with a space":                      {open(""), `{"extra":{" amount":"9"}}`, "/args/extra/ amount"},
		"with a zero":                       {open(""), `{"extra":{"amount\u0000x":"9"}}`, "/args/extra/amount\x00x"},
		"as PHP reads it":                   {open(""), `{"extra":{"per_page":"9"}}`, "/args/extra/per_page"},
		"of another free-form object":       {open(""), `{"extra":{"x":"1"},"more":{"x":"2"}}`, "/args/more/x"},
		"twice in one object":               {open(""), `{"extra":{"x":"1","x[]":"2"}}`, "/args/extra/x[]"},
		"of the template":                   {open(""), `{"extra":{"action":"delete"}}`, "/args/extra/action"},
		"of the template, declared":         {open(""), `{"Action":"delete"}`, "/args/Action"},
		"a deep object beside its part":     {open(""), `{"page":{"size":"9"}}`, "/args/page/size"},
		"a deep object that breaks out":     {open(""), `{"page":{"x]&amount":"9"}}`, "/args/page/x]&amount"},
		"a deep object in a list":           {open(""), `{"page":[{"a[":"9"}]}`, "/args/page/a["},
		"a cookie":                          {open(""), `{"prefs":{"sid":"9"}}`, "/args/prefs/sid"},
		"another method":                    {open(""), `{"extra":{"_method":"DELETE"}}`, "/args/extra/_method"},
		"another method in another case":    {open(""), `{"extra":{"_METHOD":"DELETE"}}`, "/args/extra/_METHOD"},
		"another method by a header's name": {open(""), `{"extra":{"X_HTTP_Method_Override":"DELETE"}}`, "/args/extra/X_HTTP_Method_Override"},
		"another method by a header":        {open(""), `{"over":"DELETE"}`, "/args/over"},
		"a form's object":                   {open("form"), `{"fields":{"total":"9"}}`, "/args/fields/total"},
		"a form's object and the query":     {open("form"), `{"fields":{"amount":"9"}}`, "/args/fields/amount"},
		"a form's own field":                {open("form"), `{"amount[]":"9"}`, "/args/amount[]"},
		"two fields of a form":              {open("form"), `{"total":"1","total[x]":"9"}`, "/args/total[x]"},
		"another method in a form":          {open("form"), `{"_method":"DELETE"}`, "/args/_method"},
		"another method in a file form":     {open("multipart"), `{"_method":"DELETE"}`, "/args/_method"},
		"a field of a file form":            {open("multipart"), `{"Total":"9"}`, "/args/Total"},
		"a form as one argument":            {whole, `{"body":{"amount":"9"}}`, "/args/body/amount"},
		"a form as one argument, its own":   {whole, `{"body":{"total":1,"TOTAL":"9"}}`, "/args/body/TOTAL"},
		"a deep object in a form":           {open("form"), `{"deep":{"a]":1}}`, "/args/deep/a]"},
		"a member of a JSON body":           {open("json"), `{"sum":5,"extra":{"sum":"9"}}`, "/args/extra/sum"},
		"a part of a member":                {open("json"), `{"sum":5,"extra":{"Sum[]":"9"}}`, "/args/extra/Sum[]"},
		"a JSON body as one argument":       {wholeJSON, `{"body":{"sum":5},"extra":{"sum":"9"}}`, "/args/extra/sum"},
		"another method in JSON":            {open("json"), `{"_Method":"DELETE"}`, "/args/_Method"},
		"another method in JSON as one":     {wholeJSON, `{"body":{"_method":"DELETE"}}`, "/args/body/_method"},
		"a member of a header":              {open(""), `{"opts":{"a":"1,sum=9"}}`, "/args/opts/a"},
		"a member's name of a header":       {open(""), `{"opts":{"a=1,sum":"9"}}`, "/args/opts/a=1,sum"},
		"an item of a header":               {open(""), `{"opts":["1,9"]}`, "/args/opts/0"},
		"a member of a joined object":       {open(""), `{"joined":{"a":"1,sum,9"}}`, "/args/joined/a"},
		"a member of it, encoded":           {open(""), `{"joined":{"a":"1%2csum,9"}}`, "/args/joined/a"},
		"a member of a piped object":        {open(""), `{"piped":{"a":"1|sum|9"}}`, "/args/piped/a"},
		"a member of a path":                {open(""), `{"label":{"a":"1.sum=9"}}`, "/args/label/a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := map[string]any{}
			require.NoError(t, json.Unmarshal([]byte(tc.args), &args))
			args["m"] = "1"
			if args["label"] == nil {
				args["label"] = "l"
			}
			raw, err := json.Marshal(args)
			require.NoError(t, err)
			_, err = httpcall.BuildRequest(tc.plan, base, raw)
			require.True(t, fault.HasCode(err, fault.CodeInvalidArgs), "%v", err)
			require.Equal(t, tc.path, fault.As(err).Details[0].Path)
		})
	}
}

func TestNamesThatNothingElseHasAreSent(t *testing.T) {
	t.Parallel()
	req, err := httpcall.BuildRequest(open("form"), base, json.RawMessage(
		`{"m":{"a":"1"},"label":"l","opts":{"a":"1;2"},"joined":{"a":"1|2"},"piped":["1","2"],"amount":5,"size":3,"extra":{"x":"1","amounts":"2","page_no":"3"},"more":{"y":"1"},"page":{"no":"1"},"sid":"s","prefs":{"theme":"dark"},`+
			`"total":1,"fields":{"k":"v"},"deep":{"a":{"b":[1]}},"other":"o","_methods":"m"}`))
	require.NoError(t, err)
	require.Equal(t, base+"/p/;a=1/.l?action=pay&amount=5&page%5Bsize%5D=3&amounts=2&page_no=3&x=1&y=1&page%5Bno%5D=1&joined=a,1%7C2&piped=1%7C2", req.URL)
	require.Equal(t, "sid=s; theme=dark", req.Header.Get("Cookie"))
	require.Equal(t, "_methods=m&deep%5Ba%5D%5Bb%5D%5B0%5D=1&k=v&other=o&total=1", string(req.Body))
	matrix := open("")
	matrix.Path += "/{n}"
	matrix.Params = append(matrix.Params, httpplan.Param{Arg: "n", In: "path", Style: "matrix"})
	_, err = httpcall.BuildRequest(matrix, base, json.RawMessage(`{"m":{"n":"1"},"label":"l","n":"2"}`))
	require.True(t, fault.HasCode(err, fault.CodeInvalidArgs))
}

func TestArgumentsDoNotWriteTheCredentialsName(t *testing.T) {
	t.Parallel()
	plan := open("form")
	plan.Params = append(plan.Params, httpplan.Param{Arg: "key", Name: "X_Api_Key", In: "header", Style: "simple"})
	for name, tc := range map[string]struct {
		auth   credential.Auth
		secret credential.Secret
		args   string
		path   string
	}{
		"cookie":                  {credential.Auth{Type: credential.APIKey, In: "cookie", Name: "session"}, credential.NewAPIKey("k"), `{"prefs":{"session":"x"}}`, "/args/prefs/session"},
		"cookie in another case":  {credential.Auth{Type: credential.APIKey, In: "cookie", Name: "session"}, credential.NewAPIKey("k"), `{"prefs":{"SESSION":"x"}}`, "/args/prefs/SESSION"},
		"declared cookie":         {credential.Auth{Type: credential.APIKey, In: "cookie", Name: "sid"}, credential.NewAPIKey("k"), `{"sid":"x"}`, "/args/sid"},
		"query":                   {credential.Auth{Type: credential.APIKey, In: "query", Name: "api_key"}, credential.NewAPIKey("k"), `{"extra":{"api_key":"x"}}`, "/args/extra/api_key"},
		"query in part":           {credential.Auth{Type: credential.APIKey, In: "query", Name: "api_key"}, credential.NewAPIKey("k"), `{"extra":{"api_key[0]":"x"}}`, "/args/extra/api_key[0]"},
		"a form beside the query": {credential.Auth{Type: credential.APIKey, In: "query", Name: "api_key"}, credential.NewAPIKey("k"), `{"api_key":"x"}`, "/args/api_key"},
		"header":                  {credential.Auth{Type: credential.APIKey, In: "header", Name: "x-api-key"}, credential.NewAPIKey("k"), `{"key":"x"}`, "/args/key"},
		"a header of its own":     {credential.Auth{Type: credential.CustomHeader}, credential.NewCustomHeader(map[string]string{"X-Api-Key": "k"}), `{"key":"x"}`, "/args/key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := httpcall.BuildRequest(plan, base, json.RawMessage(`{"m":"1","label":"l",`+tc.args[1:]))
			require.NoError(t, err)
			err = httpcall.Apply(tc.auth, tc.secret, req)
			require.True(t, fault.HasCode(err, fault.CodeInvalidArgs), "%v", err)
			require.Equal(t, tc.path, fault.As(err).Details[0].Path)
			req, err = httpcall.BuildRequest(plan, base, json.RawMessage(`{"m":"1","label":"l","extra":{"x":"y"},"prefs":{"z":"1"}}`))
			require.NoError(t, err)
			require.NoError(t, httpcall.Apply(tc.auth, tc.secret, req))
		})
	}
}

func TestPathIsJudgedAsItIsWritten(t *testing.T) {
	t.Parallel()
	plan := httpplan.Plan{Method: "POST", Path: "/orders/{ids}/cancel", Params: []httpplan.Param{{Arg: "ids", In: "path", Style: "simple"}}}
	for _, ids := range []string{`[""]`, `[null]`, `{}`, `"%2e%2e"`, `"a/%2e%2e/b"`, `"..;x"`, `"%252e."`, `"%2e%2e/%zz"`, `["a/..;/b"]`, `["a",""]`, `["a",null]`, `{"a":null}`, `{"..":"a"}`} {
		_, err := httpcall.BuildRequest(plan, base, json.RawMessage(`{"ids":`+ids+`}`))
		require.True(t, fault.HasCode(err, fault.CodeInvalidArgs), ids)
	}
	for ids, want := range map[string]string{`["a","b"]`: "a,b", `{"a":""}`: "a,", `"a;b"`: "a%3Bb", `"..."`: "...", `"100%"`: "100%25"} {
		req, err := httpcall.BuildRequest(plan, base, json.RawMessage(`{"ids":`+ids+`}`))
		require.NoError(t, err)
		require.Equal(t, base+"/orders/"+want+"/cancel", req.URL)
	}
}
