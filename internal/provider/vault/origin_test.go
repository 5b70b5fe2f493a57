package vault_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/vault"
)

// provider stores a provider of the tenant, or the platform's where tenant is uuid.Nil.
func (r *rig) provider(t *testing.T, tenant uuid.UUID, slug, baseURL string) {
	t.Helper()
	const columns = "slug, name, domain, base_url, auth_type, auth, document_hash, imported, degraded, rejected, created_at, updated_at"
	const values = "$1, 'p', 'd', $2, 'bearer', '{}', '', 0, '[]', '[]', now(), now()"
	var err error
	if tenant == uuid.Nil {
		_, err = r.admin.Exec(t.Context(), "INSERT INTO platform_providers ("+columns+") VALUES ("+values+")", slug, baseURL)
	} else {
		_, err = r.admin.Exec(t.Context(), "INSERT INTO providers (tenant_id, "+columns+") VALUES ($3, "+values+`)
			ON CONFLICT (tenant_id, slug) DO UPDATE SET base_url = excluded.base_url`, slug, baseURL, tenant)
	}
	require.NoError(t, err)
}

// key is an API key of the tenant.
func key(tenant uuid.UUID) actor.Actor {
	return actor.Actor{Kind: actor.Key, TenantID: tenant, ID: uuid.MustParse("0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a91")}
}

func aKey(n vault.New) vault.New {
	n.Type, n.Data = "api_key", json.RawMessage(`{"key":"k"}`)
	return n
}

func TestCredentialIsBoundToTheProviderItIsStoredFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider(t, r.tenant, "shop", "https://API.Shop.test:443/v1")
	r.provider(t, r.other, "elsewhere", "https://other-tenant.test")
	r.provider(t, uuid.Nil, "shop", "https://platform.test")
	r.provider(t, uuid.Nil, "mail", "https://mail.test/v3")
	for slug, want := range map[string]string{
		"shop": "https://api.shop.test", "mail": "https://mail.test", "elsewhere": "", "none": "",
	} {
		for _, who := range []actor.Actor{by(r.tenant), key(r.tenant)} {
			c, err := r.Create(t.Context(), who, aKey(vault.New{Provider: slug}))
			require.NoError(t, err)
			require.Equal(t, want, c.Origin, slug)
			got, err := r.Get(t.Context(), r.tenant, c.ID)
			require.NoError(t, err)
			require.Equal(t, c, got)
		}
	}
}

func TestCredentialStaysWhereItIsBound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider(t, r.tenant, "shop", "https://api.shop.test/v1")
	c := r.create(t, vault.New{})
	r.provider(t, r.tenant, "shop", "https://evil.test/v1")
	_, err := r.Rotate(t.Context(), by(r.tenant), c.ID, json.RawMessage(`{"key":"k2"}`), nil)
	require.NoError(t, err)
	require.NoError(t, r.bind(t, r.tenant, "shop", "https://evil.test/v1"))

	sealed, err := r.newest(t, "")
	require.NoError(t, err)
	address := func(raw string) *url.URL {
		u, err := url.Parse(raw)
		require.NoError(t, err)
		return u
	}
	require.NoError(t, sealed.MaySend(address("https://api.shop.test/v1/orders")))
	err = sealed.MaySend(address("https://evil.test/v1/orders?secret=x"))
	requireCode(t, err, fault.CodeURLNotAllowed)
	message := fault.As(err).Message
	require.Contains(t, message, c.ID.String())
	require.Contains(t, message, "https://evil.test.")
	require.Contains(t, message, "bound to https://api.shop.test.")
	require.NotContains(t, message, "secret")

	// A user confirms the move.
	got, err := r.Update(t.Context(), by(r.tenant), c.ID, vault.Patch{Origin: new("https://Evil.test:443")})
	require.NoError(t, err)
	require.Equal(t, "https://evil.test", got.Origin)
	sealed, err = r.newest(t, "")
	require.NoError(t, err)
	require.NoError(t, sealed.MaySend(address("https://evil.test/v1/orders")))
	requireCode(t, sealed.MaySend(address("https://api.shop.test/v1/orders")), fault.CodeURLNotAllowed)
	records := r.records(t)
	require.Contains(t, records[len(records)-1], `credential.updated shop`)
	require.Contains(t, records[len(records)-1], `{"fields":["origin"],"origin":"https://evil.test","origin_before":"https://api.shop.test"}`)
}

func TestCredentialBeforeItsProviderIsNotSentUntilAUserImports(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.create(t, vault.New{})
	require.Empty(t, c.Origin)
	to, err := url.Parse("https://api.shop.test")
	require.NoError(t, err)
	sealed, err := r.newest(t, "")
	require.NoError(t, err)
	err = sealed.MaySend(to)
	requireCode(t, err, fault.CodeURLNotAllowed)
	require.Contains(t, fault.As(err).Message, "not bound to an origin yet")

	require.NoError(t, r.bind(t, r.other, "shop", "https://evil.test"))
	require.NoError(t, r.bind(t, r.tenant, "other", "https://evil.test"))
	require.NoError(t, r.bind(t, r.tenant, "shop", "https://api.shop.test/v1"))
	sealed, err = r.newest(t, "")
	require.NoError(t, err)
	require.NoError(t, sealed.MaySend(to))
	records := r.records(t)
	require.Len(t, records, 2)
	require.Contains(t, records[1], `credential.updated shop credential `+c.ID.String()+`   {"fields":["origin"],"origin":"https://api.shop.test","origin_before":""}`)
}

func TestKeysOnlyNarrowWhereACredentialMayGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider(t, r.tenant, "shop", "https://api.shop.test/v1")
	create := func(n vault.New) func(actor.Actor) error {
		return func(who actor.Actor) error { _, err := r.Create(t.Context(), who, aKey(n)); return err }
	}
	patch := func(has []string, p vault.Patch) func(actor.Actor) error {
		c := r.create(t, vault.New{AllowedHosts: has})
		return func(who actor.Actor) error { _, err := r.Update(t.Context(), who, c.ID, p); return err }
	}
	for name, tt := range map[string]struct {
		change func(actor.Actor) error
		code   fault.Code // for a key; "" where it may
	}{
		"store":                         {create(vault.New{Provider: "shop"}), ""},
		"store, the origin named":       {create(vault.New{Provider: "shop", Origin: "https://api.shop.test"}), ""},
		"store, another origin":         {create(vault.New{Provider: "shop", Origin: "https://evil.test"}), fault.CodeInsufficientPermissions},
		"store, another port":           {create(vault.New{Provider: "shop", Origin: "https://api.shop.test:8443"}), fault.CodeInsufficientPermissions},
		"store before the provider":     {create(vault.New{Provider: "later"}), ""},
		"store before it, with origin":  {create(vault.New{Provider: "later", Origin: "https://evil.test"}), fault.CodeInsufficientPermissions},
		"store before it, with hosts":   {create(vault.New{Provider: "later", AllowedHosts: []string{"evil.test"}}), fault.CodeInsufficientPermissions},
		"store with the origin's host":  {create(vault.New{Provider: "shop", AllowedHosts: []string{"api.shop.test"}}), ""},
		"store with another host":       {create(vault.New{Provider: "shop", AllowedHosts: []string{"api.shop.test", "evil.test"}}), fault.CodeInsufficientPermissions},
		"store with a wildcard":         {create(vault.New{Provider: "shop", AllowedHosts: []string{"*.shop.test"}}), fault.CodeInsufficientPermissions},
		"label":                         {patch(nil, vault.Patch{Label: new("x")}), ""},
		"the same origin":               {patch(nil, vault.Patch{Origin: new("https://api.shop.test")}), ""},
		"another origin":                {patch(nil, vault.Patch{Origin: new("https://evil.test")}), fault.CodeInsufficientPermissions},
		"fewer hosts":                   {patch([]string{"a.test", "b.test"}, vault.Patch{AllowedHosts: &[]string{"a.test"}}), ""},
		"more hosts":                    {patch([]string{"a.test"}, vault.Patch{AllowedHosts: &[]string{"a.test", "b.test"}}), fault.CodeInsufficientPermissions},
		"hosts where there were none":   {patch(nil, vault.Patch{AllowedHosts: &[]string{"evil.test"}}), fault.CodeInsufficientPermissions},
		"back to the origin":            {patch([]string{"a.test"}, vault.Patch{AllowedHosts: &[]string{}}), fault.CodeInsufficientPermissions},
		"back to the origin among them": {patch([]string{"api.shop.test", "a.test"}, vault.Patch{AllowedHosts: &[]string{}}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tt.change(key(r.tenant))
			if tt.code != "" {
				requireCode(t, err, tt.code)
				err = tt.change(by(r.tenant))
			}
			require.NoError(t, err)
		})
	}
}

func TestAddressesThatCannotBeCalledAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.create(t, vault.New{})
	for name, change := range map[string]func() error{
		"origin": func() error {
			_, err := r.Create(t.Context(), by(r.tenant), aKey(vault.New{Provider: "shop", Origin: "https://private.test"}))
			return err
		},
		"host": func() error {
			_, err := r.Create(t.Context(), by(r.tenant), aKey(vault.New{Provider: "shop", AllowedHosts: []string{"a.test", "*.private.test:8443"}}))
			return err
		},
		"patched origin": func() error {
			_, err := r.Update(t.Context(), by(r.tenant), c.ID, vault.Patch{Origin: new("https://private.test")})
			return err
		},
		"patched host": func() error {
			_, err := r.Update(t.Context(), by(r.tenant), c.ID, vault.Patch{AllowedHosts: &[]string{"private.test"}})
			return err
		},
	} {
		err := change()
		require.True(t, fault.HasCode(err, fault.CodeURLNotAllowed), "%s: %v", name, err)
	}
	for _, bad := range []string{"", "shop.test", "https://", "https://a.test/", "https://a.test/x", "https://a.test?", "https://a.test#", "https://u@a.test", "ftp://a.test", "https://a.test:0"} {
		_, err := r.Update(t.Context(), by(r.tenant), c.ID, vault.Patch{Origin: &bad})
		requireCode(t, err, fault.CodeValidation)
	}
}
