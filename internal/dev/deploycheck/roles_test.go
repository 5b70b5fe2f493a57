package deploycheck

import (
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/dev/devserver/postgres"
	"agentruntime/internal/provider/catalog"
)

// rolesServer is a Postgres on which roles.sh ran, as it does in a new container.
func rolesServer(t *testing.T) *postgres.Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "roles") //nolint:usetesting // the parents of t.TempDir are closed to the server's account
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	server, err := postgres.Start(t.Context(), postgres.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })

	admin, err := url.Parse(server.SuperuserURL("postgres"))
	require.NoError(t, err)
	password, _ := admin.User.Password()
	script := exec.CommandContext(t.Context(), "sh", filepath.Join(root, "deploy/postgres/roles.sh"))
	script.Env = append(os.Environ(),
		"PGHOST="+admin.Hostname(), "PGPORT="+admin.Port(), "PGPASSWORD="+password, "POSTGRES_USER="+admin.User.Username(),
		"OWNER_DB_PASSWORD=owner", "APP_DB_PASSWORD=app", "TEMPORAL_DB_PASSWORD=temporal")
	out, err := script.CombinedOutput()
	require.NoError(t, err, string(out))
	return server
}

func login(t *testing.T, server *postgres.Server, user, password, database string) string {
	t.Helper()
	address, err := url.Parse(server.SuperuserURL(database))
	require.NoError(t, err)
	address.User = url.UserPassword(user, password)
	return address.String()
}

// The roles of the deployment let the migrations and the service run, and give them
// nothing else.
func TestDatabaseRolesAreJustEnough(t *testing.T) {
	t.Parallel()
	server := rolesServer(t)
	require.NoError(t, db.Migrate(t.Context(), login(t, server, "agentruntime_owner", "owner", "agentruntime")))

	service, err := pgx.Connect(t.Context(), login(t, server, "agentruntime_service", "app", "agentruntime"))
	require.NoError(t, err)
	defer service.Close(t.Context())
	var tenants int
	require.NoError(t, service.QueryRow(t.Context(), "SELECT count(*) FROM tenants").Scan(&tenants))
	_, err = service.Exec(t.Context(), "CREATE TABLE mine (id int)")
	require.ErrorContains(t, err, "permission denied")
	_, err = service.Exec(t.Context(), "ALTER TABLE tenants DISABLE ROW LEVEL SECURITY")
	require.ErrorContains(t, err, "must be owner")

	// The operator's commands connect as the owner, and store what the platform offers.
	for user, password := range map[string]string{"agentruntime_owner": "owner", "agentruntime_service": "app"} {
		pool, err := db.Open(t.Context(), db.Config{URL: login(t, server, user, password, "agentruntime")})
		require.NoError(t, err)
		defer pool.Close()
		platform, err := catalog.NewPlatform(catalog.Deps{DB: pool})
		require.NoError(t, err)
		crm := catalog.Provider{Slug: "crm", AuthType: "none", Auth: []byte("{}")}
		verbs := []verb.Definition{{Name: "find", Domain: "contacts", Risk: verb.RiskLow, Operation: verb.Read, Idempotency: verb.IdempotencyNone}}
		_, err = platform.Import(t.Context(), catalog.Import{Provider: crm, Verbs: verbs}, false)
		if user == "agentruntime_service" {
			require.ErrorContains(t, err, "permission denied")
			continue
		}
		require.NoError(t, err)
		crm.BaseURL = "https://api.example.com"
		_, err = platform.Import(t.Context(), catalog.Import{Provider: crm, Verbs: verbs}, true)
		require.NoError(t, err, "it reads what it replaces")
		offered, err := platform.Offered(t.Context(), "", 10)
		require.NoError(t, err)
		require.Len(t, offered, 1)
		require.NoError(t, platform.Delete(t.Context(), "crm"))
	}

	elsewhere := map[string][2]string{
		"agentruntime_service": {"app", "temporal"},
		"agentruntime_owner":   {"owner", "temporal_visibility"},
		"temporal":             {"temporal", "agentruntime"},
	}
	for user, to := range elsewhere {
		_, err := pgx.Connect(t.Context(), login(t, server, user, to[0], to[1]))
		require.ErrorContains(t, err, "permission denied for database", user)
	}
}
