package roster_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/roster"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/quota"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// office is a tenant with the service that keeps its agents.
type office struct {
	*roster.Service
	t   *testing.T
	db  testkit.DB
	who actor.Actor
}

func newOffice(t *testing.T, quotas map[string]int64) *office {
	t.Helper()
	limits, err := quota.New(quotas)
	require.NoError(t, err)
	o := &office{t: t, db: testkit.Database(t)}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o.Service, err = roster.New(roster.Deps{DB: o.db.Pool, Quotas: limits, Now: func() time.Time { return at }})
	require.NoError(t, err)
	o.who = o.tenant()
	return o
}

// tenant adds a tenant and returns a user of it.
func (o *office) tenant() actor.Actor {
	o.t.Helper()
	id := uuid.Must(uuid.NewV7())
	_, err := o.db.Tenant(id).Exec(o.t.Context(), "INSERT INTO tenants (id, name) VALUES ($1, 'shop')", id)
	require.NoError(o.t, err)
	return actor.Actor{Kind: actor.User, TenantID: id, ID: uuid.Must(uuid.NewV7()), Role: actor.RoleOwner, RequestID: "req", SourceAddr: "192.0.2.1"}
}

func read(t *testing.T, source string) *agentdef.Definition {
	t.Helper()
	d, err := agentdef.Read([]byte(source))
	require.NoError(t, err)
	return d
}

func (o *office) create(name string) roster.Record {
	o.t.Helper()
	rec, err := o.Create(o.t.Context(), o.who, read(o.t, `{"name":"`+name+`"}`))
	require.NoError(o.t, err)
	return rec
}

func (o *office) change(id uuid.UUID, p roster.Patch) roster.Record {
	o.t.Helper()
	rec, err := o.Change(o.t.Context(), o.who, id, p, nil)
	require.NoError(o.t, err)
	return rec
}

// turn returns what a message gets.
func (o *office) turn(id uuid.UUID, number int32) roster.Version {
	o.t.Helper()
	v, err := o.Version(o.t.Context(), o.who.TenantID, id, number)
	require.NoError(o.t, err)
	return v
}

// audited returns the actions of the audit records, in their order.
func (o *office) audited() (actions []string) {
	o.t.Helper()
	rows, err := o.db.Tenant(o.who.TenantID).Query(o.t.Context(), "SELECT action FROM audit_records ORDER BY id")
	require.NoError(o.t, err)
	actions, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(o.t, err)
	return actions
}

func members(text string) roster.Patch { return roster.Patch{Members: json.RawMessage(text)} }

func TestAgentGoesThroughItsLife(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	rec := o.create("first")
	require.Equal(t, roster.Active, rec.Status)
	require.Equal(t, []int32{1, 1, 1}, []int32{rec.Newest, rec.Published, rec.Revision})
	require.Equal(t, []string{"tool:*"}, rec.Definition.Tools.Allow, "the defaults are stored")

	rec = o.change(rec.ID, members(`{"instructions":"Be brief."}`))
	require.Equal(t, []int32{2, 1, 2}, []int32{rec.Newest, rec.Published, rec.Revision}, "a draft")
	require.Empty(t, o.turn(rec.ID, 0).Definition.Instructions, "messages get the published version")
	require.Equal(t, "Be brief.", o.turn(rec.ID, 2).Definition.Instructions)

	rec = o.change(rec.ID, members(`{"instructions":"Be brief."}`))
	require.Equal(t, int32(2), rec.Revision, "the same definition again adds nothing")

	rec = o.change(rec.ID, roster.Patch{Publish: true})
	require.Equal(t, []int32{2, 2}, []int32{rec.Newest, rec.Published})
	require.Equal(t, "Be brief.", o.turn(rec.ID, 0).Definition.Instructions)

	rec, err := o.Publish(t.Context(), o.who, rec.ID, 1)
	require.NoError(t, err)
	require.Equal(t, []int32{2, 1}, []int32{rec.Newest, rec.Published}, "a return to an earlier version")
	require.Equal(t, int32(1), o.turn(rec.ID, 0).Number)

	rec = o.change(rec.ID, roster.Patch{Status: roster.Paused})
	require.Equal(t, roster.Paused, o.turn(rec.ID, 0).Status)
	o.change(rec.ID, roster.Patch{Status: roster.Active})

	require.NoError(t, o.Delete(t.Context(), o.who, rec.ID, nil))
	_, err = o.Version(t.Context(), o.who.TenantID, rec.ID, 0)
	require.True(t, fault.HasCode(err, fault.CodeAgentNotFound), "%v", err)
	require.Equal(t, int32(2), o.turn(rec.ID, 2).Number, "for messages that came before")
	_, err = o.Get(t.Context(), o.who.TenantID, rec.ID)
	require.True(t, fault.HasCode(err, fault.CodeAgentNotFound))

	require.Equal(t, []string{
		"agent.created", "agent.changed", "agent.published", "agent.published", "agent.paused", "agent.resumed", "agent.deleted",
	}, o.audited())
}

func TestVersionIsReadOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	rec := o.create("cached")
	first, again := o.turn(rec.ID, 0), o.turn(rec.ID, 0)
	require.Same(t, first.Definition, again.Definition)
	require.Same(t, first.Definition, o.turn(rec.ID, 1).Definition)

	o.change(rec.ID, roster.Patch{Members: json.RawMessage(`{"name":"changed"}`), Publish: true})
	require.Equal(t, "changed", o.turn(rec.ID, 0).Definition.Name, "a publication counts at once")
	require.Same(t, first.Definition, o.turn(rec.ID, 1).Definition)
	require.Same(t, o.turn(rec.ID, 2).Definition, o.turn(rec.ID, 0).Definition)
}

func TestAgentIsUnknownToOthers(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	rec := o.create("mine")
	o.turn(rec.ID, 0) // in memory
	other := o.tenant()
	for name, call := range map[string]func(uuid.UUID) error{
		"read":    func(id uuid.UUID) error { _, err := o.Get(t.Context(), other.TenantID, id); return err },
		"version": func(id uuid.UUID) error { _, err := o.Version(t.Context(), other.TenantID, id, 1); return err },
		"current": func(id uuid.UUID) error { _, err := o.Version(t.Context(), other.TenantID, id, 0); return err },
		"stored":  func(id uuid.UUID) error { _, err := o.Stored(t.Context(), other.TenantID, id, 1); return err },
		"list":    func(id uuid.UUID) error { _, _, err := o.Versions(t.Context(), other.TenantID, id, 0, 10); return err },
		"change": func(id uuid.UUID) error {
			_, err := o.Change(t.Context(), other, id, members(`{"name":"x"}`), nil)
			return err
		},
		"publish": func(id uuid.UUID) error { _, err := o.Publish(t.Context(), other, id, 1); return err },
		"delete":  func(id uuid.UUID) error { return o.Delete(t.Context(), other, id, nil) },
	} {
		for _, id := range []uuid.UUID{rec.ID, uuid.Must(uuid.NewV7())} {
			require.True(t, fault.HasCode(call(id), fault.CodeAgentNotFound), name)
		}
	}
	_, err := o.Publish(t.Context(), o.who, rec.ID, 2)
	require.True(t, fault.HasCode(err, fault.CodeAgentNotFound), "no such version")
}

func TestAgentChangeExpectsTheRevision(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	rec := o.create("expected")
	expect := fault.Expect[int32](func(current int32) error {
		if current != 1 {
			return fault.New(fault.CodePreconditionFailed, "")
		}
		return nil
	})
	_, err := o.Change(t.Context(), o.who, rec.ID, members(`{"name":"a"}`), expect)
	require.NoError(t, err)
	_, err = o.Change(t.Context(), o.who, rec.ID, members(`{"name":"b"}`), expect)
	require.True(t, fault.HasCode(err, fault.CodePreconditionFailed))
	require.True(t, fault.HasCode(o.Delete(t.Context(), o.who, rec.ID, expect), fault.CodePreconditionFailed))
}

func TestAgentMapsAreKnown(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	known, foreign := o.newMap(o.who), o.newMap(o.tenant())
	_, err := o.Create(t.Context(), o.who, read(t, `{"name":"x","maps":["`+known.String()+`","`+foreign.String()+`"]}`))
	f := fault.As(err)
	require.NotNil(t, f)
	require.Equal(t, fault.CodeValidation, f.Code)
	require.Equal(t, []fault.Detail{{Path: "/maps/1", Rule: "unknown_map", Message: "must be the id of a Map"}}, f.Details)

	rec, err := o.Create(t.Context(), o.who, read(t, `{"name":"x","maps":["`+known.String()+`"]}`))
	require.NoError(t, err)
	_, err = o.db.Tenant(o.who.TenantID).Exec(t.Context(), "UPDATE maps SET deleted_at = now() WHERE id = $1", known)
	require.NoError(t, err)
	o.change(rec.ID, members(`{"name":"y"}`)) // a Map that is gone does not forbid other changes
	_, err = o.Change(t.Context(), o.who, o.create("z").ID, members(`{"maps":["`+known.String()+`"]}`), nil)
	require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
}

// newMap adds a Map.
func (o *office) newMap(who actor.Actor) uuid.UUID {
	o.t.Helper()
	id := uuid.Must(uuid.NewV7())
	_, err := o.db.Tenant(who.TenantID).Exec(o.t.Context(), `INSERT INTO maps (id, tenant_id, name, description, latest_version, revision, bytes, created_by, created_at, updated_by, updated_at)
		VALUES ($1, $2, 'm', '', 1, 1, 1, 'user:x', now(), 'user:x', now())`, id, who.TenantID)
	require.NoError(o.t, err)
	return id
}

func TestAgentQuotas(t *testing.T) {
	t.Parallel()
	o := newOffice(t, map[string]int64{"agents": 2, "agent_versions": 2, "agent_bytes": 4_000})
	rec := o.create("one")
	o.create("two")
	_, err := o.Create(t.Context(), o.who, read(t, `{"name":"three"}`))
	require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), "%v", err)
	require.Contains(t, fault.As(err).Message, "agents: at most 2")

	_, err = o.Change(t.Context(), o.who, rec.ID, members(`{"instructions":"`+strings.Repeat("x", 4_000)+`"}`), nil)
	require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), "%v", err)
	require.Contains(t, fault.As(err).Message, "agent_bytes")
	o.change(rec.ID, members(`{"name":"b"}`))
	_, err = o.Change(t.Context(), o.who, rec.ID, members(`{"name":"c"}`), nil)
	require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), "%v", err)
	require.Contains(t, fault.As(err).Message, "agent_versions")
	got, err := o.Get(t.Context(), o.who.TenantID, rec.ID)
	require.NoError(t, err)
	require.Equal(t, int32(2), got.Newest, "what was refused left nothing")
}

func TestAgentListsAreInPages(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	var ids []uuid.UUID
	for _, name := range []string{"a", "b", "c"} {
		ids = append(ids, o.create(name).ID)
	}
	o.change(ids[1], roster.Patch{Status: roster.Paused})
	page, more, err := o.List(t.Context(), o.who.TenantID, roster.Filter{Limit: 2})
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, []uuid.UUID{ids[2], ids[1]}, []uuid.UUID{page[0].ID, page[1].ID})
	page, more, err = o.List(t.Context(), o.who.TenantID, roster.Filter{Limit: 2, Before: &ids[1]})
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, "a", page[0].Name)
	page, _, err = o.List(t.Context(), o.who.TenantID, roster.Filter{Limit: 5, Status: roster.Paused})
	require.NoError(t, err)
	require.Len(t, page, 1)

	for _, name := range []string{"n2", "n3"} {
		o.change(ids[0], members(`{"name":"`+name+`"}`))
	}
	versions, more, err := o.Versions(t.Context(), o.who.TenantID, ids[0], 0, 2)
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, []int32{3, 2}, []int32{versions[0].Number, versions[1].Number})
	versions, more, err = o.Versions(t.Context(), o.who.TenantID, ids[0], 2, 2)
	require.NoError(t, err)
	require.False(t, more)
	require.True(t, versions[0].Current)
	require.Nil(t, versions[0].Source)
}

// The service's role cannot change a definition that is stored.
func TestVersionCannotBeRewritten(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	rec := o.create("fixed")
	_, err := o.db.Tenant(o.who.TenantID).Exec(t.Context(), "UPDATE agent_versions SET definition = '{}' WHERE agent_id = $1", rec.ID)
	require.ErrorContains(t, err, "permission denied")
}

func TestAgentThatIsDeletedIsForgotten(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	gone, kept, stays := o.create("gone"), o.create("kept"), o.create("stays")
	for i := range 120 { // more versions than one transaction deletes
		o.change(gone.ID, members(`{"name":"v`+strings.Repeat("x", i)+`"}`))
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, a := range []roster.Record{gone, kept} {
		require.NoError(t, o.Delete(t.Context(), o.who, a.ID, nil))
	}
	_, err := o.db.Tenant(o.who.TenantID).Exec(t.Context(), "UPDATE agents SET deleted_at = $2 WHERE id = $1", gone.ID, now.Add(-time.Hour))
	require.NoError(t, err)
	require.NoError(t, o.Forget(t.Context(), now.Add(-time.Minute)))
	rows, err := o.db.Tenant(o.who.TenantID).Query(t.Context(), "SELECT DISTINCT agent_id FROM agent_versions ORDER BY agent_id")
	require.NoError(t, err)
	left, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{kept.ID, stays.ID}, left)
	_, err = o.Version(t.Context(), o.who.TenantID, gone.ID, 1)
	require.True(t, fault.HasCode(err, fault.CodeAgentNotFound))
}
