package httpcall_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/httpplan"
)

// A long name is written again for everything below it, so a body of 1 MiB could become a
// request of gigabytes.
func TestRequestThatRepeatsLongNamesIsRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 20_000)
	many := strings.TrimSuffix(strings.Repeat(`1,`, 2_000), ",")
	var members strings.Builder
	for i := range 2_000 {
		members.WriteString(`,"m` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/182) + `":1`)
	}
	object := "{" + members.String()[1:] + "}"
	param := func(name, in, style string, explode bool) httpplan.Plan {
		p := httpplan.Plan{Method: "POST", Path: "/a", Params: []httpplan.Param{{Arg: name, In: in, Style: style, Explode: explode}}}
		if in == httpplan.InPath {
			p.Path = "/a/{" + name + "}"
		}
		return p
	}
	form := httpplan.Plan{Method: "POST", Path: "/a", Body: &httpplan.Body{
		Type: "application/x-www-form-urlencoded", Kind: httpplan.BodyForm, Fields: map[string]httpplan.Encoding{"f": {Style: httpplan.StyleDeep, Explode: true}},
	}}
	multipart := form
	multipart.Body = &httpplan.Body{Type: "multipart/form-data", Kind: httpplan.BodyMultipart, Fields: form.Body.Fields}
	for name, tt := range map[string]struct {
		plan httpplan.Plan
		args string
	}{
		"a deep object":             {param("f", httpplan.InQuery, httpplan.StyleDeep, true), `{"f":{"` + long + `":` + object + `}}`},
		"a deep list":               {param("f", httpplan.InQuery, httpplan.StyleDeep, true), `{"f":{"` + long + `":[` + many + `]}}`},
		"an exploded list":          {param(long, httpplan.InQuery, httpplan.StyleForm, true), `{"` + long + `":[` + many + `]}`},
		"an exploded object":        {param(long, httpplan.InQuery, httpplan.StyleForm, true), `{"` + long + `":` + object + `}`},
		"an exploded list of paths": {param(long, httpplan.InPath, httpplan.StyleMatrix, true), `{"` + long + `":[` + many + `]}`},
		"a form":                    {form, `{"f":{"` + long + `":` + object + `}}`},
		"a multipart form":          {multipart, `{"` + long + `":[` + many + `]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := httpcall.BuildRequest(tt.plan, "https://a.test", json.RawMessage(tt.args))
			if r != nil {
				require.Less(t, len(r.URL)+len(r.Body), 17<<20)
			}
			f := fault.As(err)
			require.NotNil(t, f)
			require.Equal(t, fault.CodeInvalidArgs, f.Code)
			require.Equal(t, "complexity", f.Details[0].Rule)
			require.Less(t, len(f.Details[0].Path), 300)
		})
	}
}
