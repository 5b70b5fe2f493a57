package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// Told names what those hear who follow a reply while it is written.
type Told string

// What is streamed. The end is not: it is the turn itself.
const (
	ToldDelta    Told = "message.delta"
	ToldReset    Told = "message.reset"
	ToldStarted  Told = "tool.started"
	ToldFinished Told = "tool.finished"
	ToldApproval Told = "approval.requested"
)

// ToldText is the body of a delta.
type ToldText struct {
	Text string `json:"text"`
}

// ToldCall is the body of what is streamed of a call: of a verb, of a Map, or of another agent.
type ToldCall struct {
	CallID  string     `json:"call_id"`
	Verb    string     `json:"verb,omitempty"`
	MapID   *uuid.UUID `json:"map_id,omitempty"`
	AgentID *uuid.UUID `json:"agent_id,omitempty"`
	Status  string     `json:"status,omitempty"`
	// ExecutionID is that of what the call has started; nil where it has started nothing.
	ExecutionID *string `json:"execution_id,omitempty"`
}

// ToldAsked is the body of an approval.
type ToldAsked struct {
	ApprovalID string `json:"approval_id"`
}

// Telling is something to stream.
type Telling struct {
	Event Told
	// Body is encoded as JSON. That of a reset is a text, its reason.
	Body any
	// About names what is told once of a turn; "" where it is told each time.
	About string
}

// Bounds of what is streamed of one turn. Text beyond them is dropped, and the end has the whole reply.
const (
	streamRows  = 5000
	streamBytes = 512 << 10 // sealed
)

// QueueTellings queues what is to be streamed of a turn that is worked on, where it is followed. writer
// numbers the one that writes the text, 0 stands for what is no text; text of an older writer is
// dropped. The caller calls Wake when the transaction is committed.
func (s *Service) QueueTellings(b *db.Batch, w Work, writer int, tellings ...Telling) {
	t := w.Turn
	if !t.Streamed || len(tellings) == 0 {
		return
	}
	p := dbsqlc.AppendTurnStreamParams{TenantID: t.TenantID, Turn: t.ID, Writer: int32(writer), MaxRows: streamRows, MaxBytes: streamBytes}
	for _, one := range tellings {
		body, isReason := one.Body.(string)
		if !isReason {
			body = w.key.Seal(t.place(datakey.TurnStream), mustJSON(one.Body))
		}
		p.Events, p.Bodies, p.Abouts = append(p.Events, string(one.Event)), append(p.Bodies, body), append(p.Abouts, one.About)
	}
	db.QueueExec(b, s.q.AppendTurnStream, p)
}

// Stream is QueueTellings in a transaction of its own, with Wake.
func (s *Service) Stream(ctx context.Context, w Work, writer int, tellings ...Telling) error {
	b := &db.Batch{}
	s.QueueTellings(b, w, writer, tellings...)
	if b.Len() == 0 {
		return nil
	}
	if err := s.d.DB.Send(ctx, w.Turn.TenantID, b); err != nil {
		return fmt.Errorf("conversation: stream: %w", err)
	}
	s.Wake(w.Turn)
	return nil
}

// Followed names a turn that is followed, for Stream. It reads nothing.
func (s *Service) Followed(ctx context.Context, ref flow.TurnRef) (Work, error) {
	key, err := s.d.Keys.Key(ctx, ref.TenantID)
	if err != nil {
		return Work{}, fmt.Errorf("conversation: %w", err)
	}
	return Work{Turn: Turn{ID: ref.ID, TenantID: ref.TenantID, Streamed: true}, key: key}, nil
}

// Wake tells those who follow a turn, in all processes, that there is more.
func (s *Service) Wake(t Turn) {
	if t.Streamed {
		s.followed.wake(t.ID)
		s.d.Notices.Tell(t.TenantID, t.ID)
	}
}

// followers are those in this process who follow turns.
type followers struct {
	mu sync.Mutex
	of map[uuid.UUID]map[*Follower]struct{}
}

func (h *followers) wake(id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for f := range h.of[id] {
		f.awake()
	}
}

// end hands a turn that has a reply to those who follow it.
func (h *followers) end(t Turn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for f := range h.of[t.ID] {
		f.mu.Lock()
		f.ended = &t
		f.mu.Unlock()
		f.awake()
	}
}

// Follower follows the reply to a turn. It is used by one goroutine.
type Follower struct {
	s *Service
	t Turn
	// at is the number of the last row that was read.
	at int32
	// awake is called where there may be more.
	awake func()

	mu    sync.Mutex
	ended *Turn // it has ended, as another goroutine told
}

// Follow begins to follow the first reply to a turn, after the row of its stream with the number after.
// awake is called, by other goroutines, where Next may find more. The caller calls Close in the end.
func (s *Service) Follow(ctx context.Context, t Turn, after int32, awake func()) (*Follower, error) {
	f := &Follower{s: s, t: t, at: after, awake: awake}
	if t.answered() {
		f.ended = &t
	}
	s.followed.mu.Lock()
	if s.followed.of[t.ID] == nil {
		s.followed.of[t.ID] = map[*Follower]struct{}{}
	}
	s.followed.of[t.ID][f] = struct{}{}
	s.followed.mu.Unlock()
	if t.Streamed || t.answered() {
		return f, nil
	}
	if err := s.q.StreamTurn(ctx, s.d.DB.Tenant(t.TenantID), dbsqlc.StreamTurnParams{TenantID: t.TenantID, ID: t.ID}); err != nil {
		f.Close()
		return nil, fmt.Errorf("conversation: follow: %w", err)
	}
	return f, nil
}

// Close ends the following.
func (f *Follower) Close() {
	h := &f.s.followed
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.of[f.t.ID], f)
	if len(h.of[f.t.ID]) == 0 {
		delete(h.of, f.t.ID)
	}
}

// Streamed is one row of the stream of a turn.
type Streamed struct {
	Seq   int32
	Event Told
	Body  json.RawMessage
}

// streamPage is how many rows are read at once.
const streamPage = 100

// Next returns what was streamed since the last call; more says that a second call finds more. end is
// the turn once it has a reply or has ended, after all rows: endSeq is the number of that. Where a turn
// has a later reply already, the rows of its first are not returned.
func (f *Follower) Next(ctx context.Context) (rows []Streamed, more bool, end *Turn, endSeq int32, err error) {
	t := f.t
	b := &db.Batch{}
	head := db.QueueOptional(b, f.s.q.TurnStreamHead, dbsqlc.TurnStreamHeadParams{TenantID: t.TenantID, ID: t.ID})
	found := db.Queue(b, f.s.q.TurnStreamAfter, dbsqlc.TurnStreamAfterParams{TenantID: t.TenantID, Turn: t.ID, After: f.at, Most: streamPage})
	if err := f.s.d.DB.Send(ctx, t.TenantID, b); err != nil {
		return nil, false, nil, 0, fmt.Errorf("conversation: read a stream: %w", err)
	}
	if head.Value == nil {
		return nil, false, nil, 0, fault.New(fault.CodeExecutionNotFound, "") // it was erased
	}
	key, err := f.s.d.Keys.Key(ctx, t.TenantID)
	if err != nil {
		return nil, false, nil, 0, fmt.Errorf("conversation: %w", err)
	}
	if head.Value.Replies <= 1 {
		for _, row := range found.Value {
			body, err := key.Open(t.place(datakey.TurnStream), row.Body)
			if err != nil {
				return nil, false, nil, 0, fmt.Errorf("conversation: stream of %s: %w", t.ID, err)
			}
			rows, f.at = append(rows, Streamed{Seq: row.Seq, Event: Told(row.Event), Body: body}), row.Seq
		}
		if len(rows) == streamPage {
			return rows, true, nil, 0, nil
		}
	}
	if head.Value.Replies == 0 && State(head.Value.State) != Ended {
		return rows, false, nil, 0, nil
	}
	end, err = f.end(ctx, head.Value.Replies)
	return rows, false, end, head.Value.StreamedTo + 1, err
}

// end returns the turn as it is with its replies.
func (f *Follower) end(ctx context.Context, replies int32) (*Turn, error) {
	f.mu.Lock()
	ended := f.ended
	f.mu.Unlock()
	if ended != nil && ended.Replies == replies {
		return ended, nil
	}
	t, err := f.s.read(ctx, f.t.Ref())
	return &t, err
}

// MaySee reports whether the actor may read what is streamed of a turn as it is written: only the key
// that wrote the message. Others see masked texts.
func (t Turn) MaySee(who actor.Actor) bool { return who.KeyID() != nil && sees(who, t) }
