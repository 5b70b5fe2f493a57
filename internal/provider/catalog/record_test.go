package catalog_test

import (
	"encoding/hex"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
)

func TestEachChangeLeavesOneRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	who := by(r.tenant)
	who.RequestID, who.SourceAddr = "req-1", "192.0.2.1"
	p := provider("shop", "bearer")
	p.Degraded, p.Rejected = []verb.Report{{Operation: "a", Reason: "b"}}, []verb.Report{{}, {}}
	_, err := r.Replace(ctx, who, p, []verb.Definition{newVerb("b", "one", verb.RiskLow)})
	require.NoError(t, err)
	require.NoError(t, r.DeleteProvider(ctx, who, "shop", nil))
	require.True(t, fault.HasCode(r.DeleteProvider(ctx, who, "shop", nil), fault.CodeProviderNotFound))
	_, err = r.Replace(ctx, who, provider("tool", "bearer"), nil)
	require.Error(t, err)

	rows, err := r.admin.Query(t.Context(), `SELECT concat_ws(' ', actor_type, actor_id, action, provider, subject_type, subject_id, request_id, source_addr, details)
		FROM audit_records WHERE tenant_id = $1 ORDER BY id`, r.tenant)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{
		"user " + who.IDText() + ` provider.imported shop provider shop req-1 192.0.2.1 {"base_url":"https://api.shop.test","base_url_before":"",` +
			`"changes":[{"what":"risk_level","verb":"b","operation":"other b","before":"medium","after":"low"},` +
			`{"what":"operation_type","verb":"b","operation":"other b","before":"write","after":"read"}],"changes_total":2,` +
			`"degraded":1,"document_hash":"` + hex.EncodeToString(p.DocumentHash[:]) + `","imported":1,"rejected":2}`,
		"user " + who.IDText() + ` provider.deleted shop provider shop req-1 192.0.2.1`,
	}, got)
}

// The record and the change are one: where one cannot be written, neither is.
func TestNoChangeWithoutItsRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	was := r.replace(t, r.tenant, provider("shop", "bearer"), newVerb("b", "one", verb.RiskLow))
	_, err := r.admin.Exec(t.Context(), "ALTER TABLE audit_records ADD CONSTRAINT no_room CHECK (false) NOT VALID")
	require.NoError(t, err)
	_, err = r.Replace(t.Context(), by(r.tenant), provider("shop", "none"), nil)
	require.ErrorContains(t, err, "no_room")
	require.ErrorContains(t, r.DeleteProvider(t.Context(), by(r.tenant), "shop", nil), "no_room")
	is, err := r.Provider(t.Context(), r.tenant, "shop")
	require.NoError(t, err)
	require.Equal(t, was.AuthType, is.AuthType)
	require.Equal(t, 1, is.Imported)
}
