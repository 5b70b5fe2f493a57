package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"agentruntime/db"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
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

// callMask gathers the texts of one answer about an execution, so that they are masked together.
type callMask struct {
	s       *rows
	e       Execution
	origins *origins
	calls   []ShownCall
	// takers put the masked texts of the call with the same index back.
	takers []func(ShownCall)
}

func (s *views) newCallMask(e Execution) *callMask {
	return &callMask{s: s.rows, e: e, origins: originsOf(s.rows, e)}
}

func (w *callMask) addCall(call ShownCall, take func(ShownCall)) {
	w.calls, w.takers = append(w.calls, call), append(w.takers, take)
}

// addValue has the secrets hidden in a value that the tenant has stored.
func (w *callMask) addValue(at *json.RawMessage) {
	if *at != nil {
		w.addCall(ShownCall{Values: []json.RawMessage{*at}}, func(c ShownCall) { *at = c.Values[0] })
	}
}

// addWords has a value masked like an error that has the same texts.
func (w *callMask) addWords(at *json.RawMessage) {
	if *at != nil {
		w.addCall(ShownCall{Values: []json.RawMessage{*at}}, func(c ShownCall) { *at = shownWords(c.Values[0]) })
	}
}

// shownWords returns a value without what looks like a secret within its texts.
func shownWords(value json.RawMessage) json.RawMessage { return redact.Replace(value, redact.Text) }

// addOutput has an output masked that has the results in it, unchanged.
func (w *callMask) addOutput(at *json.RawMessage, results []ResultIn) {
	// As a value, it is asked for secrets that the tenant has stored. These are hidden in all texts of
	// the same question.
	w.addValue(at)
	if *at != nil && len(results) > 0 {
		w.addCall(ShownCall{Result: *at, Results: results, DryRun: w.e.DryRun}, func(c ShownCall) { *at = c.Result })
	}
}

// addFailure has the words of an error masked: those of raise, of validate and of others may have any value
// in them.
func (w *callMask) addFailure(at **stepmachine.Error) {
	if *at == nil {
		return
	}
	shown := **at
	*at = &shown
	w.addCall(ShownCall{Values: []json.RawMessage{mustJSON([]string{shown.Title, shown.Detail})}}, func(c ShownCall) {
		var words [2]string
		if json.Unmarshal(c.Values[0], &words) != nil {
			words = [2]string{redact.Masked, redact.Masked} // never: texts stay texts
		}
		shown.Title, shown.Detail = redact.Text(words[0]), redact.Text(words[1])
	})
}

// maskAll masks all texts. unknown is why all values are masked: what masks them could not be read. It is nil
// otherwise.
func (w *callMask) maskAll(ctx context.Context) (unknown error) {
	if !w.s.d.Arguments.MaskCalls(ctx, w.e.TenantID, w.calls) {
		unknown = errNotMasked
	}
	for i, call := range w.calls {
		w.takers[i](call)
	}
	if err := w.origins.err; err != nil {
		w.s.d.Log.WarnContext(ctx, "what other Maps have given is not known, so all values of it are masked", "execution_id", w.e.ExecutionID, "error", err)
		unknown = cmp.Or(unknown, err)
	}
	return unknown
}

// maskCalls masks what verb steps got and gave like the arguments and results of runs, and the outputs of
// steps that have results in them: of blocks and of other Maps. In what others got and gave it hides
// secrets that the tenant has stored. It masks the words of errors.
func (s *views) maskCalls(ctx context.Context, e Execution, steps []Step) error {
	if len(steps) == 0 {
		return nil
	}
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return err
	}
	w := s.newCallMask(e)
	for i := range steps {
		w.addStep(ctx, &steps[i], v.Program.Step(steps[i].Instance))
	}
	_ = w.maskAll(ctx) // why all is masked concerns only those that keep it
	return nil
}

// addStep adds the texts of a step. do is what the definition has in its place, nil for nothing.
func (w *callMask) addStep(ctx context.Context, step *Step, do *mapdef.Step) {
	w.addFailure(&step.Error)
	switch {
	case step.Input == nil && step.Output == nil:
	case step.Type == string(mapdef.TypeVerb):
		call := ShownCall{Verb: verbOf(do), Args: step.Input, Result: step.Output, DryRun: w.e.DryRun}
		w.addCall(call, func(c ShownCall) { step.Input, step.Output = c.Args, c.Result })
	case step.Type == string(mapdef.TypeRaise):
		w.addWords(&step.Input)
	case !mayHaveResults(step.Type):
		w.addValue(&step.Input)
		w.addValue(&step.Output)
	case do == nil:
		w.addValue(&step.Input)
		w.addOutput(&step.Output, anyCall())
	default:
		w.addValue(&step.Input)
		if step.Output != nil {
			w.addOutput(&step.Output, w.origins.step(ctx, do))
		}
	}
}

// Shown returns an execution with its output and its error as others than the caller of its trigger see
// them: without secrets that the tenant has stored. The output of a Map whose definition has none is what
// its last step gave, and is masked like it.
func (s *views) Shown(ctx context.Context, e Execution) (Execution, error) {
	shown, _, err := s.maskedEnd(ctx, e)
	return shown, err
}

// maskedEnd is Shown. unknown is why all values are masked, as of mask.
func (s *views) maskedEnd(ctx context.Context, e Execution) (shown Execution, unknown, err error) {
	if e.Output == nil && e.Error == nil {
		return e, nil, nil
	}
	w := s.newCallMask(e)
	w.addFailure(&e.Error)
	if e.Output != nil {
		v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
		if err != nil {
			return e, nil, err
		}
		var results []ResultIn
		if d := v.Program.Definition(); d.Output.IsZero() {
			results = w.origins.last(ctx, d.Steps)
		}
		e.Output = masked(e.Output)
		w.addOutput(&e.Output, results)
	}
	unknown = w.maskAll(ctx)
	return e, unknown, nil
}

// mayHaveResults reports whether the output of a step of the type may have results of calls in it,
// unchanged.
func mayHaveResults(kind string) bool {
	switch mapdef.Type(kind) {
	case mapdef.TypeVerb, mapdef.TypeForeach, mapdef.TypeParallel, mapdef.TypeMap:
		return true
	default:
		return false
	}
}

// maskChanges masks the arguments of changes, and what their read-backs have read.
func (s *views) maskChanges(ctx context.Context, e Execution, changes []Change) {
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
func (s *views) maskEdits(ctx context.Context, e Execution, d *mapdef.Definition, edits map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	out, steps := map[string]json.RawMessage{}, stepsOf(d)
	var ids []string
	var calls []ShownCall
	for id, input := range edits {
		out[id] = masked(input)
		if verb := verbOf(steps[id]); verb != "" {
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
		err = s.sendBatch(ctx, e.TenantID, b)
	}
	if err != nil {
		return nil, fmt.Errorf("execution: secrets in edits: %w", err)
	}
	clear(out)
	if err := json.Unmarshal(own(), &out); err != nil {
		return nil, fmt.Errorf("execution: masked edits: %w", err)
	}
	for id := range out {
		if raises(steps[id]) {
			out[id] = shownWords(out[id])
		}
	}
	return out, nil
}

// verbOf returns the verb that a step calls, "" for one that calls none, and for nil.
func verbOf(step *mapdef.Step) string {
	if step == nil {
		return ""
	}
	if do, is := step.Do.(*mapdef.DoVerb); is {
		return do.Verb
	}
	return ""
}

// raises reports whether the input of a step is the words of an error.
func raises(step *mapdef.Step) bool {
	return step != nil && step.Do.Type() == mapdef.TypeRaise
}

// stepsOf returns the steps of a definition by their ids.
func stepsOf(d *mapdef.Definition) map[string]*mapdef.Step {
	steps := map[string]*mapdef.Step{}
	see := func(step *mapdef.Step) { steps[step.ID] = step }
	mapdef.Walk(d.Steps, see)
	mapdef.Walk(d.OnFailure, see)
	return steps
}
