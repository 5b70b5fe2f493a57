package event

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/quota"
)

// channel is what processes notify when events may have been committed, with the tenant's id as
// payload.
const channel = "events"

// mostStreams is the most streams of all tenants in one process, about 100 KB each while they write. A
// tenant's quota bounds its own; see quota.Streams.
const mostStreams = 1000

const (
	// streamPage and streamBytes bound what one stream has in memory.
	streamPage  = 100
	streamBytes = 256 << 10
	// pollEvery is how long an event waits at most whose notice was lost, or came before its
	// frontier. All streams of a process share one look.
	pollEvery = 250 * time.Millisecond
)

// streams are the open streams of this process.
type streams struct {
	mu   sync.Mutex
	open map[uuid.UUID]map[*Stream]struct{}
	n    int
	// frontier: every event of a transaction before it is complete.
	frontier uint64
	// opened is told when the first stream opens; ended is closed when the process stops.
	opened chan struct{}
	ended  chan struct{}
	end    sync.Once
}

func newStreams() *streams {
	return &streams{open: map[uuid.UUID]map[*Stream]struct{}{}, opened: make(chan struct{}, 1), ended: make(chan struct{})}
}

// Stream follows the events of a tenant, or is only the place of another stream. It is used by one
// goroutine.
type Stream struct {
	s *Events
	// counts is the quota in which it counts.
	counts quota.Resource
	tenant uuid.UUID
	filter Filter
	at     Place
	wake   chan struct{}
	// gone is closed where another tenant gets the stream's place.
	gone chan struct{}
}

// Stream begins to follow the tenant's events after the place; nil begins with what is not
// complete yet. The error is QUOTA_EXCEEDED where the tenant has as many streams in this process
// as it may, and SERVICE_UNAVAILABLE where all tenants together have. But a tenant that has fewer than
// another gets the place of one of the other's, which ends. Close must be called.
func (s *Events) Stream(ctx context.Context, tenant uuid.UUID, f Filter, after *Place) (*Stream, error) {
	st, err := s.enter(quota.Streams, tenant)
	if err != nil {
		return nil, err
	}
	st.filter = f
	if after != nil {
		st.at = *after
		return st, nil
	}
	frontier, err := s.q.EventFrontier(ctx, s.d.DB.Tenant(tenant))
	if err != nil {
		st.Close()
		return nil, fmt.Errorf("event: begin a stream: %w", err)
	}
	st.at = Place{Xid: uint64(frontier)}
	return st, nil
}

// Seat returns the place of a stream that tells something else than events: the reply to a message.
// It counts in a quota of its own, and is woken by Wake. The errors are those of Stream.
func (s *Events) Seat(tenant uuid.UUID) (*Stream, error) { return s.enter(quota.ReplyStreams, tenant) }

func (s *Events) enter(counts quota.Resource, tenant uuid.UUID) (*Stream, error) {
	st := &Stream{s: s, counts: counts, tenant: tenant, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	return st, s.streams.enter(st, s.d.Quotas.Most(counts))
}

func (h *streams) enter(st *Stream, most int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.ended:
		return fault.New(fault.CodeServiceUnavailable, "This process is stopping. Connect again.")
	default:
	}
	of := h.open[st.tenant]
	switch {
	case alike(of, st.counts) >= most:
		return fault.Newf(fault.CodeQuotaExceeded, "The tenant has reached its quota %s: at most %d at once in one process. Close one, or ask without a stream.", st.counts, most)
	case h.n >= mostStreams && !h.yield(len(of)):
		f := fault.New(fault.CodeServiceUnavailable, "This process has as many streams as it takes. Try again, or ask without a stream.")
		f.Retryable, f.RetryAfter = true, time.Second
		return f
	case of == nil:
		of = map[*Stream]struct{}{}
		h.open[st.tenant] = of
	}
	of[st] = struct{}{}
	h.n++
	if st.counts != quota.Streams {
		return nil
	}
	select {
	case h.opened <- struct{}{}:
	default:
	}
	return nil
}

// alike counts the streams of one quota.
func alike(of map[*Stream]struct{}, counts quota.Resource) (n int64) {
	for st := range of {
		if st.counts == counts {
			n++
		}
	}
	return n
}

// yield ends a stream of the tenant with the most streams, for one that has so many. It returns false
// where the two would only change places. Who reads the stream can connect again, and is then the one
// that is refused.
func (h *streams) yield(have int) bool {
	var widest map[*Stream]struct{}
	for _, of := range h.open {
		if len(of) > len(widest) {
			widest = of
		}
	}
	if len(widest) < have+2 {
		return false
	}
	for st := range widest {
		close(st.gone)
		h.leave(st)
		break
	}
	return true
}

// Close ends the stream.
func (st *Stream) Close() {
	h := st.s.streams
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leave(st)
}

func (h *streams) leave(st *Stream) {
	of := h.open[st.tenant]
	if _, open := of[st]; !open {
		return
	}
	delete(of, st)
	h.n--
	if len(of) == 0 {
		delete(h.open, st.tenant)
	}
}

// Place returns the place up to which the stream has returned its events.
func (st *Stream) Place() Place { return st.at }

// Next returns the events that are complete now, at most a page of them; none where there are
// none. more says that a second call finds more.
func (st *Stream) Next(ctx context.Context) (page []Stored, more bool, err error) {
	// Read before the events: all that is before it is in this page or was in an earlier one.
	frontier := Place{Xid: st.s.streams.seen()}
	page, more, err = st.s.after(ctx, st.tenant, st.filter, st.at, streamPage, streamBytes)
	if err != nil {
		return nil, false, err
	}
	if len(page) > 0 {
		st.at = page[len(page)-1].Place
	}
	if st.over() {
		return page, false, nil
	}
	if !more && st.at.Xid < frontier.Xid {
		// Otherwise a stream that seldom finds something would read the same events again and again.
		st.at = Place{Xid: frontier.Xid - 1, ID: uuid.Max}
	}
	return page, more, nil
}

// Wait returns when there may be new events, after the time at most, when ctx ends, or with
// ended when the process stops or another tenant gets the place.
func (st *Stream) Wait(ctx context.Context, most time.Duration) (ended bool) {
	return st.await(ctx, most, st.wake)
}

// Pause is Wait for a stream that new events do not concern.
func (st *Stream) Pause(ctx context.Context, most time.Duration) (ended bool) {
	return st.await(ctx, most, nil)
}

func (st *Stream) await(ctx context.Context, most time.Duration, wake <-chan struct{}) (ended bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-wake:
	case <-timer.C:
	case <-ctx.Done():
	case <-st.gone:
	case <-st.s.streams.ended:
	}
	return st.over()
}

func (st *Stream) over() bool {
	select {
	case <-st.gone:
		return true
	case <-st.s.streams.ended:
		return true
	default:
		return false
	}
}

func (h *streams) seen() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.frontier
}

// tenants returns those that have streams of events.
func (h *streams) tenants() []uuid.UUID {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]uuid.UUID, 0, len(h.open))
	for tenant, of := range h.open {
		if alike(of, quota.Streams) > 0 {
			out = append(out, tenant)
		}
	}
	return out
}

// tell wakes the streams of a tenant's events.
func (h *streams) tell(tenant uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for st := range h.open[tenant] {
		if st.counts == quota.Streams {
			st.Wake()
		}
	}
}

// Wake ends a Wait, or the next one where none is under way. Any goroutine may call it.
func (st *Stream) Wake() {
	select {
	case st.wake <- struct{}{}:
	default: // is awake already
	}
}

// EndStreams ends all streams of this process, and lets none begin.
func (s *Events) EndStreams() { s.streams.end.Do(func() { close(s.streams.ended) }) }

// Listen wakes the streams of this process until ctx ends. It takes one connection, however many
// streams there are.
func (s *Events) Listen(ctx context.Context) {
	listener := db.Listener{
		Connection: db.Connection{Dial: s.d.DB.Dial, Log: s.d.Log, Purpose: "hear of events"},
		Channel:    channel,
		Hear: func(_ context.Context, payload string) {
			if tenant, err := uuid.Parse(payload); err == nil {
				s.streams.tell(tenant)
			}
		},
	}
	_ = listener.Listen(ctx) // the error is always ctx's
}

// Poll wakes the streams of this process whose events' notices were lost, or came before the
// events were complete, until ctx ends. Without streams it asks nothing.
func (s *Events) Poll(ctx context.Context) {
	for {
		if err := s.Look(ctx); err != nil && ctx.Err() == nil {
			s.d.Log.WarnContext(ctx, "looking for events failed", "error", err)
		}
		pause := time.NewTimer(pollEvery)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		if len(s.streams.tenants()) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-s.streams.opened:
		}
	}
}

// Look wakes the streams of which events have become complete since the last look.
func (s *Events) Look(ctx context.Context) error {
	tenants := s.streams.tenants()
	if len(tenants) == 0 {
		return nil
	}
	since := min(s.streams.seen(), math.MaxInt64)
	found, err := s.q.EventsArrived(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.EventsArrivedParams{Tenants: tenants, Since: int64(since)})
	if err != nil {
		return fmt.Errorf("event: look for events: %w", err)
	}
	s.streams.mu.Lock()
	s.streams.frontier = uint64(found.Frontier)
	s.streams.mu.Unlock()
	for _, tenant := range found.Tenants {
		s.streams.tell(tenant)
	}
	return nil
}
