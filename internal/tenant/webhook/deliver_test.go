package webhook

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/flow"
)

var errRefused = errors.New("refused")

// The public library of Standard Webhooks verifies what is delivered, by a secret of each form.
func TestDeliveryVerifiesWithTheStandardLibrary(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := newReceiver(t, nil)
	own, standardOwn := "my own secret, ünïcode", "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ="
	for _, supplied := range []*string{nil, &own, &standardOwn} {
		w, err := o.Create(t.Context(), o.who, Draft{URL: r.URL, Events: []string{"key.revoked"}, Enabled: true, Secret: supplied})
		require.NoError(t, err)
		if supplied != nil {
			require.Equal(t, *supplied, w.Secret)
		}
		id := o.emit(o.who, revoked())
		require.Positive(t, o.once(o.Service))
		posts := r.posts()
		got := posts[len(posts)-1]
		verifier, err := standard.NewWebhook(w.Secret)
		if !strings.HasPrefix(w.Secret, "whsec_") {
			verifier, err = standard.NewWebhookRaw([]byte(w.Secret))
		}
		require.NoError(t, err)
		require.NoError(t, verifier.Verify([]byte(got.body), got.header))
		require.Error(t, verifier.Verify([]byte(got.body+" "), got.header))
		require.Equal(t, id, got.header.Get("Webhook-Id"))
		require.Equal(t, id, member(t, got.body, "event_id"))
		require.Equal(t, "application/json", got.header.Get("Content-Type"))
		require.NoError(t, o.Delete(t.Context(), o.who, w.ID, nil))
	}
}

// What a receiver may do, and what follows from it.
func TestReceiversThatMisbehave(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	elsewhere := newReceiver(t, nil)
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		state   flow.DeliveryState
		code    int
		problem Problem
		kept    int // bytes of the answer
		enabled bool
	}{
		"204": {nil, flow.DeliveryDelivered, 204, "", 0, true},
		"299": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) }, flow.DeliveryDelivered, 299, "", 0, true},
		"500": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte("broken\n"))
		}, flow.DeliveryRetrying, 500, "", 7, true},
		"404": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte("no\n"))
		}, flow.DeliveryRetrying, 404, "", 3, true},
		"410": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }, flow.DeliveryFailed, 410, "", 0, false},
		"redirects": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, flow.DeliveryRetrying, 307, "", 0, true},
		"3 MB":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 3<<20)) }, flow.DeliveryDelivered, 200, "", answerMost, true},
		"closes": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, flow.DeliveryRetrying, 0, ProblemConnection, 0, true},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}, flow.DeliveryRetrying, 0, ProblemTimeout, 0, true},
		"switches protocols": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_, _ = conn.Read(make([]byte, 1)) // until the other side closes it
		}, flow.DeliveryRetrying, 101, "", 0, true},
		"trickles": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_, _ = w.Write([]byte("o"))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}, flow.DeliveryDelivered, 200, "", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			who := o.join(t)
			r := newReceiver(t, c.answer)
			o := &office{Service: o.another(t, o.db.Pool), testing: t, db: o.db, who: who, starts: o.starts}
			w := o.subscribe(who, r.URL, "*")
			id := o.emit(who, revoked())
			o.run(o.Service)
			require.Eventually(t, func() bool {
				d, err := o.Delivery(t.Context(), who.TenantID, w.ID, id)
				return err == nil && len(d.Made) > 0
			}, 20*time.Second, 10*time.Millisecond)
			d := o.delivery(who, w, id)
			require.Equal(t, c.state, d.State)
			require.Len(t, d.Made, 1)
			require.Equal(t, c.code, d.Made[0].Code)
			require.Equal(t, c.problem, d.Made[0].Problem)
			if name != "redirects" {
				require.Len(t, d.Made[0].Answer, c.kept)
			}
			require.Equal(t, c.state == flow.DeliveryRetrying, d.NextAt != nil)
			now, err := o.Get(t.Context(), who.TenantID, w.ID)
			require.NoError(t, err)
			require.Equal(t, c.enabled, now.Enabled)
			if !c.enabled {
				require.Equal(t, ReasonGone, now.DisabledReason)
			}
		})
	}
	t.Cleanup(func() { require.Empty(t, elsewhere.posts(), "no redirect is followed") })
}

// A delivery that fails goes through the whole schedule, with one id and the same bytes, and at its
// end its webhook is disabled.
func TestDeliveryFollowsTheSchedule(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	other := newReceiver(t, nil)
	w := o.subscribe(o.who, r.URL, "key.*")
	o.subscribe(o.who, other.URL, "webhook.disabled")
	id := o.emit(o.who, revoked())
	require.Equal(t, 1, o.once(o.Service))
	require.Zero(t, o.once(o.Service), "the workflow has it now")
	refs := o.starts.all()
	require.Len(t, refs, 1)
	for i, pause := range []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 24 * time.Hour} {
		step := o.retry(o.Service, refs[0])
		require.Equal(t, flow.DeliveryRetrying, step.State)
		require.InEpsilon(t, pause.Seconds(), step.After.Seconds(), 0.1)
		require.Len(t, r.posts(), i+1, "not before it is due")
		o.pass(step.After)
		step = o.retry(o.Service, refs[0])
		require.Len(t, r.posts(), i+2)
		require.Equal(t, i == 4, step.State.Ended())
	}
	for _, p := range r.posts() {
		require.Equal(t, id, p.header.Get("Webhook-Id"))
		require.Equal(t, r.posts()[0].body, p.body)
	}
	d := o.delivery(o.who, w, id)
	require.Equal(t, flow.DeliveryFailed, d.State)
	require.Len(t, d.Made, 6)
	now, err := o.Get(t.Context(), o.who.TenantID, w.ID)
	require.NoError(t, err)
	require.False(t, now.Enabled)
	require.Equal(t, ReasonFailing, now.DisabledReason)
	require.Equal(t, flow.DeliveryFailed, o.retry(o.Service, refs[0]).State, "asked again, it says so")

	o.once(o.Service)
	require.Len(t, other.posts(), 1)
	require.Equal(t, w.ID.String(), member(t, other.posts()[0].body, "webhook_id"))
}

// A success of another delivery meanwhile leaves the webhook enabled.
func TestWebhookThatSucceedsNowAndThenStaysEnabled(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	var bad string
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Webhook-Id") == bad {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	w := o.subscribe(o.who, r.URL, "*")
	bad = o.emit(o.who, revoked())
	o.once(o.Service)
	o.pass(time.Hour)
	o.emit(o.who, revoked())
	o.once(o.Service)
	ref := o.starts.all()[0]
	for range 5 {
		o.pass(25 * time.Hour)
		o.retry(o.Service, ref)
	}
	require.Equal(t, flow.DeliveryFailed, o.delivery(o.who, w, bad).State)
	now, err := o.Get(t.Context(), o.who.TenantID, w.ID)
	require.NoError(t, err)
	require.True(t, now.Enabled)
}

// While Temporal is away, the dispatcher keeps to the schedule itself.
func TestDeliveryWithoutTemporalKeepsItsSchedule(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.starts.away.Store(true)
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	w := o.subscribe(o.who, r.URL, "*")
	id := o.emit(o.who, revoked())
	require.Equal(t, 1, o.once(o.Service))
	require.Equal(t, flow.DeliveryPending, o.delivery(o.who, w, id).State)
	o.pass(time.Minute - time.Second)
	require.Zero(t, o.once(o.Service))
	o.pass(time.Second)
	o.starts.away.Store(false)
	require.Equal(t, 1, o.once(o.Service))
	require.Equal(t, flow.DeliveryRetrying, o.delivery(o.who, w, id).State)
	require.Len(t, o.starts.all(), 1)
}

// A process that dies with an attempt under way leaves the delivery to another one.
func TestLostAttemptIsMadeAgain(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := newReceiver(t, nil)
	w := o.subscribe(o.who, r.URL, "*")
	id := o.emit(o.who, revoked())
	dead := o.another(t, o.db.Pool)
	o.read()
	l, err := dead.look(t.Context(), begins{}, func(delivery, place) {})
	require.NoError(t, err)
	require.Equal(t, 1, l.found)
	require.Zero(t, o.once(o.Service), "one attempt at a time")
	o.pass(leases * 2 * time.Second)
	require.Equal(t, 1, o.once(o.Service))
	require.Equal(t, flow.DeliveryDelivered, o.delivery(o.who, w, id).State)
	require.Equal(t, id, r.posts()[0].header.Get("Webhook-Id"))
}

// Only the webhooks of the tenant that want the type are told.
func TestEventReachesThoseThatWantIt(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	stranger := o.join(t)
	for events, want := range map[string]int{"*": 1, "key.*": 1, "key.revoked": 1, "action.*": 0, "action.executed": 0} {
		r := newReceiver(t, nil)
		w := o.subscribe(o.who, r.URL, events)
		o.subscribe(stranger, r.URL, "*")
		off, err := o.Create(t.Context(), o.who, Draft{URL: r.URL, Events: []string{"*"}})
		require.NoError(t, err)
		o.emit(o.who, revoked())
		o.once(o.Service)
		require.Len(t, r.posts(), want, events)
		require.NoError(t, o.Delete(t.Context(), o.who, w.ID, nil))
		require.NoError(t, o.Delete(t.Context(), o.who, off.ID, nil))
	}
}
