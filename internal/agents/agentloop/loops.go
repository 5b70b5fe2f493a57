package agentloop

import (
	"bytes"
	"encoding/json"

	"agentruntime/internal/base/strictjson"
)

// Call is a tool call of a turn with what it has brought.
type Call struct {
	Name string
	Args json.RawMessage
	// Result is what the model was told, whether the call went well or not.
	Result json.RawMessage
}

// Loop says how the calls of a turn go in circles.
type Loop struct {
	// Kind is Repeats or Alternates.
	Kind LoopKind
	// From is the number of the first of its calls, from 0, To that of the last.
	From, To int
}

// LoopKind is the form of a loop.
type LoopKind string

// The forms of loops.
const (
	// Repeats: the same call has brought the same result three times in a row.
	Repeats LoopKind = "repeats"
	// Alternates: two calls have brought the same results by turns, twice each.
	Alternates LoopKind = "alternates"
)

// Loops returns the first loop of a turn's calls, which are in the order in which the model has asked
// for them. Arguments are the same where only the order of their members or the spelling of a number
// differs.
func Loops(calls []Call) (loop Loop, found bool) {
	keys := make([]string, len(calls))
	for i, c := range calls {
		keys[i] = c.Name + "\x00" + canonical(c.Args) + "\x00" + canonical(c.Result)
	}
	const row, turns = 3, 4
	for i := range keys {
		if i+1 >= row && keys[i] == keys[i-1] && keys[i] == keys[i-2] {
			return Loop{Repeats, i + 1 - row, i}, true
		}
		if i+1 >= turns && keys[i] == keys[i-2] && keys[i-1] == keys[i-3] {
			return Loop{Alternates, i + 1 - turns, i}, true
		}
	}
	return Loop{}, false
}

// canonical returns one form of all JSON texts of a value; the text itself where it is no JSON.
func canonical(raw json.RawMessage) string {
	if len(bytes.TrimSpace(raw)) == 0 {
		return "{}"
	}
	if form, err := strictjson.Canonical(raw); err == nil {
		return string(form)
	}
	return string(raw)
}
