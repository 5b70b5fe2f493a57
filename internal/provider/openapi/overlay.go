package openapi

import (
	"encoding/json"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/overlay"
)

// overlayPerByte is how many units of work an overlay takes for each byte of it and of the document, at
// most: its actions search the whole document.
const overlayPerByte = 20

// overlay applies an overlay to the document, and returns JSON pointers to its actions that were
// about nothing. A VALIDATION_ERROR names what is wrong with the overlay. Half of the work that
// the import may still do is left for reading the document.
func (w *work) overlay(raw json.RawMessage, root map[string]any) (unused []string, err error) {
	if overlay.None(raw) {
		return nil, nil
	}
	o, faults := overlay.Read(raw)
	if len(faults) > 0 {
		details := make([]fault.Detail, len(faults))
		for i, f := range faults {
			details[i] = fault.Detail{Path: "/overlay" + f.Path, Rule: f.Rule, Message: f.Message}
		}
		return nil, invalid(details)
	}
	limit := (min(w.limit, w.spare+(w.read+len(raw))*overlayPerByte) - w.spent) / 2
	room := (maxTreeBytes - w.tree) / exactjson.BytesOfObject // each value may be an object
	list, f := o.Apply(root, overlay.Limits{
		Work: limit, Values: max(min(maxDocumentValues-w.values, room), 0), More: func() bool { return w.ctx.Err() == nil },
	})
	switch {
	case !w.spend(1): // the caller has left
		return nil, w.err
	case f != nil && f.Rule == overlay.RuleWork && w.small:
		return nil, ErrNotSmall
	case f != nil:
		return nil, fault.Invalid("/overlay"+f.Path, f.Rule, f.Message)
	}
	for _, at := range list {
		unused = append(unused, "/overlay"+at)
	}
	return unused, nil
}
