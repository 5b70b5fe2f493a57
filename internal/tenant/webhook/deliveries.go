package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

const (
	// mostRounds is how often one delivery can be begun, and shownAttempts how many of its attempts
	// are shown: those of the last two rounds at least. Together they bound what is stored of one.
	mostRounds    = 50
	shownAttempts = 12
	// recoverMost is how many deliveries one call begins again, recoverBatch of them in a transaction.
	recoverMost  = 10_000
	recoverBatch = 1000
	// lostAfter is how long after its time an attempt is known not to come: an operator has ended the
	// workflow of the delivery, or Temporal has lost it.
	lostAfter = time.Hour
)

// Delivery is one event for one webhook.
type Delivery struct {
	EventID uuid.UUID
	// WebhookID is set by OfEvents only.
	WebhookID uuid.UUID
	Type      event.Type
	State     flow.DeliveryState
	Round     int
	Attempts  int        // of the round
	NextAt    *time.Time // nil where no attempt follows
	// UpdatedAt is when the delivery changed last.
	UpdatedAt time.Time
	// Made are the attempts of all rounds, the newest first, at most shownAttempts.
	Made []Attempted
}

// Attempted is one attempt.
type Attempted struct {
	Round     int
	Number    int // 1 is the first of the round
	StartedAt time.Time
	Latency   time.Duration
	Code      int     // 0 where no answer came
	Problem   Problem // "" where one came
	Answer    string  // its first 4 KiB
	NextAt    *time.Time
}

// Filter narrows a list of deliveries. A field with its zero value does not narrow it.
type Filter struct {
	State  flow.DeliveryState
	Before *uuid.UUID
	Limit  int
}

// Deliveries returns those of a webhook, the newest events first, and whether there are more. The
// error is WEBHOOK_NOT_FOUND where the tenant has no such webhook.
func (s *Service) Deliveries(ctx context.Context, tenant, id uuid.UUID, f Filter) (page []Delivery, more bool, err error) {
	if _, err := s.Get(ctx, tenant, id); err != nil {
		return nil, false, err
	}
	rows, err := s.q.ListDeliveries(ctx, s.d.DB.Reading(tenant, db.ListLimit), dbsqlc.ListDeliveriesParams{
		TenantID: tenant, WebhookID: id, Status: db.Optional(string(f.State)), Before: f.Before, N: int32(f.Limit + 1),
	})
	if err != nil {
		return nil, false, fmt.Errorf("webhook: list deliveries: %w", err)
	}
	rows, more = db.Page(rows, f.Limit)
	for _, row := range rows {
		page = append(page, deliveryOf(dbsqlc.GetDeliveryRow(row)))
	}
	return page, more, s.addAttempts(ctx, tenant, id, page)
}

// Delivery returns one of a webhook by the public id of its event. The error is
// WEBHOOK_NOT_FOUND or DELIVERY_NOT_FOUND.
func (s *Service) Delivery(ctx context.Context, tenant, id uuid.UUID, publicID string) (Delivery, error) {
	if _, err := s.Get(ctx, tenant, id); err != nil {
		return Delivery{}, err
	}
	eventID, _ := event.ParseID(publicID) // what is none names no delivery
	row, err := s.q.GetDelivery(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetDeliveryParams{TenantID: tenant, WebhookID: id, EventID: eventID})
	switch {
	case db.IsNoRows(err):
		return Delivery{}, fault.New(fault.CodeDeliveryNotFound, "")
	case err != nil:
		return Delivery{}, fmt.Errorf("webhook: read a delivery: %w", err)
	}
	page := []Delivery{deliveryOf(row)}
	return page[0], s.addAttempts(ctx, tenant, id, page)
}

// OfEvents returns the deliveries of events to all webhooks of the tenant, deleted ones included, by
// the event.
func (s *Service) OfEvents(ctx context.Context, tenant uuid.UUID, eventIDs []uuid.UUID) (map[uuid.UUID][]Delivery, error) {
	rows, err := s.q.DeliveriesOfEvents(ctx, s.d.DB.Tenant(tenant), dbsqlc.DeliveriesOfEventsParams{TenantID: tenant, EventIds: eventIDs})
	if err != nil {
		return nil, fmt.Errorf("webhook: list deliveries of events: %w", err)
	}
	of := map[uuid.UUID][]Delivery{} // by webhook: so attempts are read
	for _, r := range rows {
		d := deliveryOf(dbsqlc.GetDeliveryRow{EventID: r.EventID, Type: r.Type, Status: r.Status, Round: r.Round, Attempts: r.Attempts, NextAt: r.NextAt, UpdatedAt: r.UpdatedAt})
		d.WebhookID = r.WebhookID
		of[r.WebhookID] = append(of[r.WebhookID], d)
	}
	out := map[uuid.UUID][]Delivery{}
	for id, page := range of {
		if err := s.addAttempts(ctx, tenant, id, page); err != nil {
			return nil, err
		}
		for _, d := range page {
			out[d.EventID] = append(out[d.EventID], d)
		}
	}
	return out, nil
}

func deliveryOf(r dbsqlc.GetDeliveryRow) Delivery {
	return Delivery{
		EventID: r.EventID, Type: event.Type(r.Type), State: flow.DeliveryState(r.Status), Round: int(r.Round), Attempts: int(r.Attempts),
		NextAt: db.UTC(r.NextAt), UpdatedAt: r.UpdatedAt.UTC(),
	}
}

// addAttempts reads the attempts of the deliveries of a page.
func (s *Service) addAttempts(ctx context.Context, tenant, id uuid.UUID, page []Delivery) error {
	if len(page) == 0 {
		return nil
	}
	at, p := map[uuid.UUID]int{}, dbsqlc.ListAttemptsParams{TenantID: tenant, WebhookID: id, N: shownAttempts}
	for i, d := range page {
		at[d.EventID], p.EventIds = i, append(p.EventIds, d.EventID)
	}
	rows, err := s.q.ListAttempts(ctx, s.d.DB.Reading(tenant, db.ListLimit), p)
	if err != nil {
		return fmt.Errorf("webhook: list attempts: %w", err)
	}
	key, err := s.d.Keys.Key(ctx, tenant)
	if err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	for _, r := range rows {
		a := Attempted{
			Round: int(r.Round), Number: int(r.Attempt), StartedAt: r.StartedAt.UTC(), Latency: time.Duration(r.LatencyMs) * time.Millisecond,
			Problem: Problem(db.Text(r.Error)), NextAt: db.UTC(r.NextAt), Answer: openAnswer(key, tenant, r.EventID, r.Answer),
		}
		if r.StatusCode != nil {
			a.Code = int(*r.StatusCode)
		}
		d := &page[at[r.EventID]]
		d.Made = append(d.Made, a)
	}
	return nil
}

// openAnswer returns the text of a stored answer, "" where there is none or it does not open.
func openAnswer(key *datakey.Key, tenant, eventID uuid.UUID, stored *string) string {
	if stored == nil {
		return ""
	}
	text, err := key.Open(answerPlace(tenant, eventID), *stored)
	if err != nil {
		return ""
	}
	return string(text)
}

// Redeliver begins a delivery that has ended again, with the whole schedule and the same id and
// bytes; also one whose next attempt is overdue by more than lostAfter. The error is CONFLICT where it is under way or was begun mostRounds times; otherwise as
// Delivery.
func (s *Service) Redeliver(ctx context.Context, who actor.Actor, id uuid.UUID, publicID string) (Delivery, error) {
	d, err := s.Delivery(ctx, who.TenantID, id, publicID)
	if err != nil {
		return Delivery{}, err
	}
	b := &db.Batch{}
	row := db.Queue(b, s.q.RedeliverOne, dbsqlc.RedeliverOneParams{
		TenantID: who.TenantID, WebhookID: id, EventID: d.EventID, Now: s.now(), MostRounds: mostRounds, Overdue: s.now().Add(-lostAfter),
	})
	audit.Queue(b, changed(who, audit.DeliveriesRecovered, id).With(map[string]any{"event_id": event.PublicID(d.EventID)}))
	err = s.d.DB.Send(ctx, who.TenantID, b)
	switch {
	case db.IsNoRows(err) && d.Round >= mostRounds:
		return Delivery{}, fault.Newf(fault.CodeConflict, "The delivery was begun %d times, which is the most.", mostRounds)
	case db.IsNoRows(err):
		return Delivery{}, fault.New(fault.CodeConflict, "The delivery is under way.")
	case err != nil:
		return Delivery{}, fmt.Errorf("webhook: redeliver: %w", err)
	}
	s.wake()
	again := deliveryOf(dbsqlc.GetDeliveryRow(row.Value))
	again.Made = d.Made
	return again, nil
}

// Recover begins again the deliveries of a webhook that failed or were cancelled, of events since
// a time, the oldest first. It returns how many, and whether there are more. The error is
// WEBHOOK_NOT_FOUND, and CONFLICT where the webhook is disabled.
func (s *Service) Recover(ctx context.Context, who actor.Actor, id uuid.UUID, since time.Time) (n int, more bool, err error) {
	w, err := s.Get(ctx, who.TenantID, id)
	if err != nil {
		return 0, false, err
	}
	if !w.Enabled {
		return 0, false, fault.New(fault.CodeConflict, "The webhook is disabled. Enable it first: PATCH it with enabled true.")
	}
	for n < recoverMost {
		b := &db.Batch{}
		begun := db.Queue(b, s.q.RecoverDeliveries, dbsqlc.RecoverDeliveriesParams{
			TenantID: who.TenantID, WebhookID: id, Since: db.FirstID(since), Now: s.now(), MostRounds: mostRounds, Most: recoverBatch,
		})
		audit.Queue(b, changed(who, audit.DeliveriesRecovered, id).With(map[string]any{"since": since.UTC()}))
		if err := s.d.DB.Send(ctx, who.TenantID, b); err != nil {
			return n, false, fmt.Errorf("webhook: recover: %w", err)
		}
		n += int(begun.Value)
		s.wake()
		if begun.Value < recoverBatch {
			return n, false, nil
		}
	}
	return n, true, nil
}

// Test sends an event of the type webhook.test to a webhook, also to one that is disabled. It is
// attempted once. It returns the delivery, or WEBHOOK_NOT_FOUND.
func (s *Service) Test(ctx context.Context, who actor.Actor, id uuid.UUID) (Delivery, error) {
	if _, err := s.Get(ctx, who.TenantID, id); err != nil {
		return Delivery{}, err
	}
	b := &db.Batch{}
	eventID := event.QueueTest(b, who.TenantID, id)
	audit.Queue(b, changed(who, audit.WebhookTested, id).With(map[string]any{"event_id": event.PublicID(eventID)}))
	if err := s.d.DB.Send(ctx, who.TenantID, b); err != nil {
		return Delivery{}, fmt.Errorf("webhook: test: %w", err)
	}
	s.wake()
	return s.Delivery(ctx, who.TenantID, id, event.PublicID(eventID))
}
