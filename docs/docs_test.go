// Package docs_test checks the documentation against the code: what is a table in the
// code is the same table here, and links lead somewhere.
package docs_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/sandbox"
	"agentruntime/internal/process/config"
	"agentruntime/internal/provider/openapi"
)

//go:generate go test -count=1 -run TestErrorReferenceIsTheTable|TestAuditPageListsTheTableOfActions|TestEventsPageListsTheTableOfTypes|TestMapFormatPageListsTheSchema|TestPackagesPageListsEveryPackage . -update

var update = flag.Bool("update", false, "write the pages, and parts of pages, that are made of code again")

// errorReference renders the table of errors.
func errorReference() string {
	var b strings.Builder
	b.WriteString(`<!-- Made of internal/base/fault/codes.go by make gen. Do not edit. -->
# Errors

Every refusal has the same shape; [api.md](api.md) says what else the error object may carry.

` + "```json" + `
{"success": false, "error": {"code": "VERB_NOT_FOUND", "message": "No such verb in your catalog.", "requestId": "req_…"}}
` + "```" + `

The code is stable and meant for programs. The message below is the default; a refusal may say more.

| HTTP | Code | Message | When |
|---|---|---|---|
`)
	for _, row := range fault.Table() {
		fmt.Fprintf(&b, "| %d %s | `%s` | %s | %s |\n", row.Status, http.StatusText(row.Status), row.Code, row.Message, row.When)
	}
	return b.String()
}

func TestErrorReferenceIsTheTable(t *testing.T) {
	t.Parallel()
	want := errorReference()
	if *update {
		require.NoError(t, os.WriteFile("reference/errors.md", []byte(want), 0o644))
	}
	got, err := os.ReadFile("reference/errors.md")
	require.NoError(t, err)
	require.Equal(t, want, string(got), "make gen writes it again")
}

func TestConfigurationPageListsEveryVariable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("operate/configuration.md")
	require.NoError(t, err)
	rows := map[string]string{} // variable: default
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| (\\S*) *\\|").FindAllStringSubmatch(string(page), -1) {
		rows[row[1]] = strings.Trim(row[2], "`")
	}
	want := map[string]string{}
	for f := range reflect.TypeFor[config.Config]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("env"), ",")
		want[name] = f.Tag.Get("envDefault")
	}
	require.Equal(t, want, rows)
}

// shop are the verbs of the sandbox under the slug that make dev gives it.
func shop(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	base := "http://127.0.0.1:1"
	read, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", BaseURL: base, Document: sandbox.Document(base)})
	require.NoError(t, err)
	schemas := map[string]json.RawMessage{}
	for _, v := range read.Verbs {
		schemas["shop:"+v.Name] = v.Schema
	}
	return schemas
}

// Calls that the documentation shows are calls that the sandbox takes.
func TestDocumentedCallsFitTheSandbox(t *testing.T) {
	t.Parallel()
	schemas := shop(t)
	var calls []string
	curl := regexp.MustCompile(`-d '(\{"verb".*\})'`)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, match := range curl.FindAllStringSubmatch(string(text), -1) {
			calls = append(calls, match[1])
		}
	}
	calls = append(calls, callsOfTheContract(t)...)
	require.Greater(t, len(calls), 8)
	for _, text := range calls {
		var call struct {
			Verb string
			Args json.RawMessage
		}
		require.NoError(t, json.Unmarshal([]byte(text), &call), text)
		require.Contains(t, schemas, call.Verb)
		schema, err := argschema.Compile(schemas[call.Verb])
		require.NoError(t, err)
		require.Empty(t, schema.Validate(call.Args), text)
	}
}

// callsOfTheContract are the examples of run and evaluate in the OpenAPI document.
func callsOfTheContract(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../api/openapi.yaml")
	require.NoError(t, err)
	var document struct {
		Paths map[string]struct {
			Post struct {
				RequestBody struct {
					Content map[string]struct {
						Examples map[string]struct{ Value map[string]any }
					}
				} `yaml:"requestBody"` //nolint:tagliatelle // as OpenAPI spells it
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &document))
	var calls []string
	for _, path := range []string{"/v1/runtime/actions/run", "/v1/runtime/governance/evaluate"} {
		for _, example := range document.Paths[path].Post.RequestBody.Content["application/json"].Examples {
			raw, err := json.Marshal(example.Value)
			require.NoError(t, err)
			calls = append(calls, string(raw))
		}
	}
	return calls
}
