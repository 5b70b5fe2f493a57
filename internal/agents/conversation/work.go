package conversation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/goalloop"
	"agentruntime/internal/agents/recall"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// Answer is one answer of a model.
type Answer struct {
	Purpose model.Purpose
	// Frame is set in the first answer of a part: what the model reads before all that the answers say.
	Frame *Frame `json:"frame,omitempty"`
	// Added are the messages that this answer reads more than the one before. Ends are the ends of the
	// calls that they tell of.
	Added []model.Message   `json:"added,omitempty"`
	Ends  []flow.MapToolEnd `json:"ends,omitempty"`
	Late  []flow.TurnLate   `json:"late,omitempty"`
	// Tools describes those that the model is offered from this answer on; nil where they are as before.
	Tools json.RawMessage `json:"tools,omitempty"`
	// Facts are those that this answer reads more than the one before, Criteria how those of the goal stand
	// by it, and Wrong is why it could not be used: only of the answers of planners.
	Facts    []goalloop.Fact   `json:"facts,omitempty"`
	Criteria []goalloop.Judged `json:"criteria,omitempty"`
	Wrong    string            `json:"wrong,omitempty"`
	// SOPs are the procedures that fit the message, in the first answer. Keeps, where it is not nil, is
	// the summary of the session from then on.
	// Recalled are the facts that the model has looked for before this answer.
	Recalled []recall.Chosen `json:"recalled,omitempty"`
	SOPs     []agentloop.Hit `json:"-"`
	// Memory, where it is not nil, is what the turn has read and written of the customer's memory.
	Memory *Memory  `json:"-"`
	Keeps  *Summary `json:"-"`

	Response model.Response     `json:"-"`
	Error    *stepmachine.Error `json:"-"`
	Money    int64              `json:"-"`
	BeganAt  time.Time          `json:"-"`
	// Tellings are streamed with the answer, by the Writer.
	Tellings []Telling   `json:"-"`
	Writer   int         `json:"-"`
	Runs     map[int]Run `json:"-"`
}

// Frame is what the answers of one part have in common. It is stored once, so that a repeat after a
// crash asks the same.
type Frame struct {
	// Part counts how often the message had waited when the frame was made.
	Part int `json:"part,omitempty"`
	// Before is the number of the first entry of the session that the part does not read, After that of
	// the last one that it reads only in Summary.
	Before  int32  `json:"before"`
	After   int32  `json:"after,omitempty"`
	Summary string `json:"summary,omitempty"`
	// Matched are the slugs of the procedures that fit, Advice what the model reads of them.
	Matched []string `json:"matched,omitempty"`
	// Remembered is what the model reads of the customer's memory.
	Remembered []recall.Chosen `json:"remembered,omitempty"`
	Advice     string          `json:"advice,omitempty"`
}

// Run is a run that an answer has asked for, or another execution.
type Run struct {
	Verb        string `json:"verb,omitempty"`
	ExecutionID string `json:"execution_id"`
	// MapID is set where the execution is one of a Map, AgentID where it is a message to another agent.
	MapID   *uuid.UUID `json:"map_id,omitempty"`
	AgentID *uuid.UUID `json:"agent_id,omitempty"`
}

// Work is a turn with all that its next answer needs.
type Work struct {
	Turn    Turn
	Agent   Agent
	Answers []Answer
	// Shortened are the numbers of answers whose facts keep less than is stored.
	Shortened []int
	// Asides are the other answers of models for the turn.
	Asides []Aside
	// History are the entries of the session before the turn's part and after Summary, in their order.
	// Entries is how many the session has.
	History []Entry
	Entries int32
	Summary Summary

	key *datakey.Key
}

func answerPlace(t Turn, number int, purpose model.Purpose, f datakey.Field) datakey.Place {
	row := strconv.AppendInt(nil, int64(number), 10)
	if isAside(purpose) {
		row = append(row, purpose...)
	}
	return datakey.Place{Tenant: t.TenantID, Row: uuid.NewSHA1(t.ID, row), Field: f}
}

// Load returns a turn that is being worked on. over: it is not, so there is nothing to do. also adds what
// is read in the same trip.
func (s *Service) Load(ctx context.Context, ref flow.TurnRef, also ...func(b *db.Batch)) (w Work, over bool, err error) {
	b := &db.Batch{}
	for _, add := range also {
		add(b)
	}
	row := db.QueueOptional(b, s.q.GetTurn, dbsqlc.GetTurnParams{TenantID: ref.TenantID, ID: ref.ID})
	rows := db.Queue(b, s.q.TurnAnswers, dbsqlc.TurnAnswersParams{TenantID: ref.TenantID, Turn: ref.ID})
	if err := s.d.DB.Send(ctx, ref.TenantID, b); err != nil {
		return w, false, fmt.Errorf("conversation: load: %w", err)
	}
	if row.Value == nil {
		return w, true, nil
	}
	if w.Turn, err = s.open(ctx, *row.Value); err != nil {
		return w, false, err
	}
	if w.key, err = s.d.Keys.Key(ctx, ref.TenantID); err != nil {
		return w, false, fmt.Errorf("conversation: load: %w", err)
	}
	for _, r := range rows.Value {
		if err := w.add(r); err != nil {
			return w, false, fmt.Errorf("conversation: answer %d of %s: %w", r.Number, ref.ID, err)
		}
	}
	if w.Turn.State != Working {
		return w, true, nil
	}
	if w.Agent, err = s.d.Agents.Agent(ctx, ref.TenantID, w.Turn.AgentID, w.Turn.Version); err != nil {
		return w, false, err
	}
	return w, false, nil
}

// ReadHistory reads what was said in the session, and the summary of what was before. frame, where it
// is not nil, says which part of it: that of answers that were given already. A message that is in no
// session has no history before its first wait, so nothing is read then.
func (s *Service) ReadHistory(ctx context.Context, w *Work, frame *Frame) (err error) {
	if w.Turn.SessionID == "" && w.Turn.Replies == 0 {
		return nil
	}
	if err := s.history(ctx, w, frame); err != nil {
		return err
	}
	if n := len(w.History); n > 0 {
		w.Entries = w.History[n-1].Seq
	}
	return nil
}

// add adds an answer that is stored.
func (w *Work) add(r dbsqlc.TurnAnswer) error {
	a, err := w.answerOf(int(r.Number), r)
	switch {
	case err != nil:
		return err
	case isAside(a.Purpose):
		w.Asides = append(w.Asides, Aside{Number: int(r.Number), Purpose: a.Purpose, Response: a.Response, Error: a.Error, asked: a.Added})
	case int(r.Number) != len(w.Answers):
		return fmt.Errorf("there is none with the number %d", len(w.Answers))
	default:
		w.Answers = append(w.Answers, a)
	}
	return nil
}

func (w *Work) answerOf(number int, r dbsqlc.TurnAnswer) (a Answer, err error) {
	purpose := model.Purpose(r.Purpose)
	text, err := w.key.Open(answerPlace(w.Turn, number, purpose, datakey.TurnAsked), r.Asked)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err == nil && r.Answer != nil {
		if text, err = w.key.Open(answerPlace(w.Turn, number, purpose, datakey.TurnAnswer), *r.Answer); err == nil {
			err = json.Unmarshal(text, &a.Response)
		}
	}
	if err == nil && r.Error != nil {
		if text, err = w.key.Open(answerPlace(w.Turn, number, purpose, datakey.TurnAnswerError), *r.Error); err == nil {
			err = json.Unmarshal(text, &a.Error)
		}
	}
	if err == nil {
		err = json.Unmarshal(r.Runs, &a.Runs)
	}
	a.Purpose, a.Money, a.BeganAt = purpose, r.MoneyMicros, r.BeganAt
	return a, err
}

// Reply is how a turn, or a part of it, ends.
type Reply struct {
	State  State
	Status Status
	// Text is the reply; nil where there is none.
	Text  *string
	Error *stepmachine.Error
	Stop  agentloop.Stop
	// Entries are what was said since the part began, the reply included.
	Entries    []Entry
	Actions    int
	Governance string
	ApprovalID string
	// FreesKey: nothing was sent and nobody was asked, so a repeat of the message may run.
	FreesKey bool
	// Tainted: the agent has read what others than the tenant wrote.
	Tainted bool
	// Sources say what.
	Sources []string
	// Progress is how the criteria of a goal stand; nil for a message of another mode.
	Progress *Progress
	// Language is that of the message, a code; "" for none.
	Language string
	// Tellings are streamed before the end. Those of an answer of a model are in the Answer.
	Tellings []Telling
	// Escalate is why people are asked to look; "" where they are not. Summary is what they must know.
	Escalate string
	Summary  string
}

// EndAnswer stores an answer, and counts its tokens; reply, where it is not nil, ends the part of the
// turn in the same transaction. settle adds to it; it hears whether this is the answer that counts,
// because another one was not there before. stored is false where it was.
func (s *Service) EndAnswer(ctx context.Context, w Work, a Answer, reply *Reply, settle func(b *db.Batch, counts bool)) (stored bool, err error) {
	failpoint.Hit("turn_answered", w.Turn.ID)
	err = db.Insist(ctx, func() error {
		stored, err = s.endAnswer(ctx, w, a, reply, settle)
		return err
	})
	return stored, err
}

func (s *Service) endAnswer(ctx context.Context, w Work, a Answer, reply *Reply, settle func(b *db.Batch, counts bool)) (stored bool, err error) {
	p, count := s.stored(w, len(w.Answers), a)
	if len(a.SOPs) > 0 {
		count.Sop = a.SOPs[0].ID
		count.Hits = sealOptional(w.key, w.Turn.place(datakey.TurnHits), mustJSON(a.SOPs))
	}
	if a.Memory != nil {
		count.Memory = sealOptional(w.key, w.Turn.place(datakey.TurnMemory), mustJSON(a.Memory))
	}
	first := &db.Batch{}
	kept := db.Queue(first, s.q.EndTurnAnswer, p)
	var after func(context.Context)
	err = s.d.DB.ReadAndWrite(ctx, w.Turn.TenantID, first, func() (*db.Batch, error) {
		b := &db.Batch{}
		stored = len(kept.Value) > 0
		settle(b, stored)
		if !stored {
			return b, nil
		}
		db.QueueExec(b, s.q.CountTurnAnswer, count)
		for _, number := range w.Shortened {
			s.queueShorter(b, w, number)
		}
		if a.Keeps != nil {
			s.queueSummary(b, w, *a.Keeps)
		}
		s.QueueTellings(b, w, a.Writer, a.Tellings...)
		s.QueueUsed(b, w.Turn.TenantID, w.Turn.Chain, a.Response.Usage, count.Money)
		if reply != nil {
			w.Turn.Model, w.Turn.SOP = a.Response.Model, cmp.Or(count.Sop, w.Turn.SOP)
			w.Turn.Tokens, w.Turn.MoneyMicros = w.Turn.Tokens+count.Tokens, w.Turn.MoneyMicros+count.Money
			w.Turn.Estimated = w.Turn.Estimated || count.Estimated
			after = s.queueReply(b, w, *reply)
		}
		return b, nil
	})
	if err != nil {
		return false, fmt.Errorf("conversation: end an answer: %w", err)
	}
	switch {
	case after != nil:
		after(ctx)
	case stored && len(a.Tellings) > 0:
		s.Wake(w.Turn)
	}
	return stored, nil
}

// queueShorter replaces what is stored of an answer by what is kept of it.
func (s *Service) queueShorter(b *db.Batch, w Work, number int) {
	a := w.Answers[number]
	db.QueueExec(b, s.q.ReplaceTurnAsked, dbsqlc.ReplaceTurnAskedParams{
		TenantID: w.Turn.TenantID, Turn: w.Turn.ID, Number: int32(number),
		Asked: w.key.Seal(answerPlace(w.Turn, number, a.Purpose, datakey.TurnAsked), mustJSON(a)),
	})
}

// stored returns the row of an answer, and what it adds to its turn.
func (s *Service) stored(w Work, number int, a Answer) (p dbsqlc.EndTurnAnswerParams, count dbsqlc.CountTurnAnswerParams) {
	now := s.d.Now()
	place := func(f datakey.Field) datakey.Place { return answerPlace(w.Turn, number, a.Purpose, f) }
	p = dbsqlc.EndTurnAnswerParams{
		TenantID: w.Turn.TenantID, Turn: w.Turn.ID, Number: int32(number), Purpose: string(a.Purpose), BeganAt: a.BeganAt, EndedAt: now,
		Asked: w.key.Seal(place(datakey.TurnAsked), mustJSON(a)),
	}
	count = dbsqlc.CountTurnAnswerParams{TenantID: w.Turn.TenantID, ID: w.Turn.ID, Now: now, Model: a.Response.Model}
	u := a.Response.Usage
	p.Model, p.Finish, p.TokensIn, p.TokensCached, p.TokensOut, p.MoneyMicros = a.Response.Model, string(a.Response.Finish), u.In, u.Cached, u.Out, a.Money
	p.Estimated, count.Estimated = u.Estimate, u.Estimate
	count.Tokens, count.Money = u.Total(), a.Money
	if a.Error != nil {
		p.Error = sealOptional(w.key, place(datakey.TurnAnswerError), mustJSON(a.Error))
	} else {
		p.Answer = sealOptional(w.key, place(datakey.TurnAnswer), mustJSON(a.Response))
	}
	return p, count
}

// EndPart ends a part of a turn, without a further answer. It changes nothing where the turn is not
// worked on.
func (s *Service) EndPart(ctx context.Context, w Work, reply Reply) error {
	b := &db.Batch{}
	after := s.queueReply(b, w, reply)
	err := s.d.DB.Send(ctx, w.Turn.TenantID, b)
	switch {
	case db.IsNotChanged(err):
		// A repeat: a process that died after the commit may not have told those who wait.
		s.d.Notices.Tell(w.Turn.TenantID, w.Turn.ID)
		return nil
	case err != nil:
		return fmt.Errorf("conversation: end: %w", err)
	}
	after(ctx)
	return nil
}

// queueReply queues the end of a part: the reply, what was said, the next one of the session, the
// audit record and the event. What it returns is to be done when the transaction is committed.
func (s *Service) queueReply(b *db.Batch, w Work, r Reply) (after func(context.Context)) {
	t, now := w.Turn, s.d.Now()
	t.State, t.Status, t.Reply, t.Error, t.Stop = r.State, r.Status, r.Text, r.Error, r.Stop
	if r.Progress != nil {
		t.Progress = r.Progress
	}
	t.Language = r.Language
	t.Replies++
	t.Actions, t.Governance, t.UpdatedAt = int32(r.Actions), r.Governance, now
	if r.ApprovalID != "" {
		t.ApprovalID = r.ApprovalID
	}
	if r.State == Ended {
		t.FinishedAt = &now
	}
	// The lock of the session first, as in all that changes who works in it.
	db.Queue(b, s.q.LockConversation, dbsqlc.LockConversationParams{TenantID: t.TenantID, ID: t.Conversation})
	s.QueueTellings(b, w, math.MaxInt32, r.Tellings...)
	p := dbsqlc.ReplyTurnParams{
		TenantID: t.TenantID, ID: t.ID, State: string(r.State), Status: string(r.Status), StopReason: string(r.Stop), Actions: int32(r.Actions),
		Governance: r.Governance, ApprovalID: db.Optional(r.ApprovalID), Now: now,
	}
	if r.Text != nil {
		p.Reply = sealOptional(w.key, t.place(datakey.TurnReply), []byte(*r.Text))
	}
	if r.Error != nil {
		p.Error = sealOptional(w.key, t.place(datakey.TurnError), mustJSON(r.Error))
	}
	if r.Progress != nil {
		p.Outcome = sealOptional(w.key, t.place(datakey.TurnOutcome), mustJSON(r.Progress))
	}
	db.Queue(b, s.q.ReplyTurn, p)
	db.Queue(b, s.q.RequireTurnReplied, dbsqlc.RequireTurnRepliedParams{TenantID: t.TenantID, ID: t.ID})
	s.queueEntries(b, w.key, t, r.Entries...)
	s.queueTaint(b, t, Taint{r.Tainted, r.Sources})
	if r.Escalate != "" && t.SessionID != "" {
		db.QueueExec(b, s.q.EscalateConversation, dbsqlc.EscalateConversationParams{TenantID: t.TenantID, ID: t.Conversation, Now: now})
	}
	if r.FreesKey && t.ParentID == "" { // a call gets the same message again, whatever came of it
		db.QueueExec(b, s.q.FreeTurnKeys, dbsqlc.FreeTurnKeysParams{TenantID: t.TenantID, Turn: t.ID})
	}
	promoted := db.Queue(b, s.q.PromoteTurn, dbsqlc.PromoteTurnParams{TenantID: t.TenantID, Conversation: t.Conversation, Now: now})
	rec := audit.Change(actor.Actor{Kind: actor.Agent, TenantID: t.TenantID, ID: t.AgentID}, audit.AgentReplied, audit.SubjectAgent, t.AgentID.String()).
		With(map[string]any{"stop_reason": r.Stop, "actions_executed": r.Actions})
	rec.ExecutionID, rec.SessionID, rec.Outcome = t.ExecutionID, db.Optional(t.SessionID), string(r.Status)
	audit.Queue(b, rec)
	s.emit(b, w.key, t, r)
	failpoint.Hit("before_turn_reply", t.ID)
	return func(ctx context.Context) {
		failpoint.Hit("after_turn_reply", t.ID)
		s.tell(t)
		s.startPromoted(ctx, t.TenantID, promoted.Value)
	}
}

// emit queues the events of a reply.
func (s *Service) emit(b *db.Batch, key *datakey.Key, t Turn, r Reply) {
	about := aboutTurn(t)
	body := event.Conversation{Status: string(t.Status), StopReason: string(t.Stop), ActionsExecuted: int(t.Actions), TokensUsed: t.Tokens}
	if t.Reply != nil {
		body.Message = *t.Reply
	}
	switch {
	case t.Kind == flow.KindGoal:
		emitGoal(b, key, t)
	case t.ParentID == "": // otherwise it is no conversation with a customer
		event.Queue(b, event.Event{TenantID: t.TenantID, About: about, Body: body, Key: key})
	}
	if r.Escalate != "" {
		event.Queue(b, event.Event{TenantID: t.TenantID, About: about, Body: event.Escalated{Kind: "session", Reason: r.Escalate, Summary: r.Summary}, Key: key})
	}
}

// aboutTurn says which message an event is about.
func aboutTurn(t Turn) event.About {
	about := aboutSession(Session{SessionID: t.SessionID, AgentID: t.AgentID, Customer: t.Customer})
	about.ExecutionID = t.ExecutionID
	return about
}

// startPromoted starts the workflow of the next turn of a session, or wakes it. The sweeper makes up
// for a start that is lost. It is not waited for.
func (s *Service) startPromoted(ctx context.Context, tenant uuid.UUID, rows []dbsqlc.PromoteTurnRow) {
	ctx = context.WithoutCancel(ctx)
	for _, row := range rows {
		t := Turn{TenantID: tenant, ID: row.ID, WorkflowID: row.WorkflowID, Replies: row.Replies, ExecutionID: row.ExecutionID, AgentID: row.AgentID, Version: row.Version}
		go func() {
			if err := s.startLater(ctx, t); err != nil {
				s.d.Log.WarnContext(ctx, "turn not started", "execution_id", t.ExecutionID, "error", err)
			}
		}()
	}
}

// QueueRun notes the run of a call that an answer has asked for, or another execution, with its claim.
func (s *Service) QueueRun(b *db.Batch, t Turn, answer, number int, run Run) {
	db.QueueExec(b, s.q.NoteTurnRun, dbsqlc.NoteTurnRunParams{
		Number: strconv.Itoa(number), Run: mustJSON(run), TenantID: t.TenantID, Turn: t.ID, Answer: int32(answer),
	})
	if run.MapID != nil {
		db.QueueExec(b, s.q.NoteTurnMap, dbsqlc.NoteTurnMapParams{TenantID: t.TenantID, ID: t.ID, MapExecution: run.ExecutionID})
	}
}

// News returns what others want of a turn.
func (s *Service) News(ctx context.Context, ref flow.TurnRef) (flow.TurnNews, error) {
	t, err := s.read(ctx, ref)
	if db.IsNoRows(err) {
		return flow.TurnNews{Over: true}, nil
	}
	return newsOf(t), err
}

func newsOf(t Turn) flow.TurnNews {
	news := flow.TurnNews{Over: t.State == Ended, Working: t.State == Working, Cancel: t.WantsCancel}
	if news.Over {
		news.Status = stepmachine.Status(t.Status)
	}
	return news
}

// Resume asks for the session again, for a turn whose calls have been decided.
func (s *Service) Resume(ctx context.Context, ref flow.TurnRef) (flow.TurnNews, error) {
	t, err := s.read(ctx, ref)
	if err != nil || t.State != Waiting {
		return newsOf(t), err
	}
	b := &db.Batch{}
	now := s.d.Now()
	db.Queue(b, s.q.LockConversation, dbsqlc.LockConversationParams{TenantID: t.TenantID, ID: t.Conversation})
	db.Queue(b, s.q.RequeueTurn, dbsqlc.RequeueTurnParams{TenantID: t.TenantID, ID: t.ID, Now: now})
	promoted := db.Queue(b, s.q.PromoteTurn, dbsqlc.PromoteTurnParams{TenantID: t.TenantID, Conversation: t.Conversation, Now: now})
	if err := s.d.DB.Send(ctx, t.TenantID, b); err != nil {
		return flow.TurnNews{}, fmt.Errorf("conversation: resume: %w", err)
	}
	others := promoted.Value[:0:0]
	news := flow.TurnNews{Cancel: t.WantsCancel}
	for _, row := range promoted.Value {
		if row.ID == t.ID {
			news.Working = true
		} else {
			others = append(others, row)
		}
	}
	s.startPromoted(ctx, t.TenantID, others)
	return news, nil
}
