package stepping

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"agentruntime/db"
	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/agents/roster"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
	"agentruntime/internal/tenant/budget"
)

// AskModel has a model answer the next request of a step, and returns what follows. An answer that
// is there already is not asked for again, so it can be repeated.
func (s *Stepper) AskModel(ctx context.Context, in flow.MapModelCall) (flow.MapModelTurn, error) {
	e, err := s.Head(ctx, in.MapRef)
	if err != nil {
		return flow.MapModelTurn{}, err
	}
	asked, err := s.Model(ctx, e, in.Ref)
	if errors.Is(err, stepmachine.ErrTooLarge) {
		return failedTurn(in.Ref, stepmachine.NewError(mapdef.CodeModelError, "what the step asks the model is too long")), nil
	}
	if err != nil {
		return flow.MapModelTurn{}, err
	}
	s.Rests(e.ID)
	turns, err := asked.Prepare(ctx)
	if err != nil {
		return flow.MapModelTurn{}, err
	}
	by, failed, err := s.worker(ctx, asked, turns)
	if err != nil || failed != nil {
		return failedTurn(in.Ref, failed), err
	}
	if in.Turn == len(turns) {
		turn, failed, err := s.next(ctx, asked, by, turns, in)
		if err != nil || failed != nil {
			return failedTurn(in.Ref, failed), err
		}
		stored, err := asked.BeginTurn(ctx, in.Turn, &turn, in.Reads)
		if err != nil {
			return flow.MapModelTurn{}, err
		}
		if !stored {
			return s.notStored(ctx, asked, in)
		}
		turns = append(turns, turn)
	}
	if in.Turn >= len(turns) {
		return flow.MapModelTurn{}, fmt.Errorf("stepping: turn %d of a model, and there are %d", in.Turn, len(turns))
	}
	goesOn := len(turns) > in.Turn+1
	turns = turns[:in.Turn+1]
	if last := &turns[in.Turn]; !last.Ended {
		if err := s.generate(ctx, asked, by, turns); err != nil {
			return flow.MapModelTurn{}, err
		}
	}
	if last := &turns[in.Turn]; last.Unruled() {
		if err := s.rule(ctx, asked, by, turns); err != nil {
			return flow.MapModelTurn{}, err
		}
		if err := asked.EndRuling(ctx, in.Turn, *last); err != nil {
			return flow.MapModelTurn{}, err
		}
	}
	out, err := s.after(ctx, asked, by, turns, goesOn)
	out.Tainted, out.Sources = turns[in.Turn].Tainted, turns[in.Turn].Sources
	return out, err
}

// after returns what the workflow has to do after the last answer, of the manager too. goesOn: there is a
// next turn already.
func (s *Stepper) after(
	ctx context.Context, asked execution.AskedModel, by *roster.Version, turns []execution.ModelTurn, goesOn bool,
) (flow.MapModelTurn, error) {
	if last := turns[len(turns)-1]; last.Manager && last.Error == nil {
		return s.ruled(ctx, asked, by, turns, goesOn)
	}
	return s.follow(ctx, asked, by, turns)
}

// notStored is what follows where a turn was not begun: another attempt has begun it meanwhile, which
// makes this one fail and be made again, or the execution may ask no further.
func (s *Stepper) notStored(ctx context.Context, asked execution.AskedModel, in flow.MapModelCall) (flow.MapModelTurn, error) {
	turns, err := asked.Turns(ctx)
	if err != nil {
		return flow.MapModelTurn{}, err
	}
	if len(turns) > in.Turn {
		return flow.MapModelTurn{}, errors.New("stepping: another attempt has begun this call of a model")
	}
	return failedTurn(in.Ref, stepmachine.NewError(mapdef.CodeModelError, "the execution has made as many calls of models as it may, or stored as much of them")), nil
}

// next returns what the next call asks. failed is why the step fails instead.
func (s *Stepper) next(
	ctx context.Context, asked execution.AskedModel, by *roster.Version, turns []execution.ModelTurn, in flow.MapModelCall,
) (turn execution.ModelTurn, failed *stepmachine.Error, err error) {
	if failed := spent(by, turns); failed != nil {
		return turn, failed, nil
	}
	if failed, err := s.overspent(ctx, asked.Execution); err != nil || failed != nil {
		return turn, failed, err
	}
	if len(turns) == 0 {
		ask := modelstep.Ask{Do: asked.Do, Text: asked.Text, Input: asked.Input}
		if do, is := asked.Do.(*mapdef.DoAgent); is {
			if ask.Tools, failed, err = s.tools(ctx, asked.Execution.TenantID, do, by); failed != nil || err != nil {
				return turn, failed, err
			}
		}
		if by != nil {
			ask.Managed = managed(by)
			turn.Agent = &execution.StepAgent{ID: by.AgentID, Name: by.Definition.Name, Version: by.Number, Mode: string(by.Definition.ExecutionMode)}
			ask.Instructions = by.Definition.Instructions
		}
		req, err := modelstep.Open(ask)
		if err != nil {
			return turn, stepmachine.NewError(mapdef.CodeModelError, err.Error()), nil
		}
		turn.Request = &req
		return turn, nil, nil
	}
	if last := turns[len(turns)-1]; last.Manager {
		turn, err = s.afterRuling(ctx, asked, last, in)
		return turn, nil, err
	}
	if last := turns[len(turns)-1].Answer; len(last.Calls) > 0 {
		turn.Ends = in.Ends
		turn.Added, err = s.told(ctx, asked.Execution, turns, in.Ends, managed(by))
		return turn, nil, err
	}
	if managed(by) {
		if means := s.judgeWorker(asked, by, turns); means.output != nil {
			return s.askManager(ctx, asked, by, turns, means)
		}
	}
	said, err := s.judge(ctx, asked, by, turns)
	turn.Added = []model.Message{{Role: model.User, Text: said.again}}
	return turn, nil, err
}

// requestOf returns the request of the last turn: what was asked first, and all that was said since.
func requestOf(turns []execution.ModelTurn) model.Request {
	if turns[len(turns)-1].Manager {
		turns = asksManager(turns)
	} else {
		turns = ofWorker(turns)
	}
	req := *turns[0].Request
	req.Messages = append([]model.Message{}, req.Messages...)
	for i, turn := range turns {
		req.Messages = append(req.Messages, turn.Added...)
		if i < len(turns)-1 {
			req.Messages = append(req.Messages, model.Message{Role: model.Assistant, Text: turn.Answer.Text, Calls: turn.Answer.Calls})
		}
	}
	return req
}

// generate has the model answer the last turn, and stores its answer. The budgets are asked before,
// and settled with the answer in one transaction. The error is a fault of ours.
func (s *Stepper) generate(ctx context.Context, asked execution.AskedModel, by *roster.Version, turns []execution.ModelTurn) error {
	e, number := asked.Execution, len(turns)-1
	ask := model.Ask{Tenant: e.TenantID, Key: e.KeyID, Request: requestOf(turns)}
	turn := &turns[number]
	choice, err := s.choiceOf(ctx, asked, by, ask.Request.Purpose)
	var reserved budget.Reservation
	var used budget.Amount
	if err == nil {
		ask.Choice = choice
		reserved, err = s.d.Budgets.Reserve(ctx, e.TenantID, e.KeyID, s.d.Models.Most(choice, ask.Request))
	}
	switch f := fault.As(err); {
	case f != nil && (f.Code == fault.CodeBudgetExceeded || f.Code == fault.CodeModelNotConnected):
		turn.Error = stepmachine.OfFault(f)
	case err != nil:
		return err
	default:
		if used, err = s.answer(ctx, ask, turn); err != nil {
			return err // the lease of what was reserved ends
		}
	}
	turn.Ended, turn.Money = true, used.Money
	var unruled error
	if turn.Manager {
		unruled = s.rule(ctx, asked, by, turns) // the answer is paid for, and is stored in any case
	}
	err = asked.EndTurn(ctx, number, *turn, func(b *db.Batch, counts bool) {
		reserved.QueueEnd(b, used, counts)
		if counts {
			s.d.Callers.QueueUsed(b, e.TenantID, e.Chain, turn.Answer.Usage, turn.Money)
		}
	})
	return errors.Join(unruled, err)
}

// answer sets the answer to a request, or why there is none, and returns what it used. Its error says
// that this attempt has ended, and not the model.
func (s *Stepper) answer(ctx context.Context, ask model.Ask, turn *execution.ModelTurn) (budget.Amount, error) {
	answer, err := s.d.Models.Generate(ctx, ask, model.Stream{})
	var used budget.Amount
	used.Tokens, used.Money = answer.Used()
	var failure *model.Error
	switch {
	case err == nil:
		turn.Answer = unique(answer.Sound().Bounded())
	case errors.As(err, &failure):
		turn.Error = stepmachine.NewError(mapdef.CodeModelError, redact.Text(failure.Words()))
		turn.Error.Retryable = failure.Retryable
	case ctx.Err() != nil:
		return used, ctx.Err()
	case fault.HasCode(err, fault.CodeModelNotConnected), fault.HasCode(err, fault.CodeCredentialExpired), fault.HasCode(err, fault.CodeURLNotAllowed):
		turn.Error = stepmachine.NewError(mapdef.CodeModelMissing, fault.As(err).Message)
	default:
		return used, err
	}
	return used, nil
}

// unique returns the answer with an id at each call.
func unique(answer model.Response) model.Response {
	seen := map[string]bool{}
	for i := range answer.Calls {
		call := &answer.Calls[i]
		for n := i; call.ID == "" || seen[call.ID]; n++ {
			call.ID = fmt.Sprintf("call_%d", n)
		}
		seen[call.ID] = true
	}
	return answer
}

// said is what an answer means: the step has ended, the model makes calls, or it is told something.
type said struct {
	output json.RawMessage
	failed *stepmachine.Error
	calls  []model.ToolCall
	again  string
}

// judge returns what the last answer means.
func (s *Stepper) judge(ctx context.Context, asked execution.AskedModel, by *roster.Version, turns []execution.ModelTurn) (said, error) {
	if managed(by) {
		return s.judgeWorker(asked, by, turns).said, nil
	}
	answers := make([]model.Response, len(turns))
	for i, turn := range turns {
		answers[i] = turn.Answer
	}
	means := saidOf(modelstep.Judge(asked.Do, answers, turnsOf(by), asked.Check))
	do, is := asked.Do.(*mapdef.DoAgent)
	if means.output == nil || !is || do.CompleteWhen.IsZero() {
		return means, nil
	}
	return s.complete(ctx, asked, do, turns, means.output)
}

func saidOf(v modelstep.Verdict) said {
	switch {
	case v.Failed != "":
		return said{failed: stepmachine.NewError(mapdef.CodeModelError, v.Failed)}
	case v.Again != "":
		return said{again: v.Again}
	case v.Calls != nil:
		return said{calls: v.Calls}
	default:
		return said{output: v.Output}
	}
}

// follow returns what the workflow has to do after the last answer.
func (s *Stepper) follow(ctx context.Context, asked execution.AskedModel, by *roster.Version, turns []execution.ModelTurn) (flow.MapModelTurn, error) {
	ref, last := asked.Start.Ref, turns[len(turns)-1]
	if last.Error != nil {
		return failedTurn(ref, last.Error), nil
	}
	means, err := s.judge(ctx, asked, by, turns)
	if err != nil {
		return flow.MapModelTurn{}, err
	}
	switch {
	case means.failed != nil:
		return failedTurn(ref, means.failed), nil
	case means.output != nil && managed(by): // the next turn is the manager's
		return flow.MapModelTurn{Private: flow.IsPrivate()}, nil
	case means.output != nil:
		out := flow.MapModelTurn{Private: flow.IsPrivate(), Done: true, End: stepmachine.CallEnd{Ref: ref, Status: stepmachine.CallExecuted}}
		out.End.Result, err = asked.Keep(ctx, means.output)
		return out, err
	}
	out := flow.MapModelTurn{Private: flow.IsPrivate()}
	most := left(by, turns)
	for i, call := range means.calls {
		if i < model.MaxCalls && callable(turns, call) == nil && len(out.Calls) < most {
			out.Calls, out.Verbs = append(out.Calls, i), append(out.Verbs, call.Name)
		}
	}
	return out, nil
}

func failedTurn(ref stepmachine.Ref, failed *stepmachine.Error) flow.MapModelTurn {
	return flow.MapModelTurn{Private: flow.IsPrivate(), Done: true, End: stepmachine.CallEnd{Ref: ref, Status: stepmachine.CallFailed, Error: failed}}
}
