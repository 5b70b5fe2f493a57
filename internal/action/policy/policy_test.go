package policy_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
)

func TestAPolicyActsOnTheNextCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	decision := func() governance.Decision { return b.decide(t, "shop:list_orders").Decision }
	require.Equal(t, governance.Allow, decision())
	p := b.create(t, block("No lists", "shop:list_*"))
	require.Equal(t, governance.Block, decision())
	require.Equal(t, "No lists", b.decide(t, "shop:list_orders").PolicyName)

	off := false
	d := block("No lists", "shop:list_*")
	d.Enabled = &off
	_, _, err := b.Replace(t.Context(), by(b.ours), p.ID, d, nil)
	require.NoError(t, err)
	require.Equal(t, governance.Allow, decision())
	d.Enabled = nil
	_, _, err = b.Replace(t.Context(), by(b.ours), p.ID, d, nil)
	require.NoError(t, err)
	require.Equal(t, governance.Block, decision())
	require.NoError(t, b.Delete(t.Context(), by(b.ours), p.ID, nil))
	require.Equal(t, governance.Allow, decision())
}

func TestAnotherTenantsPoliciesAreNotThere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.create(t, block("Nothing", "*"))
	ctx := t.Context()
	_, _, err := b.Get(ctx, b.them, p.ID)
	require.True(t, fault.HasCode(err, fault.CodePolicyNotFound))
	_, _, err = b.Replace(ctx, by(b.them), p.ID, block("Mine", "*"), nil)
	require.True(t, fault.HasCode(err, fault.CodePolicyNotFound))
	require.True(t, fault.HasCode(b.Delete(ctx, by(b.them), p.ID, nil), fault.CodePolicyNotFound))
	for _, before := range []int32{0, 1, 9} {
		_, _, err = b.Versions(ctx, b.them, p.ID, before, 10)
		require.True(t, fault.HasCode(err, fault.CodePolicyNotFound))
	}
	page, more, err := b.List(ctx, b.them, policy.Filter{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, page)
	require.False(t, more)
	require.Zero(t, b.version(t, b.them), "the attempts left a version behind")
	require.Equal(t, governance.Block, b.decide(t, "shop:list_orders").Decision)
}

func TestPolicyVersionsNameActorAndChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, user, key := t.Context(), by(b.ours), by(b.ours)
	user.RequestID, key.RequestID = "req-1", "req-1"
	key.Kind = actor.Key
	p, _, err := b.Create(ctx, user, block("One", "shop:*"))
	require.NoError(t, err)
	_, _, err = b.Replace(ctx, key, p.ID, policy.Draft{Name: "Two", Action: "require_approval"}, nil)
	require.NoError(t, err)
	require.NoError(t, b.Delete(ctx, user, p.ID, nil))
	require.True(t, fault.HasCode(b.Delete(ctx, user, p.ID, nil), fault.CodePolicyNotFound))

	all, more, err := b.Versions(ctx, b.ours, p.ID, 0, 10)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, all, 3)
	for i, want := range []struct {
		change policy.Change
		name   string
		by     string
	}{{policy.Deleted, "Two", user.String()}, {policy.Updated, "Two", key.String()}, {policy.Created, "One", user.String()}} {
		require.Equal(t, want.change, all[i].Change)
		require.Equal(t, want.name, all[i].Policy.Name)
		require.Equal(t, want.by, all[i].ChangedBy)
		require.EqualValues(t, 3-i, all[i].Version)
	}
	require.Equal(t, governance.DefaultApproval(), all[1].Policy.Approval)
	page, more, err := b.Versions(ctx, b.ours, p.ID, 3, 1)
	require.NoError(t, err)
	require.True(t, more)
	require.EqualValues(t, 2, page[0].Version)

	conn, err := pgx.Connect(ctx, b.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT action || ' ' || subject_id || ' ' || actor_id || ' ' || request_id FROM audit_records WHERE subject_type = 'policy' ORDER BY id`)
	require.NoError(t, err)
	records, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	id, by := p.ID.String(), " "+user.IDText()+" req-1"
	require.Equal(t, []string{"policy.created " + id + by, "policy.updated " + id + by, "policy.deleted " + id + by}, records)
}

func TestConcurrentPolicyChangesOfOneVersionSucceedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.create(t, block("One", "*"))
	first := func(version int32) error {
		if version != p.Version {
			return fault.New(fault.CodePreconditionFailed, "")
		}
		return nil
	}
	var wg sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		wg.Go(func() { _, _, results[i] = b.Replace(t.Context(), by(b.ours), p.ID, block("Other", "*"), first) })
	}
	wg.Wait()
	won := 0
	for _, err := range results {
		if err == nil {
			won++
			continue
		}
		require.True(t, fault.HasCode(err, fault.CodePreconditionFailed), "%v", err)
	}
	require.Equal(t, 1, won)
	require.True(t, fault.HasCode(b.Delete(t.Context(), by(b.ours), p.ID, first), fault.CodePreconditionFailed))

	// Without a version none is lost: each is a version of its own.
	for i := range results {
		wg.Go(func() { _, _, results[i] = b.Replace(t.Context(), by(b.ours), p.ID, block("Other", "*"), nil) })
	}
	wg.Wait()
	for _, err := range results {
		require.NoError(t, err)
	}
	got, _, err := b.Get(t.Context(), b.ours, p.ID)
	require.NoError(t, err)
	require.EqualValues(t, 10, got.Version)
	require.EqualValues(t, 10, b.version(t, b.ours))
}

func TestAPolicyThatCannotBeReadBlocks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.create(t, policy.Draft{Name: "Broken", Action: "allow"})
	require.Equal(t, governance.Allow, b.decide(t, "shop:list_orders").Decision)
	conn, err := pgx.Connect(t.Context(), b.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, broken := range []string{`7`, `{"action":"allow","conditions":3}`, `{"action":"require_approval"}`, `{}`, `{"action":"alow"}`} {
		_, err = conn.Exec(t.Context(), `UPDATE policies SET document = $1::json WHERE id = $2`, broken, p.ID)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), `UPDATE policy_sets SET version = version + 1`)
		require.NoError(t, err)
		v := b.decide(t, "shop:list_orders")
		require.Equal(t, governance.Block, v.Decision, broken)
		require.Equal(t, "Broken", v.PolicyName, broken)
	}
	require.NoError(t, b.Delete(t.Context(), by(b.ours), p.ID, nil), "and it can be got rid of")
	require.Equal(t, governance.Allow, b.decide(t, "shop:list_orders").Decision)
}

// A run that is about to be sent locks the gate until that is committed. So no call begins
// under the old policies once a change was answered. Each tenant has its own gate.
func TestPolicyChangeWaitsForCallsThatAreBeginning(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.create(t, block("Nothing", "*"))
	hasty, err := db.Open(t.Context(), db.Config{URL: b.db.AppURL + "&lock_timeout=50"})
	require.NoError(t, err)
	t.Cleanup(hasty.Close)
	impatient, err := policy.New(policy.Deps{DB: hasty, Subjects: b.dispatch, Keys: testkit.Keys{}})
	require.NoError(t, err)
	changes := map[string]func(uuid.UUID) error{
		"create": func(tenant uuid.UUID) error {
			_, _, err := impatient.Create(t.Context(), by(tenant), block("More", "*"))
			return err
		},
		"replace": func(uuid.UUID) error {
			_, _, err := impatient.Replace(t.Context(), by(b.ours), p.ID, block("Less", "x:*"), nil)
			return err
		},
		"change": func(uuid.UUID) error {
			_, _, err := impatient.Change(t.Context(), by(b.ours), p.ID, policy.Patch{Enabled: new(false)}, nil)
			return err
		},
		"restore": func(uuid.UUID) error {
			_, _, err := impatient.Restore(t.Context(), by(b.ours), p.ID, 1)
			return err
		},
		"delete": func(uuid.UUID) error { return impatient.Delete(t.Context(), by(b.ours), p.ID, nil) },
	}
	before := b.version(t, b.ours)
	err = b.db.InTenant(t.Context(), b.ours, func(tx pgx.Tx) error {
		require.NoError(t, dbsqlc.New().EnterGate(t.Context(), tx, dbsqlc.EnterGateParams{TenantID: b.ours.String()}))
		for name, change := range changes {
			require.ErrorContains(t, change(b.ours), "lock timeout", name)
		}
		require.NoError(t, changes["create"](b.them))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, before, b.version(t, b.ours), "nothing was changed")
	require.NoError(t, changes["delete"](b.ours))
}
