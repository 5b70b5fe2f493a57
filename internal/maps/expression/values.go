package expression

import (
	"encoding/json"
	"errors"
	"fmt"

	"agentruntime/internal/base/exactjson"
)

// values are the roots of one evaluation, read as they are needed: decoded, each once, or searched.
type values struct {
	roots   Roots
	spend   func(work int) bool
	decoded map[string]any
	indexes map[string]*exactjson.Index
}

func newValues(roots Roots, spend func(int) bool) *values {
	return &values{roots: roots, spend: spend, decoded: map[string]any{}, indexes: map[string]*exactjson.Index{}}
}

// What an evaluation spends for each byte that it decodes, and for each byte of a result.
const (
	decodeCost = 8
	resultCost = 8
)

// errSpent: the evaluation cannot afford more in this process.
var errSpent = errors.New("evaluate an expression: it takes too much in this process")

// decode returns a root as jq sees it. Numbers keep their digits. The error may be errSpent.
func (v *values) decode(key string, raw json.RawMessage) (value any, err error) {
	if len(raw) == 0 {
		return value, nil // null
	}
	if known, ok := v.decoded[key]; ok {
		return known, nil
	}
	if !v.spend(decodeCost * len(raw)) {
		return nil, errSpent
	}
	if value, err = exactjson.Decode(raw); err != nil {
		return nil, fmt.Errorf("read the root %s: %w", key, err)
	}
	v.decoded[key] = value
	return value, nil
}

// lookup returns what is at a path in a root. ok is false where jq has to say what is wrong, and where
// that takes too much here.
func (v *values) lookup(key string, raw json.RawMessage, path []any) (found json.RawMessage, ok bool) {
	index := v.indexes[key]
	if index == nil {
		index = exactjson.NewIndex(raw, v.spend)
		v.indexes[key] = index
	}
	found, ok = index.Lookup(path)
	return found, ok && v.spend(resultCost*len(found))
}

func (v *values) index() any {
	if v.roots.Index == nil {
		return nil
	}
	return *v.roots.Index
}

func (v *values) now() any {
	if v.roots.Now == "" {
		return nil
	}
	return v.roots.Now
}

// outputKey and errorKey name the roots of a step.
func outputKey(step string) string { return "steps." + step + ".output" }
func errorKey(step string) string  { return "steps." + step + ".error" }

// steps returns the object of the steps that an expression reads, with the fields it reads.
func (v *values) steps(refs []StepReference) (any, error) {
	all := map[string]any{}
	for _, ref := range refs {
		step, ok := v.roots.Steps[ref.ID]
		if !ok {
			all[ref.ID] = nil
			continue
		}
		fields, ok := all[ref.ID].(map[string]any)
		if !ok {
			fields = map[string]any{}
			all[ref.ID] = fields
		}
		var err error
		switch ref.Field {
		case Output:
			fields["output"], err = v.decode(outputKey(ref.ID), step.Output)
		case Error:
			fields["error"], err = v.decode(errorKey(ref.ID), step.Error)
		default:
			fields["status"] = step.Status
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// size returns how many bytes the roots have that an expression reads.
func (r Roots) size(refs References) int {
	n := 0
	add := func(used bool, raw json.RawMessage) {
		if used {
			n += len(raw)
		}
	}
	add(refs.TriggerData, r.TriggerData)
	add(refs.Vars, r.Vars)
	add(refs.Context, r.Context)
	add(refs.Item, r.Item)
	add(true, r.Dot)
	for _, name := range refs.Names {
		add(true, r.Names[name])
	}
	for _, ref := range refs.Steps {
		step := r.Steps[ref.ID]
		add(ref.Field == Output, step.Output)
		add(ref.Field == Error, step.Error)
	}
	return n
}

// Only returns the roots without what the references do not name, for a sandbox. "." is always
// there: that of an argument, as in any(.calls[]; …), may be it, and no reference says so.
func (r Roots) Only(refs References) Roots {
	some := Roots{}
	if refs.TriggerData {
		some.TriggerData = r.TriggerData
	}
	if refs.Vars {
		some.Vars = r.Vars
	}
	if refs.Context {
		some.Context = r.Context
	}
	if refs.Item {
		some.Item = r.Item
	}
	if refs.Index {
		some.Index = r.Index
	}
	if refs.Now {
		some.Now = r.Now
	}
	some.Dot = r.Dot
	for _, name := range refs.Names {
		if raw := r.Names[name]; raw != nil {
			some.Names = put(some.Names, name, raw)
		}
	}
	for _, ref := range refs.Steps {
		step, ok := r.Steps[ref.ID]
		if !ok {
			continue
		}
		kept := some.Steps[ref.ID]
		switch ref.Field {
		case Output:
			kept.Output = step.Output
		case Error:
			kept.Error = step.Error
		default:
			kept.Status = step.Status
		}
		some.Steps = put(some.Steps, ref.ID, kept)
	}
	return some
}

func put[V any](m map[string]V, key string, v V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = v
	return m
}
