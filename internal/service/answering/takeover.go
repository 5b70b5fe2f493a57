package answering

import (
	"context"

	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/models/model"
)

// afterTakeOver notes what came of the calls that were under way when a person took over. A message
// that has ended in any other way stays as it is.
func (a *Answerer) afterTakeOver(ctx context.Context, w *work, in flow.TurnEnd) error {
	if !w.Turn.TakenOver {
		return nil
	}
	w.find(len(w.Answers))
	unheard := in.Late
	for _, end := range in.Ends {
		if end.Status != flow.CallPending && !end.Open {
			unheard = append(unheard, flow.TurnLate{Answer: in.Answer - 1, MapToolEnd: end})
		}
	}
	var notes []model.Message
	taints, sources := false, []string{}
	for _, late := range unheard {
		if late.Answer < 0 || late.Answer >= len(w.Answers) || late.Number >= len(w.Answers[late.Answer].Response.Calls) {
			continue
		}
		if _, made := w.Answers[late.Answer].Runs[late.Number]; !made {
			continue
		}
		call := w.Answers[late.Answer].Response.Calls[late.Number]
		ended, err := a.endOf(ctx, w, call, late.Number, []flow.MapToolEnd{late.MapToolEnd})
		if err != nil {
			return err
		}
		taints, sources = taints || late.Taints(), taint.Add(sources, late.Sources...)
		notes = append(notes, noteOf(call.Name, ended))
	}
	return a.d.Conversations.AfterTakeOver(ctx, w.Work, w.in.Actions, conversation.Taint{Yes: taints, Sources: sources}, notes)
}

// noteOf tells the model how a call has ended that was under way when a person took over.
func noteOf(name string, end modelstep.ToolEnd) model.Message {
	about := end.Shown()
	about["call"] = name
	return agentloop.Note("A call was under way when the person took over. This came of it:", about)
}
