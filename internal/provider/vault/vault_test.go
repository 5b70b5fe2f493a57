package vault_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/vault"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const canary = "canary-0b7e51"

// rig is a vault on a database of its own with two tenants.
type rig struct {
	*vault.Vault
	db     testkit.DB
	admin  *pgx.Conn
	tenant uuid.UUID
	other  uuid.UUID
	clock  time.Time
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{db: testkit.Database(t), clock: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	kms, err := vault.NewLocalKMS("k1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	require.NoError(t, err)
	r.Vault, err = vault.Open(vault.Deps{DB: r.db.Pool, KMS: kms, CheckURL: r.checkURL, Now: func() time.Time { return r.clock }})
	require.NoError(t, err)
	for _, id := range []*uuid.UUID{&r.tenant, &r.other} {
		*id = uuid.Must(uuid.NewV7())
		require.NoError(t, dbsqlc.New().InsertTenant(t.Context(), r.db.Tenant(*id), dbsqlc.InsertTenantParams{ID: *id, Name: "t"}))
	}
	r.admin, err = pgx.Connect(t.Context(), r.db.AdminURL)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.admin.Close(context.Background())) })
	return r
}

// another is the vault of a second process.
func (r *rig) another() (*vault.Vault, error) {
	kms, err := vault.NewLocalKMS("k1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		return nil, err
	}
	return vault.Open(vault.Deps{DB: r.db.Pool, KMS: kms, CheckURL: r.checkURL, Now: func() time.Time { return r.clock }})
}

// bind is Bind by a user in a transaction of its own.
func (r *rig) bind(t *testing.T, tenant uuid.UUID, provider, baseURL string) error {
	t.Helper()
	return r.db.InTenant(t.Context(), tenant, func(tx pgx.Tx) error { return r.Bind(t.Context(), tx, by(tenant), provider, baseURL) })
}

// checkURL stands for the rules of outbound calls.
func (r *rig) checkURL(url string) error {
	if strings.Contains(url, "private") {
		return fault.New(fault.CodeURLNotAllowed, "The address is not public.")
	}
	return nil
}

// by is a user of the tenant.
func by(tenant uuid.UUID) actor.Actor {
	return actor.Actor{Kind: actor.User, TenantID: tenant, ID: uuid.MustParse("0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90")}
}

func (r *rig) create(t *testing.T, n vault.New) vault.Credential {
	t.Helper()
	if n.Provider == "" {
		n.Provider = "shop"
	}
	if n.Type == "" {
		n.Type, n.Data = "api_key", json.RawMessage(`{"key":"`+canary+`"}`)
	}
	c, err := r.Create(t.Context(), by(r.tenant), n)
	require.NoError(t, err)
	return c
}

func (r *rig) newest(t *testing.T, customer string) (vault.Sealed, error) {
	t.Helper()
	return r.newestOf(t, r.tenant, r.tenant, customer)
}

// newestOf asks, under row-level security for the tenant as, for another's credential.
func (r *rig) newestOf(t *testing.T, as, tenant uuid.UUID, customer string) (vault.Sealed, error) {
	t.Helper()
	b := &db.Batch{}
	read := vault.QueueNewest(b, tenant, "shop", customer, nil)
	require.NoError(t, r.db.Send(t.Context(), as, b))
	return read()
}

func requireCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	require.True(t, fault.HasCode(err, code), "want %s, got %v", code, err)
}

func TestCredentialLife(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	c := r.create(t, vault.New{
		Provider: "shop", Type: "API_KEY", Label: "main", AllowedHosts: []string{"*.Shop.test"},
		Data: json.RawMessage(`{"key":"` + canary + `"}`),
	})
	require.Equal(t, credential.APIKey, c.Type)
	require.Equal(t, []string{"*.shop.test"}, c.AllowedHosts)
	require.Equal(t, by(r.tenant).String(), c.CreatedBy)

	got, err := r.Get(ctx, r.tenant, c.ID)
	require.NoError(t, err)
	require.Equal(t, c, got)

	sealed, err := r.newest(t, "")
	require.NoError(t, err)
	secret, err := r.Resolve(ctx, r.tenant, sealed)
	require.NoError(t, err)
	require.Equal(t, canary, secret.Key())

	r.clock = r.clock.Add(time.Hour)
	label, status := "renamed", "REVOKED"
	got, err = r.Update(ctx, by(r.tenant), c.ID, vault.Patch{Label: &label, Status: &status, AllowedHosts: &[]string{}})
	require.NoError(t, err)
	require.Equal(t, "renamed", got.Label)
	require.Equal(t, vault.StatusRevoked, got.Status)
	require.Empty(t, got.AllowedHosts)
	require.Equal(t, r.clock, got.UpdatedAt)
	_, err = r.newest(t, "")
	requireCode(t, err, fault.CodeProviderNotConnected)
	_, usable, err := r.Validate(ctx, r.tenant, c.ID)
	require.NoError(t, err)
	require.False(t, usable)

	got, err = r.Update(ctx, by(r.tenant), c.ID, vault.Patch{Status: new("active")})
	require.NoError(t, err)
	require.Equal(t, "renamed", got.Label)
	_, usable, err = r.Validate(ctx, r.tenant, c.ID)
	require.NoError(t, err)
	require.True(t, usable)

	require.NoError(t, r.Delete(ctx, by(r.tenant), c.ID, nil))
	var rows int
	require.NoError(t, r.admin.QueryRow(ctx, "select count(*) from credentials").Scan(&rows))
	require.Zero(t, rows)
	requireCode(t, r.Delete(ctx, by(r.tenant), c.ID, nil), fault.CodeCredentialNotFound)
	_, err = r.Get(ctx, r.tenant, c.ID)
	requireCode(t, err, fault.CodeCredentialNotFound)
}

func TestRotate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	c := r.create(t, vault.New{})
	before, err := r.newest(t, "")
	require.NoError(t, err)

	got, err := r.Rotate(ctx, by(r.tenant), c.ID, json.RawMessage(`{"key":"second"}`), nil)
	require.NoError(t, err)
	require.Equal(t, 2, got.Version)
	require.Equal(t, c.CreatedAt, got.CreatedAt)
	require.NotNil(t, got.RotatedAt)

	after, err := r.newest(t, "")
	require.NoError(t, err)
	require.Equal(t, before.ID, after.ID)
	secret, err := r.Resolve(ctx, r.tenant, after)
	require.NoError(t, err)
	require.Equal(t, "second", secret.Key())

	// The old ciphertext under the new version, as a restored row would be.
	before.Version = after.Version
	_, err = r.Resolve(ctx, r.tenant, before)
	require.Error(t, err)

	_, err = r.Rotate(ctx, by(r.tenant), c.ID, json.RawMessage(`{"token":"other type"}`), nil)
	requireCode(t, err, fault.CodeValidation)
	_, err = r.Rotate(ctx, by(r.tenant), uuid.New(), json.RawMessage(`{"key":"k"}`), nil)
	requireCode(t, err, fault.CodeCredentialNotFound)
}

func TestRotationsAtOnceNeverMixVersions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.create(t, vault.New{})
	const racers = 8
	errs := make([]error, racers)
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			_, errs[i] = r.Rotate(t.Context(), by(r.tenant), c.ID, json.RawMessage(fmt.Sprintf(`{"key":"k%d"}`, i)), nil)
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		requireCode(t, err, fault.CodeConflict)
	}
	require.Positive(t, won)
	got, err := r.Get(t.Context(), r.tenant, c.ID)
	require.NoError(t, err)
	require.Equal(t, 1+won, got.Version)
	_, usable, err := r.Validate(t.Context(), r.tenant, c.ID)
	require.NoError(t, err)
	require.True(t, usable)
}

func TestNewest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	_, err := r.newest(t, "")
	requireCode(t, err, fault.CodeProviderNotConnected)

	step := func(n vault.New) vault.Credential {
		r.clock = r.clock.Add(time.Minute)
		return r.create(t, n)
	}
	first := step(vault.New{})
	second := step(vault.New{})
	hers := step(vault.New{CustomerID: "cus_1"})
	step(vault.New{Provider: "mail"})

	use := func(customer string, want uuid.UUID) {
		t.Helper()
		got, err := r.newest(t, customer)
		require.NoError(t, err)
		require.Equal(t, want, got.ID)
	}
	use("", second.ID)
	use("cus_1", hers.ID)
	use("cus_2", second.ID)

	_, err = r.Update(ctx, by(r.tenant), second.ID, vault.Patch{Status: new("revoked")})
	require.NoError(t, err)
	use("", first.ID)

	// Expired is found out by the service, so a test sets it in the table.
	expire := func(id uuid.UUID) {
		_, err := r.admin.Exec(ctx, "update credentials set status = 'expired' where id = $1", id)
		require.NoError(t, err)
	}
	expire(hers.ID)
	_, err = r.newest(t, "cus_1")
	requireCode(t, err, fault.CodeCredentialExpired)
	use("", first.ID)
	expire(first.ID)
	_, err = r.newest(t, "")
	requireCode(t, err, fault.CodeCredentialExpired)

	// New data is what an expired credential waits for.
	_, err = r.Rotate(ctx, by(r.tenant), first.ID, json.RawMessage(`{"key":"fresh"}`), nil)
	require.NoError(t, err)
	use("", first.ID)
}

func TestRowsNeverCrossTenants(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.create(t, vault.New{})
	sealed, err := r.newest(t, "")
	require.NoError(t, err)

	t.Run("every operation answers as for an unknown id", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		_, err := r.Get(ctx, r.other, c.ID)
		_, unknown := r.Get(ctx, r.other, uuid.New())
		require.Equal(t, unknown, err)
		_, err = r.Update(ctx, by(r.other), c.ID, vault.Patch{Label: new("x")})
		requireCode(t, err, fault.CodeCredentialNotFound)
		_, err = r.Rotate(ctx, by(r.other), c.ID, json.RawMessage(`{"key":"k"}`), nil)
		requireCode(t, err, fault.CodeCredentialNotFound)
		_, _, err = r.Validate(ctx, r.other, c.ID)
		requireCode(t, err, fault.CodeCredentialNotFound)
		requireCode(t, r.Delete(ctx, by(r.other), c.ID, nil), fault.CodeCredentialNotFound)
		page, _, err := r.List(ctx, r.other, vault.Filter{Limit: 10})
		require.NoError(t, err)
		require.Empty(t, page)
		_, err = r.newestOf(t, r.other, r.tenant, "")
		requireCode(t, err, fault.CodeProviderNotConnected)
	})

	t.Run("a sealed row does not open for another tenant", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		_, err := r.Resolve(ctx, r.other, sealed)
		require.Error(t, err)
		require.Nil(t, fault.As(err))
	})
}

func TestCopiedRowDoesNotOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	r.create(t, vault.New{})
	copied := uuid.New()
	_, err := r.admin.Exec(ctx, `create temp table moved as select * from credentials`)
	require.NoError(t, err)
	_, err = r.admin.Exec(ctx, `update moved set id = $1, tenant_id = $2`, copied, r.other)
	require.NoError(t, err)
	_, err = r.admin.Exec(ctx, `insert into credentials select * from moved`)
	require.NoError(t, err)

	stolen, err := r.newestOf(t, r.other, r.other, "")
	require.NoError(t, err)
	_, err = r.Resolve(ctx, r.other, stolen)
	require.Error(t, err)
	require.NotContains(t, err.Error(), canary)
	_, _, err = r.Validate(ctx, r.other, copied)
	require.Error(t, err)
}

func TestNothingReadableInTheDatabase(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, n := range []vault.New{
		{Type: "api_key", Data: json.RawMessage(`{"key":"` + canary + `"}`)},
		{Type: "bearer", Data: json.RawMessage(`{"token":"` + canary + `"}`)},
		{Type: "basic", Data: json.RawMessage(`{"username":"` + canary + `","password":"` + canary + `"}`)},
		{Type: "custom_header", Data: json.RawMessage(`{"headers":{"X-Key":"` + canary + `"}}`)},
	} {
		c := r.create(t, n)
		_, err := r.Rotate(t.Context(), by(r.tenant), c.ID, n.Data, nil)
		require.NoError(t, err)
		shown, err := r.Get(t.Context(), r.tenant, c.ID)
		require.NoError(t, err)
		require.NotContains(t, fmt.Sprintf("%+v", shown), canary)
	}
	rows, err := r.admin.Query(t.Context(), "select c::text, encode(c.ciphertext, 'escape'), encode(c.wrapped_key, 'escape') from credentials c")
	require.NoError(t, err)
	n := 0
	for rows.Next() {
		n++
		var a, b, c string
		require.NoError(t, rows.Scan(&a, &b, &c))
		for _, form := range []string{canary, fmt.Sprintf("%x", canary), base64.StdEncoding.EncodeToString([]byte(canary))} {
			require.NotContains(t, a+b+c, form)
		}
	}
	require.NoError(t, rows.Err())
	require.Equal(t, 4, n)
}

func TestList(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	var ids []uuid.UUID
	for i := range 5 {
		provider := []string{"shop", "mail"}[i%2]
		c := r.create(t, vault.New{Provider: provider, CustomerID: map[bool]string{true: "cus_1"}[i == 4]})
		ids = append([]uuid.UUID{c.ID}, ids...)
	}
	_, err := r.Update(ctx, by(r.tenant), ids[0], vault.Patch{Status: new("revoked")})
	require.NoError(t, err)

	list := func(f vault.Filter) ([]uuid.UUID, bool) {
		t.Helper()
		if f.Limit == 0 {
			f.Limit = 10
		}
		page, more, err := r.List(ctx, r.tenant, f)
		require.NoError(t, err)
		got := make([]uuid.UUID, len(page))
		for i, c := range page {
			got[i] = c.ID
		}
		return got, more
	}
	got, more := list(vault.Filter{Limit: 2})
	require.Equal(t, ids[:2], got)
	require.True(t, more)
	got, more = list(vault.Filter{Limit: 3, Before: ids[1]})
	require.Equal(t, ids[2:], got)
	require.False(t, more)
	got, _ = list(vault.Filter{Provider: "mail"})
	require.Equal(t, []uuid.UUID{ids[1], ids[3]}, got)
	got, _ = list(vault.Filter{Status: "Revoked"})
	require.Equal(t, ids[:1], got)
	got, _ = list(vault.Filter{CustomerID: "cus_1"})
	require.Equal(t, ids[:1], got)
	for _, f := range []vault.Filter{{Status: "gone"}, {Provider: "a\x00"}, {CustomerID: "a\x00"}} {
		_, _, err = r.List(ctx, r.tenant, f)
		requireCode(t, err, fault.CodeValidation)
	}
}

func TestMarkUsedWritesOnceAMinute(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.create(t, vault.New{})
	last := func() time.Time {
		t.Helper()
		require.NoError(t, r.MarkUsed(t.Context(), r.tenant, c.ID))
		got, err := r.Get(t.Context(), r.tenant, c.ID)
		require.NoError(t, err)
		return *got.LastUsedAt
	}
	start := r.clock
	require.Equal(t, start, last())
	r.clock = start.Add(59 * time.Second)
	require.Equal(t, start, last())
	r.clock = start.Add(61 * time.Second)
	require.Equal(t, r.clock, last())
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good := func() vault.New {
		return vault.New{Provider: "shop", Type: "api_key", Data: json.RawMessage(`{"key":"k"}`)}
	}
	for path, spoil := range map[string]func(*vault.New){
		"/provider":        func(n *vault.New) { n.Provider = "Not A Slug" },
		"/type":            func(n *vault.New) { n.Type = "oauth2" },
		"/label":           func(n *vault.New) { n.Label = strings.Repeat("a", 256) },
		"/customer_id":     func(n *vault.New) { n.CustomerID = "a b" },
		"/allowed_hosts/0": func(n *vault.New) { n.AllowedHosts = []string{"https://x.test"} },
		"/data/key":        func(n *vault.New) { n.Data = json.RawMessage(`{}`) },
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			n := good()
			spoil(&n)
			_, err := r.Create(t.Context(), by(r.tenant), n)
			requireCode(t, err, fault.CodeValidation)
			require.Equal(t, path, fault.As(err).Details[0].Path)
		})
	}
	c := r.create(t, good())
	for path, p := range map[string]vault.Patch{
		"/label":           {Label: new("a\x00")},
		"/status":          {Status: new("expired")},
		"/origin":          {Origin: new("shop.test")},
		"/allowed_hosts/0": {AllowedHosts: &[]string{"*"}},
	} {
		_, err := r.Update(t.Context(), by(r.tenant), c.ID, p)
		requireCode(t, err, fault.CodeValidation)
		require.Equal(t, path, fault.As(err).Details[0].Path)
	}
}
