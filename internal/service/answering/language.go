package answering

import (
	"strings"

	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/language"
	"agentruntime/internal/models/model"
	"agentruntime/internal/models/rules"
)

// inLanguage returns what the model is told of the language of its reply.
func (w *work) inLanguage() string {
	if only := w.Agent.Definition.Language; language.IsKnown(only) {
		l, _ := language.Named(only)
		return language.Always(l)
	}
	return language.Advice(w.Turn.Message, w.Turn.Language)
}

// apology returns what the service says where the agent has stopped without a reply.
func (w *work) apology(stop agentloop.Stop) string {
	l, _ := language.Told(w.inLanguage())
	return agentloop.Apology(stop, l.Code)
}

// misspeaks reports whether a reply is surely in another language than the model was told, and is asked
// for again: once for each part of a message, and not where the message may have no further answer. The
// built-in rules know no other words.
func (w *work) misspeaks(given model.Answer, reply *conversation.Reply) bool {
	if w.goal != nil || reply == nil || reply.Text == nil || reply.Error != nil || reply.Stop != agentloop.FinalAnswer || given.Model == rules.Name {
		return false
	}
	limits := w.Agent.Definition.Limits
	_, repeated := w.misspoken()
	if repeated || len(w.Answers)+1 >= limits.MaxTurns || limits.Tokens > 0 && w.Turn.Tokens+given.Usage.Total() >= limits.Tokens {
		return false
	}
	want, known := language.Told(w.frame.Advice)
	if !known {
		return false
	}
	_, surely := language.Differs(*reply.Text, want)
	return surely
}

// said reports whether an answer was a reply. The thoughts of a planner are none.
func said(answer conversation.Answer) bool {
	return answer.Purpose == model.Reply && len(answer.Response.Calls) == 0 && answer.Error == nil
}

// misspoken returns the answer of the part that was in another language; is is false where there is
// none. It is the one without a call that did not end the part.
func (w *work) misspoken() (answer conversation.Answer, is bool) {
	for _, answer := range w.Answers[w.from:] {
		if said(answer) {
			return answer, true
		}
	}
	return answer, false
}

// repeats reports whether the next answer takes the place of the last one, which was in another language.
func (w *work) repeats() bool {
	n := len(w.Answers)
	return n > w.from && said(w.Answers[n-1])
}

// again returns what the model is told of its last answer, where that was in another language.
func (w *work) again() []model.Message {
	if !w.repeats() {
		return nil
	}
	want, _ := language.Told(w.frame.Advice)
	is, _ := language.Differs(w.Answers[len(w.Answers)-1].Response.Text, want)
	return []model.Message{{Role: model.User, Text: agentloop.InLanguage(is.Name, want.Name, language.IsKnown(w.Agent.Definition.Language))}}
}

// kept returns what was said without an answer that was in another language, and what the model was told
// of it.
func (w *work) kept() (list []conversation.Entry) {
	answer, is := w.misspoken()
	for _, e := range w.said() {
		m := e.Message
		note := m.Role == model.User && strings.HasPrefix(m.Text, agentloop.OtherLanguage)
		first := m.Role == model.Assistant && len(m.Calls) == 0 && m.Text == answer.Response.Text
		if !is || !note && !first {
			list = append(list, e)
		}
	}
	return list
}

// improves reports whether the newest answer is better than one in another language. A refusal, a call, an
// empty text, a failure and one that came too late are not.
func improves(next conversation.Answer, reply *conversation.Reply, late bool) bool {
	return !late && next.Error == nil && next.Response.Finish != model.Refused && len(next.Response.Calls) == 0 && reply != nil && reply.Error == nil
}

// anyway is the reply where the model was asked for another language and has given none: the one before.
func (a *Answerer) anyway(w *work) *conversation.Reply {
	answer, is := w.misspoken()
	if !is {
		return nil
	}
	v := agentloop.Judge(answer.Response)
	if v.Reply == "" {
		return nil
	}
	return w.reply(v.Reply, agentloop.FinalAnswer)
}
