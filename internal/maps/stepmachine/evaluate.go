package stepmachine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"agentruntime/internal/maps/expression"
)

// evaluate evaluates a field of the task's step, and goes on in evaluated: now, or after the
// caller's Evaluated.
func (m *machine) evaluate(t *Task, what string) { m.evaluateOn(t, what, nil) }

// evaluateOn evaluates with a value for ".".
func (m *machine) evaluateOn(t *Task, what string, dot *Value) {
	field := m.field(t, what)
	refs := field.References()
	scope := m.scope(t, refs, dot)
	if t.Compensation != nil {
		scope = t.Compensation.with(m.p.id(t), t.Output)
	}
	m.asks(t, what, scope.invented())
	if v, ok := m.passed(t, field); ok {
		m.evaluated(t, v, nil)
		return
	}
	if !scope.referred() {
		v, err := m.here(field, scope)
		if !errors.Is(err, errElsewhere) {
			m.evaluated(t, v, err)
			return
		}
	}
	if t.Phase != phaseSettling {
		m.enter(t, phaseEvaluating)
	}
	m.s.Asked++
	t.AskedAs = m.s.Asked
	m.do(Evaluate{t.still(), what, t.AskedAs, scope})
}

// asks notes what the task evaluates.
func (m *machine) asks(t *Task, what string, invented []string) { t.Asks, t.Invented = what, invented }

// field returns the field of a step, or of the Map.
func (m *machine) field(t *Task, what string) evaluable {
	if t.isMap() {
		return m.p.mapExpression(what)
	}
	return m.p.expression(m.p.step(t), what)
}

// errElsewhere: the expression needs the sandbox.
var errElsewhere = errors.New("evaluate an expression: it needs the sandbox")

// mostHere is how much work the evaluations of one event may take in the workflow, in bytes that are read:
// some milliseconds. A workflow that computes for a second is given up, and repeated for ever.
const mostHere = 1 << 20

// inWorkflow is the sandbox of a machine, which has none. left is what its evaluations may still take.
type inWorkflow struct{ left *int }

// Spend implements expression.Sandbox.
func (w inWorkflow) Spend(work int) bool {
	*w.left -= min(work, mostHere+1)
	return *w.left >= 0
}

// Run implements expression.Sandbox.
func (inWorkflow) Run(context.Context, string, expression.Roots) ([]json.RawMessage, error) {
	return nil, errElsewhere
}

// here evaluates in the workflow. The error is errElsewhere, or a *expression.Failure.
func (m *machine) here(field evaluable, scope Scope) (Value, error) {
	sandbox := inWorkflow{&m.left}
	if scope.Vars != nil && !sandbox.Spend(scope.Vars.size()) {
		return Value{}, errElsewhere
	}
	roots, err := scope.roots(nil)
	if err != nil {
		return Value{}, err
	}
	if check, is := field.(checkField); is && !check.quick(sandbox, roots.Dot) {
		return Value{}, errElsewhere
	}
	raw, err := field.eval(context.Background(), sandbox, roots)
	if err != nil {
		return Value{}, err
	}
	return Of(raw), nil
}

// SameAs returns what the evaluation has in common with those of other executions of the program that have
// the same value: the filter of a wait, and all that it reads. It is "" where the evaluation is of no filter,
// or reads what its execution alone has stored.
func (c Evaluate) SameAs() string {
	if c.What != fieldFilter {
		return ""
	}
	rest := c.Scope
	if dot := rest.Dot; dot != nil && dot.Stored != nil && strings.HasPrefix(dot.Stored.ID, eventValue) && !strings.HasPrefix(dot.Stored.ID, eventValue+signalPrefix) {
		rest.Dot = nil // an event is the same for all
	}
	if rest.referred() {
		return ""
	}
	text, err := json.Marshal(c.Scope)
	if err != nil {
		return ""
	}
	return c.Ref.Path + string(text)
}

// Refused answers a question for room.
func (c Evaluate) Refused(code, detail string) Evaluated {
	return Evaluated{Ref: c.Ref, Number: c.Number, Failure: &expression.Failure{Code: code, Detail: detail}}
}

// Given answers a question for room.
func (c Evaluate) Given(n int) Evaluated {
	return Evaluated{Ref: c.Ref, Number: c.Number, Value: number(n)}
}

// Evaluate does what the command asks for. Its error is that of the sandbox, or of load, which
// returns stored values: the caller tries again. What is wrong with the expression is in the
// event.
func (p *Program) Evaluate(ctx context.Context, sandbox expression.Sandbox, c Evaluate, load func(Stored) (json.RawMessage, error)) (Evaluated, error) {
	e := Evaluated{Ref: c.Ref, Number: c.Number}
	if c.Room() > 0 { // who asks of no tenant has room for all
		e.Value = *c.Scope.Dot
		return e, nil
	}
	roots, err := c.Scope.roots(load)
	if errors.Is(err, ErrTooLarge) {
		e.Failure = &expression.Failure{Code: expression.CodeLimit, Detail: "the expression reads more than 32 MiB"}
		return e, nil
	}
	if err != nil {
		return e, fmt.Errorf("evaluate %s of %s: %w", c.What, c.Ref, err)
	}
	var field evaluable
	if c.Ref.Path == "" {
		field = p.mapExpression(c.What)
	} else {
		field = p.expression(p.steps[c.Ref.Path], c.What)
	}
	raw, err := field.eval(ctx, sandbox, roots)
	if failure, ok := errors.AsType[*expression.Failure](err); ok {
		e.Failure = failure
		return e, nil
	}
	if err != nil {
		return e, fmt.Errorf("evaluate %s of %s: %w", c.What, c.Ref, err)
	}
	e.Value = Of(raw)
	return e, nil
}

// passed returns the value of a field that only passes on a value which is stored: it is not
// loaded for that, unless only its text tells whether it is an object.
func (m *machine) passed(t *Task, field evaluable) (Value, bool) {
	var text expression.Template
	checked := false
	switch f := field.(type) {
	case valueField:
		text = f.Template()
	case objectOnly:
		text, checked = f.Template(), true
	}
	expr := text.Single()
	if expr == nil {
		return Value{}, false
	}
	var v *Value
	parts := strings.Split(strings.TrimSpace(expr.Source()), ".")
	switch {
	case len(parts) == 1 && parts[0] == "trigger_data":
		v = &m.s.TriggerData
	case len(parts) == 1 && parts[0] == "item":
		v = t.item()
	case len(parts) == 2 && parts[0] == "vars":
		v = m.variable(parts[1])
	case len(parts) == 3 && parts[0] == "steps" && parts[2] == string(expression.Output):
		if step, found := m.stepScope(t, parts[1]); found {
			v = step.Output
		}
	}
	if v == nil || !v.referred() || checked && v.Members == nil && v != &m.s.TriggerData {
		return Value{}, false
	}
	return *v, true
}

// asked returns the task that waits for the answer to an Evaluate, nil where none does any longer.
func (m *machine) asked(r Ref, number int) *Task {
	t := m.task(r.still(), phaseEvaluating, phaseSettling)
	if t == nil || t.Asks == "" || t.AskedAs != number {
		return nil
	}
	return t
}

// wasEvaluated takes the caller's answer.
func (m *machine) wasEvaluated(e Evaluated) {
	t := m.asked(e.Ref, e.Number)
	if t == nil {
		return
	}
	// The value of a plain path has the name of another one, which was counted.
	if at := e.Value.Stored; at != nil && at.ID == e.Ref.String()+":"+t.Asks {
		m.s.Kept += int64(at.Bytes)
	}
	var err error
	if e.Failure != nil {
		err = e.Failure
	}
	m.evaluated(t, e.Value, err)
}

// evaluated goes on with the value of the field that the task has asked for.
func (m *machine) evaluated(t *Task, v Value, err error) {
	what := t.Asks
	v.Invented = union(v.Invented, t.Invented)
	m.asks(t, "", nil)
	if err != nil {
		m.notEvaluated(t, what, err)
		return
	}
	whole := v
	v = m.fit(v, t.still().String()+":"+what)
	switch {
	case t.isMap():
		m.mapEvaluated(t, what, v)
	case what == fieldSkipIf:
		m.mayBegin(t, v.isTrue())
	case what == fieldMock:
		m.mocked(t, v)
	case what == fieldDefault:
		m.finish(t, StepFailed, &v)
	case what == fieldCompensate:
		m.keep(t, v, nil)
	case what == fieldInput:
		m.begin(t, v, whole)
	case what == fieldRoom:
		m.given(t, v)
	case what == fieldCheck:
		m.complete(t, *t.Output)
	default:
		m.partEvaluated(t, what, v)
	}
}

// notEvaluated goes on where the field has no value.
func (m *machine) notEvaluated(t *Task, what string, err error) {
	code, detail := codeInternal, "the expression cannot be evaluated"
	if failure, ok := errors.AsType[*expression.Failure](err); ok {
		code, detail = failure.Code, failure.Detail
	}
	e := NewError(code, strings.TrimSuffix(what, "/")+": "+detail)
	switch {
	case t.isMap():
		m.failMap(e.at(m.p.mapField(what)))
	case what == fieldCheck:
		m.unfit(t, NewError(code, detail))
	case what == fieldRoom:
		m.fail(t, NewError(code, detail))
	case what == fieldCompensate:
		m.keep(t, Value{}, e.at(t.Path))
	case what == fieldDefault:
		// Nothing takes the place of the output of a step that has failed for good.
		m.finish(t, StepFailed, nil)
	default:
		m.fail(t, e)
	}
}

// still names the task without its attempt.
func (t *Task) still() Ref { return t.ref().still() }

// isTrue reports whether the value is true.
func (v Value) isTrue() bool { return string(v.JSON) == "true" }

// variable returns a variable of the Map; nil where there is none.
func (m *machine) variable(name string) *Value {
	for i := range m.s.Vars {
		if m.s.Vars[i].Name == name {
			return &m.s.Vars[i].Value
		}
	}
	return nil
}

// with returns the scope with the output of a step.
func (s Scope) with(id string, output *Value) Scope {
	steps := append([]StepScope{}, s.Steps...)
	for i := range steps {
		if steps[i].ID == id {
			steps[i].Status, steps[i].Output = StepCompleted, output
		}
	}
	s.Steps = steps
	return s
}
