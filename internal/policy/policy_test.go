package policy_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/audit"
	"agentruntime/internal/fault"
	"agentruntime/internal/governance"
	"agentruntime/internal/policy"
	"agentruntime/internal/testkit"
	"agentruntime/internal/verb"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// shelf stands for the catalog: verbs by name, all without a schema.
type shelf map[string]verb.Risk

func (s shelf) Subject(_ context.Context, _ uuid.UUID, name verb.Name) (policy.Subject, error) {
	risk, ok := s[name.String()]
	if !ok {
		return nil, fault.New(fault.CodeVerbNotFound, "")
	}
	return item{name, risk}, nil
}

type item struct {
	name verb.Name
	risk verb.Risk
}

func (i item) Call(args json.RawMessage, about governance.Context) governance.Call {
	return governance.Call{Verb: i.name, Risk: i.risk, Operation: verb.Write, Domain: "commerce", Args: args, Context: about, Masked: func() json.RawMessage { return args }}
}

func (item) Mask(args json.RawMessage) json.RawMessage { return args }

// bench is the service over a database of its own, with two tenants.
type bench struct {
	*policy.Service
	sets       *policy.Sets
	db         testkit.DB
	ours, them uuid.UUID
}

const by = "user:0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90"

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{db: testkit.Database(t), ours: uuid.New(), them: uuid.New()}
	for _, id := range []uuid.UUID{b.ours, b.them} {
		require.NoError(t, dbsqlc.New().InsertTenant(t.Context(), b.db.Tenant(id), dbsqlc.InsertTenantParams{ID: id, Name: "t"}))
	}
	var err error
	b.sets, err = policy.NewSets(b.db.Pool)
	require.NoError(t, err)
	b.Service, err = policy.New(policy.Deps{DB: b.db.Pool, Subjects: shelf{"shop:list_orders": verb.RiskLow, "shop:create_order": verb.RiskMedium, "shop:create_refund": verb.RiskHigh}})
	require.NoError(t, err)
	return b
}

// set is the tenant's set as a call gets it.
func (b *bench) set(t *testing.T, tenant uuid.UUID) *policy.Set {
	t.Helper()
	batch := &pgx.Batch{}
	policy.QueueVersion(batch, tenant)
	var version int64
	require.NoError(t, b.db.Batch(t.Context(), tenant, batch, func(res pgx.BatchResults) (err error) {
		version, err = policy.ReadVersion(res)
		return err
	}))
	set, err := b.sets.Load(t.Context(), tenant, version)
	require.NoError(t, err)
	require.GreaterOrEqual(t, set.Judge().Version(), version)
	return set
}

// decide judges a call of a verb by the tenant's set as it stands.
func (b *bench) decide(t *testing.T, tenant uuid.UUID, name string) governance.Verdict {
	t.Helper()
	parsed, err := verb.Parse(name)
	require.NoError(t, err)
	return b.set(t, tenant).Judge().Evaluate(governance.Call{Verb: parsed, Risk: verb.RiskLow, Operation: verb.Write, Args: json.RawMessage(`{}`)})
}

func (b *bench) create(t *testing.T, d policy.Draft) policy.Policy {
	t.Helper()
	p, _, err := b.Create(t.Context(), b.ours, d, by)
	require.NoError(t, err)
	return p
}

func block(name, verbGlob string) policy.Draft {
	return policy.Draft{Name: name, Action: "block", Matchers: []governance.Matcher{{Type: governance.MatchVerb, Value: verbGlob}}}
}

func TestAPolicyActsOnTheNextCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	decision := func() governance.Decision { return b.decide(t, b.ours, "shop:list_orders").Decision }
	require.Equal(t, governance.Allow, decision())
	p := b.create(t, block("No lists", "shop:list_*"))
	require.Equal(t, governance.Block, decision())
	require.Equal(t, "No lists", b.decide(t, b.ours, "shop:list_orders").PolicyName)

	off := false
	d := block("No lists", "shop:list_*")
	d.Enabled = &off
	_, _, err := b.Replace(t.Context(), b.ours, p.ID, d, nil, by)
	require.NoError(t, err)
	require.Equal(t, governance.Allow, decision())
	d.Enabled = nil
	_, _, err = b.Replace(t.Context(), b.ours, p.ID, d, nil, by)
	require.NoError(t, err)
	require.Equal(t, governance.Block, decision())
	require.NoError(t, b.Delete(t.Context(), b.ours, p.ID, nil, by))
	require.Equal(t, governance.Allow, decision())
}

func TestAnotherTenantsPoliciesAreNotThere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.create(t, block("Nothing", "*"))
	require.Equal(t, governance.Allow, b.decide(t, b.them, "shop:list_orders").Decision)
	ctx := t.Context()
	_, _, err := b.Get(ctx, b.them, p.ID)
	require.True(t, fault.HasCode(err, fault.CodePolicyNotFound))
	_, _, err = b.Replace(ctx, b.them, p.ID, block("Mine", "*"), nil, by)
	require.True(t, fault.HasCode(err, fault.CodePolicyNotFound))
	require.True(t, fault.HasCode(b.Delete(ctx, b.them, p.ID, nil, by), fault.CodePolicyNotFound))
	_, _, err = b.Versions(ctx, b.them, p.ID, 0, 10)
	require.True(t, fault.HasCode(err, fault.CodePolicyNotFound))
	page, more, err := b.List(ctx, b.them, policy.Filter{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, page)
	require.False(t, more)
	require.Nil(t, b.set(t, b.them), "the attempts left a version behind")
	require.Equal(t, governance.Block, b.decide(t, b.ours, "shop:list_orders").Decision)
}

func TestVersionsSayWhoAndWhat(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := audit.WithActor(t.Context(), audit.Actor{Type: audit.ActorUser, ID: "u1", RequestID: "req-1"})
	p, _, err := b.Create(ctx, b.ours, block("One", "shop:*"), by)
	require.NoError(t, err)
	_, _, err = b.Replace(ctx, b.ours, p.ID, policy.Draft{Name: "Two", Action: "require_approval"}, nil, "key:k")
	require.NoError(t, err)
	require.NoError(t, b.Delete(ctx, b.ours, p.ID, nil, by))
	require.True(t, fault.HasCode(b.Delete(ctx, b.ours, p.ID, nil, by), fault.CodePolicyNotFound))

	all, more, err := b.Versions(ctx, b.ours, p.ID, 0, 10)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, all, 3)
	for i, want := range []struct {
		change policy.Change
		name   string
		by     string
	}{{policy.Deleted, "Two", by}, {policy.Updated, "Two", "key:k"}, {policy.Created, "One", by}} {
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
	rows, err := conn.Query(ctx, `SELECT action || ' ' || subject_id || ' ' || actor_id || ' ' || request_id FROM audit_records ORDER BY id`)
	require.NoError(t, err)
	records, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	id := p.ID.String()
	require.Equal(t, []string{"policy.created " + id + " u1 req-1", "policy.updated " + id + " u1 req-1", "policy.deleted " + id + " u1 req-1"}, records)
}

func TestOfTwoChangesOfOneVersionOneWins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.create(t, block("One", "*"))
	first := p.Version
	var wg sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		wg.Go(func() { _, _, results[i] = b.Replace(t.Context(), b.ours, p.ID, block("Other", "*"), &first, by) })
	}
	wg.Wait()
	won := 0
	for _, err := range results {
		if err == nil {
			won++
			continue
		}
		require.True(t, fault.HasCode(err, fault.CodeConflict), "%v", err)
	}
	require.Equal(t, 1, won)
	require.True(t, fault.HasCode(b.Delete(t.Context(), b.ours, p.ID, &first, by), fault.CodeConflict))

	// Without a version none is lost: each is a version of its own.
	for i := range results {
		wg.Go(func() { _, _, results[i] = b.Replace(t.Context(), b.ours, p.ID, block("Other", "*"), nil, by) })
	}
	wg.Wait()
	for _, err := range results {
		require.NoError(t, err)
	}
	got, _, err := b.Get(t.Context(), b.ours, p.ID)
	require.NoError(t, err)
	require.EqualValues(t, 10, got.Version)
	require.EqualValues(t, 10, b.set(t, b.ours).Judge().Version())
}

func TestAPolicyThatCannotBeReadBlocks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.create(t, policy.Draft{Name: "Broken", Action: "allow"})
	require.Equal(t, governance.Allow, b.decide(t, b.ours, "shop:list_orders").Decision)
	conn, err := pgx.Connect(t.Context(), b.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, broken := range []string{`7`, `{"action":"allow","conditions":3}`, `{"action":"require_approval"}`, `{}`, `{"action":"alow"}`} {
		_, err = conn.Exec(t.Context(), `UPDATE policies SET document = $1::json WHERE id = $2`, broken, p.ID)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), `UPDATE policy_sets SET version = version + 1`)
		require.NoError(t, err)
		v := b.decide(t, b.ours, "shop:list_orders")
		require.Equal(t, governance.Block, v.Decision, broken)
		require.Equal(t, "Broken", v.PolicyName, broken)
	}
	require.NoError(t, b.Delete(t.Context(), b.ours, p.ID, nil, by), "and it can be got rid of")
	require.Equal(t, governance.Allow, b.decide(t, b.ours, "shop:list_orders").Decision)
}
