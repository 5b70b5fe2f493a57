package stepping

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/agents/roster"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
)

// mostQuestions is how many questions the manager of one step may ask.
const mostQuestions = 20

// managed reports whether a manager judges the work of the agent of a step.
func managed(by *roster.Version) bool {
	return by != nil && (by.Definition.Models.Manager != nil || by.Definition.ExecutionMode == agentdef.WorkflowOnly)
}

// managerOf returns the model that judges.
func managerOf(by *roster.Version) agentdef.Model {
	if m := by.Definition.Models.Manager; m != nil {
		return *m
	}
	return *by.Definition.Models.Worker
}

// ofWorker returns the turns of the worker.
func ofWorker(turns []execution.ModelTurn) []execution.ModelTurn {
	return slices.DeleteFunc(slices.Clone(turns), func(t execution.ModelTurn) bool { return t.Manager })
}

// attemptOf returns the turns of the worker since its manager has judged last.
func attemptOf(turns []execution.ModelTurn) []execution.ModelTurn {
	from := 0
	for i, turn := range turns {
		if turn.Manager {
			from = i + 1
		}
	}
	return turns[from:]
}

// asksManager returns the turns of the manager that are about the last work, the last turn being one.
func asksManager(turns []execution.ModelTurn) []execution.ModelTurn {
	from := len(turns) - 1
	for turns[from].Request == nil {
		from--
	}
	return turns[from:]
}

// operationOf returns whether a verb that the worker was offered reads or writes; "" where it was not offered.
func operationOf(tools []model.Tool, name string) string {
	for _, t := range tools {
		if t.Name == name {
			return t.Operation
		}
	}
	return ""
}

// work returns what the manager of a step judges: the last answer of the worker, with all calls of the
// step. turns end with that answer. failed is why the step fails instead.
func (s *Stepper) work(
	ctx context.Context, asked execution.AskedModel, by *roster.Version, turns []execution.ModelTurn, output json.RawMessage, handled []string,
) (w modelstep.Work, failed *stepmachine.Error, err error) {
	do, _ := asked.Do.(*mapdef.DoAgent)
	w = modelstep.Work{Goal: asked.Text, Criteria: do.Criteria, Output: output, Calls: []modelstep.Call{}, HasTools: len(turns[0].Request.Tools) > 0, Instructions: by.Definition.Instructions}
	if len(w.Criteria) == 0 {
		w.Criteria = []mapdef.Criterion{{ID: modelstep.GoalCriterion, Description: asked.Text.Text}}
	}
	calls, wrong := []stepmachine.AgentCall{}, []string{}
	for i, turn := range turns {
		if turn.Asked != nil {
			w.Calls = append(w.Calls, modelstep.Call{
				ID: fmt.Sprintf("input_%d", i), Verb: "input", Args: mustJSON(map[string]string{"question": turn.Asked.Question}),
				Status: string(stepmachine.CallExecuted), Result: turn.Asked.Answer,
			})
		}
		if turn.Manager || len(turn.Answer.Calls) == 0 {
			continue
		}
		list, err := s.ended(ctx, asked.Execution, turns, turn.Answer.Calls, turns[i+1].Ends)
		if err != nil {
			return w, nil, err
		}
		for n, call := range list {
			seen := modelstep.Call{
				ID: evidenceID(i, n), Verb: call.Verb, Args: call.Args, Status: call.Status, Result: call.Result, Error: modelstep.FailureOf(call.failed),
				Operation: operationOf(turns[0].Request.Tools, call.Verb),
			}
			if !succeeded(call.Status) && !slices.Contains(handled, seen.ID) {
				wrong = append(wrong, seen.ID+" ("+call.Verb+")")
			}
			w.Calls, calls = append(w.Calls, seen), append(calls, call.AgentCall)
		}
	}
	check := modelstep.Check{Name: modelstep.CheckCalls, Passed: len(wrong) == 0}
	if !check.Passed {
		check.Detail = "These calls have failed, and handled does not name them: " + strings.Join(wrong, ", ")
	}
	w.Checks = append(w.Checks, check)
	if do.OutputSchema != nil {
		w.Checks = append(w.Checks, modelstep.Check{Name: modelstep.CheckOutputSchema, Passed: true}) // otherwise there is no output
	}
	if do.CompleteWhen.IsZero() {
		return w, nil, nil
	}
	yes, failed, err := asked.IsComplete(ctx, calls, output)
	check = modelstep.Check{Name: modelstep.CheckCompleteWhen, Passed: yes}
	if !yes {
		check.Detail = "The condition of the step is not true."
	}
	w.Checks = append(w.Checks, check)
	return w, failed, err
}

// evidenceID names a call of a step by its turn and its number.
func evidenceID(turn, number int) string { return fmt.Sprintf("c%d_%d", turn, number) }

func succeeded(status string) bool {
	return status == string(stepmachine.CallExecuted) || status == string(stepmachine.CallIntercepted)
}

// judged is what the last answer of the worker is worth before its manager has judged it.
type judged struct {
	said

	handled []string
}

// judgeWorker returns what the last answer of a worker means that has a manager.
func (s *Stepper) judgeWorker(asked execution.AskedModel, by *roster.Version, turns []execution.ModelTurn) judged {
	do, _ := asked.Do.(*mapdef.DoAgent)
	attempt := attemptOf(turns)
	answers := make([]model.Response, len(attempt))
	var out judged
	for i, turn := range attempt {
		answers[i] = turn.Answer
		if len(turn.Answer.Calls) == 0 {
			answers[i].Text, out.handled = modelstep.Handled(turn.Answer.Text, do.OutputSchema)
		}
	}
	out.said = saidOf(modelstep.Judge(asked.Do, answers, turnsOf(by), asked.Check))
	return out
}

// askManager returns the turn by which the manager is asked about the last answer of the worker.
func (s *Stepper) askManager(
	ctx context.Context, asked execution.AskedModel, by *roster.Version, turns []execution.ModelTurn, means judged,
) (turn execution.ModelTurn, failed *stepmachine.Error, err error) {
	w, failed, err := s.work(ctx, asked, by, turns, means.output, means.handled)
	if err != nil || failed != nil {
		return turn, failed, err
	}
	calls := mustJSON(w.Calls)
	if err := s.Hide(ctx, asked.Execution.TenantID, &calls); err != nil {
		return turn, nil, err
	}
	if err := json.Unmarshal(calls, &w.Calls); err != nil {
		return turn, nil, fmt.Errorf("stepping: masked calls: %w", err)
	}
	req, err := modelstep.OpenManager(w)
	if err != nil {
		return turn, stepmachine.NewError(mapdef.CodeModelError, err.Error()), nil
	}
	return execution.ModelTurn{Manager: true, Request: &req}, nil, nil
}

// rule sets what the answer of a manager is worth; it stays nil where the answer cannot be used.
func (s *Stepper) rule(ctx context.Context, asked execution.AskedModel, by *roster.Version, turns []execution.ModelTurn) error {
	turn := &turns[len(turns)-1]
	if turn.Error != nil {
		return nil
	}
	worked := turns[:len(turns)-len(asksManager(turns))]
	means := s.judgeWorker(asked, by, worked)
	w, failed, err := s.work(ctx, asked, by, worked, means.output, means.handled)
	if err != nil || failed != nil {
		turn.Error = failed
		return err
	}
	if ruling, wrong := modelstep.Rule(w, turn.Answer); wrong == "" {
		turn.Ruling = &ruling
	} else {
		turn.Wrong = wrong
	}
	return nil
}

// ruled returns what follows from the last turn, which is the manager's. answered: the worker has been
// asked again since.
func (s *Stepper) ruled(ctx context.Context, asked execution.AskedModel, by *roster.Version, turns []execution.ModelTurn, answered bool) (flow.MapModelTurn, error) {
	ref, last, out := asked.Start.Ref, turns[len(turns)-1], flow.MapModelTurn{Private: flow.IsPrivate()}
	notReached := func(format string, args ...any) flow.MapModelTurn {
		return failedTurn(ref, stepmachine.NewError(mapdef.CodeGoalNotReached, fmt.Sprintf(format, args...)))
	}
	if last.Ruling == nil {
		if len(asksManager(turns)) > 1 {
			return failedTurn(ref, stepmachine.NewError(mapdef.CodeModelError, "the answer of the manager cannot be used: "+last.Wrong)), nil
		}
		return out, nil
	}
	tries, questions := 0, 0
	for _, turn := range turns {
		switch {
		case turn.Ruling == nil:
		case turn.Ruling.Verdict == modelstep.Retry:
			tries++
		default:
			questions++
		}
	}
	switch last.Ruling.Verdict {
	case modelstep.Complete:
		worked := turns[:len(turns)-len(asksManager(turns))]
		out.Done, out.End = true, stepmachine.CallEnd{Ref: ref, Status: stepmachine.CallExecuted}
		var err error
		out.End.Result, err = asked.Keep(ctx, s.judgeWorker(asked, by, worked).output)
		return out, err
	case modelstep.Failed:
		return notReached("the manager has found that the goal cannot be reached: its ruling is in model_calls of the step"), nil
	case modelstep.Retry:
		if tries >= by.Definition.Limits.StepAttempts {
			return notReached("the step is not complete after %d attempts: the rulings are in model_calls of the step", tries), nil
		}
		return out, nil
	case modelstep.NeedsInput:
		if e := asked.Execution; e.Chain.Driver() != nil && e.SessionID == "" {
			return failedTurn(ref, stepmachine.NewError(mapdef.CodeNoSession,
				"the manager asks something, and the message is in no session in which it can be answered: the question is in model_calls of the step")), nil
		}
	case modelstep.Escalate:
	}
	if questions > mostQuestions {
		return notReached("the manager has asked more than %d questions", mostQuestions), nil
	}
	if out.Waits = stepmachine.WaitsInput; last.Ruling.Verdict == modelstep.Escalate {
		out.Waits = stepmachine.WaitsSignal
	}
	if answered {
		out.Waits = ""
	}
	return out, nil
}

// afterRuling returns what the next turn asks after one of the manager.
func (s *Stepper) afterRuling(ctx context.Context, asked execution.AskedModel, last execution.ModelTurn, in flow.MapModelCall) (turn execution.ModelTurn, err error) {
	switch {
	case last.Ruling == nil:
		return execution.ModelTurn{Manager: true, Added: []model.Message{modelstep.RepairManager(last.Wrong)}}, nil
	case last.Ruling.Verdict == modelstep.Retry:
		turn.Added = []model.Message{modelstep.Feedback(*last.Ruling)}
		return turn, nil
	case in.Input == nil:
		return turn, fmt.Errorf("stepping: turn %d goes on without the answer to a question", in.Turn)
	}
	answer, err := asked.Resolve(*in.Input)
	if err == nil {
		err = s.Hide(ctx, asked.Execution.TenantID, &answer)
	}
	if err != nil {
		return turn, err
	}
	turn.Asked = &execution.Question{Question: last.Ruling.Feedback, Answer: answer}
	turn.Added = []model.Message{modelstep.Answered(last.Ruling.Feedback, answer)}
	return turn, nil
}

func mustJSON(v any) json.RawMessage {
	raw, err := exactjson.Encode(v)
	if err != nil {
		return json.RawMessage("null") // it is made of texts
	}
	return raw
}
