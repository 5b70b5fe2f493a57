package conversation

import (
	"context"
	"fmt"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
)

// Summary is what a model reads of the beginning of a session.
type Summary struct {
	// Upto is the number of the last entry that it covers; 0 where there is none.
	Upto int32
	// Text is "" where the agent wants no summary: then what it covers is not read.
	Text string
	// Model is the one that wrote it, as it calls itself; "" for none.
	Model string
	// Tainted: by then, the agent had read what others than the tenant wrote.
	Tainted bool
}

// Aside is what a model was asked before an answer, for that answer: a summary, or which procedures
// fit the message. It is also a plan that was not judged: the answer is made of it.
type Aside struct {
	// Number is that of the answer.
	Number   int
	Purpose  model.Purpose
	Response model.Response
	Error    *stepmachine.Error

	asked []model.Message
}

func isAside(purpose model.Purpose) bool {
	return purpose == model.SOP || purpose == model.Summary || purpose == model.Memory || purpose == model.Unjudged
}

// summaryPlace is where the summary of the turn's session is sealed.
func (t Turn) summaryPlace() datakey.Place {
	return datakey.Place{Tenant: t.TenantID, Row: t.Conversation, Field: datakey.SummaryBody}
}

// EndAside stores what a model was asked aside, and counts its tokens. settle adds to the transaction;
// it hears whether this is the answer that counts. It returns the one that does: another attempt may
// have been first.
func (s *Service) EndAside(ctx context.Context, w Work, a Answer, settle func(b *db.Batch, counts bool)) (aside Aside, err error) {
	err = db.Insist(ctx, func() error {
		aside, err = s.endAside(ctx, w, a, settle)
		return err
	})
	return aside, err
}

func (s *Service) endAside(ctx context.Context, w Work, a Answer, settle func(b *db.Batch, counts bool)) (Aside, error) {
	number := len(w.Answers)
	p, count := s.stored(w, number, a)
	count.Model = "" // the turn shows the model that replies
	first := &db.Batch{}
	kept := db.Queue(first, s.q.EndTurnAnswer, p)
	err := s.d.DB.ReadAndWrite(ctx, w.Turn.TenantID, first, func() (*db.Batch, error) {
		b := &db.Batch{}
		settle(b, len(kept.Value) > 0)
		if len(kept.Value) > 0 {
			db.QueueExec(b, s.q.CountTurnAnswer, count)
			s.QueueUsed(b, w.Turn.TenantID, w.Turn.Chain, a.Response.Usage, count.Money)
		}
		return b, nil
	})
	if err != nil {
		return Aside{}, fmt.Errorf("conversation: end an aside: %w", err)
	}
	if len(kept.Value) == 0 {
		now, _, err := s.Load(ctx, w.Turn.Ref())
		if err != nil {
			return Aside{}, err
		}
		aside, _ := now.AsideFor(number, a.Purpose)
		return aside, nil
	}
	return Aside{Number: number, Purpose: a.Purpose, Response: a.Response, Error: a.Error}, nil
}

// AsideFor returns what a model was asked aside for the answer with the number.
func (w *Work) AsideFor(number int, purpose model.Purpose) (Aside, bool) {
	for _, a := range w.Asides {
		if a.Number == number && a.Purpose == purpose {
			return a, true
		}
	}
	return Aside{}, false
}

// Prompt is what a model has read for an answer beside what it had read for those before, and what it
// wrote.
type Prompt struct {
	// Advice and Summary are set in the first answer of a part.
	Advice, Summary string
	Read            []model.Message
	Wrote           model.Response
}

// PromptOf names an answer of a model for a turn.
type PromptOf struct {
	Number  int32
	Purpose model.Purpose
}

// Prompts returns what the models have read and wrote for a turn. The entries of its session that they
// read in full are not repeated.
func (s *Service) Prompts(ctx context.Context, t Turn) (map[PromptOf]Prompt, error) {
	w, _, err := s.Load(ctx, t.Ref())
	if err != nil {
		return nil, err
	}
	list := map[PromptOf]Prompt{}
	for i, a := range w.Answers {
		p := Prompt{Read: a.Added, Wrote: a.Response}
		if a.Frame != nil {
			p.Advice, p.Summary = a.Frame.Advice, a.Frame.Summary
		}
		if i == 0 {
			p.Read = append([]model.Message{agentloop.Customer(w.Turn.Message)}, p.Read...)
		}
		list[PromptOf{int32(i), a.Purpose}] = p
	}
	for _, a := range w.Asides {
		list[PromptOf{int32(a.Number), a.Purpose}] = Prompt{Read: a.asked, Wrote: a.Response}
	}
	return list, nil
}

// queueSummary keeps the summary of the turn's session, where it covers more than the one before.
func (s *Service) queueSummary(b *db.Batch, w Work, m Summary) {
	db.QueueExec(b, s.q.KeepSummary, dbsqlc.KeepSummaryParams{
		TenantID: w.Turn.TenantID, Conversation: w.Turn.Conversation, Upto: m.Upto, Body: w.key.Seal(w.Turn.summaryPlace(), []byte(m.Text)),
		Tainted: m.Tainted, Model: m.Model, Now: s.d.Now(),
	})
}
