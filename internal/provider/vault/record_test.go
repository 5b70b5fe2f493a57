package vault_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/vault"
)

// records returns all there are, each as one line.
func (r *rig) records(t *testing.T) []string {
	t.Helper()
	rows, err := r.admin.Query(t.Context(), `SELECT concat_ws(' ', actor_type, actor_id, action, provider, subject_type, subject_id, request_id, source_addr, details)
		FROM audit_records WHERE tenant_id = $1 ORDER BY id`, r.tenant)
	require.NoError(t, err)
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return out
}

func TestEachChangeLeavesOneRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	who := by(r.tenant)
	who.RequestID, who.SourceAddr = "req-1", "192.0.2.1"
	data := json.RawMessage(`{"key":"` + canary + `"}`)
	c, err := r.Create(ctx, who, vault.New{Provider: "shop", Type: "api_key", Label: "label", Data: data})
	require.NoError(t, err)
	label, status := "other", "revoked"
	_, err = r.Update(ctx, who, c.ID, vault.Patch{Label: &label, Status: &status})
	require.NoError(t, err)
	_, err = r.Rotate(ctx, who, c.ID, data, nil)
	require.NoError(t, err)
	require.NoError(t, r.Delete(ctx, who, c.ID, nil))
	line := func(action, provider, details string) string {
		return "user " + who.IDText() + " " + action + " " + provider + " credential " + c.ID.String() + " req-1 192.0.2.1" + details
	}
	want := []string{
		line("credential.created", "shop", ` {"allowed_hosts":[],"customer_id":"","origin":"","type":"api_key"}`),
		line("credential.updated", "shop", ` {"fields":["label","status"],"status":"revoked"}`),
		line("credential.rotated", "shop", ` {"version":2}`),
		line("credential.deleted", "", ""),
	}
	require.Equal(t, want, r.records(t))

	// What is refused is no change.
	_, err = r.Update(ctx, who, uuid.New(), vault.Patch{Label: &label})
	requireCode(t, err, fault.CodeCredentialNotFound)
	_, err = r.Rotate(ctx, who, c.ID, data, nil)
	requireCode(t, err, fault.CodeCredentialNotFound)
	requireCode(t, r.Delete(ctx, who, c.ID, nil), fault.CodeCredentialNotFound)
	require.Equal(t, want, r.records(t))
	for _, l := range want {
		require.NotContains(t, l, canary)
	}
}

// The record and the change are one: where one cannot be written, neither is.
func TestNoChangeWithoutItsRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.create(t, vault.New{})
	_, err := r.admin.Exec(t.Context(), "ALTER TABLE audit_records ADD CONSTRAINT no_room CHECK (false) NOT VALID")
	require.NoError(t, err)
	label, data := "x", json.RawMessage(`{"key":"k2"}`)
	for name, change := range map[string]func() error{
		"create": func() error {
			_, err := r.Create(t.Context(), by(r.tenant), vault.New{Provider: "shop", Type: "api_key", Data: data})
			return err
		},
		"update": func() error {
			_, err := r.Update(t.Context(), by(r.tenant), c.ID, vault.Patch{Label: &label})
			return err
		},
		"rotate": func() error { _, err := r.Rotate(t.Context(), by(r.tenant), c.ID, data, nil); return err },
		"delete": func() error { return r.Delete(t.Context(), by(r.tenant), c.ID, nil) },
	} {
		require.ErrorContains(t, change(), "no_room", name)
		page, _, err := r.List(t.Context(), r.tenant, vault.Filter{Limit: 10})
		require.NoError(t, err)
		require.Equal(t, []vault.Credential{c}, page, name)
	}
}
