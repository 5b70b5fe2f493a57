package execution

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/maps/stepmachine"
)

// editing is the edits of a retry while they are judged.
type editing struct {
	s     *rows
	e     Execution
	p     *stepmachine.Program
	left  *stepmachine.Execution
	again stepmachine.Again
	sent  map[string]json.RawMessage // by the ids of the steps
}

// inputsBefore are what an edited step got, and what the editor saw of that. Without sure, the edit may be
// for an iteration that got another input than these. With more, it got others that were not read.
type inputsBefore struct {
	inputs, shown []json.RawMessage
	sure, more    bool
}

// restored returns the edits with the masked values that they leave out. The error is INVALID_ARGS where
// an edit does not fit its step, has a placeholder, or is a template: an edit is a value, and a text that
// looks like an expression would otherwise be sent as it is written.
func (d *editing) restored(ctx context.Context, key *datakey.Key) (map[string]json.RawMessage, error) {
	if len(d.sent) == 0 {
		return nil, nil //nolint:nilnil // no edits
	}
	before, err := d.before(ctx, key)
	if err != nil {
		return nil, err
	}
	f := fault.New(fault.CodeInvalidArgs, "An edited input does not fit its step.")
	edits, steps := map[string]json.RawMessage{}, stepsOf(d.p.Definition())
	for id, input := range d.sent {
		edit, details, err := before[id].restore(input)
		if err != nil {
			return nil, fmt.Errorf("execution: edit of %s: %w", id, err)
		}
		wrong := d.p.CheckEdit(id, edit)
		if verb := verbOf(steps[id]); verb != "" && len(wrong) == 0 {
			if wrong, err = d.checkArguments(ctx, verb, edit); err != nil {
				return nil, err
			}
		}
		for _, w := range append(details, wrong...) {
			w.Path = "/edits/" + fault.PointerToken(id) + w.Path
			f.Details = append(f.Details, w)
		}
		edits[id] = edit
	}
	if len(f.Details) == 0 {
		return edits, nil
	}
	slices.SortFunc(f.Details, func(a, b fault.Detail) int { return strings.Compare(a.Path+a.Rule, b.Path+b.Rule) })
	return nil, f
}

// restore returns an edit with the masked values that it leaves out, and what is wrong with it. Paths
// begin at the edit.
func (b *inputsBefore) restore(input json.RawMessage) (edit json.RawMessage, details []fault.Detail, err error) {
	if b.more {
		// An edit that leaves out what one of those has masked would silently lose it.
		return input, []fault.Detail{{Rule: "masked", Message: fmt.Sprintf("may be for any of more than %d iterations, which is too many to see whether it leaves out a masked value. Edit what the loop gets instead", mostBefore)}}, nil
	}
	none := json.RawMessage("null")
	edit, places, err := redact.Restore(none, none, input)
	if err != nil {
		return nil, nil, err
	}
	whole := edit
	for i, before := range b.inputs {
		if edit, places, err = redact.Restore(before, b.shown[i], input); err != nil {
			return nil, nil, err
		}
		if len(places) > 0 {
			break
		}
		if !b.sure && !bytes.Equal(edit, whole) {
			details = append(details, fault.Detail{Rule: "masked", Message: "leaves out a masked value, and several iterations have one. Set it"})
			break
		}
	}
	for _, place := range places {
		details = append(details, fault.Detail{Path: place, Rule: "placeholder", Message: "is a placeholder of a masked value. Leave it out to keep its value, or set it again"})
	}
	if strings.Contains(string(input), "${") {
		details = append(details, fault.Detail{Rule: "expression", Message: "has an expression. An edit is a value, and is used as it is written"})
	}
	return edit, details, nil
}

// checkArguments returns what is wrong with the arguments of a verb, with paths below them.
func (d *editing) checkArguments(ctx context.Context, verb string, args json.RawMessage) ([]fault.Detail, error) {
	wrong, err := d.s.d.Arguments.Check(ctx, d.e.TenantID, verb, args)
	if fault.HasCode(err, fault.CodeVerbNotFound) {
		return []fault.Detail{{Rule: "unknown_verb", Message: "the tenant has no verb " + verb}}, nil
	}
	for i, w := range wrong {
		wrong[i].Path = strings.TrimPrefix(w.Path, "/args")
	}
	return wrong, err
}

const (
	// mostBefore is how many iterations are looked at where the edit may be for any.
	mostBefore = 100
	// mostBytesBefore is how many bytes the inputs of edited steps may have together, and how many are
	// read of their rows. They are in memory at once, several times: as they are, masked, and decoded.
	mostBytesBefore = 4 << 20
)

// before returns what the edited steps got, by their ids. The error is INVALID_ARGS where that is too
// much to be looked at.
func (d *editing) before(ctx context.Context, key *datakey.Key) (map[string]*inputsBefore, error) {
	find := dbsqlc.MapStepInputsParams{TenantID: d.e.TenantID, Execution: d.e.ID, Paths: []string{}, Steps: []string{}}
	before := map[string]*inputsBefore{}
	for id := range d.sent {
		at, sure := d.left.TakesEdit(d.again, id)
		if before[id] = (&inputsBefore{sure: sure}); sure {
			find.Paths = append(find.Paths, pathOf(at))
		} else {
			find.Steps = append(find.Steps, id)
		}
	}
	find.Most, find.Bytes = mostBefore+1, mostBytesBefore
	rows, err := d.s.q.MapStepInputs(ctx, d.s.d.DB.Reading(d.e.TenantID, db.ListLimit), find)
	if err != nil {
		return nil, fmt.Errorf("execution: inputs of steps: %w", err)
	}
	if len(rows) > 0 && rows[0].Found > int64(len(rows)) {
		return nil, tooMuchBefore()
	}
	found := map[string]int{}
	for _, row := range rows {
		found[row.Step]++
		before[row.Step].more = found[row.Step] > mostBefore
	}
	size := 0
	for _, row := range rows {
		if before[row.Step].more {
			continue
		}
		input, err := d.input(ctx, key, row)
		if err != nil {
			return nil, fmt.Errorf("execution: input of %s: %w", row.Path, err)
		}
		if input == nil {
			continue
		}
		if size += len(input); size > mostBytesBefore {
			return nil, tooMuchBefore()
		}
		before[row.Step].inputs = append(before[row.Step].inputs, input)
	}
	return before, d.show(ctx, before)
}

// tooMuchBefore refuses edits whose steps got more than may be looked at together.
func tooMuchBefore() error {
	f := fault.New(fault.CodeInvalidArgs, "An edited input does not fit its step.")
	f.Details = []fault.Detail{{Path: "/edits", Rule: "too_large", Message: fmt.Sprintf("are for steps that got more than %d MiB together. Edit fewer steps, or begin from a step before them", mostBytesBefore>>20)}}
	return f
}

// show adds what the editor saw of the inputs.
func (d *editing) show(ctx context.Context, before map[string]*inputsBefore) error {
	var calls []ShownCall
	var of []*inputsBefore
	steps := stepsOf(d.p.Definition())
	for id, b := range before {
		for _, input := range b.inputs {
			call := ShownCall{Values: []json.RawMessage{masked(input)}}
			if verb := verbOf(steps[id]); verb != "" {
				call = ShownCall{Verb: verb, Args: call.Values[0]}
			}
			calls, of = append(calls, call), append(of, b)
		}
	}
	if !d.s.d.Arguments.MaskCalls(ctx, d.e.TenantID, calls) {
		// All of it would count as masked, and what an edit leaves out would come back.
		return fault.New(fault.CodeServiceUnavailable, "What the edited steps got cannot be shown at this moment. Try again.")
	}
	for i, call := range calls {
		shown := call.Args
		if call.Values != nil {
			shown = call.Values[0]
		}
		of[i].shown = append(of[i].shown, shown)
	}
	for id, b := range before {
		for i := range b.shown {
			if raises(steps[id]) {
				b.shown[i] = shownWords(b.shown[i])
			}
		}
	}
	return nil
}

// input returns what a step got; nil where that is too large to be shown.
func (d *editing) input(ctx context.Context, key *datakey.Key, row dbsqlc.MapStepInputsRow) (json.RawMessage, error) {
	text, err := key.Open(stepPlace(d.e.TenantID, d.e.ID, row.Path, datakey.MapStepInput), row.Input)
	if err != nil {
		return nil, err
	}
	var v stepmachine.Value
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	if v.Stored != nil && v.Stored.Bytes > mostShown {
		return nil, nil
	}
	input, err := d.s.Resolve(ctx, d.e, v, nil)
	if errors.Is(err, stepmachine.ErrTooLarge) || len(input) > mostShown {
		return nil, nil
	}
	return input, err
}

// storeEdit stores an edit apart that is too large for the state.
func (s *triggers) storeEdit(b *db.Batch, key *datakey.Key, e Execution, v *stepmachine.Value, step string) {
	if len(v.JSON) <= stepmachine.MaxInline {
		return
	}
	name := fmt.Sprintf("edit:%d:%s", e.Attempt+1, step)
	s.queueValue(b, key, e, name, *v)
	*v = Reference(name, v.JSON, nil)
}

// retryDetails is what the audit record has of a retry. Values are masked.
func (s *triggers) retryDetails(ctx context.Context, e Execution, attempt int32, r Retry) (map[string]any, error) {
	details := map[string]any{"attempt": attempt}
	if r.FromStep != "" {
		details["from_step"] = r.FromStep
	}
	if len(r.Edits) == 0 {
		return details, nil
	}
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return nil, err
	}
	if details["edits"], err = s.views.maskEdits(ctx, e, v.Program.Definition(), r.Edits); err != nil {
		return nil, err
	}
	return details, nil
}
