package policy_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/fault"
)

func TestCoverage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.create(t, policy.Draft{Name: "Watched", Mode: "shadow", Action: "block"})
	other := b.create(t, block("Other", "*"))
	day := func(n int) time.Time { return b.now.Add(-time.Duration(n) * 24 * time.Hour) }
	ran := func(at time.Time) uuid.UUID { return b.ran(t, b.ours, at, "shop:list_orders", `{}`, `{}`) }
	match := func(of, run uuid.UUID, attempt, version int, mode string, decided bool, decision, shadow string, at time.Time) {
		b.exec(t, `INSERT INTO policy_matches (tenant_id, policy_id, run_id, attempt, policy_version, mode, action, decided, decision, shadow, at)
			VALUES ($1, $2, $3, $4, $5, $6, 'block', $7, $8, $9, $10)`, b.ours, of, run, attempt, version, mode, decided, decision, shadow, at)
	}
	one, two, three, old := ran(day(1)), ran(day(1)), ran(day(2)), ran(day(8))
	ran(day(3))
	b.ran(t, b.them, day(1), "shop:list_orders", `{}`, `{}`)
	match(p.ID, one, 1, 1, "shadow", false, "allow", "block", day(1))
	match(p.ID, two, 1, 1, "shadow", false, "allow", "block", day(1))
	match(p.ID, two, 2, 2, "enforce", true, "block", "block", day(1)) // decided again: the last one counts
	match(p.ID, three, 1, 1, "shadow", false, "pending_approval", "block", day(2))
	match(p.ID, old, 1, 1, "shadow", false, "allow", "block", day(8))
	match(other.ID, one, 1, 1, "enforce", true, "block", "block", day(1))

	c, err := b.Coverage(t.Context(), b.ours, p.ID, nil, nil)
	require.NoError(t, err)
	require.Equal(t, policy.Coverage{
		Period: policy.Period{From: day(7), To: b.now}, Runs: 4, Matched: 3, Decided: 1,
		ByDecision: map[governance.Decision]int64{"allow": 1, "pending_approval": 1, "block": 1},
		WouldHave:  map[governance.Decision]int64{"allow": 0, "pending_approval": 0, "block": 2},
		ByVersion:  []policy.VersionCount{{Version: 1, Matched: 2}, {Version: 2, Matched: 1, Decided: 1}},
		ByDay:      []policy.DayCount{{Date: "2026-01-29", Matched: 1}, {Date: "2026-01-30", Matched: 2, Decided: 1}},
	}, c)

	from, to := day(9), day(7)
	c, err = b.Coverage(t.Context(), b.ours, p.ID, &from, &to)
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Runs)
	require.EqualValues(t, 1, c.Matched)

	require.NoError(t, b.Delete(t.Context(), by(b.ours), p.ID, nil))
	c, err = b.Coverage(t.Context(), b.ours, p.ID, nil, nil)
	require.NoError(t, err)
	require.EqualValues(t, 3, c.Matched, "what was matched stays known")
	for _, of := range []struct{ tenant, id uuid.UUID }{{b.them, p.ID}, {b.ours, uuid.New()}} {
		_, err = b.Coverage(t.Context(), of.tenant, of.id, nil, nil)
		require.True(t, fault.HasCode(err, fault.CodePolicyNotFound))
	}
	_, err = b.Coverage(t.Context(), b.ours, p.ID, &to, &from)
	require.True(t, fault.HasCode(err, fault.CodeValidation))
}
