package stepmachine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
)

// startModel has a model do a step: agent, extract, classify, summarize or reason. What the
// definition says beside the evaluated fields, the caller reads in the step.
func (m *machine) startModel(t *Task, do mapdef.Action) {
	m.do(StartModel{
		Ref: t.ref(), Type: do.Type(), Input: *t.Input, Deadline: t.Deadline, DryRun: m.s.DryRun,
		Scope: m.scope(t, modelReads(do), nil), Edited: t.Edited, ActionsLeft: m.actionsLeft(),
	})
}

// modelReads returns what the caller of a model evaluates by itself: the parts of the text that
// asks the model, which it tells apart, and the condition of an agent.
func modelReads(do mapdef.Action) (refs expression.References) {
	refs.Add(asked(do).References())
	if agent, ok := do.(*mapdef.DoAgent); ok {
		refs.Add(agent.CompleteWhen.References())
	}
	return refs
}

// asked returns the text with which the author asks the model; the zero Template where the type of
// the step says all.
func asked(do mapdef.Action) expression.Template {
	switch do := do.(type) {
	case *mapdef.DoAgent:
		return do.Goal
	case *mapdef.DoReason:
		return do.Question
	default:
		return expression.Template{}
	}
}

// actionsLeft returns how many calls may be sent until limits.max_actions; nil for any number.
func (m *machine) actionsLeft() *int {
	most := m.p.def.Limits.MaxActions
	if most == 0 {
		return nil
	}
	return new(max(0, most-m.s.Actions-m.s.Calling))
}

// Asked is the text with which the author of a step asks the model. The results of its expressions
// are apart from it: they are data of others, and may contain instructions of others.
type Asked struct {
	// Text has a name in brackets, such as [value 1], in the place of each expression.
	Text string
	// Values are the results by their names, without the brackets.
	Values []Named
}

// Step returns the step of a path.
func (p *Program) Step(path string) *mapdef.Step { return p.steps[path] }

// Asked returns the author's text, with what load returns for stored values. Its error is that of
// the sandbox or of load: the caller tries again. An expression that has no value now is null.
func (p *Program) Asked(ctx context.Context, sandbox expression.Sandbox, c StartModel, load func(Stored) (json.RawMessage, error)) (Asked, error) {
	do := p.steps[c.Ref.Path].Do
	text := asked(do)
	if plain, ok := text.Plain(); ok && !c.Edited {
		return Asked{Text: plain}, nil
	}
	if c.Edited {
		return editedText(do, c.Input, load)
	}
	roots, err := c.Scope.roots(load)
	if err != nil {
		return Asked{}, fmt.Errorf("ask the model of %s: %w", c.Ref, err)
	}
	var out Asked
	var b strings.Builder
	for _, part := range text.Parts() {
		if part.Expr == nil {
			b.WriteString(part.Text)
			continue
		}
		single, faults := expression.ParseTemplate("${" + part.Expr.Source() + "}")
		if len(faults) > 0 {
			return Asked{}, fmt.Errorf("ask the model of %s: %w", c.Ref, faults[0])
		}
		value, err := single.Text(ctx, sandbox, roots)
		if _, failed := errors.AsType[*expression.Failure](err); err != nil && !failed {
			return Asked{}, fmt.Errorf("ask the model of %s: %w", c.Ref, err)
		}
		name := "value " + strconv.Itoa(len(out.Values)+1)
		out.Values = append(out.Values, Named{name, Text(value)})
		b.WriteString("[" + name + "]")
	}
	out.Text = b.String()
	return out, nil
}

// editedText returns the text of an input that a person has written in the place of the step's own.
func editedText(do mapdef.Action, input Value, load func(Stored) (json.RawMessage, error)) (Asked, error) {
	raw, err := input.Resolve(load)
	if err != nil {
		return Asked{}, err
	}
	member := "question"
	if do.Type() == mapdef.TypeAgent {
		member = "goal"
	}
	text, _ := exactjson.Lookup(raw, []any{member})
	return Asked{Text: string(text)}, nil // as JSON, which a model reads as well
}

// AgentCall is what complete_when of an agent sees of a call.
type AgentCall struct {
	ID     string          `json:"id"`
	Verb   string          `json:"verb"`
	Args   json.RawMessage `json:"args"`
	Status string          `json:"status"` // executed, failed, blocked, intercepted, cancelled or outcome_unknown
	Result json.RawMessage `json:"result"`
}

// IsComplete reports whether complete_when of an agent is true; it is where the step has none. The
// failure is why the condition has no value; the error is that of Asked.
func (p *Program) IsComplete(
	ctx context.Context, sandbox expression.Sandbox, c StartModel, calls []AgentCall, output json.RawMessage, load func(Stored) (json.RawMessage, error),
) (yes bool, failure *expression.Failure, err error) {
	do, ok := p.steps[c.Ref.Path].Do.(*mapdef.DoAgent)
	if !ok || do.CompleteWhen.IsZero() {
		return true, nil, nil
	}
	roots, err := c.Scope.roots(load)
	if err != nil {
		return false, nil, fmt.Errorf("complete_when of %s: %w", c.Ref, err)
	}
	if calls == nil {
		calls = []AgentCall{}
	}
	roots.Dot, err = exactjson.Encode(struct {
		Calls  []AgentCall     `json:"calls"`
		Output json.RawMessage `json:"output"`
	}{calls, output})
	if err != nil {
		return false, nil, fmt.Errorf("complete_when of %s: %w", c.Ref, err)
	}
	yes, err = do.CompleteWhen.Eval(ctx, sandbox, roots)
	if failure, failed := errors.AsType[*expression.Failure](err); failed {
		return false, failure, nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("complete_when of %s: %w", c.Ref, err)
	}
	return yes, nil, nil
}

// CheckOutput returns what is wrong with an output of a step, by its schema; nil where it fits and
// where there is no schema. Paths begin with /output.
func (p *Program) CheckOutput(path string, output json.RawMessage) []string {
	schema := p.schemas[path]
	if schema == nil {
		return nil
	}
	var faults []string
	for _, d := range schema.Validate(output) {
		faults = append(faults, "/output"+strings.TrimPrefix(d.Path, "/args")+": "+d.Message)
	}
	return faults
}
