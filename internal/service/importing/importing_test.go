package importing_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/openapi"
	"agentruntime/internal/provider/vault"
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/service/importing"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// newService returns a service over a catalog, and a key of a tenant.
func newService(t *testing.T) (*importing.Service, *catalog.Catalog, actor.Actor) {
	t.Helper()
	return newServiceOn(t, testkit.Database(t))
}

func newServiceOn(t *testing.T, db testkit.DB) (*importing.Service, *catalog.Catalog, actor.Actor) {
	t.Helper()
	return newServiceWith(t, db, egress.Config{})
}

func newServiceWith(t *testing.T, db testkit.DB, reach egress.Config) (*importing.Service, *catalog.Catalog, actor.Actor) {
	t.Helper()
	who := actor.Actor{Kind: actor.Key, TenantID: uuid.New(), ID: uuid.New()}
	require.NoError(t, dbsqlc.New().InsertTenant(t.Context(), db.Tenant(who.TenantID), dbsqlc.InsertTenantParams{ID: who.TenantID, Name: "t"}))
	c, err := catalog.New(catalog.Deps{DB: db.Pool})
	require.NoError(t, err)
	kms, err := vault.NewLocalKMS("k1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	require.NoError(t, err)
	safe, err := vault.Open(vault.Deps{DB: db.Pool, KMS: kms, CheckURL: egress.Config{}.CheckURL})
	require.NoError(t, err)
	s, err := importing.New(reach, importing.Deps{Catalog: c, Vault: safe})
	require.NoError(t, err)
	return s, c, who
}

func document(server, path string) openapi.ImportInput {
	return openapi.ImportInput{Slug: "shop", Document: json.RawMessage(`{"openapi":"3.0.0","info":{"title":"Shop"},"servers":[{"url":"` + server + `"}],
		"paths":{"/orders":{"get":{"operationId":"list_orders"` + path + `},"options":{}}}}`)}
}

func TestImportStoresProviderVerbsAndReport(t *testing.T) {
	t.Parallel()
	s, c, by := newService(t)
	in := document("https://api.shop.example/v1", "")
	p, err := s.Import(t.Context(), by, in)
	require.NoError(t, err)
	require.Equal(t, credential.Bearer, p.AuthType)
	stored, err := c.Provider(t.Context(), by.TenantID, "shop")
	require.NoError(t, err)
	require.Equal(t, catalog.HashOf(in.Document), stored.DocumentHash)
	require.Equal(t, 1, stored.Imported)
	require.Len(t, stored.Rejected, 1)
	require.Equal(t, "OPTIONS /orders", stored.Rejected[0].Operation)
	page, err := c.List(t.Context(), by.TenantID, catalog.Filter{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "shop:list_orders", page.Verbs[0].Name.String())
}

func TestImportRefusesServersThatMayNotBeCalled(t *testing.T) {
	t.Parallel()
	s, c, by := newService(t)
	for name, in := range map[string]openapi.ImportInput{
		"the provider's":       document("http://127.0.0.1/v1", ""),
		"a single operation's": document("https://api.shop.example", `,"servers":[{"url":"https://10.0.0.8"}]`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := s.Import(t.Context(), by, in)
			require.True(t, fault.HasCode(err, fault.CodeURLNotAllowed), "%v", err)
			_, err = c.Provider(t.Context(), by.TenantID, "shop")
			require.True(t, fault.HasCode(err, fault.CodeProviderNotFound))
		})
	}
}

// A large import that is under way delays no small one, and a small one no other tenant's large one.
func TestImportSmallRunsBesideALargeOne(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]int{"a large one": 2 << 20, "a small one": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := testkit.Database(t)
			s, _, by := newServiceOn(t, database)
			conn, err := pgx.Connect(t.Context(), database.AdminURL)
			require.NoError(t, err)
			defer conn.Close(context.Background())
			_, err = conn.Exec(t.Context(), "select pg_advisory_lock(hashtextextended($1, 0))", "import:"+by.TenantID.String()+":shop")
			require.NoError(t, err)

			done := make(chan error, 1)
			go func() {
				_, err := s.Import(t.Context(), by, sized("shop", slow))
				done <- err
			}()
			require.Eventually(t, func() bool {
				var waiting bool
				err := conn.QueryRow(t.Context(), "select exists (select from pg_locks where locktype = 'advisory' and not granted)").Scan(&waiting)
				return err == nil && waiting
			}, time.Minute, time.Millisecond, "the slow import stores its verbs")
			_, err = s.Import(t.Context(), by, sized("other", 2<<20+1-slow))
			require.NoError(t, err, "the other kind has its own turn")
			require.Empty(t, done)
			_, err = conn.Exec(t.Context(), "select pg_advisory_unlock_all()")
			require.NoError(t, err)
			require.NoError(t, <-done)
		})
	}
}

// sized is a document with a description of n bytes.
func sized(slug string, n int) openapi.ImportInput {
	in := document("https://api.shop.example", `,"description":"`+strings.Repeat("d", n)+`"`)
	in.Slug = slug
	return in
}

func TestImportEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	s, _, by := newService(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Import(ctx, by, document("https://api.shop.example", ""))
	require.ErrorIs(t, err, context.Canceled)
}

// What an import does is there with the memory of its Idempotency-Key, or not at all. Otherwise
// a repeat after a crash would find that all is done, while the credentials are not bound.
func TestImportRepeatedAfterItsEndWasLostBindsCredentials(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	s, c, who := newServiceOn(t, d)
	who.Kind = actor.User
	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	defer admin.Close(context.WithoutCancel(t.Context()))
	exec := func(sql string, args ...any) {
		_, err := admin.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	exec(`INSERT INTO credentials (id, tenant_id, provider, type, label, allowed_hosts, status, version, kek_id, wrapped_key, ciphertext, created_by, created_at, updated_at)
	      VALUES (gen_random_uuid(), $1, 'shop', 'bearer', '', '{}', 'active', 1, 'k', '', '', '', now(), now())`, who.TenantID)
	keys, err := idempotency.New(idempotency.Config{Pepper: []byte("pepper"), Most: 10}, idempotency.Deps{DB: d.Pool})
	require.NoError(t, err)
	in := document("https://api.shop.example/v1", "")
	call := idempotency.Call{Who: who, Endpoint: "POST /v1/providers", Key: "once", Body: in.Document}
	attempt := func() (made string, err error) {
		id, creation, err := keys.Find(t.Context(), call)
		require.NoError(t, err)
		if id != "" {
			return id, nil
		}
		_, err = s.Import(idempotency.With(t.Context(), creation), who, in)
		return "", err
	}
	// The binding does not come about, as if the process ended there.
	exec(`CREATE FUNCTION lost() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'lost'; END $$`)
	exec(`CREATE TRIGGER lost BEFORE UPDATE ON credentials FOR EACH ROW EXECUTE FUNCTION lost()`)
	_, err = attempt()
	require.ErrorContains(t, err, "lost")
	_, err = c.Provider(t.Context(), who.TenantID, "shop")
	require.True(t, fault.HasCode(err, fault.CodeProviderNotFound), "%v", err)
	exec(`DROP TRIGGER lost ON credentials`)

	made, err := attempt()
	require.NoError(t, err)
	require.Empty(t, made, "the repeat imports")
	var origin string
	require.NoError(t, admin.QueryRow(t.Context(), `SELECT coalesce(origin, '') FROM credentials`).Scan(&origin))
	require.Equal(t, "https://api.shop.example", origin)
	made, err = attempt()
	require.NoError(t, err)
	require.Equal(t, "shop", made)
}
