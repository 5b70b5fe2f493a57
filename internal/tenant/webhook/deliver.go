package webhook

import (
	"context"
	"fmt"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/event"
)

// first makes an attempt for the dispatcher. Where it fails, the delivery gets a workflow before
// its row says so. After a crash between the two the attempt is made again.
func (s *Service) first(ctx context.Context, d delivery, p place) {
	o, ok := s.attempt(ctx, d, p)
	if !ok {
		return
	}
	if o.state == flow.DeliveryRetrying {
		if err := s.handOver(ctx, d); err != nil {
			// The dispatcher keeps the delivery until Temporal takes it.
			s.d.Log.WarnContext(ctx, "the workflow of a delivery did not start", "tenant_id", d.TenantID, "webhook_id", d.WebhookID, "error", err)
			o.state = flow.DeliveryPending
		}
		failpoint.Hit("delivery_handed_over", d.EventID)
	}
	if err := s.record(ctx, o); err != nil {
		s.d.Log.WarnContext(ctx, "an attempt was not recorded and is made again", "tenant_id", d.TenantID, "webhook_id", d.WebhookID, "error", err)
	}
}

func (d delivery) ref() flow.DeliveryRef {
	return flow.DeliveryRef{TenantID: d.TenantID, WebhookID: d.WebhookID, EventID: d.EventID, Round: d.Round}
}

func (s *Service) handOver(ctx context.Context, d delivery) error {
	return s.d.Workflows.StartDelivery(ctx, flow.DeliveryInput{DeliveryRef: d.ref()}, flow.Listing{
		Kind: flow.KindDelivery, Tenant: d.TenantID, Subject: d.WebhookID.String(), Event: string(event.SchemaType(event.Type(d.Type))),
		Details: flow.DeliveryDetails(s.cfg.PublicURL, d.ref()),
	})
}

// How long a workflow waits that is early: for a place, and at most for an attempt of another
// process.
const busyPause = 5 * time.Second

// Attempt makes the next attempt of a delivery, for its workflow, where one is due. The step says
// how long to wait for the one after it. The error is a failure to read or write, after which the
// attempt may have been made.
func (s *Service) Attempt(ctx context.Context, ref flow.DeliveryRef) (flow.DeliveryStep, error) {
	now := s.now()
	sweeping := s.d.DB.Presenting(db.SettingSweep, "on")
	p, ok := s.take(ref.TenantID, ref.WebhookID, laterAttempt)
	if !ok {
		return s.early(ctx, ref, busyPause)
	}
	row, err := s.q.ClaimDelivery(ctx, sweeping, dbsqlc.ClaimDeliveryParams{
		TenantID: ref.TenantID, WebhookID: ref.WebhookID, EventID: ref.EventID, Round: ref.Round,
		Now: now, Due: now.Add(dueSoon), LostAt: now.Add(leases * s.cfg.Timeout),
	})
	switch {
	case db.IsNoRows(err):
		s.leave(p)
		return s.early(ctx, ref, 0)
	case err != nil:
		s.leave(p)
		return flow.DeliveryStep{}, fmt.Errorf("webhook: claim a delivery: %w", err)
	}
	o, ok := s.attempt(ctx, delivery(row), p)
	if !ok {
		return stepOf(flow.DeliveryRetrying, busyPause), nil
	}
	if err := s.record(ctx, o); err != nil {
		return flow.DeliveryStep{}, err
	}
	return stepOf(o.state, o.next.Sub(s.now())), nil
}

// dueSoon is how early an attempt may be: Temporal's clock and ours differ a little.
const dueSoon = time.Second

// early returns the step of a delivery that is not due, or waits for a place for the pause.
func (s *Service) early(ctx context.Context, ref flow.DeliveryRef, pause time.Duration) (flow.DeliveryStep, error) {
	row, err := s.q.GetDelivery(ctx, s.d.DB.Tenant(ref.TenantID), dbsqlc.GetDeliveryParams{TenantID: ref.TenantID, WebhookID: ref.WebhookID, EventID: ref.EventID})
	switch {
	case db.IsNoRows(err):
		return stepOf(flow.DeliveryCancelled, 0), nil
	case err != nil:
		return flow.DeliveryStep{}, fmt.Errorf("webhook: read a delivery: %w", err)
	}
	state := flow.DeliveryState(row.Status)
	if row.Round != ref.Round {
		state = flow.DeliveryCancelled // a redelivery has another workflow
	}
	if row.NextAt != nil {
		pause = max(pause, row.NextAt.Sub(s.now()))
	}
	return stepOf(state, pause), nil
}

func stepOf(state flow.DeliveryState, after time.Duration) flow.DeliveryStep {
	step := flow.DeliveryStep{DeliveryResult: flow.DeliveryResult{State: state}}
	if !state.Ended() {
		step.After = max(after, dueSoon)
	}
	return step
}

// attempt makes one attempt of a claimed delivery, and disables its webhook where that follows. ok
// is false where nothing is known of it: then it is claimed again.
func (s *Service) attempt(ctx context.Context, d delivery, p place) (o outcome, ok bool) {
	defer s.leave(p)
	o = outcome{delivery: d, number: d.Attempts + 1, startedAt: s.now()}
	if d.Enabled == nil || !*d.Enabled && event.Type(d.Type) != event.WebhookTest || d.Body == nil {
		o.verdict, o.number = verdict{state: flow.DeliveryCancelled}, 0
		return o, true
	}
	key, err := s.d.Keys.Key(ctx, d.TenantID)
	if err != nil {
		s.d.Log.WarnContext(ctx, "the key of a tenant cannot be read", "tenant_id", d.TenantID, "error", err)
		return o, false
	}
	header, body, err := signed(key, d, o.startedAt)
	if err != nil {
		s.d.Log.ErrorContext(ctx, "a delivery does not open", "tenant_id", d.TenantID, "webhook_id", d.WebhookID, "event_id", event.PublicID(d.EventID), "error", err)
		o.problem, o.verdict = ProblemUnreadable, verdict{state: flow.DeliveryFailed}
		return o, true
	}
	failpoint.Hit("delivery_claimed", d.EventID)
	began := time.Now()
	got := s.post(ctx, *d.Url, header, body)
	failpoint.Hit("delivery_answered", d.EventID)
	o.latency, o.code, o.problem, o.answer = time.Since(began), got.code, got.problem, sealAnswer(key, d.TenantID, d.EventID, got.body)
	o.verdict = judge(event.Type(d.Type), int(o.number), o.code, s.now())
	s.paces.learn(p.pace, o.state == flow.DeliveryDelivered, o.latency, s.now())
	if o.disable != "" {
		if err := s.disable(ctx, d, o.disable); err != nil {
			s.d.Log.WarnContext(ctx, "a webhook was not disabled", "tenant_id", d.TenantID, "webhook_id", d.WebhookID, "error", err)
			return o, false
		}
	}
	return o, true
}

// disable disables the webhook of the delivery for the reason, where it is enabled and still has the
// address that failed.
func (s *Service) disable(ctx context.Context, d delivery, why Reason) error {
	p := dbsqlc.DisableWebhookParams{TenantID: d.TenantID, ID: d.WebhookID, Now: s.now(), Reason: string(why), Url: *d.Url}
	if why == ReasonFailing && d.FirstAt != nil {
		// The time of the last success is at most that much too early.
		since := d.FirstAt.Add(-successEvery)
		p.Since = &since
	}
	return s.disabled(ctx, d, p)
}
