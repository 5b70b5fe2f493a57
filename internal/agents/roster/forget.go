package roster

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

const (
	// ForgetEvery is the pause between two passes of Forget, and forgetAgents how many agents one
	// pass deletes.
	ForgetEvery  = 10 * time.Minute
	forgetAgents = 100
	// forgetRows is how many versions one transaction deletes. A version has up to 256 KiB.
	forgetRows = 100
)

// Forget deletes the agents of all tenants that were deleted before the given time, with their
// versions. By then no message that pinned a version can still be under way.
func (s *Service) Forget(ctx context.Context, before time.Time) error {
	rows, err := s.q.DeletedAgents(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.DeletedAgentsParams{Before: before, Most: forgetAgents})
	if err != nil {
		return fmt.Errorf("roster: deleted agents: %w", err)
	}
	for _, row := range rows {
		for more := true; more; {
			if more, err = s.forget(ctx, row); err != nil {
				return fmt.Errorf("roster: forget an agent: %w", err)
			}
		}
	}
	return nil
}

// forget deletes the next versions of one agent, and reports whether there may be more.
func (s *Service) forget(ctx context.Context, a dbsqlc.DeletedAgentsRow) (more bool, err error) {
	err = s.d.DB.InTenant(ctx, a.TenantID, func(tx pgx.Tx) error {
		n, err := s.q.ForgetAgentVersions(ctx, tx, dbsqlc.ForgetAgentVersionsParams{TenantID: a.TenantID, AgentID: a.ID, Most: forgetRows})
		if err != nil {
			return err
		}
		if more = n == forgetRows; more {
			return nil
		}
		return s.q.ForgetAgent(ctx, tx, dbsqlc.ForgetAgentParams(a))
	})
	return more, err
}
