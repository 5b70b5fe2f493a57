package answering

import (
	"context"
	"slices"
	"time"

	"agentruntime/db"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/models/model"
	"agentruntime/internal/tenant/budget"
)

// historyTokens is about how many tokens of what was said before a model reads.
const historyTokens = 24_000

// recall sets what the part reads of the session. Where that is more than the window has, the older
// half is summarised, so the next messages need no other summary.
func (a *Answerer) recall(ctx context.Context, w *work) error {
	w.frame.After, w.frame.Summary = w.Summary.Upto, w.Summary.Text
	messages := make([]model.Message, len(w.History))
	for i, e := range w.History {
		messages[i] = e.Message
	}
	m := w.Agent.Definition.Memory
	cut := agentloop.Window{Tokens: historyTokens, Messages: m.WindowMessages}.Cut(messages)
	if cut == 0 {
		return nil
	}
	keeps := &conversation.Summary{Upto: w.History[cut-1].Seq, Tainted: w.tainted()}
	if m.Summarize {
		var err error
		if keeps.Text, keeps.Model, err = a.summarise(ctx, w, messages[:cut]); err != nil {
			return err
		}
	}
	w.frame.After, w.frame.Summary, w.History = keeps.Upto, keeps.Text, w.History[cut:]
	w.next.Keeps = keeps
	return nil
}

// summarise returns a summary of messages and of the summary before them, and which model wrote it. By
// rules, and where the model fails, it is an extract.
func (a *Answerer) summarise(ctx context.Context, w *work, messages []model.Message) (text, by string, err error) {
	choice := or(w.Agent.Definition.Models.Summarizer, w.Agent.Definition.Models.Worker)
	if agentloop.IsLanguageModel(choice) {
		answer, err := a.aside(ctx, w, choice, agentloop.SummaryRequest(w.Summary.Text, messages))
		if err != nil {
			return "", "", err
		}
		if text, ok := agentloop.Summarised(answer); ok {
			return text, answer.Model, nil
		}
	}
	return agentloop.Extract(w.Summary.Text, messages), "", nil
}

// match sets the procedures that fit the message: by words, and of those, by a model.
func (a *Answerer) match(ctx context.Context, w *work) error {
	d := w.Agent.Definition
	subjects := agentloop.SOPs(d.SOPs)
	hits := agentloop.Match(w.Turn.Message, subjects, agentloop.ForAdvice)
	if choice := or(d.Models.Manager, d.Models.Worker); len(hits) > 0 && agentloop.IsLanguageModel(choice) {
		answer, err := a.aside(ctx, w, choice, agentloop.CheckRequest(subjects, hits, w.Turn.Message))
		if err != nil {
			return err
		}
		hits, _ = agentloop.Checked(hits, answer)
	}
	w.next.SOPs = hits
	w.frame.Advice = agentloop.Advice(d.SOPs, hits)
	w.frame.Advice = joined(w.frame.Advice, w.inLanguage())
	for _, hit := range hits {
		w.frame.Matched = append(w.frame.Matched, hit.ID)
	}
	return nil
}

func or(m, worker *agentdef.Model) *agentdef.Model {
	if m != nil {
		return m
	}
	return worker
}

// aside asks a model for what the next answer needs, once, in at most half of the time that is left.
// The answer is empty where the model fails, and where no budget or limit of the agent has room: the
// message is answered all the same.
func (a *Answerer) aside(ctx context.Context, w *work, choice *agentdef.Model, req model.Request) (model.Response, error) {
	if _, has := w.AsideFor(len(w.Answers), req.Purpose); !has && a.stops(w) != "" {
		return model.Response{}, nil
	}
	now := a.d.Now()
	return a.askAside(ctx, w, choice, req, now.Add(w.deadline().Sub(now)/2))
}

// askAside is aside until the given time, whatever the limits of the agent are.
func (a *Answerer) askAside(ctx context.Context, w *work, choice *agentdef.Model, req model.Request, until time.Time) (model.Response, error) {
	if done, has := w.AsideFor(len(w.Answers), req.Purpose); has {
		return done.Response, nil
	}
	ask := model.Ask{Tenant: w.Turn.TenantID, Key: w.Turn.KeyID, Choice: *choice, Request: req}
	reserved, err := a.d.Budgets.Reserve(ctx, w.Turn.TenantID, w.Turn.KeyID, a.d.Models.Most(ask.Choice, ask.Request))
	if f := fault.As(err); f != nil && f.Code == fault.CodeBudgetExceeded {
		return model.Response{}, nil
	}
	if err != nil {
		return model.Response{}, err
	}
	asked := conversation.Answer{Purpose: req.Purpose, BeganAt: a.d.Now(), Added: req.Messages}
	given, failed, _, err := a.generate(ctx, ask, model.Stream{}, until)
	if err != nil {
		return model.Response{}, err
	}
	var used budget.Amount
	used.Tokens, used.Money = given.Used()
	asked.Response, asked.Error, asked.Money = given.Response, failed, used.Money
	done, err := a.d.Conversations.EndAside(ctx, w.Work, asked, func(b *db.Batch, counts bool) { reserved.QueueEnd(b, used, counts) })
	w.Turn.Tokens, w.Turn.MoneyMicros = w.Turn.Tokens+given.Usage.Total(), w.Turn.MoneyMicros+used.Money
	w.Turn.Estimated = w.Turn.Estimated || given.Usage.Estimate
	return done.Response, err
}

// wantsPerson reports whether the message asks for a person, and the agent has such messages handed
// over. No model is asked then.
func (w *work) wantsPerson() bool {
	return len(w.Answers) == 0 && w.in.Part == 0 && w.Turn.Goal == nil && w.Agent.Definition.Escalation.OnRequest && agentloop.WantsPerson(w.Turn.Message)
}

// mostOfSummary is how many bytes the people read who are asked to take over.
const mostOfSummary = 4 << 10

// summary says what happened in the session until now, for people: in the agent's words where it has
// said so, otherwise the newest part of an extract.
func (w *work) summary(words string) string {
	if words == "" {
		var messages []model.Message
		for _, e := range slices.Concat(w.History, w.said()) {
			messages = append(messages, e.Message)
		}
		words = agentloop.Extract(w.frame.Summary, messages)
	}
	return agentloop.Newest(words, mostOfSummary)
}
