package event_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/record/event"
)

// follow reads on from the place to the end of what is complete.
func (w *world) follow(tenant uuid.UUID, at *event.Place) (found []string) {
	w.t.Helper()
	for more := true; more; {
		var page []event.Stored
		var err error
		page, more, err = w.After(context.Background(), tenant, event.Filter{}, *at, 3)
		require.NoError(w.t, err)
		found = append(found, names(w.t, page)...)
		if len(page) > 0 {
			*at = page[len(page)-1].Place
		}
	}
	return found
}

func TestCursorMissesNoEventOfATransactionThatCommitsLate(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, nil), uuid.New()
	var at event.Place
	early := w.begin(tenant) // its xid is the oldest, and so would be its place
	w.emit(tenant, "quick", event.About{})
	passed := w.follow(tenant, &at)
	w.write(early, tenant, "late")
	require.NoError(t, early.Commit(t.Context()))
	w.settle()
	require.Equal(t, []string{"late", "quick"}, append(passed, w.follow(tenant, &at)...))
	w.emit(tenant, "next", event.About{})
	w.settle()
	require.Equal(t, []string{"next"}, w.follow(tenant, &at))
}

func TestFollowersMissNothingWhileTransactionsCommitInAnyOrder(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, nil), uuid.New()
	const transactions = 60
	order := rand.New(rand.NewPCG(1, 2))
	done := make(chan struct{})
	var want []string
	var writers sync.WaitGroup
	writers.Go(func() {
		defer close(done)
		var open []pgx.Tx
		for i := range transactions {
			tx := w.begin(tenant)
			name := fmt.Sprint("tx ", i)
			w.write(tx, tenant, name)
			want = append(want, name)
			open = append(open, tx)
			for len(open) > 5 || i == transactions-1 && len(open) > 0 {
				n := order.IntN(len(open))
				require.NoError(t, open[n].Commit(context.Background()))
				open = slices.Delete(open, n, n+1)
			}
		}
	})
	var at event.Place
	var found []string
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
			w.settle()
		default:
		}
		found = append(found, w.follow(tenant, &at)...)
	}
	writers.Wait()
	require.ElementsMatch(t, want, found)
}

func TestListReadsBackwardWithoutGapsOrRepeats(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, nil), uuid.New()
	var want []string
	for i := range 10 {
		name := strconv.Itoa(i)
		w.emit(tenant, name, event.About{})
		w.emit(uuid.New(), "another tenant's", event.About{})
		want = append(want, name)
	}
	w.settle()
	slices.Reverse(want)
	var found []string
	var at *event.Place
	for more := true; more; {
		var page []event.Stored
		var err error
		page, more, err = w.Before(t.Context(), tenant, event.Filter{}, at, 3)
		require.NoError(t, err)
		found = append(found, names(t, page)...)
		at = &page[len(page)-1].Place
	}
	require.Equal(t, want, found)
}

func TestFiltersNarrowBothOrders(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, nil), uuid.New()
	w.emit(tenant, "execution", event.About{ExecutionID: "x"})
	w.emit(tenant, "session", event.About{SessionID: "x"})
	w.emit(tenant, "customer", event.About{CustomerID: "x"})
	_, _, err := w.Send(t.Context(), sender(tenant), event.Sent{ID: "mine", Type: "custom.a", Data: []byte(`{}`)})
	require.NoError(t, err)
	w.settle()
	hour := func(d time.Duration) *time.Time { at := time.Now().Add(d); return &at }
	for name, c := range map[string]struct {
		filter event.Filter
		want   []string
	}{
		"execution":     {event.Filter{ExecutionID: "x"}, []string{"execution"}},
		"session":       {event.Filter{SessionID: "x"}, []string{"session"}},
		"customer":      {event.Filter{CustomerID: "x"}, []string{"customer"}},
		"type":          {event.Filter{Type: "custom.a"}, []string{"mine"}},
		"family":        {event.Filter{Type: "key.*"}, []string{"execution", "session", "customer"}},
		"all":           {event.Filter{Type: "*"}, []string{"execution", "session", "customer", "mine"}},
		"since earlier": {event.Filter{From: hour(-time.Hour), To: hour(time.Hour)}, []string{"execution", "session", "customer", "mine"}},
		"since later":   {event.Filter{From: hour(time.Hour)}, []string{}},
		"until earlier": {event.Filter{To: hour(-time.Hour)}, []string{}},
	} {
		up, _, err := w.After(t.Context(), tenant, c.filter, event.Place{}, 10)
		require.NoError(t, err)
		require.Equal(t, c.want, names(t, up), name)
		down, _, err := w.Before(t.Context(), tenant, c.filter, nil, 10)
		require.NoError(t, err)
		slices.Reverse(c.want)
		require.Equal(t, c.want, names(t, down), name)
	}
}

func TestEventsOlderThanAMonthAreForgotten(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, nil), uuid.New()
	w.emit(tenant, "first", event.About{})
	now := time.Now()
	require.NoError(t, event.Forget(t.Context(), w.db.Pool, now.Add(event.Kept-time.Hour)))
	require.Equal(t, 1, w.number("SELECT count(*) FROM events"))
	w.admin(`INSERT INTO events (id, tenant_id, type, body) SELECT gen_random_uuid(), $1, 'key.revoked', '{}' FROM generate_series(1, 2500)`, uuid.New())
	w.admin(`UPDATE events SET id = (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || substr(replace(id::text, '-', ''), 13))::uuid WHERE body = '{}'`)
	require.NoError(t, event.Forget(t.Context(), w.db.Pool, now.Add(event.Kept+time.Hour)))
	require.Zero(t, w.number("SELECT count(*) FROM events"))
}

func TestEventThatDoesNotOpenIsListedWithoutItsBody(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, nil), uuid.New()
	w.emit(tenant, "good", event.About{})
	w.emit(tenant, "bad", event.About{})
	w.admin(`UPDATE events SET body = 's1.AAAA' WHERE id = (SELECT max(id::text)::uuid FROM events)`)
	w.settle()
	page, _, err := w.Before(t.Context(), tenant, event.Filter{}, nil, 10)
	require.NoError(t, err)
	require.Len(t, page, 2)
	require.Nil(t, page[0].Body)
	require.NotNil(t, page[1].Body)
}

func TestErasureReachesTheEventsAboutACustomer(t *testing.T) {
	t.Parallel()
	w, tenant, other := newWorld(t, nil), uuid.New(), uuid.New()
	for _, of := range []uuid.UUID{tenant, other} {
		for _, customer := range []string{"", "c", "theirs", "another"} {
			w.emit(of, customer, event.About{CustomerID: customer})
		}
	}
	w.admin("INSERT INTO webhook_deliveries (event_id, webhook_id, tenant_id, type, status, updated_at) SELECT id, gen_random_uuid(), tenant_id, type, 'pending', now() FROM events")
	w.admin("INSERT INTO webhook_attempts (event_id, webhook_id, tenant_id, round, attempt, started_at, latency_ms) SELECT event_id, webhook_id, tenant_id, 1, 1, now(), 1 FROM webhook_deliveries")
	erase := func(before time.Time) (erased int64) {
		require.NoError(t, w.db.InTenant(t.Context(), tenant, func(tx pgx.Tx) (err error) {
			erased, _, err = event.Eraser{}.EraseOf(t.Context(), tx, tenant, []string{"c", "theirs"}, before, 10)
			return err
		}))
		return erased
	}
	require.Zero(t, erase(time.Now().Add(-time.Hour)), "events of later are another customer's")
	require.EqualValues(t, 2, erase(time.Now().Add(time.Hour)))
	w.settle()
	require.Equal(t, 6, w.number("SELECT count(*) FROM webhook_deliveries"))
	require.Equal(t, 6, w.number("SELECT count(*) FROM webhook_attempts"))
	left, _, err := w.After(t.Context(), tenant, event.Filter{}, event.Place{}, 10)
	require.NoError(t, err)
	require.Equal(t, []string{"", "another"}, names(t, left))
	require.Equal(t, 6, w.number("SELECT count(*) FROM events"))
}

// The statement is that of docs/operate/operations.md.
func TestEventsOfAnotherClusterAreThereAfterTheDocumentedStatement(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, nil), uuid.New()
	for i := range 3 {
		w.emit(tenant, fmt.Sprint("old ", i), event.About{})
	}
	w.admin("UPDATE events SET xid = (xid::text::bigint + 1000000000)::text::xid8")
	require.Empty(t, w.follow(tenant, &event.Place{}))
	w.admin("UPDATE events SET xid = '3' WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())")
	w.emit(tenant, "new", event.About{})
	w.settle()
	require.Equal(t, []string{"old 0", "old 1", "old 2", "new"}, w.follow(tenant, &event.Place{}))
}
