package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// mapAsk is the question of a step to people.
type mapAsk struct {
	ref stepmachine.Ref
	// asking: the row of the question is not written yet; closing is set where its end was wanted
	// meanwhile.
	asking  bool
	closing *stepmachine.CloseApproval
	// details say who can decide, where and until when.
	details string
}

func askKey(ref stepmachine.Ref) string { return "ask " + ref.String() }

// ask asks people beside the loop. A new history asks again, and then finds the row.
func (m *mapRun) ask(ctx workflow.Context, c stepmachine.AskApproval) {
	m.keep(askKey(c.Ref), c)
	if m.full {
		return
	}
	a := &mapAsk{ref: c.Ref, asking: true}
	m.asks[askKey(c.Ref)] = a
	in := flow.MapAsk{MapWrites: m.takeWrites(ctx), Ask: c, Workflow: workflow.GetInfo(ctx).WorkflowExecution.ID}
	nudges := m.nudges
	m.busy++
	workflow.Go(ctx, func(ctx workflow.Context) {
		asked, err := askInMap(ctx, in, m.titleOf(in.Ask.Ref.Path))
		m.busy--
		if err != nil {
			return // the workflow ends
		}
		a.asking, a.details = false, asked.Details
		switch {
		case asked.Failure != nil:
			m.decided(stepmachine.Decided{Ref: c.Ref, Error: asked.Failure})
		case a.closing != nil:
			m.closeAsk(ctx, *a.closing)
		case asked.Closed, m.nudges != nudges:
			// A decision that came meanwhile was not looked for.
			m.nudged = true
		}
	})
}

// closeAsk ends a question. Where people decided before that, their decision counts. A question without
// a step is withdrawn in a later workflow task, as this one may be lost with what it has seen.
func (m *mapRun) closeAsk(ctx workflow.Context, c stepmachine.CloseApproval) {
	a := m.asks[askKey(c.Ref)]
	if a == nil {
		if !c.Expired {
			m.answered(askKey(c.Ref)) // it was not asked yet
		}
		return
	}
	if a.asking {
		a.closing = &c
		return
	}
	if !c.Expired {
		m.askEnded(c.Ref)
	}
	m.busy++
	workflow.Go(ctx, func(ctx workflow.Context) {
		if !c.Expired && workflow.Sleep(ctx, time.Millisecond) != nil { // a timer ends the task
			m.busy--
			return // the workflow ends
		}
		out, err := closeAskInMap(ctx, flow.MapAskEnd{MapRef: m.in.MapRef, Ref: c.Ref, Expired: c.Expired})
		m.busy--
		if err == nil && c.Expired {
			m.decided(out.Decided)
		}
	})
}

// decided tells the machine what people decided.
func (m *mapRun) decided(d stepmachine.Decided) {
	m.askEnded(d.Ref)
	m.tell(d)
}

func (m *mapRun) askEnded(ref stepmachine.Ref) {
	delete(m.asks, askKey(ref))
	m.answered(askKey(ref))
}

// asking returns the steps whose questions wait for people.
func (m *mapRun) asking() []stepmachine.Ref {
	var refs []stepmachine.Ref
	for _, key := range m.keys {
		if a := m.asks[key]; a != nil && !a.asking {
			refs = append(refs, a.ref)
		}
	}
	return refs
}
