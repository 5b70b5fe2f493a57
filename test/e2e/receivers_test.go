package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/flow"
	"agentruntime/test/rig"
)

// receiver receives the webhook deliveries of one subscription.
type receiver struct {
	id, url, secret string

	mu     sync.Mutex
	bodies map[string][]string // by webhook-id
	// answer answers the attempt number n of a delivery, the first is 1.
	answer func(w http.ResponseWriter, r *http.Request, n int)
	faults []string
}

// subscribed makes a receiver that is told of custom events of the type.
func subscribed(t *testing.T, tenant *rig.Tenant, kind string, answer func(http.ResponseWriter, *http.Request, int)) *receiver {
	t.Helper()
	r := &receiver{bodies: map[string][]string{}, answer: answer}
	r.url = rig.Serve(t, http.HandlerFunc(r.serve))
	var made struct{ ID, Secret string }
	a := tenant.User.Do(http.MethodPost, "/v1/webhooks", map[string]any{"url": r.url, "events": []string{kind}})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	a.Data(t, &made)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.id, r.secret = made.ID, made.Secret
	return r
}

func (r *receiver) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	verifier, err := standard.NewWebhook(r.secret)
	if err == nil {
		err = verifier.Verify(body, req.Header)
	}
	if err != nil || req.Method != http.MethodPost {
		r.faults = append(r.faults, fmt.Sprintf("%s %s: %v", req.Method, req.URL, err))
	}
	id := req.Header.Get("Webhook-Id")
	r.bodies[id] = append(r.bodies[id], string(body))
	n, answer := len(r.bodies[id]), r.answer
	r.mu.Unlock()
	if answer != nil {
		answer(w, req, n)
	}
}

// of returns what the receiver got of an event, each time with the same bytes.
func (r *receiver) of(t *testing.T, eventID string) (attempts int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.faults)
	for _, body := range r.bodies[eventID] {
		require.Equal(t, r.bodies[eventID][0], body)
	}
	return len(r.bodies[eventID])
}

// delivery is what the API shows of a delivery.
type delivery struct {
	ID, Status string
	Attempts   []struct {
		StatusCode    *int `json:"status_code"`
		Error         *string
		Answer        string
		StartedAt     time.Time  `json:"started_at"`
		NextAttemptAt *time.Time `json:"next_attempt_at"`
	}
}

// deliveryOf returns the only delivery of a webhook, once the event was read for it.
func deliveryOf(t *testing.T, tenant *rig.Tenant, webhook string) (d delivery) {
	t.Helper()
	var list []delivery
	rig.Until(t, arriveLimit, "the event is read for the webhook", func() bool {
		tenant.User.Do(http.MethodGet, "/v1/webhooks/"+webhook+"/deliveries", nil).Data(t, &list)
		return len(list) > 0
	})
	require.Len(t, list, 1)
	return list[0]
}

// emit sends a custom event.
func emit(t *testing.T, tenant *rig.Tenant, kind string) {
	t.Helper()
	key := tenant.User.With(tenant.User.NewKey(t, "events:send").Key, "")
	a := key.Do(http.MethodPost, "/v1/events", map[string]any{"id": uuid.NewString(), "type": kind, "data": map[string]string{"marker": "marker-canary"}})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
}

// What a receiver may do, and what the API shows of it. Nothing but the one POST reaches anybody.
func TestReceiversThatMisbehaveAreShown(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	tenant := newTenant(s)
	status := func(code int) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(code) }
	}
	elsewhere := make(chan string, 1)
	other := rig.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { elsewhere <- r.Method + r.URL.Path }))
	redirect := func(code int) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, r *http.Request, _ int) { http.Redirect(w, r, other+"/elsewhere", code) }
	}
	hang := func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }
	for name, c := range map[string]struct {
		answer  func(http.ResponseWriter, *http.Request, int)
		status  string
		code    int
		problem string
		kept    int // bytes of the answer; -1 is any
		enabled bool
	}{
		"200": {status(http.StatusOK), "delivered", 200, "", 0, true},
		"204": {status(http.StatusNoContent), "delivered", 204, "", 0, true},
		"400": {status(http.StatusBadRequest), "retrying", 400, "", 0, true},
		"401": {status(http.StatusUnauthorized), "retrying", 401, "", 0, true},
		"429": {status(http.StatusTooManyRequests), "retrying", 429, "", 0, true},
		"500": {status(http.StatusInternalServerError), "retrying", 500, "", 0, true},
		"410": {status(http.StatusGone), "failed", 410, "", 0, false},
		"301": {redirect(http.StatusMovedPermanently), "retrying", 301, "", -1, true},
		"302": {redirect(http.StatusFound), "retrying", 302, "", -1, true},
		"303": {redirect(http.StatusSeeOther), "retrying", 303, "", -1, true},
		"307": {redirect(http.StatusTemporaryRedirect), "retrying", 307, "", -1, true},
		"308": {redirect(http.StatusPermanentRedirect), "retrying", 308, "", -1, true},
		"3mb": {func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = w.Write(make([]byte, 3<<20)) }, "delivered", 200, "", 4 << 10, true},
		"3mb-of-failure": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(strings.Repeat("é", 3<<19)))
		}, "retrying", 500, "", 4 << 10, true},
		"large-header": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("X-Large", strings.Repeat("x", 1<<20))
		}, "retrying", 0, "connection", 0, true},
		"closes": {func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }, "retrying", 0, "connection", 0, true},
		"hangs":  {hang, "retrying", 0, "timeout", 0, true},
		"trickles": {func(w http.ResponseWriter, r *http.Request, n int) {
			_, _ = w.Write([]byte("o"))
			_ = http.NewResponseController(w).Flush()
			hang(w, r, n)
		}, "delivered", 200, "", 1, true},
		"trickles-headers": {func(w http.ResponseWriter, r *http.Request, _ int) {
			conn, out, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = out.WriteString("HTTP/1.1 200 OK\r\n")
			for n := 0; out.Flush() == nil; n++ {
				_, _ = fmt.Fprintf(out, "X-%d: x\r\n", n)
				select {
				case <-r.Context().Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		}, "retrying", 0, "timeout", 0, true},
		"no-http": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("SSH-2.0-none\r\n"))
			_ = conn.Close()
		}, "retrying", 0, "connection", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := subscribed(t, tenant, "custom."+name, c.answer)
			emit(t, tenant, "custom."+name)
			var d delivery
			rig.Until(t, 2*arriveLimit, "an attempt has ended", func() bool {
				d = deliveryOf(t, tenant, r.id)
				return len(d.Attempts) > 0 && d.Status != "pending"
			})
			require.Equal(t, c.status, d.Status)
			require.Len(t, d.Attempts, 1)
			got := d.Attempts[0]
			require.Equal(t, c.code != 0, got.StatusCode != nil)
			if c.code != 0 {
				require.Equal(t, c.code, *got.StatusCode)
			}
			require.Equal(t, c.problem != "", got.Error != nil)
			if c.problem != "" {
				require.Equal(t, c.problem, *got.Error)
			}
			if c.kept >= 0 {
				require.Len(t, got.Answer, c.kept)
			}
			require.Equal(t, c.status == "retrying", got.NextAttemptAt != nil)
			require.Equal(t, 1, r.of(t, d.ID))
			var now struct {
				Enabled bool
				Reason  *string `json:"disabled_reason"`
			}
			tenant.User.Do(http.MethodGet, "/v1/webhooks/"+r.id, nil).Data(t, &now)
			require.Equal(t, c.enabled, now.Enabled)
			if !c.enabled {
				require.Equal(t, "gone", *now.Reason)
			}
			require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/webhooks/"+r.id, nil).Status)
			require.Empty(t, elsewhere, "no redirect is followed")
		})
	}
}

// TestTemporalDeliveryShowsIDsOnly takes deliveries to each end that their workflows have, and reads
// what Temporal stores of them without the codec's key.
func TestTemporalDeliveryShowsIDsOnly(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, lane string) {
		t.Helper()
		ends := map[string]func(t *testing.T){} // the second attempts are waited for together
		for end, c := range map[string]struct {
			then  int // the answer to the second attempt
			after func(t *testing.T, tenant *rig.Tenant, webhook string)
		}{
			"delivered": {then: http.StatusNoContent},
			"failed":    {then: http.StatusGone},
			"cancelled": {then: http.StatusNoContent, after: func(t *testing.T, tenant *rig.Tenant, webhook string) {
				t.Helper()
				require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPatch, "/v1/webhooks/"+webhook, map[string]any{"enabled": false}).Status)
			}},
		} {
			tenant := newTenant(s)
			r := subscribed(t, tenant, "custom.*", func(w http.ResponseWriter, _ *http.Request, n int) {
				w.WriteHeader(map[bool]int{true: http.StatusInternalServerError, false: c.then}[n == 1])
			})
			emit(t, tenant, "custom.marker-canary")
			var d delivery
			rig.Until(t, arriveLimit, "the first attempt has failed", func() bool {
				d = deliveryOf(t, tenant, r.id)
				return d.Status == "retrying"
			})
			first := d.Attempts[0]
			require.InDelta(t, time.Minute.Seconds(), first.NextAttemptAt.Sub(first.StartedAt).Seconds(), 6)
			if c.after != nil {
				c.after(t, tenant, r.id)
			}
			ends[end] = func(t *testing.T) {
				t.Helper()
				rig.Until(t, time.Minute+arriveLimit, "the delivery has ended", func() bool {
					d = deliveryOf(t, tenant, r.id)
					return d.Status == end
				})
				require.Equal(t, map[string]int{"delivered": 2, "failed": 2, "cancelled": 1}[end], r.of(t, d.ID))
				temporal := stranger(t, s)
				workflow := flow.DeliveryRef{TenantID: uuid.MustParse(tenant.ID), WebhookID: uuid.MustParse(r.id), EventID: uuid.MustParse(strings.TrimPrefix(d.ID, "evt_")), Round: 1}.WorkflowID()
				events := closedHistory(t, temporal, workflow)
				payloads := 0
				for _, event := range events.Events {
					payloads += requireOnlySummary(t, event, "delivers custom.* to a webhook", "marker-canary", r.secret, r.url)
				}
				require.GreaterOrEqual(t, payloads, 4)
				requireSummary(t, temporal, workflow, "delivers custom.* to a webhook")
				if *record {
					recordHistory(t, s, lane+"_delivery_"+end, events)
				}
				logs := s.Logs()
				require.False(t, strings.Contains(logs, r.secret), "the secret is in a log") //nolint:testifylint // it would print all logs
				for line := range strings.Lines(logs) {
					if strings.Contains(line, "another attempt follows") {
						require.NotRegexp(t, `"level":"(ERROR|WARN)"`, line, "a receiver that fails is no error of ours")
					}
				}
			}
		}
		for end, ended := range ends {
			t.Run(end, ended)
		}
	})
}

// TestTemporalErasureShowsIDsOnly erases customers of which nothing is under way, and of which a call
// is held, and reads what Temporal stores of it without the codec's key.
func TestTemporalErasureShowsIDsOnly(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, lane string) {
		t.Helper()
		for shape, held := range map[string]bool{"at_once": false, "after_a_wait": true} {
			t.Run(shape, func(t *testing.T) {
				t.Parallel()
				_, tenant := connected(t, s)
				if held {
					tenant.User.NewPolicy(t, holdGate(3600))
				}
				name := "marker-" + ids(1)[0]
				var made struct{ ID string }
				tenant.User.Do(http.MethodPost, "/v1/customers", map[string]any{"external_id": name, "name": name, "email": name + "@example.com"}).Data(t, &made)
				h := heldRun{t: t, tenant: tenant, id: "of-" + made.ID}
				tenant.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", map[string]any{
					"verb": "gate:create_thing", "args": map[string]any{"id": name, "amount": 1}, "execution_id": h.id, "metadata": map[string]string{"customer_id": name},
				})
				require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/customers/"+made.ID, nil).Status)
				temporal := stranger(t, s)
				workflow := flow.ErasureWorkflowID(flow.CustomerRef{TenantID: uuid.MustParse(tenant.ID), CustomerID: uuid.MustParse(made.ID)})
				if held {
					rig.Until(t, arriveLimit, "the erasure waits", func() bool {
						var e struct{ Erased []struct{ Count int } }
						tenant.User.Do(http.MethodGet, "/v1/customers/"+made.ID+"/erasure", nil).Data(t, &e)
						events := 0
						for _, kind := range e.Erased {
							events += kind.Count
						}
						return events > 0 // those of its events
					})
					h.decide(h.approval(), "reject", map[string]string{"reason": "no"})
				}
				rig.Until(t, time.Minute+arriveLimit, "the erasure has ended", func() bool {
					var e struct{ Status string }
					tenant.User.Do(http.MethodGet, "/v1/customers/"+made.ID+"/erasure", nil).Data(t, &e)
					return e.Status == "completed"
				})
				events := closedHistory(t, temporal, workflow)
				for _, event := range events.Events {
					requireOnlySummary(t, event, flow.ErasureSummary, name, "gate-token")
				}
				requireSummary(t, temporal, workflow, flow.ErasureSummary)
				if *record {
					recordHistory(t, s, lane+"_erasure_"+shape, events)
				}
				require.False(t, strings.Contains(s.Logs(), name), "the customer is in a log") //nolint:testifylint // it would print all logs
			})
		}
	})
}
