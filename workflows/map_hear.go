package workflows

import (
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// The loop of an execution hears signals and the cancellation of its workflow itself. A coroutine for each
// would be woken whenever anything else goes on: four of them took a measurable part of a short execution.

// heard is a signal that the execution listens to, and what it does then. A signal only says that rows have
// news, so many are one reason to look.
type heard struct {
	signal workflow.ReceiveChannel
	wake   func()
}

// listen begins to listen, and hears what has come until now.
func (m *mapRun) listen(ctx workflow.Context) {
	m.ears = []heard{
		{workflow.GetSignalChannel(ctx, flow.SignalRecheck), m.nudge},
		{workflow.GetSignalChannel(ctx, flow.SignalRunEnded), m.wakeCalls},
		{workflow.GetSignalChannel(ctx, flow.SignalMapEnded), m.wakeCalls},
	}
	m.hear()
}

// unheard reports whether something has come that the loop has not heard.
func (m *mapRun) unheard() bool {
	for _, one := range m.ears {
		if one.signal.Len() > 0 {
			return true
		}
	}
	return m.isCancelled()
}

// isCancelled reports whether the workflow was cancelled and the machine does not know it.
func (m *mapRun) isCancelled() bool {
	if m.cancels == nil {
		return false
	}
	_, open := m.cancels.ReceiveAsyncWithMoreFlag(nil)
	return !open
}

// hear heeds what has come. A cancel in the Temporal UI is one more event: the execution undoes what it
// has done.
func (m *mapRun) hear() {
	for _, one := range m.ears {
		if one.signal.Len() > 0 {
			drain(one.signal)
			one.wake()
		}
	}
	if m.isCancelled() {
		m.cancels = nil
		m.tell(stepmachine.CancelRequested{})
	}
}

// nudge notes that rows have news.
func (m *mapRun) nudge() {
	m.nudged = true
	m.nudges++
}

// wakeCalls has all calls that wait look at their rows.
func (m *mapRun) wakeCalls() {
	for _, key := range m.keys {
		if call := m.calls[key]; call != nil {
			call.awake = true
		}
	}
}
