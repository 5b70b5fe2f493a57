package webhook

import (
	"context"
	"fmt"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/record/event"
)

// forgetMost is how many rows one transaction forgets: none is long, and none is waited for.
const forgetMost = 1000

// Forget deletes the deliveries and the attempts of events that are no longer kept, of all tenants.
func (s *Service) Forget(ctx context.Context) error {
	before := db.FirstID(s.now().Add(-event.Kept))
	sweeping := s.d.DB.Presenting(db.SettingSweep, "on")
	for {
		deliveries, err := s.q.ForgetDeliveries(ctx, sweeping, dbsqlc.ForgetDeliveriesParams{Before: before, Most: forgetMost})
		if err != nil {
			return fmt.Errorf("webhook: forget deliveries: %w", err)
		}
		attempts, err := s.q.ForgetAttempts(ctx, sweeping, dbsqlc.ForgetAttemptsParams{Before: before, Most: forgetMost})
		if err != nil {
			return fmt.Errorf("webhook: forget attempts: %w", err)
		}
		if max(deliveries, attempts) < forgetMost {
			return nil
		}
	}
}
