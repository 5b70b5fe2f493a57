package account

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/fault"
)

func TestKeyLifeCycle(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me := h.join(t, "ada@example.com")
	list := func(status string) []string {
		keys, err := h.ListKeys(t.Context(), me.TenantID, status)
		require.NoError(t, err)
		out := []string{}
		for _, k := range keys {
			require.Empty(t, k.Secret)
			out = append(out, k.Name+" "+k.Status)
		}
		return out
	}
	require.Equal(t, []string{}, list(""))
	first, err := h.CreateKey(t.Context(), as(me), KeyInput{Name: "first"})
	require.NoError(t, err)
	second, err := h.CreateKey(t.Context(), as(me),
		KeyInput{Name: "second", AgentID: new("a"), IdentityMode: new("required"), AllowedOrigins: []string{"https://a.example"}})
	require.NoError(t, err)
	require.Equal(t, []string{"second active", "first active"}, list("active"))

	keys, err := h.ListKeys(t.Context(), me.TenantID, "")
	require.NoError(t, err)
	second.Secret = ""
	require.Equal(t, second, keys[0], "listed as created")

	require.NoError(t, h.RevokeKey(t.Context(), as(me), first.ID.String()))
	requireCode(t, fault.CodeAPIKeyNotFound, h.RevokeKey(t.Context(), as(me), first.ID.String()))
	require.Equal(t, []string{"second active"}, list(""))
	require.Equal(t, []string{"second active", "first revoked"}, list("ALL"))
	_, err = h.ListKeys(t.Context(), me.TenantID, "revoked")
	requireCode(t, fault.CodeValidation, err)
}

// A run that is about to be sent locks its key until that is committed. So no sending
// begins after the revocation was answered.
func TestRevocationWaitsForRunsBeingSent(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me := h.join(t, "ada@example.com")
	key, err := h.CreateKey(t.Context(), as(me), KeyInput{Name: "k"})
	require.NoError(t, err)
	impatient, err := db.Open(t.Context(), db.Config{URL: h.db.AppURL + "&lock_timeout=50"})
	require.NoError(t, err)
	t.Cleanup(impatient.Close)
	h.d.DB = impatient

	err = h.db.InTenant(t.Context(), me.TenantID, func(tx pgx.Tx) error {
		id := key.ID.String()
		if err := dbsqlc.New().EnterGate(t.Context(), tx, dbsqlc.EnterGateParams{KeyID: &id, TenantID: me.TenantID.String()}); err != nil {
			return err
		}
		require.ErrorContains(t, h.RevokeKey(t.Context(), as(me), key.ID.String()), "lock timeout")
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, h.RevokeKey(t.Context(), as(me), key.ID.String()))
}

func TestForeignKeyIsUnknown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me, other := h.join(t, "ada@example.com"), h.join(t, "bob@example.com")
	key, err := h.CreateKey(t.Context(), as(other), KeyInput{Name: "theirs"})
	require.NoError(t, err)

	foreign := h.RevokeKey(t.Context(), as(me), key.ID.String())
	require.Equal(t, fault.New(fault.CodeAPIKeyNotFound, ""), foreign)
	for _, unknown := range []string{uuid.New().String(), "x", "", "{" + key.ID.String() + "}", strings.ToUpper(key.ID.String())} {
		require.Equal(t, foreign, h.RevokeKey(t.Context(), as(me), unknown))
	}
	keys, err := h.ListKeys(t.Context(), me.TenantID, "all")
	require.NoError(t, err)
	require.Empty(t, keys)
	keys, err = h.ListKeys(t.Context(), other.TenantID, "")
	require.NoError(t, err)
	require.Len(t, keys, 1)
}
