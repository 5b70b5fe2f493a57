package webhook

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/event"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// post is what a receiver got.
type post struct {
	header http.Header
	body   string
}

// receiver is a receiver of webhooks. Its handler may be nil: then it answers 204.
type receiver struct {
	*httptest.Server

	mu  sync.Mutex
	got []post
}

func newReceiver(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.got = append(r.got, post{req.Header.Clone(), string(body)})
		r.mu.Unlock()
		if answer == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		answer(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) posts() []post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// starts remembers which workflows were started. It refuses while away is set.
type starts struct {
	mu   sync.Mutex
	refs []flow.DeliveryRef
	away atomic.Bool
}

func (s *starts) StartDelivery(_ context.Context, in flow.DeliveryInput, l flow.Listing) error {
	if s.away.Load() {
		return fault.New(fault.CodeServiceUnavailable, "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.refs, in.DeliveryRef) {
		s.refs = append(s.refs, in.DeliveryRef)
	}
	return nil
}

func (s *starts) all() []flow.DeliveryRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refs)
}

// post office: the service over a database, with a clock of its own.
type office struct {
	*Service
	testing *testing.T
	db      testkit.DB
	who     actor.Actor
	starts  *starts
	ahead   atomic.Int64 // how far the clock is ahead
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{testing: t, db: testkit.Database(t), starts: &starts{}}
	o.Service = o.another(t, o.db.Pool)
	o.who = o.join(t)
	return o
}

// another is a second process.
func (o *office) another(t *testing.T, pool *db.Pool) *Service {
	t.Helper()
	s, err := New(Config{Timeout: 2 * time.Second}, Deps{
		DB: pool, Keys: testkit.Keys{}, CheckURL: func(string) error { return nil }, Client: &http.Client{}, Refused: errRefused, Workflows: o.starts,
		Log: testkit.Quiet(), Now: func() time.Time { return time.Now().Add(time.Duration(o.ahead.Load())) },
	})
	require.NoError(t, err)
	return s
}

func (o *office) pass(d time.Duration) { o.ahead.Add(int64(d)) }

func (o *office) join(t *testing.T) actor.Actor {
	t.Helper()
	tenant := uuid.New()
	require.NoError(t, dbsqlc.New().InsertTenant(t.Context(), o.db.Tenant(tenant), dbsqlc.InsertTenantParams{ID: tenant, Name: "t"}))
	return actor.Actor{Kind: actor.User, TenantID: tenant, ID: uuid.New(), Role: actor.RoleOwner}
}

func (o *office) subscribe(who actor.Actor, url string, events ...string) Webhook {
	o.testing.Helper()
	w, err := o.Create(o.testing.Context(), who, Draft{URL: url, Events: events, Enabled: true})
	require.NoError(o.testing, err)
	return w
}

// emit queues an event in a transaction of its own and returns its id.
func (o *office) emit(who actor.Actor, body event.Body) string {
	o.testing.Helper()
	b := &db.Batch{}
	event.Queue(b, event.Event{TenantID: who.TenantID, Body: body})
	require.NoError(o.testing, o.db.Send(o.testing.Context(), who.TenantID, b))
	var id string
	require.NoError(o.testing, o.asOwner(who.TenantID).QueryRow(o.testing.Context(), "SELECT id::text FROM events WHERE tenant_id = $1 ORDER BY id DESC LIMIT 1", who.TenantID).Scan(&id))
	return event.PublicID(uuid.MustParse(id))
}

func (o *office) asOwner(tenant uuid.UUID) dbsqlc.DBTX { return o.db.Tenant(tenant) }

// run dispatches until the test ends.
func (o *office) run(s *Service) {
	o.testing.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(o.testing.Context()))
	var done sync.WaitGroup
	done.Go(func() { s.Dispatch(ctx, 0) })
	o.testing.Cleanup(func() { stop(); done.Wait() })
}

// read writes the deliveries of all events, and attempts none.
func (o *office) read() {
	o.testing.Helper()
	for !o.readSome(eventsMost, waitingMost) {
	}
}

// readSome is one look for events. done is false where there are more.
func (o *office) readSome(most, waiting int32) (done bool) {
	o.testing.Helper()
	got, err := o.q.QueueDeliveries(o.testing.Context(), o.db.Presenting(db.SettingSweep, "on"), dbsqlc.QueueDeliveriesParams{
		Looks: readersMost, Each: eventsEach, Most: most, Waiting: waiting, Now: o.now(), Recoverable: o.now().Add(-event.Recoverable),
	})
	require.NoError(o.testing, err)
	return !got.More && !got.Soon
}

// count returns how many deliveries the webhook has in the state.
func (o *office) count(w Webhook, state flow.DeliveryState) (n int) {
	o.testing.Helper()
	err := o.asOwner(o.who.TenantID).QueryRow(o.testing.Context(), "SELECT count(*) FROM webhook_deliveries WHERE webhook_id = $1 AND status = $2", w.ID, state).Scan(&n)
	require.NoError(o.testing, err)
	return n
}

// once makes the attempts that are due now, and waits for them.
func (o *office) once(s *Service) int {
	o.testing.Helper()
	ctx, stop := context.WithCancel(o.testing.Context())
	var settler, under sync.WaitGroup
	settler.Go(func() { s.settle(ctx) })
	total := 0
	for at := (begins{}); ; {
		// Transactions of other tests may keep events from being complete.
		l, err := s.look(ctx, at, func(d delivery, p place) { under.Go(func() { s.first(ctx, d, p) }) })
		require.NoError(o.testing, err)
		under.Wait()
		if total += l.found; l.found == 0 && !l.more && !l.soon && l.next.readers == uuid.Nil {
			break
		}
		at = l.next
	}
	stop()
	settler.Wait()
	return total
}

// retry makes one attempt for a workflow.
func (o *office) retry(s *Service, ref flow.DeliveryRef) flow.DeliveryStep {
	o.testing.Helper()
	ctx, stop := context.WithCancel(o.testing.Context())
	var settler sync.WaitGroup
	settler.Go(func() { s.settle(ctx) })
	step, err := s.Attempt(ctx, ref)
	require.NoError(o.testing, err)
	stop()
	settler.Wait()
	return step
}

func (o *office) delivery(who actor.Actor, w Webhook, eventID string) Delivery {
	o.testing.Helper()
	d, err := o.Delivery(o.testing.Context(), who.TenantID, w.ID, eventID)
	require.NoError(o.testing, err)
	return d
}

func revoked() event.Body { return event.Revoked{APIKeyID: "k"} }

func member(t *testing.T, body, name string) any {
	t.Helper()
	var doc map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &doc))
	return doc[name]
}

func requireCode(t *testing.T, code fault.Code, err error) {
	t.Helper()
	f := fault.As(err)
	require.NotNil(t, f, "%v", err)
	require.Equal(t, code, f.Code)
}
