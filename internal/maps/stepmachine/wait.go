package stepmachine

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
)

// The signals that answer steps which ask people.
const (
	SignalInput   = mapdef.SignalInput
	SignalHandled = mapdef.SignalHandled
)

// MaxSignals is how many signals are kept that no step has used yet. Callers refuse more.
const MaxSignals = 100

// MaxSeen is how many events the waits in loops may use. The state has the id of each, so that none is
// used twice.
const MaxSeen = 10_000

// seen counts the events that waits in loops have used.
func (s *State) seen() (n int) {
	for _, ids := range s.Seen {
		n += len(ids)
	}
	return n
}

// wait begins a wait step. A dry run waits for nothing.
func (m *machine) wait(t *Task, do *mapdef.DoWait, input Value) {
	if m.s.DryRun {
		m.complete(t, Value{})
		return
	}
	if do.Event != nil {
		m.await(t, do.Event, input)
		return
	}
	at, ok := m.until(do, input)
	switch {
	case !ok:
		m.fail(t, NewError(expression.CodeResult, "a wait takes a duration such as 30s, or a time such as 2026-01-31T12:00:00Z"))
	case !at.After(m.now):
		m.complete(t, Value{})
	default:
		m.enter(t, phaseTimer)
		m.startTimer(t, TimerWait, at)
		m.record(t, StepWaiting, nil, nil)
	}
}

// until returns when a wait ends.
func (m *machine) until(do *mapdef.DoWait, input Value) (time.Time, bool) {
	var text string
	if err := json.Unmarshal(input.raw(), &text); err != nil {
		return time.Time{}, false
	}
	if do.For.IsZero() {
		at, err := time.Parse(time.RFC3339, text)
		if last := lastTime(); at.After(last) {
			at = last
		}
		return at, err == nil
	}
	d, err := mapdef.ParseDuration(text)
	return m.now.Add(d.Std()), err == nil
}

// lastTime is the last second that JSON can say in UTC. RFC 3339 says later ones by an offset, and neither
// the state nor the row of an execution could have such a time.
func lastTime() time.Time { return time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC) }

// await waits for an event. One that came before counts too, unless the step says no: the
// caller passes those that it has kept, and the state has the signals.
func (m *machine) await(t *Task, e *mapdef.EventWait, input Value) {
	if t.Iteration != "" && m.s.seen() >= MaxSeen {
		m.fail(t, NewError(mapdef.CodeEventsLimit, "the waits in loops have used 10,000 events"))
		return
	}
	if input.referred() { // without it, events of others would count
		m.fail(t, NewError(expression.CodeLimit, "correlate: "+tooLong))
		return
	}
	var correlate string
	_ = json.Unmarshal(input.raw(), &correlate) // a text, by its evaluation
	if correlate == "" && e.Correlate.Source() != "" {
		// So would an empty one.
		m.fail(t, NewError(expression.CodeResult, "correlate is empty"))
		return
	}
	m.enter(t, phaseEvent)
	t.Awaits = true
	m.do(AwaitEvent{Ref: t.still(), Type: e.Type, Correlate: correlate, Since: m.since(t, e)})
	if e.Timeout > 0 {
		m.startTimer(t, TimerEvent, m.now.Add(e.Timeout.Std()))
	}
	m.record(t, StepWaiting, nil, nil)
	if e.Since == mapdef.SinceStep {
		return
	}
	for _, s := range slices.Clone(m.s.Signals) {
		if m.s.tasks[t.Key] == t && m.signalOf(s) == e.Type {
			m.arrived(t, s)
		}
	}
}

// since returns from when on events count.
func (m *machine) since(t *Task, e *mapdef.EventWait) time.Time {
	if e.Since == mapdef.SinceStep {
		return t.Began
	}
	return m.s.Began
}

// stopAwaiting takes an AwaitEvent back.
func (m *machine) stopAwaiting(t *Task) {
	if t.Awaits {
		t.Awaits, t.Inbox = false, nil
		m.do(StopAwaiting{t.still()})
	}
}

// eventArrived takes an event that the caller has found.
func (m *machine) eventArrived(e EventArrived) {
	if t := m.task(e.Ref.still(), phaseEvent, phaseEvaluating); t != nil && t.Awaits {
		m.arrived(t, e)
	}
}

// arrived judges an event, after those that came before it. The judgement of another one may have
// ended the wait.
func (m *machine) arrived(t *Task, e EventArrived) {
	if !t.Awaits || slices.Contains(m.s.Seen[t.Path], e.ID) {
		return
	}
	e.Event = m.fit(e.Event, eventValue+e.ID)
	t.Inbox = append(t.Inbox, e)
	if len(t.Inbox) == 1 {
		m.judge(t)
	}
}

// judge evaluates the filter for the first event of the inbox.
func (m *machine) judge(t *Task) {
	do, ok := m.p.step(t).Do.(*mapdef.DoWait)
	if !ok || do.Event.Filter.IsZero() {
		m.filtered(t, true)
		return
	}
	m.evaluateOn(t, fieldFilter, new(t.Inbox[0].Event))
}

// filtered ends the wait with the event, or goes on to the next one.
func (m *machine) filtered(t *Task, yes bool) {
	e := t.Inbox[0]
	t.Inbox = slices.Delete(t.Inbox, 0, 1)
	switch {
	case yes:
		m.use(t, e)
		m.stopAwaiting(t)
		m.complete(t, e.Event)
	case len(t.Inbox) > 0:
		m.judge(t)
	default:
		t.Inbox = nil
		m.enter(t, phaseEvent)
	}
}

// use remembers that an event was used: a step in a loop uses each once, and a signal is kept
// for the first step only.
func (m *machine) use(t *Task, e EventArrived) {
	m.s.Signals = slices.DeleteFunc(m.s.Signals, func(s EventArrived) bool { return s.ID == e.ID })
	if len(m.s.Signals) == 0 {
		m.s.Signals = nil
	}
	if t.Iteration == "" {
		return
	}
	if m.s.Seen == nil {
		m.s.Seen = map[string][]string{}
	}
	m.s.Seen[t.Path] = append(m.s.Seen[t.Path], e.ID)
}

// signalled passes a signal to all steps that wait for it, and keeps it for the first that
// will, until one has used it.
func (m *machine) signalled(e Signalled) {
	m.s.Signalled++
	if t := m.asking(e.Signal); t != nil {
		m.callGoesOn(CallGoesOn{t.ref()})
		m.do(TakeInput{Ref: t.ref(), Data: e.Data})
		return
	}
	id := signalPrefix + strconv.Itoa(m.s.Signalled) + ":" + e.Signal
	s := EventArrived{ID: id, Event: m.fit(object([]Named{
		{"data", e.Data}, {"id", Text(id)}, {"time", Text(m.now.Format(time.RFC3339))}, {"type", Text(e.Signal)},
	}), eventValue+id)}
	if e.Keeps {
		s.Data = new(m.fit(e.Data, "data:"+id))
	}
	if len(m.s.Signals) < MaxSignals {
		m.s.Signals = append(m.s.Signals, s)
	}
	for _, t := range m.waitingFor(m.s.Root, e.Signal, nil) {
		if t.Phase == phaseEscalated {
			m.use(t, s)
			m.complete(t, e.Data)
			continue
		}
		m.arrived(t, s)
	}
}

// takeKept returns the data of the first signal of the name that no step has used, and forgets it. kept
// is false where there is none.
func (m *machine) takeKept(signal string) (data Value, kept bool) {
	for _, s := range m.s.Signals {
		if s.Data != nil && m.signalOf(s) == signal {
			m.use(&Task{}, s)
			return *s.Data, true
		}
	}
	return Value{}, false
}

// asking returns the task whose model gets a signal: the first one that asks, unless an escalation is
// before it; nil for none. Another Map that waits for a signal of its own does not ask.
func (m *machine) asking(signal string) *Task {
	var what Waiting
	switch signal {
	case SignalInput:
		what = WaitsInput
	case SignalHandled:
		what = WaitsSignal
	default:
		return nil
	}
	t := first(m.s.Root, func(t *Task) bool {
		return t.waits() == what && (t.Ask > 0 || t.Phase == phaseEscalated)
	})
	if t == nil || t.Ask == 0 {
		return nil
	}
	return t
}

// eventValue begins the names under which events are stored, by their ids.
const eventValue = "event:"

// signalPrefix begins the ids of signals; a number and the signal's name follow.
const signalPrefix = "signal:"

// signalOf returns the name of a kept signal.
func (m *machine) signalOf(s EventArrived) string {
	_, name, _ := strings.Cut(strings.TrimPrefix(s.ID, signalPrefix), ":")
	return name
}

// waitingFor lists the tasks that wait for an event of the name.
func (m *machine) waitingFor(t *Task, name string, found []*Task) []*Task {
	if t.Phase == phaseEscalated && name == SignalHandled || t.Awaits && m.p.eventOf(t) == name {
		found = append(found, t)
	}
	for _, b := range t.Blocks {
		if b.Task != nil {
			found = m.waitingFor(b.Task, name, found)
		}
	}
	return found
}

// eventOf returns the type of the event that the task's step waits for; "" for other steps.
func (p *Program) eventOf(t *Task) string {
	if step := p.step(t); step != nil {
		if do, ok := step.Do.(*mapdef.DoWait); ok && do.Event != nil {
			return do.Event.Type
		}
	}
	return ""
}
