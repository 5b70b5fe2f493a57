package policy_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/dev/testkit"
)

// items are arguments with these amounts.
func items(amounts string) string {
	return `{"items":[{"amount":` + strings.ReplaceAll(amounts, " ", `},{"amount":`) + `}]}`
}

// sent records a run of a customer that was sent so long ago.
func (b *bench) sent(t *testing.T, customer, state, amount, ago string) uuid.UUID {
	t.Helper()
	id := b.ran(t, b.ours, time.Now(), "shop:create_refund", items(amount), `{"customer_id": "`+customer+`"}`)
	b.exec(t, "UPDATE runs SET state = $2, sent_at = date_trunc('minute', now()) - $3::interval + interval '1 second' WHERE id = $1", id, state, ago)
	return id
}

// counts returns the windows of a call of the customer with these amounts, with what they contain. names
// are all texts that name the customer.
func (b *bench) counts(t *testing.T, customer, amounts string, id uuid.UUID, names ...string) *governance.Windows {
	t.Helper()
	sets, err := policy.NewSets(b.db.Pool)
	require.NoError(t, err)
	set, err := sets.Current(t.Context(), b.ours)
	require.NoError(t, err)
	call := governance.Call{
		Verb: verb.Name{Provider: "shop", Verb: "create_refund"}, Args: json.RawMessage(items(amounts)), Context: governance.Context{CustomerID: &customer, CustomerNames: names},
	}
	w := set.Judge().Windows(call)
	key, err := testkit.Keys{}.Key(t.Context(), b.ours)
	require.NoError(t, err)
	require.NoError(t, sets.Count(t.Context(), b.ours, key, w, id))
	require.True(t, w.Uses[0].Readings[0].Filled)
	return w
}

// contains is what the window contains for such a call, low and high.
func (b *bench) contains(t *testing.T, customer, amounts string, id uuid.UUID) [2]string {
	t.Helper()
	r := b.counts(t, customer, amounts, id).Uses[0].Readings[0]
	return [2]string{r.Low.String(), r.High.String()}
}

// An amount below 0 never raises the room under a limit, and always lowers what there is under a minimum.
func TestWindowKeepsAmountsBelowZeroApart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	type earlier struct{ state, amount, ago string }
	cases := []struct {
		name    string
		earlier []earlier
		amount  string
		want    [2]string
	}{
		{"none", nil, "5", [2]string{"0", "5"}},
		{"a credit is judged", nil, "-5", [2]string{"-5", "0"}},
		{"both in one call", nil, "-1000 400", [2]string{"-1000", "400"}},
		{"executed", []earlier{{"executed", "7", "2 min"}}, "5", [2]string{"7", "12"}},
		{"an executed credit", []earlier{{"executed", "-1000000", "2 min"}, {"executed", "7", "2 min"}}, "5", [2]string{"-999993", "12"}},
		{"under way", []earlier{{"sending", "-3", "2 min"}, {"sending", "7", "2 min"}}, "5", [2]string{"-3", "12"}},
		{"not known", []earlier{{"outcome_unknown", "-3", "2 min"}, {"outcome_unknown", "7", "2 min"}}, "5", [2]string{"-3", "12"}},
		{"hours ago", []earlier{{"executed", "-3", "30 h"}, {"executed", "7 -1", "30 h"}, {"sending", "2", "30 h"}}, "5", [2]string{"3", "14"}},
		{"too long ago", []earlier{{"executed", "-3", "49 h"}, {"executed", "7", "49 h"}}, "5", [2]string{"0", "5"}},
	}
	for _, c := range cases {
		for _, e := range c.earlier {
			b.sent(t, c.name, e.state, e.amount, e.ago)
		}
	}
	again := b.sent(t, "again", "sending", "-3 7", "2 min")
	b.create(t, limit(governance.Window{By: "customer_id", Per: "2d", Sum: "args.items.amount"}))
	for _, c := range cases {
		require.Equal(t, c.want, b.contains(t, c.name, c.amount, uuid.New()), c.name)
	}
	// A run that is judged again is not in its own way, and one that ends moves with both of its amounts.
	require.Equal(t, [2]string{"0", "5"}, b.contains(t, "again", "5", again))
	require.Equal(t, [2]string{"-3", "12"}, b.contains(t, "again", "5", uuid.New()))
	b.exec(t, "UPDATE runs SET state = 'executed' WHERE id = $1", again)
	require.Equal(t, [2]string{"4", "12"}, b.contains(t, "again", "5", uuid.New()))
}

// The minute at which a window begins is only in part within it: it counts on the strict side.
func TestFirstMinuteOfWindowCountsOnTheStrictSide(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tx, err := b.admin.Begin(t.Context()) // so that no minute passes
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	series, value := uuid.New(), strings.Repeat("00", 16)
	const edge = "floor(extract(epoch FROM now()) / 60)::integer - 60"
	_, err = tx.Exec(t.Context(), `SELECT fill_window($1, $2, json_agg(json_build_object('run', gen_random_uuid(), 'value', $3::text, 'up', x.up, 'down', x.down,
		'minute', `+edge+` + x.after, 'done', true))) FROM (VALUES (-1, 1000, -1000), (0, 100, -100), (1, 10, -10)) AS x (after, up, down)`, b.ours, series, value)
	require.NoError(t, err)
	var low, high string
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT n.low::text, n.high::text FROM count_window($1, $2, $2, ARRAY[decode($3, 'hex')], 60, 1, 0) AS n", b.ours, series, value).Scan(&low, &high))
	require.Equal(t, [2]string{"-100", "111"}, [2]string{low, high})
}

// The gate counts again what was judged before. A credit that comes in between moves no limit.
func TestGateOfWindowsCountsAmountsApart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(t, limit(governance.Window{By: "customer_id", Per: "2d", Sum: "args.items.amount"})) // greater 100
	enter := func(w *governance.Windows, amounts string) error { return b.enter(t, w, amounts) }
	fits, again := b.counts(t, "c1", "60", uuid.New()), b.counts(t, "c1", "60", uuid.New())
	credit := b.counts(t, "c1", "-1000 10", uuid.New())
	require.NoError(t, enter(credit, "-1000 10"))
	require.NoError(t, enter(fits, "60"))
	require.True(t, db.IsWindowMoved(enter(again, "60")), "70 and 60 are over 100")
	require.Equal(t, [2]string{"-1000", "75"}, b.contains(t, "c1", "5", uuid.New()))
}

// enter passes the gate with a new run.
func (b *bench) enter(t *testing.T, w *governance.Windows, amounts string) error {
	t.Helper()
	id := b.ran(t, b.ours, time.Now(), "shop:create_refund", items(amounts), `{"customer_id": "c1"}`)
	return b.db.InTenant(t.Context(), b.ours, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "UPDATE runs SET state = 'sending', sent_at = now(), windowed = true WHERE id = $1", id)
		require.NoError(t, err)
		_, err = dbsqlc.New().RequireWindows(t.Context(), tx, dbsqlc.RequireWindowsParams{TenantID: b.ours, RunID: id, Windows: w.Stored(true), Counted: true})
		return err
	})
}

// The texts that name one customer share a window, however a call says whom it is for. What was counted
// before the customer was created or merged counts too.
func TestWindowCountsACustomerByAllTheirNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"ext", "merged", "other"} {
		b.sent(t, name, "executed", "20", "2 min")
	}
	again := b.sent(t, "merged", "sending", "7", "2 min")
	b.create(t, limit(governance.Window{By: "customer_id", Per: "2d", Sum: "args.items.amount"})) // greater 100
	names := []string{"id", "ext", "merged"}
	high := func(customer string, id uuid.UUID, names ...string) string {
		return b.counts(t, customer, "5", id, names...).Uses[0].Readings[0].High.String()
	}
	require.Equal(t, "25", high("ext", uuid.New()), "a text that names no record")
	for _, name := range names {
		require.Equal(t, "52", high(name, uuid.New(), names...), name)
	}
	require.Equal(t, "45", high("id", again, names...), "a run is not in its own way, whatever it was counted by")
	require.Equal(t, "5", high("id", uuid.New(), "id"))
	// The gate counts them together too.
	one, two := b.counts(t, "id", "50", uuid.New(), names...), b.counts(t, "ext", "50", uuid.New(), names...)
	require.NoError(t, b.enter(t, one, "50"))
	require.True(t, db.IsWindowMoved(b.enter(t, two, "50")), "97 and 50 are over 100")
	require.Equal(t, "102", high("merged", uuid.New(), names...))
}

func TestTenantHasSoManyWindows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	with := func(name string, from, n int) policy.Draft {
		d := policy.Draft{Name: name, Action: "block", Matchers: verbs("shop:create_refund")}
		for i := range n {
			d.Conditions = append(d.Conditions, governance.Condition{
				Window: &governance.Window{By: "args.n" + strconv.Itoa(from+i), Per: "1h", Count: true}, Operator: governance.OpGreater, Value: json.RawMessage("1"),
			})
		}
		return d
	}
	first := b.create(t, with("0", 0, 5))
	for i := 1; i < 10; i++ {
		b.create(t, with(strconv.Itoa(i), 5*i, 5))
	}
	before := b.version(t, b.ours)
	refused := func(err error) {
		t.Helper()
		require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), "%v", err)
		require.Contains(t, err.Error(), "quota policy_windows: at most 50 windows")
		require.Equal(t, before, b.version(t, b.ours), "nothing is written")
	}
	_, _, err := b.Create(t.Context(), by(b.ours), with("one more", 50, 1))
	refused(err)
	_, _, err = b.Replace(t.Context(), by(b.ours), first.ID, with("other ones", 48, 5), nil)
	require.NoError(t, err, "two of these are known: there is room for three")
	b.create(t, with("two more", 53, 2))
	other := with("again", 55, 1)
	_, _, err = b.Change(t.Context(), by(b.ours), first.ID, policy.Patch{Conditions: append(other.Conditions, with("", 48, 4).Conditions[2:]...)}, nil)
	require.NoError(t, err, "one for another")
	off, draft := false, with("off", 60, 5)
	draft.Enabled = &off
	p := b.create(t, draft)
	before = b.version(t, b.ours)
	on := true
	_, _, err = b.Change(t.Context(), by(b.ours), p.ID, policy.Patch{Enabled: &on}, nil)
	refused(err)
	_, _, err = b.Create(t.Context(), by(b.them), with("theirs", 0, 5))
	require.NoError(t, err)
}
