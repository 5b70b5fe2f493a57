package stepmachine

import "agentruntime/internal/kernel/mapdef"

// startModel has a model do a step: agent, extract, classify, summarize or reason. What the
// definition says beside the evaluated fields, the caller reads in the step.
func (m *machine) startModel(t *Task, do mapdef.Action) {
	m.do(StartModel{Ref: t.ref(), Type: do.Type(), Input: *t.Input, Deadline: t.Deadline, DryRun: m.s.DryRun})
}
