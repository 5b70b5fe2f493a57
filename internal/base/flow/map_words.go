package flow

import (
	"strconv"
	"time"

	"agentruntime/internal/maps/stepmachine"
)

// MapTimerSummary returns the text that operators read at a timer of a Map. It is in the clear, so
// it names the step by its place in the definition.
func MapTimerSummary(c stepmachine.StartTimer) string {
	switch c.Timer {
	case stepmachine.TimerRetry:
		return RetrySummary + " of " + c.Ref.Path
	case stepmachine.TimerWait:
		return "waits in " + c.Ref.Path
	case stepmachine.TimerDuration:
		return "the time limit of the execution"
	default:
		return "the time limit of " + c.Ref.Path
	}
}

// MapDetails returns the text in Markdown that operators read while the execution goes on. name is that
// of the Map. title is what the step that waits asks people, as the definition has it; "" where it asks
// nothing.
func MapDetails(show MapShow, name, title string) string {
	w := show.WaitingFor
	if w == nil {
		return "The execution of " + strconv.Quote(name) + " is " + string(show.Status) + "."
	}
	what := "the step"
	if w.UndoneBy != "" {
		what = "the call that undoes the step"
	}
	text := "The execution of " + strconv.Quote(name) + " is " + string(show.Status) + ": " + what + " `" + w.Step + "` waits for "
	switch w.For {
	case stepmachine.WaitsApproval:
		text += "people to approve"
		if title != "" {
			text += " " + strconv.Quote(title)
		}
	case stepmachine.WaitsEvent:
		text += "an event"
	case stepmachine.WaitsTimer:
		text += "its time"
	case stepmachine.WaitsSignal:
		text += "a signal"
	case stepmachine.WaitsResolve:
		text += "people to find out what came of its call, and to resolve it"
	case stepmachine.WaitsInput:
		text += "an answer"
	case stepmachine.WaitsMap:
		text += "another Map"
	case stepmachine.WaitsKillSwitch:
		text += "a kill switch to be lifted"
	}
	if !w.Until.IsZero() {
		text += ", until " + w.Until.UTC().Format(time.RFC3339)
	}
	return text + "."
}
