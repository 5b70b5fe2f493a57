package facts

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/flow"
)

// QueueOfTurn reads in the batch the facts in use about the customer of a message, where the message
// remembers and no model has answered it yet. What it returns opens them, when the batch was sent.
func (s *Service) QueueOfTurn(b *db.Batch, ref flow.TurnRef) (read func(ctx context.Context) ([]Fact, error)) {
	rows := db.Queue(b, s.q.FactsOfTurn, dbsqlc.FactsOfTurnParams{TenantID: ref.TenantID, Turn: ref.ID, Most: s.most()})
	return func(ctx context.Context) ([]Fact, error) { return s.openAll(ctx, ref.TenantID, rows.Value) }
}

// usedEvery is how exactly the last use of a fact is noted.
const usedEvery = time.Hour

// QueueUsed notes in the batch that a model has read facts about a customer.
func (s *Service) QueueUsed(b *db.Batch, tenant, customer uuid.UUID, ids []uuid.UUID) {
	now := s.d.Now()
	db.QueueExec(b, s.q.NoteFactsUsed, dbsqlc.NoteFactsUsedParams{TenantID: tenant, Customer: customer, Ids: ids, Now: &now, Before: now.Add(-usedEvery)})
}

// IDOf returns the id of a fact that a message leads to, by its place in the message. So a repeat finds
// it. It has the time of the message.
func IDOf(turn uuid.UUID, at string) uuid.UUID {
	const timeBytes = 6 // milliseconds, in a UUID of version 7
	id := uuid.NewSHA1(turn, []byte("fact "+at))
	copy(id[:timeBytes], turn[:timeBytes])
	id[6] = id[6]&0x0f | 0x70
	return id
}
