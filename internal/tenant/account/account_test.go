package account

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/tenant/auth"
)

// Row-level security protects rows even from a query that forgets the tenant.
func TestRowsShowOnlyToTheirTenantOrPresenter(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me, other := h.join(t, "ada@example.com"), h.join(t, "bob@example.com")
	for _, who := range []Login{me, other} {
		_, err := h.CreateKey(t.Context(), as(who), KeyInput{Name: "k"})
		require.NoError(t, err)
	}
	for _, table := range []string{"users", "sessions", "refresh_tokens", "api_keys"} {
		count := func(tenant uuid.UUID) (n int64) {
			require.NoError(t, h.db.Tenant(tenant).QueryRow(t.Context(), "select count(*) from "+table).Scan(&n))
			return n
		}
		require.Equal(t, int64(2), one[int64](t, h, "select count(*) from "+table), table)
		require.Equal(t, int64(1), count(me.TenantID), table)
		require.Zero(t, count(uuid.New()), table)
	}
	_, err := h.db.Tenant(me.TenantID).Exec(t.Context(), "update api_keys set tenant_id = $1", other.TenantID)
	require.Error(t, err, "a row cannot be given away")
	var seen []string
	rows, err := h.db.Presenting("app.login_email", "bob@example.com").Query(t.Context(), "select email from users")
	require.NoError(t, err)
	seen, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"bob@example.com"}, seen)
}

func TestNothingSecretIsStored(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.passwords = newArgon2id()
	me := h.join(t, "ada@example.com")
	key, err := h.CreateKey(t.Context(), as(me), KeyInput{Name: "k"})
	require.NoError(t, err)
	_, err = h.logIn(t, "a password in the wrong field", password+"!")
	requireCode(t, fault.CodeInvalidCredentials, err)
	stored := one[string](t, h, `select (select jsonb_agg(to_jsonb(u)) from users u)::text || (select jsonb_agg(to_jsonb(r)) from refresh_tokens r)::text
		|| (select jsonb_agg(to_jsonb(k)) from api_keys k)::text || (select jsonb_agg(to_jsonb(l)) from login_attempts l)::text`)
	for _, secret := range []string{password, key.Secret, key.Secret[4:34], me.RefreshToken, "wrong field"} {
		require.NotContains(t, stored, secret)
	}
	require.Contains(t, stored, key.Preview)
}

func TestNewChecksItsDeps(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Permissions: auth.Permissions()}, Deps{})
	require.Error(t, err)
	h := newHouse(t)
	_, err = New(Config{}, h.d)
	require.Error(t, err)
}
