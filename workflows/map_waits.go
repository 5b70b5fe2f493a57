package workflows

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

func waitKey(path string) string { return "await " + path }

// stoppedWait is a wait for events that has ended in a workflow task.
type stoppedWait struct {
	command stepmachine.StopAwaiting
	// task is how long the history was in that task.
	task int
}

// await has the rows say what the step waits for. Then the loop looks for events that came before.
func (m *mapRun) await(c stepmachine.AwaitEvent) {
	m.keep(waitKey(c.Ref.String()), c)
	m.stops = slices.DeleteFunc(m.stops, func(s stoppedWait) bool { return s.command.Ref == c.Ref })
	if c.Since.Equal(m.shows().Began) {
		c.Since = time.Time{} // the trigger: the rows know it more exactly than this clock
	}
	m.waits = append(m.waits, c)
	m.nudged = true
}

// stopAwaiting takes that back. The row goes with a write of a later workflow task: this one may be
// lost with the event that it has read, and its repeat finds the event by the row.
func (m *mapRun) stopAwaiting(ctx workflow.Context, c stepmachine.StopAwaiting) {
	m.answered(waitKey(c.Ref.String()))
	delete(m.places, c.Ref.String())
	m.stops = append(m.stops, stoppedWait{c, workflow.GetInfo(ctx).GetCurrentHistoryLength()})
	m.unwritten = true
}

// takeStops returns what ended in workflow tasks before this one.
func (m *mapRun) takeStops(ctx workflow.Context) (due []stepmachine.Command) {
	task := workflow.GetInfo(ctx).GetCurrentHistoryLength()
	m.stops = slices.DeleteFunc(m.stops, func(s stoppedWait) bool {
		if s.task < task {
			due = append(due, s.command)
		}
		return s.task < task
	})
	return due
}

// ended returns the waits that have ended and whose rows are there. A look does not read for them.
func (m *mapRun) ended() (paths []string) {
	for _, s := range m.stops {
		paths = append(paths, s.command.Ref.String())
	}
	return paths
}

// signals counts the signals that the machine knows.
func (m *mapRun) signals() flow.MapSignals {
	now := m.shows()
	return flow.MapSignals{Heard: now.Signalled, Unused: now.Unused}
}

// takeAll returns all that was not written. Only the loop writes waits and counts, one write after
// the other, so that a late one takes back nothing. Calls write beside it.
func (m *mapRun) takeAll(ctx workflow.Context) flow.MapWrites {
	w := m.takeWrites(ctx)
	w.Waits, m.waits, m.unwritten = append(m.waits, m.takeStops(ctx)...), nil, false
	if now := m.signals(); now != m.counted {
		w.Signals, m.counted = &now, now
	}
	return w
}

const (
	// longWait is from when on others are told of a wait for a time.
	longWait = time.Minute
	// mostTold is how many waits are remembered. So many steps at a time can take turns as the first
	// that waits, without that one of them is told of again.
	mostTold = 50
)

// tellOfWait returns when the wait began, where others have to be told of it; otherwise the zero time.
func (m *mapRun) tellOfWait(ctx workflow.Context, w *stepmachine.WaitsFor) time.Time {
	now := workflow.Now(ctx)
	if w == nil || w.For == stepmachine.WaitsTimer && w.Until.Sub(now) < longWait {
		return time.Time{}
	}
	key := string(w.For) + " " + cmp.Or(w.Question(), w.UndoneBy, w.Ref.String())
	if slices.Contains(m.told, key) {
		return time.Time{}
	}
	m.told = append(m.told, key)
	m.told = m.told[max(0, len(m.told)-mostTold):]
	return now
}
