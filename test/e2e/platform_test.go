package e2e

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// operated runs a command of the product as the operator of the platform. It returns what it
// printed, and its exit code.
func operated(t *testing.T, s *rig.Stack, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rig.Binary(t, rig.Build{Command: "agentruntime"}), args...)
	cmd.Env = []string{"ENV=development", "EGRESS_ALLOW_LOOPBACK=true", "MIGRATE_DATABASE_URL=" + s.DatabaseURL}
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// written writes a document to a file.
func written(t *testing.T, document []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "document.json")
	require.NoError(t, os.WriteFile(file, document, 0o600))
	return file
}

type providerShown struct {
	Slug      string `json:"slug"`
	Owner     string `json:"owner"`
	Enabled   bool   `json:"enabled"`
	Connected bool   `json:"connected"`
	Imported  int    `json:"imported"`
}

// offeredTo returns the provider as the tenant's list shows it.
func offeredTo(t *testing.T, tenant *rig.Tenant, slug string) (found *providerShown) {
	t.Helper()
	var list []providerShown
	tenant.User.Do(http.MethodGet, "/v1/providers?limit=500", nil).Data(t, &list)
	for i, p := range list {
		if p.Slug == slug {
			require.Nil(t, found, "a slug is listed once")
			found = &list[i]
		}
	}
	return found
}

// The operator imports a provider once. Tenants enable it, connect accounts of their own and call
// its verbs, and none of them can change it.
func TestPlatformProviderIsStoredOnceAndCalledByTenants(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, lane string) {
		t.Helper()
		g, slug := newGate(t), "offered-"+lane
		file := written(t, gateDocument())
		load := []string{"catalog", "import", file, "--slug", slug, "--name", "Offered", "--base-url", g.base}
		out, code := operated(t, s, load...)
		require.Zero(t, code, out)
		require.Contains(t, out, "imported "+slug+": Offered\n")
		require.Contains(t, out, "verbs      3 (3 added, 0 changed, 0 removed)\n")
		out, code = operated(t, s, "catalog", "list")
		require.Zero(t, code, out)
		require.Contains(t, out, slug)

		one, two := newTenant(s), newTenant(s)
		for i, tenant := range []*rig.Tenant{one, two} {
			require.Equal(t, &providerShown{Slug: slug, Owner: "platform", Imported: 3}, offeredTo(t, tenant, slug))
			refused := tenant.Runtime.Run(slug+":create_thing", map[string]any{"id": "a", "mode": ""}, "early")
			requireCode(t, refused, http.StatusNotFound, "VERB_NOT_FOUND")
			require.Contains(t, string(refused.Body), "POST /v1/providers/"+slug+"/enable")
			require.Contains(t, string(refused.Body), "provider_not_enabled")
			requireCode(t, tenant.User.Do(http.MethodGet, "/v1/providers/"+slug+"/verbs", nil), http.StatusConflict, "CONFLICT")

			for range 2 { // a repeat changes nothing
				a := tenant.User.Do(http.MethodPost, "/v1/providers/"+slug+"/enable", nil)
				require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
			}
			requireCode(t, tenant.Runtime.Run(slug+":create_thing", map[string]any{"id": "a", "mode": ""}, "unconnected"), http.StatusFailedDependency, "PROVIDER_NOT_CONNECTED")
			a := tenant.User.Do(http.MethodPost, "/v1/credentials", map[string]any{"provider": slug, "type": "bearer", "label": "own", "data": map[string]string{"token": "t"}})
			require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
			require.Equal(t, &providerShown{Slug: slug, Owner: "platform", Enabled: true, Connected: true, Imported: 3}, offeredTo(t, tenant, slug))

			id := []string{"one", "two"}[i]
			d := requireRun(t, tenant.Runtime.Run(slug+":create_thing", map[string]any{"id": id, "mode": ""}, id))
			require.Equal(t, "executed", d.FenceStatus)
			require.Len(t, g.of(id), 1)
			var page struct{ Total int }
			tenant.Runtime.Do(http.MethodGet, "/v1/runtime/actions/catalog?provider="+slug, nil).Data(t, &page)
			require.Equal(t, 3, page.Total)
			require.Equal(t, 1, recorded(t, tenant, "provider.enabled"))
		}
		requireStored(t, s, slug, 3)
		requireNotChanged(t, one, slug, g.base)

		require.Equal(t, http.StatusOK, one.User.Do(http.MethodPost, "/v1/providers/"+slug+"/disable", nil).Status)
		require.False(t, offeredTo(t, one, slug).Enabled)
		requireCode(t, one.Runtime.Run(slug+":create_thing", map[string]any{"id": "late", "mode": ""}, "late"), http.StatusNotFound, "VERB_NOT_FOUND")
		requireRun(t, two.Runtime.Run(slug+":create_thing", map[string]any{"id": "still", "mode": ""}, "still"))

		// Another document moves what the verbs take: nothing changes until the operator accepts it.
		other := document(bearer(), operation{method: http.MethodPost, path: "/things", id: "create_thing", args: []string{"id"}})
		change := []string{"catalog", "import", written(t, other), "--slug", slug, "--name", "Offered", "--base-url", g.base}
		out, code = operated(t, s, change...)
		require.Equal(t, 1, code, out)
		require.Contains(t, out, "! POST /things (create_thing): the argument /mode (string) would be removed.")
		require.Contains(t, out, "Nothing was stored.")
		requireStored(t, s, slug, 3)
		out, code = operated(t, s, append(change, "--accept")...)
		require.Zero(t, code, out)
		require.Equal(t, 1, offeredTo(t, two, slug).Imported)
		requireStored(t, s, slug, 1)

		out, code = operated(t, s, "catalog", "remove", slug)
		require.Zero(t, code, out)
		for _, tenant := range []*rig.Tenant{one, two} {
			require.Nil(t, offeredTo(t, tenant, slug))
			requireCode(t, tenant.Runtime.Run(slug+":create_thing", map[string]any{"id": "gone"}, "gone"), http.StatusNotFound, "VERB_NOT_FOUND")
		}
		require.Empty(t, append(g.of("late"), g.of("gone")...))
	})
}

// recorded returns how many audit records of the action the tenant has.
func recorded(t *testing.T, tenant *rig.Tenant, action string) int {
	t.Helper()
	var list []json.RawMessage
	tenant.User.Do(http.MethodGet, "/v1/audit?action="+action, nil).Data(t, &list)
	return len(list)
}

// requireStored requires that the provider and its verbs are there once, however many tenants have enabled it.
func requireStored(t *testing.T, s *rig.Stack, slug string, verbs int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var providers, shared, own int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM platform_providers WHERE slug = $1),
		(SELECT count(*) FROM platform_verbs WHERE provider = $1), (SELECT count(*) FROM verbs WHERE provider = $1)`, slug).Scan(&providers, &shared, &own))
	require.Equal(t, []int{1, verbs, 0}, []int{providers, shared, own})
}

// requireNotChanged requires that a tenant cannot change the provider: a change, a deletion and an
// import by a key are refused. An import by a user makes a provider of the tenant's own.
func requireNotChanged(t *testing.T, tenant *rig.Tenant, slug, base string) {
	t.Helper()
	path := "/v1/providers/" + slug
	key := tenant.User.With(tenant.User.NewKey(t, "providers:manage").Key, "")
	for _, a := range []rig.Answer{
		tenant.User.Do(http.MethodPatch, path, map[string]any{"name": "Mine"}), tenant.User.Do(http.MethodPatch, path, map[string]any{"base_url": base}),
		key.Do(http.MethodPatch, path, map[string]any{"name": "Mine"}), tenant.User.Do(http.MethodDelete, path, nil),
	} {
		requireCode(t, a, http.StatusForbidden, "INSUFFICIENT_PERMISSIONS")
		require.Contains(t, string(a.Body), "the platform's")
	}
	requireCode(t, tenant.User.Do(http.MethodGet, path+"/document", nil), http.StatusNotFound, "PROVIDER_DOCUMENT_NOT_FOUND")
	requireCode(t, key.Do(http.MethodPost, path+"/disable", nil), http.StatusForbidden, "INSUFFICIENT_PERMISSIONS")
	mine := map[string]any{"slug": slug, "base_url": base, "openapi": document(bearer())}
	requireCode(t, key.Do(http.MethodPost, "/v1/providers", mine), http.StatusForbidden, "INSUFFICIENT_PERMISSIONS")

	var report struct {
		Owner   string
		Changes []struct{ What string }
	}
	tenant.User.Do(http.MethodPost, "/v1/providers", mine).Data(t, &report)
	require.Equal(t, "tenant", report.Owner)
	require.Equal(t, "platform", report.Changes[0].What)
	require.Equal(t, "tenant", offeredTo(t, tenant, slug).Owner)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, path, nil).Status)
	require.Equal(t, "platform", offeredTo(t, tenant, slug).Owner)
}

// What the operator's commands cannot do exits with 1, and says why in the words of the import.
func TestPlatformCommandsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	good := written(t, gateDocument())
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"not a document":     {[]string{"import", written(t, []byte(`{"openapi": "9.0.0"}`)), "--slug", "bad"}, "/openapi"},
		"not JSON":           {[]string{"import", written(t, []byte(`{"openapi": `)), "--slug", "bad"}, "/openapi"},
		"no file":            {[]string{"import", good + "x", "--slug", "bad"}, "no such file"},
		"no slug":            {[]string{"import", good}, "slug is required"},
		"bad slug":           {[]string{"import", good, "--slug", "Bad Slug"}, "slug has lower-case letters"},
		"unknown auth":       {[]string{"import", good, "--slug", "bad", "--base-url", "https://api.example.com", "--auth", "magic"}, "/auth/type"},
		"private address":    {[]string{"import", good, "--slug", "bad", "--base-url", "https://10.0.0.1"}, "may not be called"},
		"rules are no array": {[]string{"import", good, "--slug", "bad", "--rules", good}, "rules"},
		"two files":          {[]string{"import", good, good, "--slug", "bad"}, "name one document"},
		"unknown provider":   {[]string{"remove", "nobody"}, `the platform has no provider "nobody"`},
		"hostile slug":       {[]string{"remove", "a b"}, "the platform has no provider"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code := operated(t, s, append([]string{"catalog"}, tt.args...)...)
			require.Equal(t, 1, code, out)
			require.Contains(t, out, tt.want)
			require.Equal(t, 1, strings.Count(out, "agentruntime: "), out)
		})
	}
}
