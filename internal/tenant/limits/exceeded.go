package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/rate"
	"agentruntime/internal/record/event"
)

// window is one window of one tenant, for keys or people.
type window struct {
	tenant          uuid.UUID
	subject, length string
	number          int32
}

// Exceeded tells the tenant, by an event, of each of its windows that a refused request has found
// full: at most once for each window, over all processes. Windows of a single key are not told.
//
// The process remembers of what it has told. So a flood of refused requests costs one write for
// each window.
func (s *Service) Exceeded(ctx context.Context, tenant uuid.UUID, found rate.State) error {
	for _, w := range found.Windows {
		subject, length, of := w.Subject()
		if !of || w.Remaining() > 0 {
			continue
		}
		full := window{tenant, subject, length, w.Number}
		if s.told.Contains(full) {
			continue
		}
		if err := s.tell(ctx, full, w); err != nil {
			return fmt.Errorf("limits: tell of a full window: %w", err)
		}
		s.told.Add(full, struct{}{})
	}
	return nil
}

func (s *Service) tell(ctx context.Context, full window, w rate.Window) error {
	return s.db.InTenant(ctx, full.tenant, func(tx pgx.Tx) error {
		first, err := s.q.MarkExceeded(ctx, tx, dbsqlc.MarkExceededParams{
			TenantID: full.tenant, Subject: full.subject, WindowName: full.length, Number: full.number,
		})
		if err != nil || first == 0 {
			return err
		}
		b := &db.Batch{}
		event.Queue(b, event.Event{TenantID: full.tenant, Body: event.Exceeded{
			Window: full.length, Callers: full.subject, Limit: w.Limit, ResetsAt: time.Unix(w.Ends(), 0).UTC(),
		}})
		return b.SendIn(ctx, tx)
	})
}
