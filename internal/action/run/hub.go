package run

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
)

// A waiter receives the ended run, once. The end of an earlier attempt than its own is not
// for it: another call made that attempt.
type waiter struct {
	ch      chan Run
	attempt int32
}

// hub knows which callers in this process wait for which run, and what to tell other
// processes.
type hub struct {
	mu      sync.Mutex
	waiting map[uuid.UUID]map[waiter]struct{}
	// ended are runs to announce to other processes; nudge wakes the announcer.
	ended []string
	nudge chan struct{}
}

func newHub() *hub {
	return &hub{waiting: map[uuid.UUID]map[waiter]struct{}{}, nudge: make(chan struct{}, 1)}
}

func (h *hub) join(id uuid.UUID, attempt int32) waiter {
	w := waiter{ch: make(chan Run, 1), attempt: attempt}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[id] == nil {
		h.waiting[id] = map[waiter]struct{}{}
	}
	h.waiting[id][w] = struct{}{}
	return w
}

func (h *hub) leave(id uuid.UUID, w waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting[id], w)
	if len(h.waiting[id]) == 0 {
		delete(h.waiting, id)
	}
}

func (h *hub) awaited(id uuid.UUID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting[id]) > 0
}

// deliver hands the run to all that wait for this attempt of it in this process.
func (h *hub) deliver(r Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.waiting[r.ID] {
		if r.Attempt < w.attempt {
			continue
		}
		select {
		case w.ch <- r:
		default: // has one already
		}
	}
}

// mostNotices is how many notices wait for the connection that sends them, 75 bytes each.
// While Postgres is away, later ones are lost, and cost their waiters one poll.
const mostNotices = 10_000

// announce queues the run for the other processes.
func (h *hub) announce(tenant, id uuid.UUID) {
	h.mu.Lock()
	if len(h.ended) < mostNotices {
		h.ended = append(h.ended, tenant.String()+" "+id.String())
	}
	h.mu.Unlock()
	select {
	case h.nudge <- struct{}{}:
	default:
	}
}

func (h *hub) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.ended
	h.ended = nil
	return out
}

const finishedChannel = "run_finished"

// announceEvery is how long notices are gathered where API and worker share a process.
// There nearly all callers wait in the process that ends their runs. Only a duplicate call
// that waits elsewhere sees the delay.
const announceEvery = 25 * time.Millisecond

// ended tells all that wait that the run has an answer. Those in this process hear it at
// once, other processes by a notice after the commit, many runs in one. The notice is not
// part of the run's transaction: NOTIFY takes a lock until its commit is on disk, so all
// commits of the database would wait for each other.
//
// A run that was changed without its key does not open. Those who wait read it themselves.
func (s *Service) ended(r Run) {
	if r.key != nil {
		s.hub.deliver(r)
	}
	s.hub.announce(r.TenantID, r.ID)
}

// Announce sends the notices of ended runs until ctx ends. Every process must run it: an API
// process ends runs too, by cancelling and resolving.
func (s *Service) Announce(ctx context.Context) {
	connection := db.Connection{Dial: s.d.DB.Dial, Log: s.d.Log, Purpose: "announce ended runs"}
	// A lost notice costs a waiter one poll. A flush of every notice would cost every caller.
	prepare := func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "set synchronous_commit = off")
		return err
	}
	_ = connection.Keep(ctx, prepare, s.announce) // the error is always ctx's
}

func (s *Service) announce(ctx context.Context, conn *pgx.Conn) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.hub.nudge:
		}
		if s.cfg.OneProcess {
			if err := pause(ctx, announceEvery); err != nil {
				return err
			}
		}
		if ids := s.hub.take(); len(ids) > 0 {
			if err := s.q.NotifyFinished(ctx, conn, ids); err != nil {
				return err
			}
		}
	}
}

// pause waits for d; the error is ctx's.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Listen delivers the notices of other processes to those that wait in this one, until ctx
// ends. It does not look up what it may have missed, because waiters poll too.
func (s *Service) Listen(ctx context.Context) {
	listener := db.Listener{
		Connection: db.Connection{Dial: s.d.DB.Dial, Log: s.d.Log, Purpose: "hear of ended runs"},
		Channel:    finishedChannel,
		Hear:       s.hear,
	}
	_ = listener.Listen(ctx) // the error is always ctx's
}

// hear hands an ended run to those that wait for it in this process.
func (s *Service) hear(ctx context.Context, notice string) {
	tenant, id, ok := parseNotice(notice)
	if !ok || !s.hub.awaited(id) {
		return
	}
	r, err := s.read(ctx, tenant, id)
	if err == nil && r.State.Answers() {
		s.hub.deliver(r)
	}
}

// parseNotice reads "<tenant> <run>".
func parseNotice(payload string) (tenant, id uuid.UUID, ok bool) {
	first, second, _ := strings.Cut(payload, " ")
	tenant, err := uuid.Parse(first)
	if err != nil {
		return tenant, id, false
	}
	id, err = uuid.Parse(second)
	return tenant, id, err == nil
}
