package conversation

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/models/model"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
	"agentruntime/internal/record/idempotency"
)

// TakeOver has a person answer in a session from now on: no model is asked until HandBack. What the
// agent was doing ends in the same transaction, so no reply of it comes later. A message that waits
// for people stays, and goes on after the hand-back. Where the person has taken over before, nothing
// changes. It refuses with AGENT_NOT_FOUND, SESSION_NOT_FOUND, and CONFLICT where another person has
// taken over.
func (s *Service) TakeOver(ctx context.Context, who actor.Actor, ref SessionRef) (Session, error) {
	key, err := s.d.Keys.Key(ctx, who.TenantID)
	if err != nil {
		return Session{}, fmt.Errorf("conversation: take over: %w", err)
	}
	var ended []Turn
	found, err := s.withSession(ctx, who.TenantID, ref, func(tx pgx.Tx, found *Session) error {
		ended = nil
		switch {
		case found.HeldBy != nil && *found.HeldBy == who.ID:
			return nil
		case found.HeldBy != nil:
			return fault.Newf(fault.CodeConflict, "Another person (user:%s) has taken over the session.", found.HeldBy)
		}
		b := &db.Batch{}
		now := s.d.Now()
		open, err := s.q.OpenTurns(ctx, tx, dbsqlc.OpenTurnsParams{TenantID: who.TenantID, Conversation: found.ID, Most: openMost})
		if err != nil {
			return fmt.Errorf("conversation: open messages: %w", err)
		}
		for _, o := range open {
			if State(o.State) == Waiting {
				continue
			}
			w, err := s.inTransaction(ctx, tx, key, flow.TurnRef{TenantID: who.TenantID, ID: o.ID})
			if err != nil {
				return err
			}
			if w.Turn.State == Queued && w.Turn.Replies > 0 {
				continue // it goes on after the hand-back, as those do that wait for people
			}
			ended = append(ended, s.queueTaken(b, w))
		}
		found.HeldBy, found.HeldAt, found.EscalatedAt, found.Busy, found.UpdatedAt = &who.ID, &now, nil, false, now
		db.QueueExec(b, s.q.HoldConversation, dbsqlc.HoldConversationParams{TenantID: who.TenantID, ID: found.ID, HeldBy: found.HeldBy, HeldAt: found.HeldAt})
		audit.Queue(b, s.recordOf(who, audit.AgentSessionTaken, *found).With(map[string]any{"ended_messages": len(ended)}))
		event.Queue(b, event.Event{TenantID: who.TenantID, About: aboutSession(*found), Body: event.TakenOver{By: who.String()}})
		return b.SendIn(ctx, tx)
	})
	if err != nil {
		return Session{}, err
	}
	failpoint.Hit("after_take_over", found.ID)
	for _, t := range ended {
		s.tell(t)
		if t.BegunAt == nil {
			continue
		}
		if _, err := s.d.Engine.Nudge(ctx, t.WorkflowID); err != nil {
			// It finds out itself, at its next step.
			s.d.Log.WarnContext(ctx, "turn not nudged", "execution_id", t.ExecutionID, "error", err)
		}
	}
	return found, nil
}

// openMost is more messages than a session can have that have not ended: those that wait for people
// count in a quota.
const openMost = 10_000

// inTransaction is Load for a transaction that has locked the session.
func (s *Service) inTransaction(ctx context.Context, tx pgx.Tx, key *datakey.Key, ref flow.TurnRef) (w Work, err error) {
	row, err := s.q.GetTurn(ctx, tx, dbsqlc.GetTurnParams{TenantID: ref.TenantID, ID: ref.ID})
	if err != nil {
		return w, fmt.Errorf("conversation: get: %w", err)
	}
	if w.Turn, err = s.open(ctx, row); err != nil {
		return w, err
	}
	w.key = key
	rows, err := s.q.TurnAnswers(ctx, tx, dbsqlc.TurnAnswersParams{TenantID: ref.TenantID, Turn: ref.ID})
	if err != nil {
		return w, fmt.Errorf("conversation: answers: %w", err)
	}
	for _, r := range rows {
		if err := w.add(r); err != nil {
			return w, fmt.Errorf("conversation: answer %d of %s: %w", r.Number, ref.ID, err)
		}
	}
	return w, nil
}

// queueTaken ends a message because a person answers it. What the agent has done so far stays in the
// session.
func (s *Service) queueTaken(b *db.Batch, w Work) Turn {
	t, now := w.Turn, s.d.Now()
	t.State, t.Status, t.Stop, t.Reply, t.UpdatedAt, t.FinishedAt = Ended, StatusEscalated, agentloop.Escalated, new(agentloop.TakenOver), now, &now
	db.QueueExec(b, s.q.TakeTurnOver, dbsqlc.TakeTurnOverParams{TenantID: t.TenantID, ID: t.ID, Now: now})
	s.queueEntries(b, w.key, t, w.soFar()...)
	s.queueTaint(b, t, w.taint())
	s.emit(b, w.key, t, Reply{})
	return t
}

// Taint says whether the agent of a session has read what others than the tenant wrote, and of whom.
type Taint struct {
	Yes     bool
	Sources []string
}

// taint returns what the answers of the message have read of others than the tenant.
func (w Work) taint() (of Taint) {
	add := func(end flow.MapToolEnd) {
		of.Yes, of.Sources = of.Yes || end.Taints(), taint.Add(of.Sources, end.Sources...)
	}
	for _, answer := range w.Answers {
		read := answer.UntrustedFacts()
		of.Yes, of.Sources = of.Yes || len(read) > 0, taint.Add(of.Sources, read...)
		for _, end := range answer.Ends {
			add(end)
		}
		for _, late := range answer.Late {
			add(late.MapToolEnd)
		}
	}
	return of
}

// queueTaint notes that the agent of a session has read what others than the tenant wrote.
func (s *Service) queueTaint(b *db.Batch, t Turn, of Taint) {
	known := func(source string) bool { return slices.Contains(t.TaintSources, source) }
	if of.Yes && !(t.Tainted && !slices.ContainsFunc(of.Sources, func(source string) bool { return !known(source) })) {
		db.QueueExec(b, s.q.Taint, dbsqlc.TaintParams{TenantID: t.TenantID, ID: t.Conversation, Sources: append([]string{}, of.Sources...)})
	}
}

// soFar returns what was said since the newest part of a message began. A call whose end the model was
// not told of has a result that says so.
func (w Work) soFar() (list []Entry) {
	from, part := 0, 0
	for i, answer := range w.Answers {
		if answer.Frame != nil {
			from, part = i, answer.Frame.Part
		}
	}
	if part != int(w.Turn.Replies) {
		return nil // all was written with the last reply
	}
	if part == 0 {
		list = append(list, Entry{Kind: KindCustomer, Message: agentloop.Customer(w.Turn.Message)})
	}
	for _, answer := range w.Answers[min(from, len(w.Answers)):] {
		list = append(list, Added(answer.Added)...)
		if r := answer.Response; answer.Error == nil {
			list = append(list, Entry{Kind: KindCalls, Message: model.Message{Role: model.Assistant, Text: r.Text, Calls: r.Calls}})
		}
	}
	if len(w.Answers) == 0 {
		return list
	}
	for i, call := range w.Answers[len(w.Answers)-1].Response.Calls {
		text := `{"status":"not_made","reason":"a person took over the conversation"}`
		if run, made := w.Answers[len(w.Answers)-1].Runs[i]; made {
			text = fmt.Sprintf(`{"status":"running","execution_id":%q,"reason":"a person took over the conversation before the call had ended"}`, run.ExecutionID)
		}
		list = append(list, Entry{Kind: KindResult, Message: model.Message{Role: model.Result, CallID: call.ID, Text: text}})
	}
	return list
}

// Added returns the entries of what a model was told.
func Added(messages []model.Message) (list []Entry) {
	for _, m := range messages {
		kind := KindNote
		if m.Role == model.Result {
			kind = KindResult
		}
		list = append(list, Entry{Kind: kind, Message: m})
	}
	return list
}

// AfterTakeOver notes what came of the calls that were under way when a person took over, once: the
// agent reads the notes after the hand-back. actions counts the calls of the message that were sent;
// of says whether the notes have what others than the tenant wrote. It changes nothing for any other message.
func (s *Service) AfterTakeOver(ctx context.Context, w Work, actions int, of Taint, notes []model.Message) error {
	first := &db.Batch{}
	db.Queue(first, s.q.LockConversation, dbsqlc.LockConversationParams{TenantID: w.Turn.TenantID, ID: w.Turn.Conversation})
	noted := db.Queue(first, s.q.NoteTakenOver, dbsqlc.NoteTakenOverParams{TenantID: w.Turn.TenantID, ID: w.Turn.ID, Actions: int32(actions), Now: s.d.Now()})
	err := s.d.DB.ReadAndWrite(ctx, w.Turn.TenantID, first, func() (*db.Batch, error) {
		b := &db.Batch{}
		if len(noted.Value) > 0 {
			s.queueEntries(b, w.key, w.Turn, Added(notes)...)
			s.queueTaint(b, w.Turn, of)
		}
		return b, nil
	})
	if err != nil {
		return fmt.Errorf("conversation: note after a take-over: %w", err)
	}
	return nil
}

// holder refuses with CONFLICT where the person has not taken over the session.
func holder(who actor.Actor, of Session) error {
	switch {
	case of.HeldBy == nil:
		return fault.New(fault.CodeConflict, "Nobody has taken over the session. Take it over first.")
	case *of.HeldBy != who.ID:
		return fault.Newf(fault.CodeConflict, "Another person (user:%s) has taken over the session.", of.HeldBy)
	}
	return nil
}

// ReplyAs stores what the person who has taken over a session says to the customer. It refuses with
// AGENT_NOT_FOUND, SESSION_NOT_FOUND, and CONFLICT where the person has not taken over.
func (s *Service) ReplyAs(ctx context.Context, who actor.Actor, ref SessionRef, text string) (Session, error) {
	key, err := s.d.Keys.Key(ctx, who.TenantID)
	if err != nil {
		return Session{}, fmt.Errorf("conversation: reply: %w", err)
	}
	return s.withSession(ctx, who.TenantID, ref, func(tx pgx.Tx, found *Session) error {
		if err := holder(who, *found); err != nil {
			return err
		}
		b := &db.Batch{}
		idempotency.Queue(ctx, b, ref.SessionID)
		id := uuid.Must(uuid.NewV7())
		db.QueueExec(b, s.q.AppendPersonEntry, dbsqlc.AppendPersonEntryParams{
			TenantID: who.TenantID, Conversation: found.ID, ID: id, Author: who.ID, Now: s.d.Now(),
			Body: key.Seal(datakey.Place{Tenant: who.TenantID, Row: id, Field: datakey.ConversationEntry}, mustJSON(agentloop.Person(text))),
		})
		audit.Queue(b, s.recordOf(who, audit.AgentSessionReplied, *found).With(map[string]any{"message_id": id}))
		event.Queue(b, event.Event{TenantID: who.TenantID, About: aboutSession(*found), Key: key, Body: event.SessionSaid{
			MessageID: id.String(), From: string(KindPerson), By: who.String(), Message: text,
		}})
		found.UpdatedAt = s.d.Now()
		return b.SendIn(ctx, tx)
	})
}

// HandBack has the agent answer in a session again. Messages that waited for people and were decided
// meanwhile go on. It refuses with AGENT_NOT_FOUND, SESSION_NOT_FOUND, and CONFLICT where nobody has
// taken over.
func (s *Service) HandBack(ctx context.Context, who actor.Actor, ref SessionRef) (Session, error) {
	key, err := s.d.Keys.Key(ctx, who.TenantID)
	if err != nil {
		return Session{}, fmt.Errorf("conversation: hand back: %w", err)
	}
	var promoted *db.Answer[[]dbsqlc.PromoteTurnRow]
	found, err := s.withSession(ctx, who.TenantID, ref, func(tx pgx.Tx, found *Session) error {
		if found.HeldBy == nil {
			return fault.New(fault.CodeConflict, "Nobody has taken over the session.")
		}
		b := &db.Batch{}
		now := s.d.Now()
		rec := s.recordOf(who, audit.AgentSessionReturned, *found).With(map[string]any{"held_by": "user:" + found.HeldBy.String()})
		db.QueueExec(b, s.q.HoldConversation, dbsqlc.HoldConversationParams{TenantID: who.TenantID, ID: found.ID})
		s.queueEntries(b, key, Turn{TenantID: who.TenantID, Conversation: found.ID}, Added([]model.Message{agentloop.HandedBack()})...)
		promoted = db.Queue(b, s.q.PromoteTurn, dbsqlc.PromoteTurnParams{TenantID: who.TenantID, Conversation: found.ID, Now: now})
		audit.Queue(b, rec)
		event.Queue(b, event.Event{TenantID: who.TenantID, About: aboutSession(*found), Body: event.HandedBack{By: who.String()}})
		found.HeldBy, found.HeldAt, found.UpdatedAt = nil, nil, now
		if err := b.SendIn(ctx, tx); err != nil {
			return err
		}
		found.Busy = len(promoted.Value) > 0
		return nil
	})
	if err != nil {
		return Session{}, err
	}
	s.startPromoted(ctx, who.TenantID, slices.Clone(promoted.Value))
	return found, nil
}

// aboutSession says which session an event is about.
func aboutSession(of Session) event.About {
	about := event.About{SessionID: of.SessionID, AgentID: of.AgentID.String()}
	if of.Customer != nil {
		about.CustomerID = of.Customer.String()
	}
	return about
}
