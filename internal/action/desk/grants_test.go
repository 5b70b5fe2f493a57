package desk_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// office is two tenants with a verb, an owner and an active key each. The first also has a
// revoked key.
type office struct {
	*desk.Desk
	who, foreign         actor.Actor
	key, revoked, others uuid.UUID
	exec                 func(sql string, args ...any)
	text                 func(sql string) string
}

func newOffice(t *testing.T) *office {
	t.Helper()
	return officeOver(t, testkit.Database(t))
}

func officeOver(t *testing.T, db testkit.DB) *office {
	t.Helper()
	journal, err := audit.NewJournal(audit.JournalConfig{}, audit.JournalDeps{DB: db.Pool, Log: testkit.Quiet()})
	require.NoError(t, err)
	s, err := desk.New(desk.Deps{DB: db.Pool, Journal: journal, Workflows: struct{ desk.Workflows }{}, Subjects: map[approval.SubjectType]desk.Subjects{}})
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), db.AdminURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	o := &office{Desk: s, exec: func(sql string, args ...any) {
		_, err := conn.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}, text: func(sql string) (out string) {
		require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&out))
		return out
	}}
	o.who, o.key = o.tenant(t)
	o.foreign, o.others = o.tenant(t)
	o.revoked = o.apiKey(o.who.TenantID)
	o.exec(`UPDATE api_keys SET revoked_at = now() WHERE id = $1`, o.revoked)
	return o
}

func (o *office) tenant(t *testing.T) (actor.Actor, uuid.UUID) {
	t.Helper()
	id := uuid.New()
	o.exec(`INSERT INTO tenants (id, name) VALUES ($1, 'test')`, id)
	o.exec(`INSERT INTO users (id, tenant_id, email, name, password_hash, role, created_at, joined_at)
	        VALUES ($1, $1, $2, 'A', 'x', 'owner', now(), now())`, id, id.String()+"@b.c")
	o.exec(`INSERT INTO providers (tenant_id, slug, name, domain, base_url, auth_type, auth, document_hash, imported, degraded, rejected, created_at, updated_at)
	        VALUES ($1, 'shop', 'Shop', 'shop', 'http://shop', 'none', '{"type":"none"}', '\x00', 1, '[]', '[]', now(), now())`, id)
	o.exec(`INSERT INTO verbs (tenant_id, provider, name, domain, description, risk_level, operation_type, idempotency, schema_hash, plan_hash, search, schema, plan)
	        VALUES ($1, 'shop', 'refund', 'shop', '', 'high', 'write', 'none', '\x00', '\x00', '', '{}', '{}')`, id)
	return actor.Actor{Kind: actor.User, TenantID: id, ID: id, Role: actor.RoleOwner}, o.apiKey(id)
}

func (o *office) apiKey(tenant uuid.UUID) uuid.UUID {
	id := uuid.New()
	o.exec(`INSERT INTO api_keys (id, tenant_id, key_hash, preview, name, permissions, identity_mode, allowed_origins, created_by, created_at)
	        VALUES ($1, $2, $3, 'p', 'n', '{actions:run}', 'identified', '{}', $2, now())`, id, tenant, append(id[:], id[:]...))
	return id
}

func good() desk.NewGrant {
	return desk.NewGrant{Verb: "shop:refund", Reason: "r", ExpiresAt: time.Now().Add(time.Hour), MaxUses: 1, Conditions: []governance.Condition{}}
}

func TestCreateGrantChecksGiverVerbAndLimits(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for name, tc := range map[string]struct {
		change func(*actor.Actor, *desk.NewGrant)
		code   fault.Code
		path   string
	}{
		"all in order": {func(*actor.Actor, *desk.NewGrant) {}, "", ""},
		"an own key":   {func(_ *actor.Actor, g *desk.NewGrant) { g.KeyID = &o.key }, "", ""},
		"an approver":  {func(w *actor.Actor, _ *desk.NewGrant) { w.Role = "approver" }, "", ""},
		"a member":     {func(w *actor.Actor, _ *desk.NewGrant) { w.Role = "member" }, fault.CodeApproverNotEligible, ""},
		"another tenant's key": {
			func(_ *actor.Actor, g *desk.NewGrant) { g.KeyID = &o.others }, fault.CodeValidation, "/api_key_id",
		},
		"a revoked key": {func(_ *actor.Actor, g *desk.NewGrant) { g.KeyID = &o.revoked }, fault.CodeValidation, "/api_key_id"},
		"an unknown verb": {
			func(_ *actor.Actor, g *desk.NewGrant) { g.Verb = "shop:none" }, fault.CodeVerbNotFound, "",
		},
		"no verb":     {func(_ *actor.Actor, g *desk.NewGrant) { g.Verb = "refund" }, fault.CodeInvalidVerb, ""},
		"no use":      {func(_ *actor.Actor, g *desk.NewGrant) { g.MaxUses = 0 }, fault.CodeValidation, "/max_uses"},
		"in the past": {func(_ *actor.Actor, g *desk.NewGrant) { g.ExpiresAt = time.Now() }, fault.CodeValidation, "/expires_at"},
		"for too long": {
			func(_ *actor.Actor, g *desk.NewGrant) { g.ExpiresAt = time.Now().Add(91 * 24 * time.Hour) }, fault.CodeValidation, "/expires_at",
		},
		"a condition that is none": {
			func(_ *actor.Actor, g *desk.NewGrant) {
				g.Conditions = []governance.Condition{{Field: "args.n", Operator: "bigger", Value: json.RawMessage("1")}}
			}, fault.CodeValidation, "/conditions/0/operator",
		},
	} {
		who, g := o.who, good()
		tc.change(&who, &g)
		_, err := o.CreateGrant(t.Context(), who, g)
		if tc.code == "" {
			require.NoError(t, err, name)
			continue
		}
		f := fault.As(err)
		require.NotNil(t, f, "%s: %v", name, err)
		require.Equal(t, tc.code, f.Code, name)
		if tc.path != "" {
			require.Equal(t, tc.path, f.Details[0].Path, name)
		}
	}
}

func TestGrantEndsByUseTimeOrRevocation(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	var ids []uuid.UUID
	for range 4 {
		g, err := o.CreateGrant(t.Context(), o.who, good())
		require.NoError(t, err)
		require.Equal(t, "active", g.Status(time.Now()))
		ids = append(ids, g.ID)
	}
	o.exec(`UPDATE grants SET uses = 1 WHERE id = $1`, ids[0])
	o.exec(`UPDATE grants SET expires_at = now() WHERE id = $1`, ids[1])
	require.NoError(t, o.RevokeGrant(t.Context(), o.who, ids[2], nil))
	g, err := o.GetGrant(t.Context(), o.who.TenantID, ids[2])
	require.NoError(t, err)
	require.Equal(t, o.who.ID, *g.RevokedBy)
	err = o.RevokeGrant(t.Context(), o.who, ids[2], nil)
	require.True(t, fault.HasCode(err, fault.CodeGrantNotFound), "a second time")
	err = o.RevokeGrant(t.Context(), o.foreign, ids[3], nil)
	require.True(t, fault.HasCode(err, fault.CodeGrantNotFound), "another tenant's")
	_, err = o.GetGrant(t.Context(), o.foreign.TenantID, ids[3])
	require.True(t, fault.HasCode(err, fault.CodeGrantNotFound), "another tenant's")

	yes, no := true, false
	for _, tc := range []struct {
		usable *bool
		want   []string
	}{
		{nil, []string{"active", "revoked", "expired", "used_up"}},
		{&yes, []string{"active"}},
		{&no, []string{"revoked", "expired", "used_up"}},
	} {
		page, more, err := o.Grants(t.Context(), o.who.TenantID, desk.GrantFilter{Usable: tc.usable, Limit: 10})
		require.NoError(t, err)
		require.False(t, more)
		var got []string
		for _, g := range page {
			got = append(got, g.Status(time.Now()))
		}
		require.Equal(t, tc.want, got)
	}
}

func TestGrantPatchOnlyNarrows(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	in := good()
	in.MaxUses = 5
	g, err := o.CreateGrant(t.Context(), o.who, in)
	require.NoError(t, err)
	narrow := func(p desk.GrantPatch) (desk.Grant, error) { return o.NarrowGrant(t.Context(), o.who, g.ID, p) }
	sooner := g.ExpiresAt.Add(-time.Minute)
	got, err := narrow(desk.GrantPatch{ExpiresAt: &sooner, MaxUses: new(int32(3))})
	require.NoError(t, err)
	require.Equal(t, sooner, got.ExpiresAt)
	require.EqualValues(t, 3, got.MaxUses)
	same, err := narrow(desk.GrantPatch{})
	require.NoError(t, err)
	require.Equal(t, got, same)
	require.Equal(t, "5 to 3", o.text(`SELECT (details->>'max_uses_before') || ' to ' || (details->>'max_uses') FROM audit_records WHERE action = 'grant.updated' ORDER BY id LIMIT 1`))

	past := time.Now().Add(-time.Second)
	for name, tc := range map[string]struct {
		patch desk.GrantPatch
		path  string
	}{
		"later":     {desk.GrantPatch{ExpiresAt: new(sooner.Add(time.Second))}, "/expires_at"},
		"the past":  {desk.GrantPatch{ExpiresAt: &past}, "/expires_at"},
		"more uses": {desk.GrantPatch{MaxUses: new(int32(4))}, "/max_uses"},
		"no use":    {desk.GrantPatch{MaxUses: new(int32(0))}, "/max_uses"},
	} {
		_, err := narrow(tc.patch)
		f := fault.As(err)
		require.NotNil(t, f, name)
		require.Equal(t, fault.CodeValidation, f.Code, name)
		require.Equal(t, tc.path, f.Details[0].Path, name)
	}
	_, err = o.NarrowGrant(t.Context(), o.foreign, g.ID, desk.GrantPatch{})
	require.True(t, fault.HasCode(err, fault.CodeGrantNotFound), "another tenant's")
	member := o.who
	member.Role = actor.RoleMember
	_, err = o.NarrowGrant(t.Context(), member, g.ID, desk.GrantPatch{})
	require.True(t, fault.HasCode(err, fault.CodeApproverNotEligible), "a member")
	require.NoError(t, o.RevokeGrant(t.Context(), o.who, g.ID, nil))
	_, err = narrow(desk.GrantPatch{MaxUses: new(int32(1))})
	require.True(t, fault.HasCode(err, fault.CodeConflict), "a revoked grant")
}
