package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/dev/testkit"
)

// lostKeys has the keys of all tenants but one.
type lostKeys struct {
	testkit.Keys

	of uuid.UUID
}

func (k lostKeys) Key(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error) {
	if tenant == k.of {
		return nil, errors.New("the key of the tenant cannot be had")
	}
	return k.Keys.Key(ctx, tenant)
}

// with is the service of another process.
func (b *bench) with(t *testing.T, keys policy.Keys, log *slog.Logger) *policy.Service {
	t.Helper()
	s, err := policy.New(policy.Deps{DB: b.db.Pool, Subjects: b.dispatch, Keys: keys, Now: func() time.Time { return b.now }, Log: log})
	require.NoError(t, err)
	return s
}

// unfilled creates a policy with the window in a process that cannot fill it.
func (b *bench) unfilled(t *testing.T, tenant uuid.UUID, w governance.Window) {
	t.Helper()
	_, _, err := b.with(t, lostKeys{of: tenant}, nil).Create(t.Context(), by(tenant), limit(w))
	require.NoError(t, err)
	require.False(t, b.filled(t, tenant))
}

func limit(w governance.Window) policy.Draft {
	return policy.Draft{Name: w.By + w.Sum, Action: "block", Matchers: verbs("shop:*"), Conditions: []governance.Condition{
		{Window: &w, Operator: governance.OpGreater, Value: json.RawMessage("100")},
	}}
}

// executed records a run that was sent a moment ago, whenever its id was made.
func (b *bench) executed(t *testing.T, tenant uuid.UUID, began time.Time, args string) uuid.UUID {
	t.Helper()
	id := b.ran(t, tenant, began, "shop:create_refund", args, `{"customer_id": "c1"}`)
	b.exec(t, "UPDATE runs SET state = 'executed', sent_at = now() - interval '1 minute' WHERE id = $1", id)
	return id
}

func (b *bench) filled(t *testing.T, tenant uuid.UUID) (all bool) {
	t.Helper()
	require.NoError(t, b.admin.QueryRow(t.Context(), "SELECT bool_and(filled) FROM policy_windows WHERE tenant_id = $1 AND gone_at IS NULL", tenant).Scan(&all))
	return all
}

// counted is what the windows of the tenant have of executed runs, and how many amounts are unknown.
func (b *bench) counted(t *testing.T, tenant uuid.UUID) (done string, unknown int) {
	t.Helper()
	require.NoError(t, b.admin.QueryRow(t.Context(),
		"SELECT coalesce(sum(done), 0)::text, coalesce(sum(unknown), 0) FROM window_counts WHERE tenant_id = $1 AND grain = 1", tenant).Scan(&done, &unknown))
	return done, unknown
}

func TestFillGoesOnPastRunThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sum := governance.Window{By: "customer_id", Per: "1h", Sum: "args.amount"}
	b.unfilled(t, b.ours, sum)
	b.executed(t, b.ours, time.Now(), `{"amount":1}`)
	closed := b.executed(t, b.ours, time.Now(), `{}`)
	key, err := testkit.Keys{}.Key(t.Context(), b.them)
	require.NoError(t, err)
	b.exec(t, "UPDATE runs SET args = $2 WHERE id = $1", closed, key.Seal(datakey.Place{Tenant: b.them, Row: closed, Field: datakey.RunArgs}, []byte(`{"amount":1}`)))
	b.executed(t, b.ours, time.Now(), `{"amount":2.5}`)
	require.NoError(t, b.Fill(t.Context()))
	require.True(t, b.filled(t, b.ours))
	done, unknown := b.counted(t, b.ours)
	require.Equal(t, "3.5", done)
	require.Equal(t, 1, unknown)
}

func TestFillGoesOnPastTenantWithoutKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, second := b.ours, b.them
	if bytes.Compare(first[:], second[:]) > 0 {
		first, second = second, first
	}
	window := governance.Window{By: "customer_id", Per: "1h", Count: true}
	for _, tenant := range []uuid.UUID{first, second} {
		b.unfilled(t, tenant, window)
		b.executed(t, tenant, time.Now(), `{}`)
	}
	require.ErrorContains(t, b.with(t, lostKeys{of: first}, nil).Fill(t.Context()), first.String())
	require.False(t, b.filled(t, first))
	require.True(t, b.filled(t, second))
	done, _ := b.counted(t, second)
	require.Equal(t, "1", done)
	require.NoError(t, b.Fill(t.Context()))
	require.True(t, b.filled(t, first))
}

// A tenant with more runs than one pass looks at keeps no other from its turn.
func TestFillTakesTurnsBetweenTenants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	large, small := b.ours, b.them
	if bytes.Compare(large[:], small[:]) > 0 {
		large, small = small, large
	}
	window := governance.Window{By: "customer_id", Per: "1h", Count: true}
	for _, tenant := range []uuid.UUID{large, small} {
		b.unfilled(t, tenant, window)
		b.executed(t, tenant, time.Now(), `{}`)
	}
	const runs = 10_000
	b.exec(t, `INSERT INTO runs (id, tenant_id, execution_id, claim_key, provider, verb, args, fingerprint, dry_run, metadata, request_id,
		source_addr, give_up_at, created_at, workflow_id, state, sent_at) SELECT gen_random_uuid(), $1, 'e' || n, 'e' || n, 'shop', 'create_refund', '{}', '', false,
		'{"customer_id": "c1"}', '', '', now(), now(), 'w', 'executed', now() - interval '1 minute' FROM generate_series(1, $2::integer) AS n`, large, runs)
	require.NoError(t, b.Fill(t.Context()))
	require.True(t, b.filled(t, small))
	require.False(t, b.filled(t, large))
	require.NoError(t, b.Fill(t.Context()))
	require.True(t, b.filled(t, large))
	done, _ := b.counted(t, large)
	require.Equal(t, "10001", done)
}

// The id of a run says when it was claimed first: it may be sent years later.
func TestFillCountsOldRunThatWasClaimedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.executed(t, b.ours, time.Now().AddDate(-2, 0, 0), `{}`)
	under := b.executed(t, b.ours, time.Now().AddDate(-2, 0, 0), `{}`)
	b.exec(t, "UPDATE runs SET state = 'sending' WHERE id = $1", under)
	old := b.executed(t, b.ours, time.Now(), `{}`)
	b.exec(t, "UPDATE runs SET sent_at = now() - interval '2 hours' WHERE id = $1", old)
	refused := b.executed(t, b.ours, time.Now(), `{}`)
	b.exec(t, "UPDATE runs SET state = 'failed' WHERE id = $1", refused)
	b.create(t, limit(governance.Window{By: "customer_id", Per: "1h", Count: true}))
	require.True(t, b.filled(t, b.ours))
	done, _ := b.counted(t, b.ours)
	require.Equal(t, "1", done)
	// What is under way is counted as executed when it is.
	b.exec(t, "UPDATE runs SET state = 'executed' WHERE id = $1", under)
	done, _ = b.counted(t, b.ours)
	require.Equal(t, "2", done)
}

func TestFillReadsBoundedArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	large := `{"amount":1,"reason":"` + strings.Repeat("x", 1<<20) + `"}`
	for range 9 {
		b.executed(t, b.ours, time.Now(), large)
	}
	since := time.Now().Add(-time.Hour)
	read := func(ofArgs bool) (rows []dbsqlc.RunsForWindowRow) {
		rows, err := dbsqlc.New().RunsForWindow(t.Context(), b.db.Reading(b.ours, db.ScanLimit),
			dbsqlc.RunsForWindowParams{TenantID: b.ours, SeenAt: &since, Per: 60, OfArgs: ofArgs, Most: 200, MostBytes: 2 << 20})
		require.NoError(t, err)
		require.EqualValues(t, 9, rows[0].Taken)
		return rows
	}
	require.Len(t, read(true), 2)
	require.Len(t, read(false), 9)
	require.Empty(t, read(false)[0].Args, "nobody needs them")
	b.create(t, limit(governance.Window{By: "customer_id", Per: "1h", Sum: "args.amount"}))
	require.True(t, b.filled(t, b.ours))
	done, unknown := b.counted(t, b.ours)
	require.Equal(t, "9", done)
	require.Zero(t, unknown)
}

// Another process has the window: this one leaves it, and counts nothing twice.
func TestFillLeavesWindowThatAnotherProcessHas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.unfilled(t, b.ours, governance.Window{By: "customer_id", Per: "1h", Count: true})
	b.executed(t, b.ours, time.Now(), `{}`)
	tx, err := b.admin.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM policy_windows FOR UPDATE")
	require.NoError(t, err)
	require.NoError(t, b.Fill(t.Context()))
	require.NoError(t, tx.Rollback(t.Context()))
	require.False(t, b.filled(t, b.ours))
	require.NoError(t, b.Fill(t.Context()))
	require.True(t, b.filled(t, b.ours))
	done, _ := b.counted(t, b.ours)
	require.Equal(t, "1", done)
}

func TestChangeOfPolicyLogsWindowThatIsFilledLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var out bytes.Buffer
	s := b.with(t, lostKeys{of: b.ours}, slog.New(slog.NewTextHandler(&out, nil)))
	_, _, err := s.Create(t.Context(), by(b.ours), limit(governance.Window{By: "customer_id", Per: "1h", Count: true}))
	require.NoError(t, err)
	require.Contains(t, out.String(), "tenant_id="+b.ours.String())
	require.Contains(t, out.String(), "series=")
}

// More rows than one statement deletes.
func TestTrimDeletesWhatNoWindowReaches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := time.Now()
	b.now = now
	p := b.create(t, limit(governance.Window{By: "customer_id", Per: "1h", Count: true}))
	b.exec(t, `INSERT INTO window_entries (tenant_id, run_id, series, value, minute, up, down, done)
		SELECT tenant_id, gen_random_uuid(), series, decode(repeat('00', 16), 'hex'), CASE WHEN n <= 2500 THEN 1 ELSE $1::integer END, 1, 0, true
		  FROM policy_windows, generate_series(1, 2501) AS n`, int32(now.Unix()/60))
	left := func() (n int) {
		require.NoError(t, b.admin.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM window_entries) + 10000 * (SELECT count(*) FROM policy_windows)").Scan(&n))
		return n
	}
	require.NoError(t, b.Trim(t.Context()))
	require.Equal(t, 10001, left())
	require.NoError(t, b.Delete(t.Context(), by(b.ours), p.ID, nil))
	require.NoError(t, b.Trim(t.Context()))
	require.Zero(t, left())
}
