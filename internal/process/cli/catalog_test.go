package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// file writes a text to a file of its own.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

const shopDocument = `openapi: 3.1.0
info: {title: "The\nShop\a", version: "1"}
servers: [{url: "https://api.shop.test/v1"}]
components: {securitySchemes: {key: {type: http, scheme: bearer}}}
security: [{key: []}]
paths:
  /orders:
    get: {operationId: listOrders, responses: {}}
    post:
      operationId: createOrder
      requestBody: {content: {application/json: {schema: {type: object, properties: {amount: {type: integer}}}}}}
      responses: {}
    trace: {operationId: traceOrders, responses: {}}
`

func TestCatalogCommandsStoreListAndRemove(t *testing.T) {
	database := testkit.Database(t)
	t.Setenv("MIGRATE_DATABASE_URL", database.AdminURL)
	succeeds := func(in string, args ...string) string {
		t.Helper()
		out, err := run(t, []byte(in), append([]string{"catalog"}, args...)...)
		require.NoError(t, err, out)
		return out
	}
	out := succeeds(shopDocument, "import", "-", "--slug", "shop", "--preview")
	require.Contains(t, out, "would import shop: The Shop\nbase url   https://api.shop.test/v1\nauth       bearer\nverbs      2 (2 added, 0 changed, 0 removed)\n")
	require.Equal(t, 1, strings.Count(succeeds("", "list"), "\n"), "a preview stores nothing")

	out = succeeds(shopDocument, "import", "-", "--slug", "shop")
	require.Contains(t, out, "imported shop: The Shop\n")
	require.Contains(t, out, "rejected   1\n  TRACE /orders: ")
	require.Regexp(t, `(?m)^SLUG +VERBS +AUTH +UPDATED +BASE URL +NAME\nshop +2 +bearer +20\S+Z +https://api.shop.test/v1 +The Shop\n$`, succeeds("", "list"))

	// What governs calls is accepted first. Settings come from a file, and flags before it.
	rules := file(t, "- {match: {verb: create_order}, risk_level: high}\n")
	settings := file(t, `{"slug": "other", "name": "Renamed", "strict": false}`)
	change := []string{
		"import", "-", "--slug", "shop", "--settings", settings, "--rules", rules, "--auth", "api_key:header:X-Key", "--overlay",
		file(t, `{"overlay": "1.0.0", "info": {"title": "o", "version": "1"}, "actions": [{"target": "$.paths['/orders'].trace", "remove": true}]}`),
	}
	out, err := run(t, []byte(shopDocument), append([]string{"catalog"}, change...)...)
	require.EqualError(t, err, "The import has 4 changes of what governs calls of all tenants. Nothing was stored. Look at them, and accept them. Repeat the command with --accept.")
	require.Contains(t, out, "would import shop: Renamed\n")
	require.Contains(t, out, "  ! POST /orders (create_order): risk_level is medium and would be high.\n")
	require.Contains(t, out, "  ! auth is ")
	require.NotContains(t, out, "rejected")
	require.Contains(t, succeeds("", "list"), "The Shop")
	out = succeeds(shopDocument, append(change, "--accept", "--json")...)
	var report struct {
		Slug, Name, Owner string
		Auth              map[string]string
		Imported          int
		ChangesTotal      int `json:"changes_total"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report), out)
	require.Equal(t, map[string]string{"type": "api_key", "in": "header", "name": "X-Key"}, report.Auth)
	require.Equal(t, []any{"shop", "Renamed", "platform", 2, 4}, []any{report.Slug, report.Name, report.Owner, report.Imported, report.ChangesTotal})

	// The platform keeps no corrections: an import without the rule would lower the risk.
	_, err = run(t, []byte(shopDocument), "catalog", "import", "-", "--slug", "shop", "--auth", "api_key:header:X-Key")
	require.ErrorContains(t, err, "has 1 changes")

	require.Equal(t, "removed shop\n", succeeds("", "remove", "shop"))
	require.Equal(t, 1, strings.Count(succeeds("", "list"), "\n"))
	conn, err := pgx.Connect(t.Context(), database.AdminURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var left int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM platform_verbs) + (SELECT count(*) FROM platform_verb_counts)").Scan(&left))
	require.Zero(t, left)
}

func TestCatalogCommandsSayWhatIsWrong(t *testing.T) {
	t.Setenv("MIGRATE_DATABASE_URL", testkit.Database(t).AdminURL)
	good := file(t, shopDocument)
	with := func(more ...string) []string { return append([]string{"import", good, "--slug", "bad"}, more...) }
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"not a document":         {[]string{"import", file(t, `{"openapi": "9.0.0"}`), "--slug", "bad"}, "  /openapi"},
		"neither JSON nor YAML":  {[]string{"import", file(t, `{"openapi": `), "--slug", "bad"}, "  /openapi"},
		"empty file":             {[]string{"import", file(t, ""), "--slug", "bad"}, "  /openapi"},
		"no such file":           {[]string{"import", good + "x", "--slug", "bad"}, "no such file"},
		"no slug":                {[]string{"import", good}, "  /slug slug is required."},
		"bad slug":               {[]string{"import", good, "--slug", "Bad Slug"}, "  /slug slug has lower-case letters"},
		"unknown auth":           {with("--auth", "magic"), "  /auth/type"},
		"address not public":     {with("--base-url", "https://10.0.0.1"), "The server https://10.0.0.1 may not be called."},
		"server on this machine": {with("--base-url", "http://127.0.0.1:8080"), "EGRESS_ALLOW_LOOPBACK=true"},
		"rules are no array":     {with("--rules", file(t, "a: 1\n")), "  /rules"},
		"unknown rule":           {with("--rules", file(t, "- {match: {verb: x}, risk: low}\n")), "  /rules/0/risk"},
		"settings are no object": {with("--settings", file(t, "[]")), "the settings are an object"},
		"unknown setting":        {with("--settings", file(t, "base_ur: x\n")), "  /base_ur"},
		"name that steers":       {with("--settings", file(t, `"\e[31m": 1`)), "  / [31m"},
		"document in settings":   {with("--settings", file(t, "openapi: {}\n")), "Give one document"},
		"name twice":             {with("--settings", file(t, "{\"name\": \"a\", \"name\": \"b\"}")), "name"},
		"two files":              {[]string{"import", good, good}, "name one document"},
		"unknown provider":       {[]string{"remove", "nobody"}, `the platform has no provider "nobody"`},
		"hostile slug":           {[]string{"remove", "a\x00"}, "the platform has no provider"},
		"no slug to remove":      {[]string{"remove"}, "name one slug"},
	} {
		_, err := run(t, nil, append([]string{"catalog"}, tt.args...)...)
		require.ErrorContains(t, err, tt.want, name)
		require.NotContains(t, err.Error(), "\x1b", name)
	}
	out, err := run(t, nil, "catalog", "import", "--help")
	require.NoError(t, err)
	require.Contains(t, out, "EGRESS_ALLOW_LOOPBACK=true")
	out, err = run(t, nil, "catalog", "list")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(out, "\n"), "nothing was stored")
}

// The service's own role reads the platform's rows. A command that connects with it stores nothing.
func TestCatalogCommandsNeedTheRoleThatOwnsTheTables(t *testing.T) {
	t.Setenv("MIGRATE_DATABASE_URL", testkit.Database(t).AppURL)
	_, err := run(t, []byte(shopDocument), "catalog", "import", "-", "--slug", "shop")
	require.ErrorContains(t, err, "permission denied")
}
