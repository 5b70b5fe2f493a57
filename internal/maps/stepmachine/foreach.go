package stepmachine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
)

// iterate begins a foreach.
func (m *machine) iterate(t *Task, do *mapdef.DoForeach) {
	count, ok := t.Input.items()
	switch {
	case !ok:
		m.fail(t, NewError(expression.CodeResult, "items is not an array"))
		return
	case count > mapdef.MaxItems:
		m.fail(t, NewError(mapdef.CodeItemsLimit, fmt.Sprintf("items has %d items, at most %d are allowed", count, mapdef.MaxItems)))
		return
	}
	wide := 1
	if do.Mode == mapdef.Concurrently {
		wide = min(max(1, do.Concurrency), mapdef.MaxConcurrent)
	}
	t.Loop = &Loop{Items: *t.Input, Count: count, Wide: wide, Invented: t.Input.Invented}
	t.Input = nil // the items are in the loop
	m.enter(t, phaseInside)
	m.fill(t, do)
}

// items returns how many items the array has; not ok where the value is none.
func (v Value) items() (int, bool) {
	if v.Stored != nil {
		if v.Stored.Items == nil {
			return 0, false
		}
		return *v.Stored.Items, true
	}
	if raw := bytes.TrimSpace(v.JSON); len(raw) == 0 || raw[0] != '[' {
		return 0, false
	}
	return len(elements(v.JSON)), true
}

// MaxOpen is how many lists of steps an execution may have under way, before its loops begin one
// iteration after the other. Loops within loops could have any number at a time.
const MaxOpen = 1_000

// fill begins iterations until as many run as may, and ends a foreach without any.
func (m *machine) fill(t *Task, do *mapdef.DoForeach) {
	l := t.Loop
	if l.Done == l.Count {
		m.complete(t, l.output(t))
		return
	}
	for len(t.Blocks) < l.Wide && l.Next < l.Count && (len(t.Blocks) == 0 || len(m.s.blocks) < MaxOpen) {
		if l.items == nil && l.Items.Stored == nil {
			l.items = elements(l.Items.JSON)
		}
		index, item := l.Next, l.Items.item(l.Next, l.items)
		l.Next++
		m.open(t, &Block{Key: t.body(index), Index: &index, Item: &item, As: do.As})
	}
}

// itemEnded takes the output of an iteration, or its failure where that is skipped. A finished
// iteration leaves the state: the caller has it in its rows.
func (m *machine) itemEnded(t *Task, do *mapdef.DoForeach, b *Block, failed *Error) {
	output := Value{}
	if b.Last != nil && failed == nil {
		output = *b.Last
	}
	m.dropBlock(b)
	m.close(b)
	m.do(StoreIteration{Ref: t.still(), Index: *b.Index, Output: output, Error: failed})
	m.keepOutput(t.Loop, *b.Index, output)
	t.Loop.Done++
	t.Loop.Counted += b.Counted
	m.fill(t, do)
}

// keepOutput adds the output of an iteration, as long as all are small together.
func (m *machine) keepOutput(l *Loop, index int, v Value) {
	l.Invented = union(l.Invented, v.Invented)
	if l.Spilled {
		return
	}
	if raw := v.raw(); !v.referred() {
		l.Bytes += len(raw) + 1
		if l.Bytes <= m.mostInline() {
			m.takes(len(raw))
			l.Kept = append(l.Kept, Kept{index, raw})
			return
		}
	}
	l.Spilled, l.Kept = true, nil
}

// output returns the outputs in the order of the items: inline while they are small, otherwise
// a reference to the rows of the iterations.
func (l *Loop) output(t *Task) Value {
	if l.Spilled {
		return Value{Stored: &Stored{ID: Iterations(t.still()), Items: &l.Count}, Invented: l.Invented}
	}
	slices.SortFunc(l.Kept, func(a, b Kept) int { return a.Index - b.Index })
	list := make([]json.RawMessage, 0, len(l.Kept))
	for _, k := range l.Kept {
		list = append(list, k.Output)
	}
	return Value{JSON: slices.Concat([]byte("["), bytes.Join(raws(list), []byte(",")), []byte("]")), Invented: l.Invented}
}

func raws(list []json.RawMessage) [][]byte {
	out := make([][]byte, 0, len(list))
	for _, raw := range list {
		out = append(out, raw)
	}
	return out
}

// Iterations is the id of the stored output of a foreach: the array of the outputs that
// StoreIteration has told of, in the order of the items.
func Iterations(foreach Ref) string { return "iterations:" + foreach.still().String() }
