package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
)

// MapRun takes one execution of a Map to its end. The step machine decides what happens: it takes
// an event and returns commands. This workflow has each command done, by local activities and
// timers, and passes what came of it back as the next event. Rows have what steps did, so a step
// that is repeated after a crash finds what happened. A Map that fails is a result, not an error.
func MapRun(ctx workflow.Context, in flow.MapInput) (flow.MapResult, error) {
	m := &mapRun{
		in: in, calls: map[string]*mapCall{}, models: map[string]*mapModel{},
		timers: map[string]workflow.CancelFunc{}, evaluations: map[string]workflow.CancelFunc{}, open: map[string]stepmachine.Command{}, asks: map[string]*mapAsk{},
	}
	m.cancels = ctx.Done()
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	// The update of a split-lane start.
	if err := workflow.SetUpdateHandler(ctx, flow.UpdateAdmit, func(workflow.Context) error { return nil }); err != nil {
		return flow.MapResult{}, err
	}
	over, err := m.begin(ctx)
	for err == nil && !over && m.finish == nil && !m.over {
		m.hear()
		if m.mayContinue(ctx) {
			err = m.continueAsNew(ctx)
			continue
		}
		m.full = m.full || m.isLong(ctx)
		err = m.step(ctx)
	}
	switch {
	case over || err != nil:
		return flow.MapResult{}, err
	case m.over:
		return flow.MapResult{}, m.leave(ctx)
	}
	return m.end(ctx)
}

// mapRun is the execution while its workflow is in memory.
type mapRun struct {
	in flow.MapInput
	// machine is the execution on the step machine.
	machine *stepmachine.Execution
	// program is the Map that runs.
	program *stepmachine.Program
	parent  string

	// ears are the signals that the loop listens to. cancels is closed when the workflow is cancelled; nil
	// once the machine was told. See map_hear.go.
	ears    []heard
	cancels workflow.ReceiveChannel

	// queue has what has happened and the machine does not know yet; nudged: rows have news.
	// nudges counts how often they had.
	queue  []stepmachine.Event
	nudged bool
	// over: the rows say that the execution has ended, or goes on by another attempt. A workflow
	// task that ended it may have been repeated, because a signal came at that moment.
	over   bool
	nudges int
	// open are the commands without an answer, by their keys; keys has these in order.
	open map[string]stepmachine.Command
	keys []string
	// calls are the calls under way, models those of them that ask a model, timers those that run.
	calls  map[string]*mapCall
	models map[string]*mapModel
	timers map[string]workflow.CancelFunc
	asks   map[string]*mapAsk
	// evaluations end those that are made or wait for their turn, by their keys.
	evaluations map[string]workflow.CancelFunc
	// written is what was not yet given to an activity that writes it, seq the number of the next.
	written []stepmachine.Command
	seq     int
	// kept says of the first of written what an activity knew that has not written them, keptSince when the
	// first of these was given to one. See map_kept.go.
	kept      []flow.MapKept
	keptSince time.Time
	shown     flow.MapShow
	// waits were not yet written. places is how far the events are read that each asks for; looked
	// and counted are about signals.
	waits []stepmachine.Command
	// stops are waits that have ended, and whose rows are there. unwritten: one has ended since the
	// last write.
	stops     []stoppedWait
	unwritten bool
	places    map[string]string
	looked    int64
	counted   flow.MapSignals
	// told are the last waits that others were told of.
	told []string
	// wrote: a call may have changed something. tainted: a model has read what others than the tenant
	// wrote.
	wrote, tainted bool
	// sources are what has tainted it, and reads whose words, other than the tenant's, its values have.
	sources, reads []string
	// busy counts the activities under way.
	busy int
	// taken is how many bytes of values the task has got from activities, begun how often the machine
	// went on without an event from outside, since the last pause. See map_pace.go.
	taken, begun int
	// inFlight counts the activities of calls and evaluations that are made at this moment.
	inFlight int
	// evaluating counts the evaluations among them, and those that wait until their tenant has fewer.
	evaluating int
	// since is when the task of this length of the history began.
	since  time.Time
	length int
	// full: this history takes no further activities. Those that commands ask for are started in
	// the next one.
	full bool
	// tooLarge: what the execution has is too much for a new history, so that it ends in this one.
	tooLarge bool
	finish   *stepmachine.Finish
}

// begin reads what the execution begins or goes on with, and obeys the first commands.
func (m *mapRun) begin(ctx workflow.Context) (over bool, err error) {
	begun, err := beginMap(ctx, m.in.MapRef)
	if err != nil || begun.Over {
		return true, err
	}
	m.parent, m.seq, m.tainted = begun.Parent, begun.Seq, begun.Tainted
	m.sources, m.reads = begun.Sources, begun.Reads
	m.listen(ctx)
	program, err := compile(begun.Definition)
	if err != nil {
		return true, err
	}
	m.program = program
	var commands []stepmachine.Command
	switch {
	case m.in.Carried != nil:
		m.seq, m.places, m.wrote, m.told = m.in.Carried.Seq, m.in.Carried.Places, m.in.Carried.Wrote, m.in.Carried.Told
		m.tainted, m.sources = m.tainted || m.in.Carried.Tainted, taint.Add(m.sources, m.in.Carried.Sources...)
		m.reads = taint.Add(m.reads, m.in.Carried.Reads...)
		m.machine, err = resume(program, m.in.Carried.State)
		commands = m.in.Carried.Open
		for _, c := range m.in.Carried.Stopped {
			m.stops = append(m.stops, stoppedWait{command: c}) // in a task of the history before
		}
		m.nudged = true // the history before may have been told and not looked
	case begun.Again != nil:
		if m.machine, err = resume(program, begun.State); err == nil {
			commands, err = next(m.machine, workflow.Now(ctx), *begun.Again)
		}
		if err == nil {
			commands = append(commands, unsettled(m.machine)...)
		}
		m.nudged = true
	default:
		m.machine, commands = start(program, workflow.Now(ctx), begun.Beginning)
	}
	if err != nil {
		return true, err
	}
	m.looked, m.counted = int64(m.shows().Signalled), m.signals()
	if m.places == nil {
		m.places = map[string]string{}
	}
	m.obey(ctx, commands)
	return false, nil
}

// step waits for what happens next and passes it to the machine. Where no activity is under way,
// it first writes what was done, and what the execution waits for.
func (m *mapRun) step(ctx workflow.Context) error {
	if paused, err := m.pace(ctx); paused || err != nil {
		return err
	}
	writes := func() bool { return m.busy == 0 && len(m.queue) == 0 && !m.isShown() }
	if writes() {
		return m.show(ctx)
	}
	// A call that waits for people for weeks makes a history long, and no event.
	due := func() bool { return len(m.queue) > 0 || m.nudged || m.unheard() || writes() || m.mayContinue(ctx) }
	if err := workflow.Await(ctx, due); err != nil {
		return err
	}
	m.hear()
	if m.nudged && len(m.queue) < mostQueued {
		m.nudged = false
		return m.look(ctx)
	}
	if len(m.queue) == 0 {
		return nil
	}
	event := m.queue[0]
	m.queue = m.queue[1:]
	commands, err := next(m.machine, workflow.Now(ctx), event)
	if err != nil {
		return err
	}
	m.obey(ctx, commands)
	m.dropEvaluations()
	return nil
}

// look reads what people and others want, and tells the machine.
func (m *mapRun) look(ctx workflow.Context) error {
	m.wakeCalls()
	news, err := lookAtMap(ctx, flow.MapLook{
		MapWrites: m.takeAll(ctx), After: m.looked, Places: m.places, Ended: m.ended(), Seen: m.shows().Seen, Asks: m.asking(),
	})
	if err != nil {
		return err
	}
	m.heed(news)
	return nil
}

// heed turns news into events.
func (m *mapRun) heed(news flow.MapNews) {
	if news.Over {
		m.over = true
		m.dropEvaluations()
		return
	}
	if news.Caller != "" && m.parent != "" {
		m.parent = news.Caller // another message of the session goes on with it
	}
	m.looked = max(m.looked, news.Looked)
	// The next history looks by itself, so that more news than one history takes ends this one.
	m.nudged = m.nudged || news.More && !m.full
	for _, key := range m.keys {
		if wait, is := m.open[key].(stepmachine.AwaitEvent); is && news.Places[wait.Ref.String()] != "" {
			m.places[wait.Ref.String()] = news.Places[wait.Ref.String()]
		}
	}
	m.want(news)
	for _, s := range news.Signals {
		s.Keeps = s.ForPeople()
		m.tell(s)
	}
	for _, d := range news.Decisions {
		m.decided(d)
	}
	for _, e := range news.Arrived {
		m.reads = taint.Add(m.reads, taint.Event)
		m.tell(e)
	}
}

// want tells the machine of a cancellation and of a pause that are wanted, where they change something: rows
// say for ever that an execution was to be cancelled.
func (m *mapRun) want(news flow.MapNews) {
	is := m.shows()
	if news.Cancel && is.Cancellable {
		m.tell(stepmachine.CancelRequested{})
	}
	switch {
	case news.Pause == is.Paused, news.Pause && !is.Pausable:
	case news.Pause:
		m.tell(stepmachine.PauseRequested{})
	default:
		m.tell(stepmachine.ResumeRequested{})
	}
}

// tell puts an event into the queue of the loop.
func (m *mapRun) tell(event stepmachine.Event) {
	m.taken += sizeOf(event)
	m.queue = append(m.queue, event)
}

// show writes what was done, and what the execution waits for where that is new.
func (m *mapRun) show(ctx workflow.Context) error {
	now := m.status()
	w := m.takeAll(ctx)
	changed := !m.same(now)
	if changed {
		shown := now
		shown.Tell = m.tellOfWait(ctx, now.WaitingFor)
		w.Show, m.shown = &shown, now
	}
	news, err := writeMap(ctx, w)
	if err != nil {
		return err
	}
	m.heed(news)
	if !changed {
		return nil
	}
	if m.parent != "" {
		if err := signalParent(ctx, m.parent, flow.SignalMapEnded, m.in.ID); err != nil {
			return err
		}
	}
	workflow.SetCurrentDetails(ctx, m.details(now))
	if !m.in.ShowsState {
		return nil
	}
	return listState(ctx, string(now.Status))
}

// details returns what operators read while the execution goes on.
func (m *mapRun) details(now flow.MapShow) string {
	title := ""
	if now.WaitingFor != nil {
		title = m.titleOf(now.WaitingFor.Ref.Path)
	}
	text := flow.MapDetails(now, m.program.Definition().Name, title)
	if now.WaitingFor != nil {
		if a := m.asks[askKey(now.WaitingFor.Ref)]; a != nil && a.details != "" {
			text += "\n\n" + a.details
		}
	}
	return text
}

// titleOf returns what an approval step asks people, as the definition has it; "" for every other step.
func (m *mapRun) titleOf(path string) string {
	step := m.program.Step(path)
	if step == nil {
		return ""
	}
	if ask, ok := step.Do.(*mapdef.DoApproval); ok {
		return ask.Title.Source()
	}
	return ""
}

// listEnd has Temporal's list say how the execution ended.
func (m *mapRun) listEnd(ctx workflow.Context, end stepmachine.Status) error {
	if !m.in.ShowsState {
		return nil
	}
	return listEnd(ctx, end)
}

// shows returns what the machine shows of its state.
func (m *mapRun) shows() stepmachine.Shown { return m.machine.Shown() }

// status returns what the execution does now.
func (m *mapRun) status() flow.MapShow {
	now := m.shows()
	return flow.MapShow{Status: now.Status, WaitingFor: now.WaitingFor}
}

// isShown reports whether there is nothing to write.
func (m *mapRun) isShown() bool {
	return len(m.written) == 0 && len(m.waits) == 0 && !m.unwritten && m.counted == m.signals() && m.same(m.status())
}

// same reports whether this is what was shown last. An execution that runs is shown so from its
// claim on.
func (m *mapRun) same(now flow.MapShow) bool {
	was := m.shown
	if was.Status == "" {
		was.Status = stepmachine.StatusRunning
	}
	if was.Status != now.Status || (was.WaitingFor == nil) != (now.WaitingFor == nil) {
		return false
	}
	return now.WaitingFor == nil || *was.WaitingFor == *now.WaitingFor
}

// perRecord is how much time passes for each number of a record, so that a number says when the
// record was made. A repeat of a lost task may take another order than the task did, whose records are
// in the rows: what it writes comes later, and has to count. So all histories and attempts count from
// the trigger. Were one to count from a later time than the one before, its numbers would say nothing
// until they have caught up. mostByTime ends that, after 248 days: rows have 32 bits for a number.
const (
	perRecord  = 10 * time.Millisecond
	mostByTime = 1 << 31 / 100 * 99
)

// takeWrites returns what was not written, for an activity that writes it.
func (m *mapRun) takeWrites(ctx workflow.Context) flow.MapWrites {
	m.seq = max(m.seq, int(min(int64(workflow.Now(ctx).Sub(m.in.TriggeredAt())/perRecord), mostByTime)))
	w := flow.MapWrites{MapRef: m.in.MapRef, Seq: m.seq, Commands: m.written, Kept: m.kept}
	m.seq = w.Last()
	m.written, m.kept, m.keptSince = nil, nil, time.Time{}
	return w
}

// isLong reports whether a new history should begin. From then on no activity is started, so that
// those under way come to their end.
func (m *mapRun) isLong(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return !m.tooLarge && (info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() >= mostEvents)
}

// mayContinue reports whether a new history should begin, and nothing is under way that it would
// lose.
func (m *mapRun) mayContinue(ctx workflow.Context) bool {
	return m.busy == 0 && len(m.queue) == 0 && !m.nudged && !m.unheard() && m.isLong(ctx) && !m.wakes() && workflow.AllHandlersFinished(ctx)
}

// wakes reports whether a call was told to stop, or that there is news, and has not looked yet.
func (m *mapRun) wakes() bool {
	return slices.ContainsFunc(m.keys, func(key string) bool { call := m.calls[key]; return call != nil && call.awake })
}

// continueAsNew returns the error that goes on in a new history with the state and what has no
// answer yet; nil where something has happened while the rest was written. That comes first: it has
// its answer, and the state does not know of it yet.
func (m *mapRun) continueAsNew(ctx workflow.Context) error {
	if err := m.show(ctx); err != nil {
		return err
	}
	if m.over || !m.mayContinue(ctx) {
		return nil
	}
	state, err := encodeState(m.machine)
	if err != nil {
		return err
	}
	in := m.in
	in.Carried = &flow.MapCarried{Private: flow.IsPrivate(), State: state, Seq: m.seq, Places: m.places, Wrote: m.wrote, Told: m.told, Tainted: m.tainted, Sources: m.sources, Reads: m.reads}
	for _, s := range m.stops {
		in.Carried.Stopped = append(in.Carried.Stopped, s.command)
	}
	for _, key := range m.keys {
		in.Carried.Open = append(in.Carried.Open, m.open[key])
	}
	size, err := bytesOf(in)
	if err != nil {
		return err
	}
	if size > mostCarried {
		return m.outgrow(ctx)
	}
	return workflow.NewContinueAsNewError(ctx, flow.WorkflowMapRun, in)
}

const (
	// mostCarried is how many bytes an execution takes along into a new history. The server takes 2 MiB,
	// and terminates a workflow that wants more. The sweeper would begin it again, without an end.
	mostCarried = 1850 << 10
	// mostRetried is how many bytes the state of a failed execution has from which a retry goes on. The
	// definition, of 256 KiB at most, and more go along with it.
	mostRetried = 1500 << 10
)

// outgrow has an execution fail that is too large for a new history. It ends in this one, for which the
// server has room: 51,200 events.
func (m *mapRun) outgrow(ctx workflow.Context) error {
	m.tooLarge, m.full = true, false
	withheld := m.withheld()
	commands, err := next(m.machine, workflow.Now(ctx), stepmachine.StateTooLarge{})
	if err != nil {
		return err
	}
	// The failure ends steps whose calls were left to the next history, so those are not made. One that
	// was ending goes on with them.
	m.obey(ctx, commands)
	for _, key := range withheld {
		if c, open := m.open[key]; open {
			m.obey(ctx, []stepmachine.Command{c})
		}
	}
	return nil
}

// withheld returns the keys of the commands that were left to the next history.
func (m *mapRun) withheld() (keys []string) {
	for _, key := range m.keys {
		left := false
		switch m.open[key].(type) {
		case stepmachine.StartVerb, stepmachine.StartModel, stepmachine.StartMap, stepmachine.Compensate:
			left = m.calls[key] == nil
		case stepmachine.AskApproval:
			left = m.asks[key] == nil
		case stepmachine.Evaluate:
			left = m.evaluations[key] == nil
		}
		if left {
			keys = append(keys, key)
		}
	}
	return keys
}

// leave ends the workflow of an execution that has ended, and tells the one that waits for it.
func (m *mapRun) leave(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return m.busy == 0 && workflow.AllHandlersFinished(ctx) }); err != nil || m.parent == "" {
		return err
	}
	return signalParent(ctx, m.parent, flow.SignalMapEnded, m.in.ID)
}

// end ends the execution and tells the one that waits for it.
func (m *mapRun) end(ctx workflow.Context) (flow.MapResult, error) {
	if err := workflow.Await(ctx, func() bool { return m.busy == 0 && workflow.AllHandlersFinished(ctx) }); err != nil {
		return flow.MapResult{}, err
	}
	in := flow.MapFinish{MapWrites: m.takeWrites(ctx), Finish: *m.finish, Wrote: m.wrote, Reads: taint.Add(m.reads, m.sources...), Kept: m.shows().Kept}
	if in.Finish.Status == stepmachine.StatusFailed { // a retry goes on from it, where it is small enough
		var err error
		if in.State, err = encodeState(m.machine); err != nil {
			return flow.MapResult{}, err
		}
		if len(in.State) > mostRetried {
			in.State = nil
		}
	}
	result, err := finishMap(ctx, in)
	workflow.SetCurrentDetails(ctx, "") // operators read how it ended in the state
	if err == nil {
		err = m.listEnd(ctx, result.Status)
	}
	if err != nil || m.parent == "" {
		return result, err
	}
	return result, signalParent(ctx, m.parent, flow.SignalMapEnded, m.in.ID)
}
