package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/datakey"
	"agentruntime/internal/kernel/model"
)

// Kind says what an entry of a session is.
type Kind string

// The kinds.
const (
	KindCustomer Kind = "customer" // what was written to the agent
	KindCalls    Kind = "calls"    // an answer of the model that asks for calls
	KindResult   Kind = "result"   // how a call has ended
	KindNote     Kind = "note"     // what the service has told the model
	KindAgent    Kind = "agent"    // a reply of the agent
	KindPerson   Kind = "person"   // a reply of a person who has taken over
)

// Entry is one entry of a session.
type Entry struct {
	Seq     int32
	Turn    *uuid.UUID
	Kind    Kind
	Message model.Message
	At      time.Time
}

// queueEntries appends entries to the session of a turn, and takes the lock of its row.
func (s *Service) queueEntries(b *db.Batch, key *datakey.Key, t Turn, entries ...Entry) {
	if len(entries) == 0 {
		return
	}
	p := dbsqlc.AppendEntriesParams{TenantID: t.TenantID, Conversation: t.Conversation, Now: s.d.Now()}
	if t.ID != uuid.Nil {
		p.Turn = &t.ID
	}
	for _, e := range entries {
		id := uuid.Must(uuid.NewV7())
		body := key.Seal(datakey.Place{Tenant: t.TenantID, Row: id, Field: datakey.ConversationEntry}, mustJSON(e.Message))
		p.Ids, p.Kinds, p.Bodies = append(p.Ids, id), append(p.Kinds, string(e.Kind)), append(p.Bodies, body)
		p.Bytes += int64(len(body))
	}
	db.QueueExec(b, s.q.AppendEntries, p)
}

// Bounds of what is read of a session for one answer.
const (
	historyMost  = 400
	historyBytes = 256 << 10
)

// history returns the newest entries of a session before the given one, in their order.
func (s *Service) history(ctx context.Context, key *datakey.Key, t Turn, before int32) (list []Entry, err error) {
	rows, err := s.q.EntriesBefore(ctx, s.d.DB.Tenant(t.TenantID), dbsqlc.EntriesBeforeParams{
		TenantID: t.TenantID, Conversation: t.Conversation, Before: before, Most: historyMost, Bytes: historyBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("conversation: history: %w", err)
	}
	for _, row := range slices.Backward(rows) {
		e := Entry{Seq: row.Seq, Turn: row.Turn, Kind: Kind(row.Kind), At: row.At}
		text, err := key.Open(datakey.Place{Tenant: t.TenantID, Row: row.ID, Field: datakey.ConversationEntry}, row.Body)
		if err == nil {
			err = json.Unmarshal(text, &e.Message)
		}
		if err != nil {
			return nil, fmt.Errorf("conversation: entry %d of %s: %w", row.Seq, t.Conversation, err)
		}
		if e.Kind == KindResult && len(list) == 0 {
			continue // its call is older than what is read
		}
		list = append(list, e)
	}
	return list, nil
}
