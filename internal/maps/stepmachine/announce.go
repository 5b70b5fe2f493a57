package stepmachine

import (
	"encoding/json"

	"github.com/google/uuid"

	"agentruntime/internal/maps/mapdef"
)

// MaxEmitted is how many events an execution may emit. Each goes to all webhooks that want it.
const MaxEmitted = 1_000

// eventIDs begins the ids of events that the service makes. Senders of events may not use such ids.
const eventIDs = "evt_"

// room takes the room for an event of an emit step: of what the tenant has given, otherwise it asks for some.
// As the execution emits more, it asks for more at once: for twice what it has emitted in all. What it does
// not use is lost to the tenant for a while, so it is no more than that.
func (m *machine) room(t *Task) {
	if m.s.DryRun || m.s.Emitted >= MaxEmitted {
		m.evaluate(t, fieldInput)
		return
	}
	if m.s.Room > 0 {
		m.s.Room--
		m.evaluate(t, fieldInput)
		return
	}
	n := max(1, min(2*m.s.Emitted, MaxEmitted)-m.s.Wished)
	m.s.Wished += n
	m.asks(t, fieldRoom, nil)
	m.enter(t, phaseEvaluating)
	m.s.Asked++
	t.AskedAs = m.s.Asked
	m.do(Evaluate{Ref: t.still(), What: fieldRoom, Number: t.AskedAs, Scope: Scope{Dot: new(number(n))}})
}

// given goes on with the room that the tenant has given.
func (m *machine) given(t *Task, room Value) {
	var n int
	_ = json.Unmarshal(room.raw(), &n) // a number, by the answer
	m.s.Room += max(n-1, 0)
	m.evaluate(t, fieldInput)
}

// Room returns for how many events the command asks for room; 0 where it asks for something else.
func (c Evaluate) Room() (n int) {
	if c.What == fieldRoom && c.Scope.Dot != nil {
		_ = json.Unmarshal(c.Scope.Dot.raw(), &n) // a number of the machine
	}
	return n
}

// announce emits an event. Its id is derived, so that the same step never emits two. A caller who knows
// the execution can derive it too, so it is one that senders may not use. A dry run emits none.
func (m *machine) announce(t *Task, do *mapdef.DoEmit) {
	id := eventIDs + uuid.NewSHA1(uuid.NameSpaceURL, []byte(m.s.Execution+t.still().String())).String()
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
