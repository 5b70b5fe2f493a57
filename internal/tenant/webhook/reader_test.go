package webhook

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/event"
)

// Whatever a tenant emits for however many webhooks, a look writes a bounded number of deliveries. All
// come, each once, although several processes read at once.
func TestEventsAreReadInPiecesAndOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	var webhooks []Webhook
	for range 5 {
		webhooks = append(webhooks, o.subscribe(o.who, "https://example.com", "*"))
	}
	const events = 90
	b := &db.Batch{}
	for range events {
		event.Queue(b, event.Event{TenantID: o.who.TenantID, Body: revoked()})
	}
	require.NoError(t, o.db.Send(t.Context(), o.who.TenantID, b))
	all := func() (n int) {
		for _, w := range webhooks {
			n += o.count(w, flow.DeliveryPending)
		}
		return n
	}
	for !o.readSome(100, waitingMost) && all() == 0 { // transactions of other tests end
	}
	require.Equal(t, 100, all())
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for !o.readSome(70, waitingMost) {
			}
		})
	}
	both.Wait()
	o.read()
	require.Equal(t, events*len(webhooks), all())
}

// One that is told of more than its receiver takes has a bounded number of deliveries that wait. Others
// of its tenant are not delayed, and it misses nothing.
func TestWaitingDeliveriesOfAWebhookAreBounded(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	w, other := o.subscribe(o.who, "https://example.com/full", "*"), o.subscribe(o.who, "https://example.com/other", "key.*")
	var ids []string
	for range 12 {
		ids = append(ids, o.emit(o.who, revoked()))
	}
	full := func() {
		t.Helper()
		for range 2 {
			for !o.readSome(eventsMost, 5) {
			}
		}
	}
	full()
	require.Equal(t, 5, o.count(w, flow.DeliveryPending))
	require.Equal(t, 5, o.count(other, flow.DeliveryPending))
	end := func(of Webhook) {
		t.Helper()
		_, err := o.asOwner(o.who.TenantID).Exec(t.Context(), "UPDATE webhook_deliveries SET status = 'delivered', next_at = NULL WHERE webhook_id = $1", of.ID)
		require.NoError(t, err)
		o.pass(2 * time.Second)
	}
	end(other)
	full()
	end(other)
	full()
	require.Equal(t, 2, o.count(other, flow.DeliveryPending))
	require.Equal(t, 10, o.count(other, flow.DeliveryDelivered))
	require.Equal(t, 5, o.count(w, flow.DeliveryPending), "it waits for its receiver")
	for range 2 {
		end(w)
		full()
	}
	end(w)
	require.Equal(t, 12, o.count(w, flow.DeliveryDelivered))
	for _, id := range ids {
		require.Equal(t, flow.DeliveryDelivered, o.delivery(o.who, w, id).State)
	}
}

// An event of a transaction that commits late is told too.
func TestEventOfALateTransactionIsTold(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	w := o.subscribe(o.who, "https://example.com", "*")
	require.NoError(t, o.db.InTenant(t.Context(), o.who.TenantID, func(tx pgx.Tx) error {
		b := &db.Batch{}
		event.Queue(b, event.Event{TenantID: o.who.TenantID, Body: revoked()})
		require.NoError(t, b.SendIn(t.Context(), tx))
		o.emit(o.who, revoked())
		for range 3 {
			require.False(t, o.readSome(eventsMost, waitingMost), "the later event is not complete")
		}
		require.Zero(t, o.count(w, flow.DeliveryPending))
		return nil
	}))
	o.read()
	require.Equal(t, 2, o.count(w, flow.DeliveryPending))
}

// What was emitted before a webhook was made or while its owner had it disabled is not told. While the
// service had it disabled, it is remembered.
func TestWebhookIsToldOfWhatIsEmittedFromItsBeginOn(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.emit(o.who, revoked())
	w := o.subscribe(o.who, "https://example.com", "*")
	set := func(enabled bool) {
		t.Helper()
		_, err := o.Update(t.Context(), o.who, w.ID, Change{Enabled: &enabled})
		require.NoError(t, err)
	}
	o.read()
	require.Zero(t, o.count(w, flow.DeliveryPending))
	set(false)
	o.emit(o.who, revoked())
	o.read()
	set(true)
	o.emit(o.who, revoked())
	o.read()
	require.Equal(t, 1, o.count(w, flow.DeliveryPending))
	require.Zero(t, o.count(w, flow.DeliveryCancelled))
	_, err := o.asOwner(o.who.TenantID).Exec(t.Context(), "UPDATE webhooks SET enabled = false, disabled_reason = 'failing', disabled_at = now() WHERE id = $1", w.ID)
	require.NoError(t, err)
	o.emit(o.who, revoked())
	o.read()
	require.Equal(t, 1, o.count(w, flow.DeliveryCancelled))
	o.emit(o.who, revoked())
	set(true)
	o.read()
	require.Equal(t, 2, o.count(w, flow.DeliveryPending), "the last one was not read while it was disabled")
}
