package webhook

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/event"
)

// Half of a tenant's webhooks hang, with many deliveries each. The others get theirs meanwhile, from
// two processes, each delivery once.
func TestHangingWebhooksDelayNoOther(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	slow := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	good := newReceiver(t, nil)
	for i := range 50 {
		o.subscribe(o.who, fmt.Sprintf("%s/%d", slow.URL, i), "key.*")
	}
	w := o.subscribe(o.who, good.URL, "*")
	o.run(o.Service)
	o.run(o.another(t, o.db.Pool))
	const events = 300
	began := time.Now()
	for range events {
		b := &db.Batch{}
		event.Queue(b, event.Event{TenantID: o.who.TenantID, Body: revoked()})
		require.NoError(t, o.db.Send(t.Context(), o.who.TenantID, b))
	}
	emitted := time.Since(began)
	require.Eventually(t, func() bool { return len(good.posts()) >= events }, time.Minute, 10*time.Millisecond)
	t.Logf("%d events were written in %v and delivered after %v", events, emitted, time.Since(began))
	require.Eventually(t, func() bool {
		page, _, err := o.Deliveries(t.Context(), o.who.TenantID, w.ID, Filter{State: flow.DeliveryDelivered, Limit: 500})
		return err == nil && len(page) == events
	}, time.Minute, 10*time.Millisecond)
	seen := map[string]bool{}
	for _, p := range good.posts() {
		require.False(t, seen[p.header.Get("Webhook-Id")])
		seen[p.header.Get("Webhook-Id")] = true
	}
}

// What one process has under way of a webhook that fails is one attempt.
func TestPaceOfAWebhook(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	w := o.subscribe(o.who, "http://127.0.0.1:1", "*")
	var mine []place
	takeAll := func() int {
		n := 0
		for p, ok := o.take(o.who.TenantID, w.ID, firstAttempt); ok; p, ok = o.take(o.who.TenantID, w.ID, firstAttempt) {
			mine = append(mine, p)
			n++
		}
		return n
	}
	leaveAll := func() {
		for _, p := range mine {
			o.leave(p)
		}
		mine = nil
	}
	require.Equal(t, paceFirst, takeAll())
	for range 100 {
		o.paces.learn(mine[0].pace, true, time.Millisecond, o.now())
	}
	require.Equal(t, placesPerWebhook-paceFirst, takeAll())
	o.paces.learn(mine[0].pace, true, 2*slowAnswer, o.now())
	leaveAll()
	require.Equal(t, paceSlow, takeAll(), "one that answers slowly")
	o.paces.learn(mine[0].pace, false, time.Millisecond, o.now())
	leaveAll()
	require.Equal(t, 1, takeAll())
	leaveAll()
}

// A webhook that fails, and has first attempts without end, still gets to its later attempts: the
// place that gets free is for the one that waits.
func TestLaterAttemptComesBeforeFirstOnes(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	o.subscribe(o.who, r.URL, "*")
	o.emit(o.who, revoked())
	require.Equal(t, 1, o.once(o.Service))
	ref := o.starts.all()[0]
	o.pass(time.Minute)
	o.emit(o.who, revoked())

	busy, ok := o.take(ref.TenantID, ref.WebhookID, firstAttempt)
	require.True(t, ok)
	step := o.retry(o.Service, ref)
	require.Equal(t, flow.DeliveryRetrying, step.State)
	require.LessOrEqual(t, step.After, busyPause, "it asks again soon")
	o.leave(busy)
	require.Zero(t, o.once(o.Service), "the place is not for a first attempt")
	o.pass(step.After)
	require.Equal(t, flow.DeliveryRetrying, o.retry(o.Service, ref).State)
	require.Len(t, r.posts(), 2)
	o.pass(owedFor)
	require.Equal(t, 1, o.once(o.Service), "the workflow has asked no more")
	require.Len(t, r.posts(), 3)
}

// A claim takes at most as many rows as there are places, whatever plan Postgres makes.
func TestClaimTakesNoMoreThanItsPlaces(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	w := o.subscribe(o.who, "https://example.com", "key.*")
	conn, err := pgx.Connect(t.Context(), o.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	// With these settings, and the statistics of a table with one row, it makes a plan that reads
	// the rows to choose once for each row of the table.
	for _, setting := range []string{"enable_hashjoin", "enable_mergejoin", "enable_material", "enable_indexscan", "enable_bitmapscan", "enable_indexonlyscan"} {
		_, err := conn.Exec(t.Context(), "SET "+setting+" = off")
		require.NoError(t, err)
	}
	o.emit(o.who, revoked())
	o.read()
	_, err = conn.Exec(t.Context(), "ANALYZE webhook_deliveries")
	require.NoError(t, err)
	for range 20 {
		o.emit(o.who, revoked())
	}
	o.read()
	rows, err := o.q.ClaimDeliveries(t.Context(), conn, dbsqlc.ClaimDeliveriesParams{
		WebhookIds: []uuid.UUID{w.ID}, Most: []int32{3}, Now: o.now(), LostAt: o.now().Add(time.Minute),
	})
	require.NoError(t, err)
	require.Len(t, rows, 3)
}
