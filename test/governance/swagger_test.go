package governance

import (
	"mime"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSwaggerCallsHaveTheMediaTypesOfTheirDocument imports a document of Swagger 2.0 whose media types stand at
// its root and at its operations. The calls arrive with those, and ask for those.
func TestSwaggerCallsHaveTheMediaTypesOfTheirDocument(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, sharedDev().For(t))
	note := m{"type": "object", "properties": m{"note": typed("string")}}
	body := []m{{"name": "b", "in": "body", "schema": note}}
	text := []m{{"name": "b", "in": "body", "schema": typed("string")}}
	form := []m{{"name": "note", "in": "formData", "type": "string"}}
	file := append([]m{{"name": "file", "in": "formData", "type": "file"}}, form...)
	op := func(id string, parameters []m, more m) m {
		answers := m{"200": m{"description": "done", "schema": note}}
		return m{"post": with(m{"operationId": id, "parameters": parameters, "responses": answers}, more)}
	}
	report := w.connectDocument(m{
		"swagger": "2.0", "consumes": []string{"application/vnd.bank+json"}, "produces": []string{"application/vnd.bank+json"},
		"paths": m{
			"/root":  op("root", body, nil),
			"/own":   op("own", body, m{"consumes": []string{"application/json"}, "produces": []string{"text/csv", "application/json"}}),
			"/none":  op("none", body, m{"consumes": []string{}, "produces": []string{}}),
			"/text":  op("text", text, m{"consumes": []string{"text/plain"}, "produces": []string{"text/plain"}}),
			"/form":  op("form", form, m{"consumes": []string{"multipart/form-data", "application/x-www-form-urlencoded"}}),
			"/parts": op("parts", form, m{"consumes": []string{"multipart/form-data"}}),
			"/file":  op("file", file, nil),
			"/empty": op("empty", nil, m{"produces": []string{"application/xml"}}),
		},
	})
	require.Empty(t, report.Rejected)
	const own = "application/vnd.bank+json, application/json;q=0.5"
	for _, tc := range []struct {
		verb                 string
		args                 m
		media, accept, wants string
	}{
		{"root", m{"note": "a"}, "application/vnd.bank+json", own, `{"note":"a"}`},
		{"own", m{"note": "a"}, "application/json", "application/json, text/csv;q=0.5", `{"note":"a"}`},
		{"none", m{"note": "a"}, "application/json", "application/json", `{"note":"a"}`},
		{"text", m{"body": "a b"}, "text/plain", "text/plain", `a b`},
		{"form", m{"note": "a b"}, "application/x-www-form-urlencoded", own, `note=a%20b`},
		{"parts", m{"note": "a b"}, "multipart/form-data", own, ""},
		{"file", m{"file": "aGk=", "note": "a b"}, "multipart/form-data", own, ""},
		{"empty", m{}, "", "application/xml", ``},
	} {
		before := len(w.bank.all())
		succeeded(t, w.Runtime.Run(slug+":"+tc.verb, tc.args, id()))
		all := w.bank.all()
		require.Len(t, all, before+1, tc.verb)
		got := all[before]
		require.Equal(t, http.MethodPost+" /"+tc.verb, got.method+" "+got.path)
		require.Equal(t, []string{tc.accept}, got.header["Accept"], tc.verb)
		if tc.media == "" {
			require.Empty(t, got.header["Content-Type"], tc.verb)
			require.Empty(t, got.body, tc.verb)
			continue
		}
		media, _, err := mime.ParseMediaType(got.header.Get("Content-Type"))
		require.NoError(t, err, tc.verb)
		require.Equal(t, tc.media, media, tc.verb)
		if tc.media == "multipart/form-data" {
			require.Contains(t, got.body, `name="note"`, tc.verb)
			continue
		}
		require.Equal(t, tc.wants, got.body, tc.verb)
	}
}
