package cli_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/process/cli"
)

func TestOwnerCreateMakesATenantOrSaysWhyNot(t *testing.T) {
	d := testkit.Database(t)
	key := base64.StdEncoding.EncodeToString([]byte("0123456789abcdefghijklmnopqrstuv"))
	t.Setenv("DATABASE_URL", d.AdminURL)
	t.Setenv("API_KEY_PEPPER", key)
	t.Setenv("JWT_SIGNING_SEED", key)
	create := func(password, email, tenant string) (string, error) {
		return run(t, []byte(password), "owner", "create", "--email", email, "--tenant", tenant)
	}
	out, err := create("correct horse\n", "Ada@Example.com", "Acme")
	require.NoError(t, err, out)
	var made struct {
		UserID   string `json:"user_id"`
		TenantID string `json:"tenant_id"`
		Email    string
		Tenant   string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &made))
	require.Equal(t, "ada@example.com", made.Email)
	require.Equal(t, "Acme", made.Tenant)

	for want, args := range map[string][3]string{
		"The address ada@example.com belongs to a user already": {"correct horse", "ada@example.com", "Other"},
		"8 characters":                   {"short", "bob@example.com", "Other"},
		"no password: write it to":       {"\n", "bob@example.com", "Other"},
		"email is an address like":       {"correct horse", "bob", "Other"},
		"tenant has 1 to 255 characters": {"correct horse", "bob@example.com", " "},
	} {
		out, err := create(args[0], args[1], args[2])
		require.ErrorContains(t, err, want)
		require.Empty(t, out)
		require.NotContains(t, err.Error(), "correct horse")
	}
	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	var users, tenants int
	var id, role string
	require.NoError(t, admin.QueryRow(t.Context(), `SELECT count(*), (SELECT count(*) FROM tenants), min(id::text), min(role) FROM users
		WHERE email_verified_at IS NOT NULL`).Scan(&users, &tenants, &id, &role))
	require.Equal(t, []any{1, 1, made.UserID, "owner"}, []any{users, tenants, id, role})
	var by string
	require.NoError(t, admin.QueryRow(t.Context(), `SELECT actor_type || ':' || actor_id FROM audit_records WHERE action = 'tenant.created'`).Scan(&by))
	require.Equal(t, "operator:", by, "it was not the owner's own act")
}

// An image is built without the repository. The build argument names the commit.
func TestVersionNamesTheCommitOfTheImage(t *testing.T) {
	t.Parallel()
	docker, err := os.ReadFile("../../../Dockerfile")
	require.NoError(t, err)
	flags := regexp.MustCompile(`-ldflags "([^"]*)"`).FindSubmatch(docker)
	require.NotNil(t, flags)
	binary := filepath.Join(t.TempDir(), "agentruntime")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", strings.ReplaceAll(string(flags[1]), "${COMMIT}", "0123abc"), "-o", binary, "../../../cmd/agentruntime")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.CommandContext(t.Context(), binary, "--version").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), " commit 0123abc")
	require.NotContains(t, string(out), "(devel)")
}

func TestVersionNamesGo(t *testing.T) {
	t.Parallel()
	out, err := run(t, nil, "--version")
	require.NoError(t, err)
	require.Contains(t, out, "agentruntime version ")
	require.Contains(t, cli.Version(), " go1.")
}
