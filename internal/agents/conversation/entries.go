package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/models/model"
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
	p := dbsqlc.AppendEntriesParams{TenantID: t.TenantID, Conversation: t.Conversation, Now: s.d.Now(), SpokenLanguage: db.Optional(t.Language)}
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

// openEntry reads the message of an entry.
func openEntry(key *datakey.Key, tenant, id uuid.UUID, body string) (m model.Message, err error) {
	text, err := key.Open(datakey.Place{Tenant: tenant, Row: id, Field: datakey.ConversationEntry}, body)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// Bounds of what is read of a session for one answer.
const (
	historyMost  = 400
	historyBytes = 256 << 10
)

// history reads the newest entries of a session, in their order, and the summary before them.
func (s *Service) history(ctx context.Context, w *Work, frame *Frame) error {
	t := w.Turn
	p := dbsqlc.EntriesBeforeParams{TenantID: t.TenantID, Conversation: t.Conversation, Before: math.MaxInt32, Most: historyMost, Bytes: historyBytes}
	if frame != nil {
		p.Before, p.After = frame.Before, &frame.After
	}
	b := &db.Batch{}
	summary := db.QueueOptional(b, s.q.SummaryOf, dbsqlc.SummaryOfParams{TenantID: t.TenantID, Conversation: t.Conversation})
	rows := db.Queue(b, s.q.EntriesBefore, p)
	if err := s.d.DB.Send(ctx, t.TenantID, b); err != nil {
		return fmt.Errorf("conversation: history: %w", err)
	}
	if row := summary.Value; row != nil {
		text, err := w.key.Open(t.summaryPlace(), row.Body)
		if err != nil {
			return fmt.Errorf("conversation: summary of %s: %w", t.Conversation, err)
		}
		w.Summary = Summary{Upto: row.Upto, Text: string(text)}
	}
	w.History = nil
	for _, row := range slices.Backward(rows.Value) {
		e := Entry{Seq: row.Seq, Turn: row.Turn, Kind: Kind(row.Kind), At: row.At}
		var err error
		if e.Message, err = openEntry(w.key, t.TenantID, row.ID, row.Body); err != nil {
			return fmt.Errorf("conversation: entry %d of %s: %w", row.Seq, t.Conversation, err)
		}
		if e.Kind == KindResult && len(w.History) == 0 {
			continue // its call is older than what is read
		}
		w.History = append(w.History, e)
	}
	return nil
}
