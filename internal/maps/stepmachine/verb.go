package stepmachine

import (
	"strconv"

	"agentruntime/internal/maps/mapdef"
)

// startVerb calls a verb. Its input is the arguments.
func (m *machine) startVerb(t *Task, do *mapdef.DoVerb) {
	m.s.Calling++
	m.do(StartVerb{
		Ref: t.ref(), Verb: do.Verb, Args: t.Input.orEmpty(), CredentialID: do.CredentialID,
		Deadline: t.Deadline, DryRun: m.s.DryRun,
	})
}

// tooManyActions reports whether another call might be more than the Map may send.
func (m *machine) tooManyActions() bool {
	most := m.p.def.Limits.MaxActions
	return most > 0 && m.s.Actions+m.s.Calling >= most
}

// intercepted goes on with a write that a dry run has not made: it is recorded as a change,
// and what comes after it is built from the step's mock, or from what the caller invented.
func (m *machine) intercepted(t *Task, e CallEnd) {
	step := m.p.step(t)
	if do, ok := step.Do.(*mapdef.DoVerb); ok {
		m.s.Changes++
		t.Change = m.s.Execution + ":" + strconv.Itoa(m.s.Changes)
		m.do(RecordChange{ID: t.Change, Ref: t.ref(), Verb: do.Verb, Args: t.Input.orEmpty(), CredentialID: do.CredentialID, DependsOn: t.Input.Invented})
	}
	if !step.Mock.IsZero() {
		m.evaluate(t, fieldMock)
		return
	}
	m.mocked(t, e.Result)
}
