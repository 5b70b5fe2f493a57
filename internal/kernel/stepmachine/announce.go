package stepmachine

import (
	"encoding/json"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/mapdef"
)

// MaxEmitted is how many events an execution may emit. Each goes to all webhooks that want it.
const MaxEmitted = 1_000

// eventIDs begins the ids of events that the service makes. Senders of events may not use such ids.
const eventIDs = "evt_"

// announce emits an event. Its id is derived, so that the same step never emits two. A caller who knows
// the execution can derive it too, so from revision 3 on it is one that senders may not use. A dry run
// emits none.
func (m *machine) announce(t *Task, do *mapdef.DoEmit) {
	id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(m.s.Execution+t.still().String())).String()
	if m.s.Revision >= 3 {
		id = eventIDs + id
	}
	if !m.s.DryRun {
		if m.s.Emitted == MaxEmitted {
			m.fail(t, NewError(mapdef.CodeEventsLimit, "the execution has emitted 1,000 events"))
			return
		}
		m.s.Emitted++
		m.do(Emit{Ref: t.still(), ID: id, Type: do.Event, Data: t.Input.orEmpty()})
	}
	m.complete(t, object([]Named{{"event_id", Text(id)}}))
}

// tooLong takes the place of a text that people would not read to its end.
const tooLong = "the text has more than 32 KiB"

// escalate hands over to people, and may wait for them. A dry run does neither.
func (m *machine) escalate(t *Task, do *mapdef.DoEscalate, input Value) {
	var reason string
	_ = json.Unmarshal(input.raw(), &reason) // a text, by its evaluation
	if input.referred() {
		reason = tooLong
	}
	if m.s.DryRun {
		m.complete(t, Value{})
		return
	}
	m.do(Escalate{Ref: t.still(), Reason: reason, Wait: do.Wait})
	if !do.Wait {
		m.complete(t, Value{})
		return
	}
	m.enter(t, phaseEscalated)
	m.record(t, StepWaiting, nil, nil)
	if data, kept := m.takeKept(SignalHandled); kept {
		m.complete(t, data)
	}
}
