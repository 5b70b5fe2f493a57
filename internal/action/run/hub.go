package run

import (
	"context"

	"github.com/google/uuid"

	"agentruntime/internal/record/ended"
)

type waiter = ended.Waiter[Run]

// ended tells all that wait that the run has an answer.
//
// A run that was changed without its key does not open. Those who wait read it themselves.
func (s *Service) ended(r Run) {
	if r.key != nil {
		s.hub.Deliver(r.ID, r.Attempt, r)
	}
	s.d.Notices.Tell(r.TenantID, r.ID)
}

// hear hands a run that another process has ended to those that wait for it in this one.
func (s *Service) hear(ctx context.Context, tenant, id uuid.UUID) {
	if !s.hub.Awaited(id) {
		return
	}
	r, err := s.read(ctx, tenant, id)
	if err == nil && r.State.Answers() {
		s.hub.Deliver(r.ID, r.Attempt, r)
	}
}
