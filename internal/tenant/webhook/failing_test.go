package webhook

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// A tenant whose receivers fail at once, for as many events as it may send, does not fill Temporal
// with workflows. Another webhook of the tenant is told at once all the same.
func TestFirstAttemptsOfAWebhookThatKeepsFailingWait(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	var well atomic.Bool
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	o.subscribe(o.who, r.URL, "*")
	all := func() (n int) {
		for found := o.once(o.Service); found > 0; found = o.once(o.Service) {
			n += found
		}
		return n
	}
	const events = debtMost + 20
	for range events {
		o.emit(o.who, revoked())
	}
	failed := all()
	require.InDelta(t, debtMost+1, failed, 5, "while it fails, a little of the debt is paid")
	require.Len(t, o.starts.all(), failed)

	other := newReceiver(t, nil)
	o.subscribe(o.who, other.URL, "*")
	o.emit(o.who, revoked())
	o.once(o.Service)
	require.Len(t, other.posts(), 1)

	o.pass(10 * time.Second)
	require.InDelta(t, 10*debtPaid, all(), 2)
	well.Store(true)
	o.pass(time.Minute)
	all()
	require.Len(t, r.posts(), events+1, "once it answers well, nothing waits")
}

// An operator may end the workflow of a delivery. Then it is not under way for ever.
func TestDeliveryThatLostItsWorkflowIsRedelivered(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	var well atomic.Bool
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	w := o.subscribe(o.who, r.URL, "*")
	id := o.emit(o.who, revoked())
	require.Equal(t, 1, o.once(o.Service))
	o.pass(time.Hour)
	_, err := o.Redeliver(t.Context(), o.who, w.ID, id)
	require.True(t, fault.HasCode(err, fault.CodeConflict), "its workflow may only be late: %v", err)

	o.pass(time.Minute)
	well.Store(true)
	d, err := o.Redeliver(t.Context(), o.who, w.ID, id)
	require.NoError(t, err)
	require.Equal(t, 2, d.Round)
	require.Equal(t, 1, o.once(o.Service))
	require.Equal(t, flow.DeliveryDelivered, o.delivery(o.who, w, id).State)
	require.Equal(t, flow.DeliveryCancelled, o.retry(o.Service, o.starts.all()[0]).State, "the workflow was only late")
	require.Len(t, r.posts(), 2)
}

// What an address answers says nothing of the address that the webhook has since.
func TestWebhookWithAnotherAddressSinceStaysEnabled(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	var change func()
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		change()
		w.WriteHeader(http.StatusGone)
	})
	w := o.subscribe(o.who, r.URL, "*")
	elsewhere := r.URL + "/elsewhere"
	change = func() {
		_, err := o.Update(t.Context(), o.who, w.ID, Change{URL: &elsewhere})
		require.NoError(t, err)
		change = func() {}
	}
	id := o.emit(o.who, revoked())
	o.once(o.Service)
	require.Equal(t, flow.DeliveryFailed, o.delivery(o.who, w, id).State)
	now, err := o.Get(t.Context(), o.who.TenantID, w.ID)
	require.NoError(t, err)
	require.True(t, now.Enabled)

	o.emit(o.who, revoked())
	o.once(o.Service)
	now, err = o.Get(t.Context(), o.who.TenantID, w.ID)
	require.NoError(t, err)
	require.False(t, now.Enabled)
}
