package webhook

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/record/event"
)

// channel is where processes are told that events may have been committed.
const channel = "events"

const (
	// pollEvery is how long a delivery waits at most whose notice was lost, and restEvery the least
	// time between two looks that find nothing: events of tenants without webhooks cost that.
	pollEvery = 250 * time.Millisecond
	restEvery = 100 * time.Millisecond
	// gatherFor is the pause before a look for what waits for places: more of them get free meanwhile.
	gatherFor = 2 * time.Millisecond
	// webhooksMost and claimMost bound one look: 500 look-ups in an index, and 256 events of 64 KB.
	webhooksMost = 500
	claimMost    = 256
	// soonAfter is the pause before a look for events that an older transaction keeps from being
	// complete. It doubles up to restEvery.
	soonAfter = 5 * time.Millisecond
	// readersMost, eventsEach and eventsMost bound for how many webhooks one look reads events, how many
	// for one, and in all. So its transaction takes milliseconds, whatever a tenant emits.
	readersMost = 500
	eventsEach  = 200
	eventsMost  = 2000
	// waitingMost is how many deliveries of one webhook wait for their first attempt. Its further events
	// are read when some have been attempted: none is lost, and other webhooks are not delayed.
	waitingMost = 1000
	// reconnect is the pause after a look that failed.
	reconnect = time.Second
)

// leases is how many times its bound an attempt counts as under way. Then its process is dead, or
// cannot reach the database, and another one makes the attempt.
const leases = 2

// Dispatch makes the first attempts of deliveries until ctx ends. Any number of processes may do
// so at once. It returns when the attempts under way have ended, or after the time drain.
func (s *Service) Dispatch(ctx context.Context, drain time.Duration) {
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var settler sync.WaitGroup
	settler.Go(func() { s.settle(lasting) })
	defer settler.Wait()
	defer stop()

	var under sync.WaitGroup
	listening, deaf := context.WithCancel(ctx)
	defer deaf()
	go s.listen(listening)
	var at begins
	incomplete := soonAfter
	for ctx.Err() == nil {
		l, err := s.look(ctx, at, func(d delivery, p place) { under.Go(func() { s.first(lasting, d, p) }) })
		at = l.next
		if !l.soon {
			incomplete = soonAfter
		}
		switch {
		case err != nil && ctx.Err() == nil:
			s.d.Log.WarnContext(ctx, "looking for deliveries failed", "error", err)
			pause(ctx, reconnect)
		case l.found > 0 || l.more:
		case at.readers != uuid.Nil: // there are webhooks that this look has not come to
			pause(ctx, gatherFor)
		case l.soon:
			pause(ctx, incomplete)
			incomplete = min(2*incomplete, restEvery)
		case l.waiting:
			pause(ctx, gatherFor)
			s.await(ctx)
		default:
			pause(ctx, restEvery)
			s.await(ctx)
		}
	}
	over := make(chan struct{})
	go func() { under.Wait(); close(over) }()
	pause(ctx, 0)
	select {
	case <-over:
	case <-time.After(drain):
	}
}

// listen wakes the dispatcher by the notices of all processes.
func (s *Service) listen(ctx context.Context) {
	listener := db.Listener{
		Connection: db.Connection{Dial: s.d.DB.Dial, Log: s.d.Log, Purpose: "hear of events to deliver"},
		Channel:    channel,
		Hear:       func(context.Context, string) { s.wake() },
	}
	_ = listener.Listen(ctx) // the error is always ctx's
}

// wake has the dispatcher of this process look for deliveries.
func (s *Service) wake() {
	select {
	case s.woken <- struct{}{}:
	default: // is awake already
	}
}

func (s *Service) await(ctx context.Context) {
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	select {
	case <-s.woken:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// delivery is a claimed delivery with what its attempt needs.
type delivery dbsqlc.ClaimDeliveryRow

// begins says after which webhooks a look begins: to read events for, and to claim deliveries of.
type begins struct{ readers, due uuid.UUID }

// looked is what a look has found.
type looked struct {
	// found is how many deliveries were claimed.
	found int
	// waiting: others wait for places. more: events can be read at once. soon: some are not complete yet.
	waiting, more, soon bool
	next                begins
}

// look reads the next events for webhooks. Then it claims deliveries that are due, and hands each to
// attempt with its place. A webhook gets rows for its places only, so one with many rows delays no other.
func (s *Service) look(ctx context.Context, at begins, attempt func(delivery, place)) (l looked, err error) {
	now := s.now()
	b := &db.Batch{}
	read := db.Queue(b, s.q.QueueDeliveries, dbsqlc.QueueDeliveriesParams{
		After: at.readers, Looks: readersMost, Each: eventsEach, Most: eventsMost, Waiting: waitingMost, Now: now, Recoverable: now.Add(-event.Recoverable),
	})
	due := db.Queue(b, s.q.WebhooksDue, dbsqlc.WebhooksDueParams{After: at.due, Now: now, Most: webhooksMost})
	l.next = at
	if err := s.d.DB.SendPresenting(ctx, db.SettingSweep, "on", b); err != nil {
		return l, fmt.Errorf("webhook: look for deliveries: %w", err)
	}
	failpoint.Hit("deliveries_queued", uuid.Nil)
	l.more, l.soon = read.Value.More, read.Value.Soon
	rows := due.Value
	if l.next = (begins{readers: read.Value.Next}); len(rows) == webhooksMost {
		l.next.due = rows[len(rows)-1].WebhookID
	}
	places, p, waiting := s.takeFor(rows)
	defer func() {
		for _, unused := range places {
			for _, one := range unused {
				s.paces.end(one.pace)
				one.release()
			}
		}
	}()
	if l.waiting = waiting; len(p.WebhookIds) == 0 {
		return l, nil
	}
	p.Now, p.LostAt = now, now.Add(leases*s.cfg.Timeout)
	claimed, err := s.q.ClaimDeliveries(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), p)
	if err != nil {
		return l, fmt.Errorf("webhook: claim deliveries: %w", err)
	}
	for _, row := range claimed {
		mine := places[row.WebhookID]
		places[row.WebhookID] = mine[1:]
		attempt(delivery(row), mine[0])
	}
	l.found = len(claimed)
	return l, nil
}

// takeFor takes places for the webhooks that have deliveries due, by turns, as many as one look
// claims. waiting says that one of them has to wait for places.
func (s *Service) takeFor(rows []dbsqlc.WebhooksDueRow) (_ map[uuid.UUID][]place, _ dbsqlc.ClaimDeliveriesParams, waiting bool) {
	places, p := map[uuid.UUID][]place{}, dbsqlc.ClaimDeliveriesParams{}
	turns := slices.DeleteFunc(rows, func(r dbsqlc.WebhooksDueRow) bool { return !r.Due })
	for taken := 0; len(turns) > 0 && taken < claimMost; {
		turns = slices.DeleteFunc(turns, func(r dbsqlc.WebhooksDueRow) bool {
			one, ok := s.take(r.TenantID, r.WebhookID, firstAttempt)
			if !ok {
				waiting = true
				return true
			}
			places[r.WebhookID] = append(places[r.WebhookID], one)
			taken++
			return false
		})
	}
	for webhook, mine := range places {
		p.WebhookIds, p.Most = append(p.WebhookIds, webhook), append(p.Most, int32(len(mine)))
	}
	return places, p, waiting
}
