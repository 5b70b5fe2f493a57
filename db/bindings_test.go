package db_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/dev/testkit"
)

// beforeBindings is the version of the schema in which credentials had no origin.
const beforeBindings = 14

// old is a database as it was at an earlier version, with one tenant.
type old struct {
	*testing.T
	url    string
	conn   *pgx.Conn
	tenant uuid.UUID
}

func newOld(t *testing.T, version int64) *old {
	t.Helper()
	d := testkit.Database(t)
	require.NoError(t, db.MigrateDown(t.Context(), d.AdminURL, version))
	conn, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(t.Context()) })
	o := &old{T: t, url: d.AdminURL, conn: conn, tenant: uuid.New()}
	o.exec("INSERT INTO tenants (id, name, created_at) VALUES ($1, 't', now())", o.tenant)
	return o
}

func (o *old) exec(sql string, args ...any) {
	o.Helper()
	_, err := o.conn.Exec(o.Context(), sql, args...)
	require.NoError(o, err)
}

func (o *old) migrate() {
	o.Helper()
	require.NoError(o, db.Migrate(o.Context(), o.url))
}

func (o *old) provider(slug, baseURL string) {
	o.Helper()
	o.exec(`INSERT INTO providers (tenant_id, slug, name, domain, base_url, auth_type, auth, document_hash, imported, degraded, rejected, created_at, updated_at)
		VALUES ($1, $2, 'p', 'd', $3, 'bearer', '{}', '', 0, '[]', '[]', now(), now())`, o.tenant, slug, baseURL)
}

func (o *old) platform(slug, baseURL string) {
	o.Helper()
	o.exec(`INSERT INTO platform_providers (slug, name, domain, base_url, auth_type, auth, document_hash, imported, degraded, rejected, created_at, updated_at)
		VALUES ($1, 'p', 'd', $2, 'bearer', '{}', '', 0, '[]', '[]', now(), now())`, slug, baseURL)
}

// Stored credentials take the origin of the provider that they would have been sent to.
func TestMigrationBindsStoredCredentials(t *testing.T) {
	t.Parallel()
	o := newOld(t, beforeBindings)
	want := map[string]*string{
		"plain": new("https://api.shop.test"), "path": new("https://api.shop.test"), "case": new("https://api.shop.test"),
		"dot": new("https://api.shop.test"), "dot-port": new("https://api.shop.test:8443"), "default": new("https://api.shop.test"),
		"odd": new("https://api.shop.test:80"), "http": new("http://127.0.0.1"), "loopback": new("http://127.0.0.1:9000"), "six": new("https://[2a00::1]:8443"),
		"both": new("https://own.test"), "mail": new("https://mail.test"), "missing": nil,
	}
	for slug, base := range map[string]string{
		"plain": "https://api.shop.test", "path": "https://api.shop.test/v1/x", "case": "https://API.Shop.test/V1", "dot": "https://api.shop.test./v1",
		"dot-port": "https://api.shop.test.:8443/v1", "default": "https://api.shop.test:443/v1", "odd": "https://api.shop.test:80", "http": "http://127.0.0.1:80/x",
		"loopback": "http://127.0.0.1:9000", "six": "https://[2A00::1]:8443/v1", "both": "https://own.test",
	} {
		o.provider(slug, base)
	}
	o.platform("both", "https://platform.test")
	o.platform("mail", "https://mail.test/v3")
	for slug := range want {
		o.exec(`INSERT INTO credentials (id, tenant_id, provider, type, label, allowed_hosts, status, version, kek_id, wrapped_key, ciphertext, created_by, created_at, updated_at)
			VALUES ($1, $2, $3, 'bearer', '', '{}', 'active', 1, 'k', '', '', 'user:x', now(), now())`, uuid.New(), o.tenant, slug)
	}
	o.migrate()
	rows, err := o.conn.Query(t.Context(), "SELECT provider, origin FROM credentials")
	require.NoError(t, err)
	got := map[string]*string{}
	var slug string
	var origin *string
	_, err = pgx.ForEachRow(rows, []any{&slug, &origin}, func() error { got[slug] = origin; return nil })
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// A stored key that could both call and change what governs its calls can no longer call.
func TestMigrationTakesCallsFromMixedKeys(t *testing.T) {
	t.Parallel()
	o := newOld(t, beforeBindings)
	user := uuid.New()
	o.exec("INSERT INTO users (id, tenant_id, email, password_hash, name, role, created_at, joined_at) VALUES ($1, $2, 'a@shop.test', 'x', '', 'owner', now(), now())", user, o.tenant)
	keys := map[string]struct {
		id        uuid.UUID
		had, kept []string
	}{
		"mixed":    {uuid.New(), []string{"actions:run", "audit:manage", "providers:manage", "agents:message"}, []string{"audit:manage", "providers:manage"}},
		"by maps":  {uuid.New(), []string{"policies:manage", "maps:manage", "actions:catalog"}, []string{"policies:manage", "actions:catalog"}},
		"calls":    {uuid.New(), []string{"actions:run", "actions:catalog", "audit:manage"}, []string{"actions:run", "actions:catalog", "audit:manage"}},
		"governs":  {uuid.New(), []string{"credentials:manage"}, []string{"credentials:manage"}},
		"revoked":  {uuid.New(), []string{"actions:run", "credentials:manage"}, []string{"credentials:manage"}},
		"messages": {uuid.New(), []string{"agents:message", "documents:manage"}, []string{"agents:message", "documents:manage"}},
	}
	for name, k := range keys {
		o.exec(`INSERT INTO api_keys (id, tenant_id, key_hash, preview, name, permissions, allowed_origins, created_by, created_at)
			VALUES ($1, $2, sha256($3::text::bytea), '', $3, $4, '{}', $5, now())`, k.id, o.tenant, name, k.had, user)
	}
	o.exec("UPDATE api_keys SET revoked_at = now() WHERE name = 'revoked'")
	o.migrate()
	for name, k := range keys {
		var kept []string
		require.NoError(t, o.conn.QueryRow(t.Context(), "SELECT permissions FROM api_keys WHERE id = $1", k.id).Scan(&kept))
		require.Equal(t, k.kept, kept, name)
	}
	rows, err := o.conn.Query(t.Context(), `SELECT subject_id || ' ' || actor_type || ' ' || details::text FROM audit_records
		WHERE action = 'api_key.updated' AND subject_type = 'api_key' AND tenant_id = $1 AND substring(id::text FROM 15 FOR 1) = '7'`, o.tenant)
	require.NoError(t, err)
	records, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	reason := `"reason" : "A key that manages what governs calls makes none."}`
	require.ElementsMatch(t, []string{
		keys["mixed"].id.String() + ` system {"permissions_before" : ["actions:run","audit:manage","providers:manage","agents:message"], "permissions" : ["audit:manage","providers:manage"], ` + reason,
		keys["by maps"].id.String() + ` system {"permissions_before" : ["policies:manage","maps:manage","actions:catalog"], "permissions" : ["policies:manage","actions:catalog"], ` + reason,
	}, records)
}
