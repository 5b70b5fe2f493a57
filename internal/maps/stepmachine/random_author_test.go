package stepmachine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
)

// author writes random definitions.
type author struct {
	*rand.Rand

	steps int
	// few are the kinds of leaves that this definition has, apart from verbs: few of them, so that they
	// meet more often.
	few []int
	// failing: the steps are those of on_failure.
	failing bool
	// used counts the types of steps in the definitions.
	used map[mapdef.Type]int
}

type object = map[string]any

// list writes a list of steps.
func (a *author) list(depth int) []any {
	list := []any{}
	for range a.IntN(4) {
		list = append(list, a.step(depth))
	}
	return list
}

func (a *author) step(depth int) object {
	a.steps++
	s := object{"id": fmt.Sprintf("s%d", a.steps)}
	if a.IntN(8) == 0 {
		s["skip_if"] = fmt.Sprintf("${%t}", a.IntN(2) == 0)
	}
	switch a.IntN(10) {
	case 0:
		s["on_error"] = "continue"
	case 1:
		if depth > 5 {
			break
		}
		s["catch"] = []any{object{"errors": []string{"*"}, "as": "e", "steps": a.list(depth + 1)}}
	}
	if depth > 3 || a.steps > 60 || a.IntN(2) == 0 {
		return a.leaf(s)
	}
	return a.block(s, depth)
}

// names are what the Maps here wait for and emit, and the two signals that answer people's steps.
var names = []string{"go", "custom.paid", stepmachine.SignalInput, stepmachine.SignalHandled}

// leaf writes a step without blocks: of each type that there is.
func (a *author) leaf(s object) object {
	if a.IntN(3) == 0 {
		return a.verb(s)
	}
	kinds := a.leaves()
	if a.few == nil {
		a.few = a.Perm(len(kinds))[:2+a.IntN(5)]
	}
	maps.Copy(s, kinds[a.few[a.IntN(len(a.few))]])
	if s["type"] == "return" && a.failing {
		s["type"], s["reason"] = "escalate", "look" // on_failure returns nothing
		delete(s, "output")
	}
	if slices.Contains(calls, s["type"].(string)) && a.IntN(3) == 0 {
		s["retry"] = object{"max_attempts": 2}
	}
	return s
}

// calls are the types of steps that may be tried again, apart from verbs.
var calls = []string{"map", "agent", "extract", "classify", "summarize", "reason"}

func (a *author) leaves() []object {
	yes := a.IntN(2) == 0
	return []object{
		{"type": "set", "assign": object{"x": "${[range(2)] | length}"}},
		{"type": "transform", "expr": "${vars}"},
		{"type": "validate", "value": "${vars.x}", "schema": object{"type": []string{"number", "object"}[a.IntN(4)/3]}},
		{"type": "raise", "error": object{"code": "NO"}},
		{"type": "return", "output": "${vars.x}"},
		{"type": "emit", "event": "custom.told", "data": object{"x": "${vars.x}"}},
		{"type": "escalate", "reason": "look", "wait": yes},
		{"type": "approval", "title": "Go", "on_timeout": []string{"reject", "continue", "fail"}[a.IntN(3)]},
		{"type": "wait", "for": "1m"},
		{"type": "wait", "event": a.event()},
		{"type": "map", "map_id": "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95", "payload": object{"x": "${vars.x}"}, "wait": yes},
		{"type": "agent", "goal": "make ${vars.x}", "tools": []string{"shop:*"}},
		{"type": "extract", "input": "${vars.x}", "schema": object{"type": "object"}},
		{"type": "classify", "input": "${vars.x}", "labels": []string{"a", "b"}},
		{"type": "summarize", "input": "${vars.x}"},
		{"type": "reason", "question": "Is ${vars.x} much?"},
	}
}

// event writes what a step waits for: a signal or an event, some of which the filter refuses.
func (a *author) event() object {
	e := object{"type": names[a.IntN(len(names))]}
	if a.IntN(2) == 0 {
		e["filter"] = "${.data == 1}"
	}
	if a.IntN(2) == 0 {
		e["timeout"] = "2m"
	}
	if a.IntN(3) == 0 {
		e["since"] = "step"
	}
	return e
}

func (a *author) verb(s object) object {
	maps.Copy(s, object{"type": "verb", "verb": "shop:a", "args": object{"x": "${vars.x}"}})
	if a.IntN(6) == 0 {
		s["compensate"] = object{"verb": "shop:undo", "args": object{"of": fmt.Sprintf("${steps.%s.output}", s["id"])}}
	}
	if a.IntN(3) == 0 {
		s["retry"] = object{"max_attempts": 2}
	}
	return s
}

// beside writes steps that run beside each other.
func (a *author) beside() object {
	a.steps++
	return object{"id": fmt.Sprintf("s%d", a.steps), "type": "parallel", "on_branch_error": "skip", "branches": []any{
		object{"id": "l", "steps": []any{a.step(1)}}, object{"id": "m", "steps": []any{a.step(1)}}, object{"id": "r", "steps": a.list(1)},
	}}
}

func (a *author) block(s object, depth int) object {
	steps := a.list(depth + 1)
	switch a.IntN(4) {
	case 0:
		s["type"], s["cases"] = "switch", []any{object{"when": "${vars.x == 0}", "steps": steps}}
		s["default"] = a.list(depth + 1)
	case 1:
		s["type"], s["when"], s["max_iterations"], s["steps"] = "while", "${index < 2}", 3, steps
	case 2:
		s["type"], s["items"], s["steps"] = "foreach", []int{1, 2, 3}[:a.IntN(4)], steps
		s["mode"] = []string{"seq", "parallel"}[a.IntN(2)]
		s["on_item_error"] = []string{"stop", "skip"}[a.IntN(2)]
	default:
		s["type"] = "parallel"
		s["join"] = []string{"all", "any", "race"}[a.IntN(3)]
		s["on_branch_error"] = []string{"stop", "skip"}[a.IntN(2)]
		s["branches"] = []any{object{"id": "l", "steps": steps}, object{"id": "r", "steps": a.list(depth + 1)}}
	}
	return s
}

func (a *author) definition(t *testing.T) *stepmachine.Program {
	t.Helper()
	steps := append(a.list(0), a.beside(), a.step(0))
	d := object{"schema_version": "1", "name": "random", "vars": object{"x": 0}, "steps": steps}
	if a.IntN(3) == 0 {
		a.failing = true
		d["on_failure"] = a.list(2)
	} else if a.IntN(3) == 0 { // something is undone
		made := object{"id": "made", "type": "verb", "verb": "shop:a", "compensate": object{"verb": "shop:undo"}}
		d["steps"] = slices.Concat([]any{made}, steps, []any{object{"id": "stop", "type": "raise", "error": object{"code": "STOP"}}})
	}
	raw, err := exactjson.Encode(d)
	require.NoError(t, err)
	def, faults := mapdef.Read(raw)
	wrong, _ := def.Check()
	require.Empty(t, append(faults, wrong...))
	mapdef.Walk(def.Steps, func(s *mapdef.Step) { a.used[s.Do.Type()]++ })
	p, err := stepmachine.Compile(def)
	require.NoError(t, err)
	return p
}

// again takes an execution up, sometimes from an earlier step.
func (a *author) again() stepmachine.Again {
	if a.IntN(2) == 0 {
		return stepmachine.Again{}
	}
	return stepmachine.Again{FromStep: fmt.Sprintf("s%d", 1+a.IntN(a.steps+1))}
}
