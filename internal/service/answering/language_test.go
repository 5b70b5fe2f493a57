package answering

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/language"
	"agentruntime/internal/models/model"
)

// A model that is asked for the same answer in another language is offered no call.
func TestRepeatInAnotherLanguageCallsNothing(t *testing.T) {
	t.Parallel()
	d := agentdef.Default()
	w := &work{Work: conversation.Work{Agent: conversation.Agent{Definition: &d}}}
	w.Turn.Message = "Wo ist meine Bestellung?"
	w.frame.Advice = language.Advice(w.Turn.Message, "")
	require.False(t, w.request().NoCalls, "the first answer")
	w.Answers = []conversation.Answer{{Purpose: model.Reply, Response: model.Response{Calls: []model.ToolCall{{ID: "1"}}}}}
	require.False(t, w.request().NoCalls, "after a call")
	w.Answers = append(w.Answers, conversation.Answer{Purpose: model.Reply, Response: model.Response{Text: "Your order is on its way and will arrive tomorrow."}})
	w.next.Added = w.again()
	req := w.request()
	require.True(t, req.NoCalls)
	require.Equal(t, "Your answer was not shown to the customer, because it is in English. Give the same answer in German, and say nothing about this. Only where the customer asks for English, give it in English again.", req.Messages[len(req.Messages)-1].Text)
}
