package execution

import (
	"context"
	"encoding/json"

	"agentruntime/internal/kernel/mapdef"
)

// ShownCall has the texts of one call of a verb. Those that are nil stay nil.
type ShownCall struct {
	// Verb is "" where it is not known. Then all values are masked.
	Verb string
	// Args are the arguments, and Result what the provider has answered.
	Args, Result json.RawMessage
	// Before and After are what the read-back of the verb has read.
	Before, After json.RawMessage
}

// maskCalls masks what verb steps got and gave like the arguments and results of runs.
func (s *Service) maskCalls(ctx context.Context, e Execution, steps []Step) error {
	var calls []ShownCall
	var of []int
	for i, step := range steps {
		if step.Type == string(mapdef.TypeVerb) && (step.Input != nil || step.Output != nil) {
			calls, of = append(calls, ShownCall{Args: step.Input, Result: step.Output}), append(of, i)
		}
	}
	if len(calls) == 0 {
		return nil
	}
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return err
	}
	for i := range calls {
		if step := v.Program.Step(steps[of[i]].Instance); step != nil {
			calls[i].Verb = verbOf(step)
		}
	}
	s.d.Arguments.MaskCalls(ctx, e.TenantID, calls)
	for i, call := range calls {
		steps[of[i]].Input, steps[of[i]].Output = call.Args, call.Result
	}
	return nil
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
func (s *Service) maskEdits(ctx context.Context, e Execution, d *mapdef.Definition, edits map[string]json.RawMessage) map[string]json.RawMessage {
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
	return out
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
