package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

const (
	// settleMost is how many outcomes one transaction writes, at most 6 KB each.
	settleMost = 256
	// successEvery is how often the last success of a webhook is written.
	successEvery = time.Minute
)

// outcome is what is written of one attempt.
type outcome struct {
	delivery
	verdict

	number    int32 // of the attempt; 0 where none was made
	startedAt time.Time
	latency   time.Duration
	code      int
	problem   Problem
	answer    string // sealed
}

// settlement is an outcome that waits to be written.
type settlement struct {
	outcome
	written chan error
}

// record writes the outcome, together with those of other attempts that end at the same moment.
func (s *Service) record(ctx context.Context, o outcome) error {
	written := make(chan error, 1)
	select {
	case s.settling <- settlement{o, written}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-written:
		failpoint.Hit("delivery_recorded", o.EventID)
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle writes outcomes until ctx ends. While it writes some, the next ones gather.
func (s *Service) settle(ctx context.Context) {
	for {
		var some []settlement
		select {
		case <-ctx.Done():
			return
		case one := <-s.settling:
			some = append(some, one)
		}
		for len(some) < settleMost && len(s.settling) > 0 {
			some = append(some, <-s.settling)
		}
		err := s.write(ctx, some)
		for _, one := range some {
			one.written <- err
		}
	}
}

// write writes the outcomes in one transaction.
func (s *Service) write(ctx context.Context, some []settlement) error {
	now := s.now()
	b := &db.Batch{}
	var succeeded []uuid.UUID
	for _, o := range some {
		var next *time.Time
		if !o.next.IsZero() {
			next = &o.next
		}
		db.QueueExec(b, s.q.SettleDelivery, dbsqlc.SettleDeliveryParams{
			EventID: o.EventID, WebhookID: o.WebhookID, Round: o.Round, Status: string(o.state), Attempts: max(o.number, o.Attempts), NextAt: next, Now: now,
		})
		if o.state == flow.DeliveryDelivered && !slices.Contains(succeeded, o.WebhookID) {
			succeeded = append(succeeded, o.WebhookID)
		}
		if o.number == 0 {
			continue
		}
		p := dbsqlc.InsertAttemptParams{
			EventID: o.EventID, WebhookID: o.WebhookID, TenantID: o.TenantID, Round: o.Round, Attempt: o.number, StartedAt: o.startedAt,
			LatencyMs: o.latency.Milliseconds(), Error: db.Optional(string(o.problem)), Answer: db.Optional(o.answer), NextAt: next,
		}
		if o.code != 0 {
			code := int32(o.code)
			p.StatusCode = &code
		}
		db.QueueExec(b, s.q.InsertAttempt, p)
	}
	if len(succeeded) > 0 {
		db.QueueExec(b, s.q.NoteWebhookSuccess, dbsqlc.NoteWebhookSuccessParams{Now: now, Before: now.Add(-successEvery), Ids: succeeded})
	}
	if err := s.d.DB.SendPresenting(ctx, db.SettingSweep, "on", b); err != nil {
		return fmt.Errorf("webhook: record attempts: %w", err)
	}
	return nil
}

// disabled writes that a webhook was disabled, with its event, where it was enabled.
func (s *Service) disabled(ctx context.Context, d delivery, p dbsqlc.DisableWebhookParams) error {
	return s.d.DB.InTenant(ctx, d.TenantID, func(tx pgx.Tx) error {
		n, err := s.q.DisableWebhook(ctx, tx, p)
		if err != nil {
			return fmt.Errorf("webhook: disable: %w", err)
		}
		if n == 0 {
			return nil
		}
		b := &db.Batch{}
		event.Queue(b, event.Event{
			TenantID: d.TenantID, Causes: []event.Cause{{Type: event.CauseEvent, ID: event.PublicID(d.EventID)}},
			Body: event.Disabled{WebhookID: d.WebhookID.String(), Reason: p.Reason},
		})
		audit.Queue(b, audit.Change(actor.SystemOf(d.TenantID), audit.WebhookDisabled, audit.SubjectWebhook, d.WebhookID.String()).
			With(map[string]any{"reason": p.Reason, "event_id": event.PublicID(d.EventID)}))
		return b.SendIn(ctx, tx)
	})
}
