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
	var from uuid.UUID
	for ctx.Err() == nil {
		found, waiting, next, err := s.look(ctx, from, func(d delivery, p place) { under.Go(func() { s.first(lasting, d, p) }) })
		from = next
		switch {
		case err != nil && ctx.Err() == nil:
			s.d.Log.WarnContext(ctx, "looking for deliveries failed", "error", err)
			pause(ctx, reconnect)
		case found > 0:
		case waiting:
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

// look claims deliveries that are due, of the webhooks after an id, and hands each to attempt with
// its place. It returns how many there were, whether others wait for places, and where the next
// look begins. A webhook gets rows for its places only, so one with many rows delays no other.
func (s *Service) look(ctx context.Context, from uuid.UUID, attempt func(delivery, place)) (found int, waiting bool, next uuid.UUID, err error) {
	sweeping := s.d.DB.Presenting(db.SettingSweep, "on")
	now := s.now()
	rows, err := s.q.WebhooksDue(ctx, sweeping, dbsqlc.WebhooksDueParams{After: from, Now: now, Most: webhooksMost})
	if err != nil {
		return 0, false, from, fmt.Errorf("webhook: look for deliveries: %w", err)
	}
	if len(rows) == webhooksMost {
		next = rows[len(rows)-1].WebhookID
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
	if len(p.WebhookIds) == 0 {
		return 0, waiting, next, nil
	}
	p.Now, p.LostAt = now, now.Add(leases*s.cfg.Timeout)
	claimed, err := s.q.ClaimDeliveries(ctx, sweeping, p)
	if err != nil {
		return 0, false, from, fmt.Errorf("webhook: claim deliveries: %w", err)
	}
	for _, row := range claimed {
		mine := places[row.WebhookID]
		places[row.WebhookID] = mine[1:]
		attempt(delivery(row), mine[0])
	}
	return len(claimed), waiting, next, nil
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
