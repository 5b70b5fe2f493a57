package execution

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/stepmachine"
)

// A change whose arguments were built from an invented value is rebuilt before it is applied. The
// step machine runs the dry run once more, without any call: reads answer what they did then, and the
// changes that were applied answer what they really brought. It runs a second time as the dry run
// was. Where the two make different arguments, the difference comes from invented values, and the
// change gets the real ones. Everything else stays as people have approved it.

// realArguments returns the arguments of a change with what is real in the places of what was invented.
// drift says why they cannot be.
func (s *changes) realArguments(ctx context.Context, c *Applying, approved json.RawMessage) (args json.RawMessage, drift string, err error) {
	b, known := s.reruns.take(c.DryRun.ID)
	if known {
		err = b.goOn(ctx)
	} else {
		b, err = s.startRerun(ctx, c.DryRun)
	}
	if err != nil {
		return nil, "", err
	}
	made, asked, err := b.arguments(c)
	if known && !asked && err == nil {
		if b, err = s.startRerun(ctx, c.DryRun); err == nil { // from its begin on it may come there
			made, asked, err = b.arguments(c)
		}
	}
	switch {
	case err != nil:
		return nil, "", err
	case !asked:
		return nil, "With what the changes before it have brought, the Map would not come to this change.", nil
	}
	s.reruns.keep(c.DryRun.ID, b)
	args, err = mendValue(approved, made[0], made[1])
	return args, "", err
}

// rerun is a dry run that runs once more, twice: as it was, and with what is real.
type rerun struct {
	s *rows
	// pasts are what rows say of the executions in its list.
	pasts map[uuid.UUID]*past
	runs  [2]*replay
	bytes int // of texts that it has in memory
}

// past is what rows say of an execution of the dry run.
type past struct {
	e     Execution
	steps map[string]dbsqlc.AllMapStepsRow
	// done are the changes that have an end, by the place of the step: the run of an applied one, and
	// nil for a rejected one. recorded are all changes.
	done     map[string]*uuid.UUID
	recorded map[string]bool
}

// startRerun runs a dry run once more, as far as it comes without an answer to the changes that have
// no end yet.
func (s *changes) startRerun(ctx context.Context, dryRun Execution) (*rerun, error) {
	b := &rerun{s: s.rows, pasts: map[uuid.UUID]*past{}}
	for i, really := range []bool{false, true} {
		var err error
		if b.runs[i], err = b.runOnce(ctx, dryRun, nil, really); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// goOn goes on with the changes that have come to an end since.
func (b *rerun) goOn(ctx context.Context) error {
	for _, p := range b.pasts {
		if err := p.readChanges(ctx, b.s); err != nil {
			return err
		}
	}
	for _, r := range b.runs {
		r.within(ctx)
		if err := r.goOn(); err != nil { //nolint:contextcheck // the machine does no I/O
			return err
		}
	}
	return nil
}

// arguments returns what a change sends, as it was and with what is real. asked is false where one of
// the two does not come to the change.
func (b *rerun) arguments(c *Applying) (made [2]json.RawMessage, asked bool, err error) {
	for i, r := range b.runs {
		if made[i], asked, err = r.find(c.Execution.ID, c.Step); err != nil || !asked {
			return made, asked, err
		}
	}
	return made, true, nil
}

// pastOf returns what rows say of an execution, read once.
func (b *rerun) pastOf(ctx context.Context, e Execution) (*past, error) {
	if p, known := b.pasts[e.ID]; known {
		return p, nil
	}
	p := &past{e: e, steps: map[string]dbsqlc.AllMapStepsRow{}}
	rows, err := b.s.q.AllMapSteps(ctx, b.s.d.DB.Tenant(e.TenantID), dbsqlc.AllMapStepsParams{TenantID: e.TenantID, Execution: e.ID})
	if err != nil {
		return nil, fmt.Errorf("execution: rerun: %w", err)
	}
	for _, row := range rows {
		p.steps[row.Path] = row
		b.bytes += len(row.Path) + len(db.Text(row.Output)) + len(db.Text(row.Error))
	}
	b.pasts[e.ID] = p
	return p, p.readChanges(ctx, b.s)
}

// readChanges reads which changes have an end.
func (p *past) readChanges(ctx context.Context, s *rows) error {
	changes, err := s.q.ChangesOfExecution(ctx, s.d.DB.Tenant(p.e.TenantID), dbsqlc.ChangesOfExecutionParams{
		TenantID: p.e.TenantID, DryRun: p.e.listOf(), Execution: p.e.ID,
	})
	if err != nil {
		return fmt.Errorf("execution: rerun: %w", err)
	}
	p.done, p.recorded = map[string]*uuid.UUID{}, map[string]bool{}
	for _, row := range changes {
		p.recorded[row.Step] = true
		switch ChangeStatus(row.Status) {
		case ChangeApplied:
			p.done[row.Step] = row.Run
		case ChangeRejected:
			p.done[row.Step] = nil
		default:
		}
	}
	return nil
}

// mendValue returns the approved value with the differences between what was invented and what is real.
func mendValue(approved, invented, really json.RawMessage) (json.RawMessage, error) {
	same, err := sameJSON(invented, really)
	if err != nil || same {
		return approved, err
	}
	if !isObject(approved) || !isObject(invented) || !isObject(really) {
		return mendItems(approved, invented, really)
	}
	was, errWas := membersOf(invented)
	now, errNow := membersOf(really)
	kept, errKept := membersOf(approved)
	if err := cmp.Or(errWas, errNow, errKept); err != nil {
		return nil, err
	}
	for name := range was {
		if _, still := now[name]; !still {
			delete(kept, name)
		}
	}
	for name, value := range now {
		old, had := was[name]
		if !had {
			kept[name] = value
			continue
		}
		base, has := kept[name]
		if !has {
			base = old
		}
		if kept[name], err = mendValue(base, old, value); err != nil {
			return nil, err
		}
	}
	out, err := exactjson.Encode(kept)
	if err != nil {
		return nil, fmt.Errorf("execution: rerun: %w", err)
	}
	return out, nil
}

// mendItems is mendValue for arrays of one length; any other value is replaced.
func mendItems(approved, invented, really json.RawMessage) (json.RawMessage, error) {
	if !isArray(approved) || !isArray(invented) || !isArray(really) {
		return really, nil
	}
	was, errWas := itemsOf(invented)
	now, errNow := itemsOf(really)
	kept, errKept := itemsOf(approved)
	if err := cmp.Or(errWas, errNow, errKept); err != nil {
		return nil, err
	}
	if len(kept) != len(was) || len(was) != len(now) {
		return really, nil
	}
	out := []byte{'['}
	for i := range now {
		item, err := mendValue(kept[i], was[i], now[i])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']'), nil
}

func isObject(v json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(v), []byte{'{'}) }

func isArray(v json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(v), []byte{'['}) }

func membersOf(object json.RawMessage) (members map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, fmt.Errorf("execution: rerun: %w", err)
	}
	return members, nil
}

func itemsOf(array json.RawMessage) (items []json.RawMessage, err error) {
	if err := json.Unmarshal(array, &items); err != nil {
		return nil, fmt.Errorf("execution: rerun: %w", err)
	}
	return items, nil
}

// replay is the step machine of one execution of a dry run while it runs once more.
type replay struct {
	of      *rerun
	ctx     context.Context //nolint:containedctx // of the call that goes on with it
	e       Execution
	l       *loader
	past    *past
	program *stepmachine.Program
	machine *stepmachine.Execution
	queue   []timedEvent
	// now is the time as the dry run had it.
	now time.Time
	// really: changes that were applied answer what they brought. Otherwise all answers are those of
	// the dry run.
	really bool
	// fixed are values that are not those of the dry run: the payload, and outputs of other Maps.
	fixed map[string]json.RawMessage
	// asked are the calls of changes without an end.
	asked  map[string]stepmachine.StartVerb
	others []otherReplay
	finish *stepmachine.Finish
}

// otherReplay is the execution that a step has started.
type otherReplay struct {
	*replay

	start stepmachine.StartMap
	told  bool // that it has ended
}

type timedEvent struct {
	event stepmachine.Event
	at    time.Time
}

// mostReplayed is how many events one execution may take when it runs once more.
const mostReplayed = 1_000_000

// runOnce runs an execution once more. payload is nil for that which it was triggered with.
func (b *rerun) runOnce(ctx context.Context, e Execution, payload json.RawMessage, really bool) (*replay, error) {
	v, err := b.s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return nil, err
	}
	r := &replay{
		of: b, ctx: ctx, e: e, program: v.Program, really: really, now: e.CreatedAt(), fixed: map[string]json.RawMessage{}, asked: map[string]stepmachine.StartVerb{},
	}
	if r.l, err = b.s.newLoader(ctx, e, nil); err != nil {
		return nil, err
	}
	if r.past, err = b.pastOf(ctx, e); err != nil {
		return nil, err
	}
	if payload == nil {
		if payload, err = r.l.key.Open(e.place(datakey.MapPayload), e.payload); err != nil {
			return nil, fmt.Errorf("execution: payload of %s: %w", e.ID, err)
		}
	} else {
		r.fix(triggerData, payload)
	}
	trigger := stepmachine.Of(payload)
	if len(payload) > stepmachine.MaxInline {
		trigger = Reference(triggerData, payload, nil)
	}
	var commands []stepmachine.Command
	r.machine, commands = stepmachine.Begin(r.program, r.now, stepmachine.Beginning{ //nolint:contextcheck // the machine does no I/O
		Execution: e.ExecutionID, TriggerData: trigger, Context: stepmachine.Of(mustJSON(contextOf(e))), DryRun: true,
	})
	return r, r.obey(commands) //nolint:contextcheck // as above
}

// fix sets a value that is not that of the dry run.
func (r *replay) fix(name string, value json.RawMessage) {
	r.fixed[name], r.l.read[name] = value, value
	r.of.bytes += len(value)
}

// within has it go on for another call.
func (r *replay) within(ctx context.Context) {
	r.ctx, r.l.ctx = ctx, ctx
	for _, o := range r.others {
		o.within(ctx)
	}
}

// goOn answers the calls of changes that have an end since it stopped.
func (r *replay) goOn() error {
	for i := range r.others {
		if o := &r.others[i]; !o.told {
			if err := o.goOn(); err != nil {
				return err
			}
			if err := r.otherEnded(o); err != nil {
				return err
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(r.asked)) {
		if _, done := r.past.done[path]; !done {
			continue
		}
		call := r.asked[path]
		delete(r.asked, path)
		if err := r.verb(call); err != nil {
			return err
		}
	}
	return r.obey(nil)
}

// obey answers the commands of the machine until it waits for a change.
func (r *replay) obey(commands []stepmachine.Command) error {
	for range mostReplayed {
		for _, command := range commands {
			if err := r.answer(command); err != nil {
				return err
			}
		}
		if r.finish != nil || len(r.queue) == 0 {
			return nil
		}
		next := r.queue[0]
		r.queue = r.queue[1:]
		if next.at.After(r.now) {
			r.now = next.at
		}
		var err error
		if commands, err = r.machine.Next(r.now, next.event); err != nil {
			return fmt.Errorf("execution: rerun: %w", err)
		}
	}
	return nil
}

func (r *replay) tell(event stepmachine.Event, at time.Time) {
	r.queue = append(r.queue, timedEvent{event, at})
}

// answer answers a command as it was answered in the dry run. A dry run waits for no people and no
// event.
func (r *replay) answer(command stepmachine.Command) error {
	if r.l.total > mostLoaded/2 { // what one evaluation reads is bounded, and not what all of them do
		r.l.read, r.l.total = maps.Clone(r.fixed), 0
	}
	switch c := command.(type) {
	case stepmachine.StartVerb:
		return r.verb(c)
	case stepmachine.StartModel:
		end, at, err := r.ended(c.Ref)
		r.tell(stepmachine.ModelEnded{CallEnd: end}, at)
		return err
	case stepmachine.StartMap:
		return r.other(c)
	case stepmachine.Evaluate:
		event, err := r.program.Evaluate(r.ctx, r.of.s.d.Sandbox.For(r.e.TenantID.String()), c, r.l.load)
		r.tell(event, r.now)
		return err
	case stepmachine.Continue:
		r.tell(stepmachine.Continued{}, r.now)
	case stepmachine.StopCall:
		if _, waits := r.asked[pathOf(c.Ref)]; waits {
			delete(r.asked, pathOf(c.Ref))
			r.tell(stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{Ref: c.Ref, Status: stepmachine.CallCancelled, MayRepeat: true}}, r.now)
		}
	case stepmachine.Finish:
		r.finish = &c
	default:
		if name, v, stores := storedBy(command); stores {
			r.l.pending[name] = v
			r.of.bytes += len(v.JSON)
		}
	}
	return nil
}

// verb answers a call. The machine waits for a change that has no end yet.
func (r *replay) verb(c stepmachine.StartVerb) error {
	path := pathOf(c.Ref)
	run, done := r.past.done[path]
	switch {
	case r.past.recorded[path] && !done:
		r.asked[path] = c
		return nil
	case done && run != nil && r.really:
		result, err := r.of.s.d.Results.Result(r.ctx, r.e.TenantID, *run)
		if err != nil {
			return err
		}
		r.tell(stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{Ref: c.Ref, Status: stepmachine.CallExecuted, Result: ResultOf(*run, result), Sent: true, Wrote: true}}, r.now)
		return nil
	}
	end, at, err := r.ended(c.Ref)
	if r.past.recorded[path] && end.Status == stepmachine.CallExecuted {
		end.Status, end.Sent = stepmachine.CallIntercepted, false
	}
	r.tell(stepmachine.VerbEnded{CallEnd: end}, at)
	return err
}

// ended returns the end of a step in the dry run, and when that was.
func (r *replay) ended(ref stepmachine.Ref) (end stepmachine.CallEnd, at time.Time, err error) {
	end = stepmachine.CallEnd{Ref: ref, Status: stepmachine.CallExecuted, Sent: true}
	row, known := r.past.steps[pathOf(ref)]
	if !known {
		end.Status, end.Error = stepmachine.CallFailed, stepmachine.NewError("CONFLICT", "the dry run did not come to this step")
		return end, r.now, nil
	}
	at = r.now
	if row.EndedAt != nil {
		at = *row.EndedAt
	}
	place := func(f datakey.Field) datakey.Place { return stepPlace(r.e.TenantID, r.e.ID, row.Path, f) }
	text, err := openOptional(r.l.key, place(datakey.MapStepError), row.Error)
	if err != nil {
		return end, at, err
	}
	if text != nil {
		end.Status, end.Error = stepmachine.CallFailed, &stepmachine.Error{}
		return end, at, json.Unmarshal(text, end.Error)
	}
	if text, err = openOptional(r.l.key, place(datakey.MapStepOutput), row.Output); err != nil || text == nil {
		return end, at, err
	}
	return end, at, json.Unmarshal(text, &end.Result)
}

// other runs a Map once more that a step has started and waits for.
func (r *replay) other(c stepmachine.StartMap) error {
	child, runs, err := r.childOf(c)
	if err != nil {
		return err
	}
	if !runs {
		end, at, err := r.ended(c.Ref)
		r.tell(stepmachine.MapEnded{CallEnd: end}, at)
		return err
	}
	payload, err := c.Payload.Resolve(r.l.load)
	if err != nil {
		return fmt.Errorf("execution: rerun: %w", err)
	}
	again, err := r.of.runOnce(r.ctx, child, payload, r.really)
	if err != nil {
		return err
	}
	r.others = append(r.others, otherReplay{replay: again, start: c})
	return r.otherEnded(&r.others[len(r.others)-1])
}

// otherEnded tells the end of another Map, where it has come to one. Otherwise a change in it has none
// yet.
func (r *replay) otherEnded(o *otherReplay) error {
	if o.finish == nil {
		return nil
	}
	o.told = true
	end := stepmachine.CallEnd{Ref: o.start.Ref, Status: stepmachine.CallExecuted}
	if end.Error = o.finish.Error; o.finish.Status != stepmachine.StatusCompleted {
		end.Status = stepmachine.CallFailed
	}
	output, err := o.finish.Output.Resolve(o.l.load)
	if err != nil {
		return fmt.Errorf("execution: rerun: %w", err)
	}
	end.Result = stepmachine.Of(output)
	if len(output) > stepmachine.MaxInline {
		name := otherPrefix + o.start.Ref.String()
		end.Result = Reference(name, output, nil)
		r.fix(name, output)
	}
	at := r.now
	if o.e.FinishedAt != nil {
		at = *o.e.FinishedAt
	}
	r.tell(stepmachine.MapEnded{CallEnd: end}, at)
	return nil
}

// childOf returns the execution that a step has started, where that is in the list of this one. A
// later attempt of the step is the one that counts.
func (r *replay) childOf(c stepmachine.StartMap) (child Execution, runs bool, err error) {
	attempts := 1
	if row, known := r.past.steps[pathOf(c.Ref)]; known {
		attempts = int(row.Attempts)
	}
	ref := c.Ref
	ref.Attempt = attempts
	rows, err := r.of.s.q.MapOfStep(r.ctx, r.of.s.d.DB.Tenant(r.e.TenantID), dbsqlc.MapOfStepParams{TenantID: r.e.TenantID, ParentID: r.e.ExecutionID, Step: ref.String()})
	if err != nil {
		return child, false, fmt.Errorf("execution: rerun: %w", err)
	}
	for _, row := range rows {
		if child = headOfRow(row); child.changesOf != nil && child.listOf() == r.e.listOf() {
			return child, true, nil
		}
	}
	return child, false, nil
}

// find returns the arguments of the call of a change for which the machine waits.
func (r *replay) find(execution uuid.UUID, step string) (args json.RawMessage, asked bool, err error) {
	if r.e.ID == execution {
		call, asked := r.asked[step]
		if !asked {
			return nil, false, nil
		}
		args, err = call.Args.Resolve(r.l.load)
		if err != nil {
			err = fmt.Errorf("execution: rerun: %w", err)
		}
		return args, true, err
	}
	for _, o := range slices.Backward(r.others) {
		if args, asked, err = o.find(execution, step); asked || err != nil {
			return args, asked, err
		}
	}
	return nil, false, nil
}
