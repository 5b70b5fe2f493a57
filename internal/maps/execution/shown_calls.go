package execution

import (
	"context"
	"encoding/json"
	"fmt"

	"agentruntime/db"
	"agentruntime/internal/kernel/mapdef"
)

// ShownCall has the texts of one call of a verb. Those that are nil stay nil.
type ShownCall struct {
	// Verb is "" where it is not known. Then all values are masked.
	Verb string
	// Args are the arguments.
	Args json.RawMessage
	// Result is what the provider has answered, or a value with the results of several calls, which
	// Results names then.
	Result  json.RawMessage
	Results []ResultIn
	// Before and After are what the read-back of the verb has read. With DryRun, so may be Result.
	Before, After json.RawMessage
	DryRun        bool
	// Values are of a step that makes no call: what it got and gave. Only secrets that the tenant has
	// stored are hidden in them.
	Values []json.RawMessage
}

// ResultIn says where in a value the result of a call may be.
type ResultIn struct {
	Verb string
	// Deep is in how many objects, one in the other, the result is. Arrays do not count.
	Deep int
}

// maskCalls masks what verb steps got and gave like the arguments and results of runs, and the
// outputs of blocks, which have results in them. In what others got and gave it hides secrets that the
// tenant has stored.
func (s *Service) maskCalls(ctx context.Context, e Execution, steps []Step) error {
	var calls []ShownCall
	var of []int
	for i, step := range steps {
		switch {
		case step.Input == nil && step.Output == nil:
			continue
		case mayHaveResults(step.Type):
			calls = append(calls, ShownCall{Result: step.Output, DryRun: e.DryRun})
		default:
			calls = append(calls, ShownCall{Values: []json.RawMessage{step.Input, step.Output}})
		}
		of = append(of, i)
	}
	if len(calls) == 0 {
		return nil
	}
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return err
	}
	for i := range calls {
		if calls[i].Values != nil {
			continue
		}
		step, of := v.Program.Step(steps[of[i]].Instance), &steps[of[i]]
		if of.Type == string(mapdef.TypeVerb) {
			calls[i].Args = of.Input
		}
		if step == nil {
			continue
		}
		if calls[i].Verb = verbOf(step); calls[i].Verb == "" {
			calls[i].Results = resultsOf(step)
		}
	}
	s.d.Arguments.MaskCalls(ctx, e.TenantID, calls)
	for i, call := range calls {
		if call.Values != nil {
			steps[of[i]].Input, steps[of[i]].Output = call.Values[0], call.Values[1]
			continue
		}
		steps[of[i]].Output = call.Result
		if call.Args != nil {
			steps[of[i]].Input = call.Args
		}
	}
	return nil
}

// ShownOutput returns the output of an execution as others than the caller of its trigger see it: without
// secrets that the tenant has stored. That of a Map whose definition has no output is what its last step
// gave, and is masked like it.
func (s *Service) ShownOutput(ctx context.Context, e Execution) (json.RawMessage, error) {
	shown, _, err := s.shownOutput(ctx, e)
	return shown, err
}

// shownOutput is ShownOutput. known is false where all values are masked, because what masks them
// could not be read.
func (s *Service) shownOutput(ctx context.Context, e Execution) (shown json.RawMessage, known bool, err error) {
	if e.Output == nil {
		return nil, true, nil
	}
	shown = masked(e.Output)
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return nil, false, err
	}
	// As a value, it is asked for secrets that the tenant has stored. These are hidden in all texts of
	// the same question.
	calls := []ShownCall{{Values: []json.RawMessage{shown}}}
	d := v.Program.Definition()
	if results := lastResults(d.Steps); d.Output.IsZero() && len(results) > 0 {
		calls = append(calls, ShownCall{Result: shown, Results: results, DryRun: e.DryRun})
		known = s.d.Arguments.MaskCalls(ctx, e.TenantID, calls)
		return calls[1].Result, known, nil
	}
	known = s.d.Arguments.MaskCalls(ctx, e.TenantID, calls)
	return calls[0].Values[0], known, nil
}

// mayHaveResults reports whether the output of a step of the type may have results of calls in it,
// unchanged.
func mayHaveResults(kind string) bool {
	switch mapdef.Type(kind) {
	case mapdef.TypeVerb, mapdef.TypeForeach, mapdef.TypeParallel:
		return true
	default:
		return false
	}
}

// lastResults returns the calls that the output of a list of steps may come from: that of its last
// step, and those before steps that may be skipped.
func lastResults(steps []mapdef.Step) (results []ResultIn) {
	for i := len(steps) - 1; i >= 0; i-- {
		results = append(results, resultsOf(&steps[i])...)
		if steps[i].SkipIf.IsZero() {
			break
		}
	}
	return results
}

// resultsOf returns the calls that the output of a step may come from.
func resultsOf(step *mapdef.Step) (results []ResultIn) {
	switch do := step.Do.(type) {
	case *mapdef.DoVerb:
		results = []ResultIn{{Verb: do.Verb}}
	case *mapdef.DoForeach:
		results = lastResults(do.Steps)
	case *mapdef.DoParallel:
		for _, b := range do.Branches {
			for _, r := range lastResults(b.Steps) {
				results = append(results, ResultIn{r.Verb, r.Deep + 1})
			}
		}
	}
	for _, c := range step.Catch {
		results = append(results, lastResults(c.Steps)...)
	}
	return results
}

// maskChanges masks the arguments of changes, and what their read-backs have read.
func (s *Service) maskChanges(ctx context.Context, e Execution, changes []Change) {
	calls := make([]ShownCall, len(changes))
	for i, c := range changes {
		calls[i] = ShownCall{Verb: c.Verb, Args: c.Args, Before: c.Before, After: c.After}
	}
	s.d.Arguments.MaskCalls(ctx, e.TenantID, calls)
	for i, call := range calls {
		changes[i].Args, changes[i].Before, changes[i].After = call.Args, call.Before, call.After
	}
}

// maskEdits returns edited inputs of steps as audit records have them.
func (s *Service) maskEdits(ctx context.Context, e Execution, d *mapdef.Definition, edits map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	out, verbs := map[string]json.RawMessage{}, verbsOf(d)
	var ids []string
	var calls []ShownCall
	for id, input := range edits {
		out[id] = masked(input)
		if verb, is := verbs[id]; is {
			ids, calls = append(ids, id), append(calls, ShownCall{Verb: verb, Args: out[id]})
		}
	}
	s.d.Arguments.MaskCalls(ctx, e.TenantID, calls)
	for i, id := range ids {
		out[id] = calls[i].Args
	}
	b := &db.Batch{}
	own, err := s.d.Arguments.QueueOwn(ctx, b, e.TenantID, mustJSON(out))
	if err == nil {
		err = s.send(ctx, e.TenantID, b)
	}
	if err != nil {
		return nil, fmt.Errorf("execution: secrets in edits: %w", err)
	}
	clear(out)
	if err := json.Unmarshal(own(), &out); err != nil {
		return nil, fmt.Errorf("execution: masked edits: %w", err)
	}
	return out, nil
}

// verbOf returns the verb that a step calls, "" for a step that calls none.
func verbOf(step *mapdef.Step) string {
	if do, is := step.Do.(*mapdef.DoVerb); is {
		return do.Verb
	}
	return ""
}

// verbsOf returns the verbs that steps call, by the ids of the steps.
func verbsOf(d *mapdef.Definition) map[string]string {
	verbs := map[string]string{}
	see := func(step *mapdef.Step) {
		if verb := verbOf(step); verb != "" {
			verbs[step.ID] = verb
		}
	}
	mapdef.Walk(d.Steps, see)
	mapdef.Walk(d.OnFailure, see)
	return verbs
}
