package account

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/internal/record/audit"
)

// What records are about.
const (
	subjectKey  = "api_key"
	subjectUser = "user"
)

// byUser is the record of what a user does to himself while he comes in: the context
// does not know him yet.
func byUser(ctx context.Context, tenant, user uuid.UUID, action string) audit.Record {
	r := audit.Change(ctx, tenant, action, subjectUser, user.String())
	r.ActorType, r.ActorID = audit.ActorUser, user.String()
	return r
}

// commit sends statements that return no rows, in one transaction of the tenant and one
// round trip.
func (s *Service) commit(ctx context.Context, tenant uuid.UUID, what string, b *pgx.Batch) error {
	return s.d.DB.Batch(ctx, tenant, b, func(res pgx.BatchResults) error { return drain(what, b, res) })
}

func drain(what string, b *pgx.Batch, res pgx.BatchResults) error {
	for range b.Len() {
		if _, err := res.Exec(); err != nil {
			return fmt.Errorf("account: %s: %w", what, err)
		}
	}
	return nil
}

// runIn is commit within a transaction that is open already.
func runIn(ctx context.Context, tx pgx.Tx, what string, b *pgx.Batch) error {
	res := tx.SendBatch(ctx, b)
	err := drain(what, b, res)
	if cerr := res.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("account: %s: %w", what, cerr)
	}
	return err
}
