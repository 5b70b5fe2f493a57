package account

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
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
	agent := h.newAgent(t, me.TenantID)
	second, err := h.CreateKey(t.Context(), as(me),
		KeyInput{Name: "second", AgentID: &agent, IdentityMode: new("required"), AllowedOrigins: []string{"https://a.example"}})
	require.NoError(t, err)
	require.Equal(t, []string{"second active", "first active"}, list("active"))

	keys, err := h.ListKeys(t.Context(), me.TenantID, "")
	require.NoError(t, err)
	second.Secret = ""
	require.Equal(t, second, keys[0], "listed as created")

	require.NoError(t, h.RevokeKey(t.Context(), as(me), first.ID.String(), nil))
	requireCode(t, fault.CodeAPIKeyNotFound, h.RevokeKey(t.Context(), as(me), first.ID.String(), nil))
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
		require.ErrorContains(t, h.RevokeKey(t.Context(), as(me), key.ID.String(), nil), "lock timeout")
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, h.RevokeKey(t.Context(), as(me), key.ID.String(), nil))
}

func TestForeignKeyIsUnknown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me, other := h.join(t, "ada@example.com"), h.join(t, "bob@example.com")
	key, err := h.CreateKey(t.Context(), as(other), KeyInput{Name: "theirs"})
	require.NoError(t, err)

	foreign := h.RevokeKey(t.Context(), as(me), key.ID.String(), nil)
	require.Equal(t, fault.New(fault.CodeAPIKeyNotFound, ""), foreign)
	_, err = h.GetKey(t.Context(), me.TenantID, key.ID.String())
	require.Equal(t, foreign, err)
	_, err = h.ChangeKey(t.Context(), as(me), key.ID.String(), KeyChange{Name: new("mine")})
	require.Equal(t, foreign, err)
	_, err = h.RotateKey(t.Context(), as(me), key.ID.String(), 0)
	require.Equal(t, foreign, err)
	for _, unknown := range []string{uuid.New().String(), "x", "", "{" + key.ID.String() + "}", strings.ToUpper(key.ID.String())} {
		require.Equal(t, foreign, h.RevokeKey(t.Context(), as(me), unknown, nil))
	}
	keys, err := h.ListKeys(t.Context(), me.TenantID, "all")
	require.NoError(t, err)
	require.Empty(t, keys)
	keys, err = h.ListKeys(t.Context(), other.TenantID, "")
	require.NoError(t, err)
	require.Len(t, keys, 1)
}

func TestKeyIsChangedAsAsked(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me := h.join(t, "ada@example.com")
	made, err := h.CreateKey(t.Context(), as(me), KeyInput{Name: "k", Permissions: []string{"actions:run"}})
	require.NoError(t, err)
	require.Equal(t, "user:"+me.UserID.String(), made.CreatedBy)
	ends := new(h.clock().Add(time.Hour))
	change := KeyChange{
		Name: new("renamed"), Permissions: []string{"actions:run", "actions:catalog"}, AllowedOrigins: []string{"https://a.example"},
		AllowedIPs: []string{"10.0.0.1"}, ExpiresAt: &ends,
	}
	changed, err := h.ChangeKey(t.Context(), as(me), made.ID.String(), change)
	require.NoError(t, err)
	want := made
	want.Secret, want.Name, want.Permissions, want.AllowedOrigins = "", "renamed", change.Permissions, change.AllowedOrigins
	want.AllowedIPs, want.ExpiresAt = []string{"10.0.0.1/32"}, ends
	require.Equal(t, want, changed)
	read := func() Key {
		key, err := h.GetKey(t.Context(), me.TenantID, made.ID.String())
		require.NoError(t, err)
		return key
	}
	require.Equal(t, want, read())

	same, err := h.ChangeKey(t.Context(), as(me), made.ID.String(), KeyChange{})
	require.NoError(t, err)
	require.Equal(t, want, same)

	h.pass(time.Hour)
	require.Equal(t, KeyExpired, read().Status)
	var never *time.Time
	revived, err := h.ChangeKey(t.Context(), as(me), made.ID.String(), KeyChange{ExpiresAt: &never})
	require.NoError(t, err)
	require.Nil(t, revived.ExpiresAt)
	require.Equal(t, KeyActive, read().Status)

	require.NoError(t, h.RevokeKey(t.Context(), as(me), made.ID.String(), nil))
	require.Equal(t, KeyRevoked, read().Status)
	_, err = h.ChangeKey(t.Context(), as(me), made.ID.String(), KeyChange{Name: new("x")})
	requireCode(t, fault.CodeAPIKeyNotFound, err)
	_, err = h.RotateKey(t.Context(), as(me), made.ID.String(), 0)
	requireCode(t, fault.CodeAPIKeyNotFound, err)
}

// What a key has started goes on when the key expires, is rotated or changed. Only a
// revocation has approvals that wait looked at again.
func TestKeyChangeLeavesWaitingApprovalsAlone(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), newHouse(t).db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var columns string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT string_agg(a.attname, ',') FROM pg_trigger g
		JOIN pg_attribute a ON a.attrelid = g.tgrelid AND a.attnum = ANY (g.tgattr)
		WHERE g.tgrelid = 'api_keys'::regclass AND g.tgname = 'recheck_approvals'`).Scan(&columns))
	require.Equal(t, "revoked_at", columns)
}

// newAgent adds an agent to the tenant.
func (h *house) newAgent(t *testing.T, tenant uuid.UUID) string {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	require.NoError(t, dbsqlc.New().InsertAgent(t.Context(), h.db.Tenant(tenant), dbsqlc.InsertAgentParams{
		ID: id, TenantID: tenant, Name: "a", Bytes: 1, ChangedBy: "user:x", ChangedAt: h.clock(),
	}))
	return id.String()
}

func TestKeyForAnAgentThatIsUnknownIsRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me, other := h.join(t, "ada@example.com"), h.join(t, "bob@example.com")
	for name, id := range map[string]string{
		"unknown": uuid.NewString(), "no id": "Agent-7", "another tenant's": h.newAgent(t, other.TenantID),
	} {
		_, err := h.CreateKey(t.Context(), as(me), KeyInput{Name: "k", AgentID: &id})
		f := fault.As(err)
		require.NotNil(t, f, name)
		require.Equal(t, "unknown_agent", f.Details[0].Rule, name)
		require.Equal(t, "/agent_id", f.Details[0].Path, name)
	}
	id := strings.ToUpper(h.newAgent(t, me.TenantID))
	key, err := h.CreateKey(t.Context(), as(me), KeyInput{Name: "k", AgentID: &id})
	require.NoError(t, err)
	require.Equal(t, strings.ToLower(id), *key.AgentID)
}
