package mapdef

import (
	"maps"
	"slices"
)

// The signals that answer steps which ask people: the question of a model step, and an escalation.
const (
	SignalInput   = "input"
	SignalHandled = "handled"
)

// Signals returns the names of the signals that a step of the definition may wait for, each once and in
// order: the types of the events that it waits for, and those that answer an escalation or a model. A
// model asks a question, or hands over.
func (d *Definition) Signals() []string {
	names := map[string]bool{}
	see := func(s *Step) {
		switch do := s.Do.(type) {
		case nil:
		case *DoWait:
			if do.Event != nil {
				names[do.Event.Type] = true
			}
		case *DoEscalate:
			if do.Wait {
				names[SignalHandled] = true
			}
		default:
			if do.Type().IsModel() {
				names[SignalInput], names[SignalHandled] = true, true
			}
		}
	}
	Walk(d.Steps, see)
	Walk(d.OnFailure, see)
	return slices.Sorted(maps.Keys(names))
}
