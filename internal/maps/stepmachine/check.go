package stepmachine

import (
	"context"
	"encoding/json"
	"strconv"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
)

// checkField is the question whether "." fits the schema of a step. It is asked in the same
// way as expressions are, because the value may have to be loaded.
type checkField struct {
	schema   *argschema.Schema
	validate bool // for a validate step
}

// References says that only "." is read.
func (f checkField) References() expression.References { return expression.References{Dot: true} }

func (f checkField) eval(_ context.Context, _ expression.Sandbox, roots expression.Roots) (json.RawMessage, error) {
	raw := roots.Dot
	if len(raw) == 0 {
		raw = json.RawMessage("null")
	}
	details := f.schema.Validate(raw)
	if len(details) == 0 {
		return json.RawMessage("true"), nil
	}
	code := mapdef.CodeResultMismatch
	if f.validate {
		code = mapdef.CodeValidation
	}
	return nil, &expression.Failure{Code: code, Detail: misfit(details)}
}

// checkWork is what a quick check takes beside the reading of the value.
const checkWork = 64 << 10

// quick reports whether the workflow can afford the check of a value.
func (f checkField) quick(in inWorkflow, raw json.RawMessage) bool {
	return in.Spend(checkWork+8*len(raw)) && f.schema.Quick(raw)
}

// misfit says what does not fit a schema, in one line.
func misfit(details []fault.Detail) string {
	d := details[0]
	path := d.Path[len("/args"):]
	if path == "" {
		path = "the value"
	}
	text := path + " " + d.Message
	if n := len(details) - 1; n > 0 {
		text += ", and " + strconv.Itoa(n) + " more"
	}
	return text
}

// validate begins a validate step: its value is the output, if it fits.
func (m *machine) validate(t *Task) {
	t.Output = t.Input
	m.evaluateOn(t, fieldCheck, t.Output)
}

// checkResult completes a call whose result fits the step's schema.
func (m *machine) checkResult(t *Task, result Value) {
	if m.p.schemas[t.Path] == nil {
		m.complete(t, result)
		return
	}
	result = m.fit(result, t.still().String()+":output")
	t.Output = &result
	// It has completed: if the execution ends now, that waits for the check.
	m.enter(t, phaseSettling)
	m.evaluateOn(t, fieldCheck, t.Output)
}

// unfit ends a step whose value or result does not fit.
func (m *machine) unfit(t *Task, e *Error) {
	t.Output = nil
	switch {
	case t.Phase != phaseSettling:
		m.fail(t, e)
	case t.block == nil:
		m.record(t, StepFailed, nil, e)
		m.forget(t)
	case m.givenUp(t):
		m.record(t, StepFailed, nil, e)
		m.enter(t, phaseStopped)
	default:
		m.callFailed(t, CallEnd{Status: CallFailed, Error: e, MayRepeat: !t.Final})
	}
}
