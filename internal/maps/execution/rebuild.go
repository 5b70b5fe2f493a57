package execution

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/datakey"
	"agentruntime/internal/kernel/exactjson"
	"agentruntime/internal/kernel/stepmachine"
)

// A change whose arguments were built from an invented value is rebuilt before it is applied. The
// step machine runs the dry run once more, without any call: reads answer what they did then, and the
// changes that were applied answer what they really brought. It runs a second time as the dry run
// was. Where the two make different arguments, the difference comes from invented values, and the
// change gets the real ones. Everything else stays as people have approved it.

// rebuilt returns the arguments of a change with what is real in the places of what was invented.
// drift says why they cannot be.
func (s *Service) rebuilt(ctx context.Context, c *Applying, approved json.RawMessage) (args json.RawMessage, drift string, err error) {
	var made [2]json.RawMessage
	for i, really := range []bool{false, true} {
		r, err := s.replayed(ctx, c.DryRun, nil, really)
		if err != nil {
			return nil, "", err
		}
		call, asked, err := r.find(c.Execution.ID, c.Step)
		if err != nil {
			return nil, "", err
		}
		if !asked {
			return nil, "With what the changes before it have brought, the Map would not come to this change.", nil
		}
		made[i] = call
	}
	args, err = mend(approved, made[0], made[1])
	return args, "", err
}

// mend returns the approved value with the differences between what was invented and what is real.
func mend(approved, invented, really json.RawMessage) (json.RawMessage, error) {
	same, err := sameJSON(invented, really)
	if err != nil || same {
		return approved, err
	}
	var was, now, kept map[string]json.RawMessage
	if !isObject(approved) || !isObject(invented) || !isObject(really) {
		return mendItems(approved, invented, really)
	}
	for text, into := range map[*json.RawMessage]*map[string]json.RawMessage{&invented: &was, &really: &now, &approved: &kept} {
		if err := json.Unmarshal(*text, into); err != nil {
			return nil, fmt.Errorf("execution: rebuild: %w", err)
		}
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
		if kept[name], err = mend(base, old, value); err != nil {
			return nil, err
		}
	}
	out, err := exactjson.Encode(kept)
	if err != nil {
		return nil, fmt.Errorf("execution: rebuild: %w", err)
	}
	return out, nil
}

// mendItems is mend for arrays of one length; any other value is replaced.
func mendItems(approved, invented, really json.RawMessage) (json.RawMessage, error) {
	var kept, was, now []json.RawMessage
	for text, into := range map[*json.RawMessage]*[]json.RawMessage{&invented: &was, &really: &now, &approved: &kept} {
		if !bytes.HasPrefix(bytes.TrimSpace(*text), []byte{'['}) {
			return really, nil
		}
		if err := json.Unmarshal(*text, into); err != nil {
			return nil, fmt.Errorf("execution: rebuild: %w", err)
		}
	}
	if len(kept) != len(was) || len(was) != len(now) {
		return really, nil
	}
	out := []byte{'['}
	for i := range now {
		item, err := mend(kept[i], was[i], now[i])
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

// replay is the step machine of one execution of a dry run while it runs once more.
type replay struct {
	s       *Service
	ctx     context.Context //nolint:containedctx // it lives as long as one call
	e       Execution
	l       *loader
	program *stepmachine.Program
	state   *stepmachine.State
	queue   []timedEvent
	// now is the time as the dry run had it.
	now time.Time
	// really: changes that were applied answer what they brought. Otherwise all answers are those of
	// the dry run.
	really bool
	steps  map[string]dbsqlc.MapStep
	// done are the changes that have an end, by the place of the step: the run of an applied one, and
	// nil for a rejected one. recorded are all changes.
	done     map[string]*uuid.UUID
	recorded map[string]bool
	// asked are the calls of changes without an end.
	asked  map[string]stepmachine.Value
	others []*replay
	finish *stepmachine.Finish
}

type timedEvent struct {
	event stepmachine.Event
	at    time.Time
}

// mostReplayed is how many events one execution may take when it runs once more.
const mostReplayed = 1_000_000

// replayed runs an execution once more, as far as it comes without an answer to the changes that have
// no end yet. payload is nil for that which it was triggered with.
func (s *Service) replayed(ctx context.Context, e Execution, payload json.RawMessage, really bool) (*replay, error) {
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return nil, err
	}
	r := &replay{
		s: s, ctx: ctx, e: e, program: v.Program, really: really, now: e.CreatedAt(),
		steps: map[string]dbsqlc.MapStep{}, done: map[string]*uuid.UUID{}, recorded: map[string]bool{}, asked: map[string]stepmachine.Value{},
	}
	if r.l, err = s.loader(ctx, e, nil); err != nil {
		return nil, err
	}
	tx := s.d.DB.Tenant(e.TenantID)
	steps, err := s.q.AllMapSteps(ctx, tx, dbsqlc.AllMapStepsParams{TenantID: e.TenantID, Execution: e.ID})
	if err != nil {
		return nil, fmt.Errorf("execution: rebuild: %w", err)
	}
	for _, row := range steps {
		r.steps[row.Path] = row
	}
	changes, err := s.q.ChangesOfExecution(ctx, tx, dbsqlc.ChangesOfExecutionParams{TenantID: e.TenantID, DryRun: e.listOf(), Execution: e.ID})
	if err != nil {
		return nil, fmt.Errorf("execution: rebuild: %w", err)
	}
	for _, row := range changes {
		r.recorded[row.Step] = true
		switch ChangeStatus(row.Status) {
		case ChangeApplied:
			r.done[row.Step] = row.Run
		case ChangeRejected:
			r.done[row.Step] = nil
		default:
		}
	}
	if payload == nil {
		if payload, err = r.l.key.Open(e.place(datakey.MapPayload), e.payload); err != nil {
			return nil, fmt.Errorf("execution: payload of %s: %w", e.ID, err)
		}
	} else {
		r.l.read[triggerData] = payload
	}
	return r, r.run(payload) //nolint:contextcheck // the step machine does no I/O
}

// run answers the commands of the machine until it waits for a change.
func (r *replay) run(payload json.RawMessage) error {
	trigger := stepmachine.Of(payload)
	if len(payload) > stepmachine.MaxInline {
		trigger = Reference(triggerData, payload, nil)
	}
	state, commands := stepmachine.Start(r.program, r.now, stepmachine.Beginning{
		Execution: r.e.ExecutionID, TriggerData: trigger, Context: stepmachine.Of(mustJSON(contextOf(r.e))), DryRun: true,
	})
	r.state = state
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
		if r.state, commands, err = stepmachine.Next(r.program, r.state, r.now, next.event); err != nil {
			return fmt.Errorf("execution: rebuild: %w", err)
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
		event, err := r.program.Evaluate(r.ctx, r.s.d.Sandbox.For(r.e.TenantID.String()), c, r.l.load)
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
			delete(r.l.read, name)
		}
	}
	return nil
}

// verb answers a call. The machine waits for a change that has no end yet.
func (r *replay) verb(c stepmachine.StartVerb) error {
	path := pathOf(c.Ref)
	run, done := r.done[path]
	switch {
	case r.recorded[path] && !done:
		r.asked[path] = c.Args
		return nil
	case done && run != nil && r.really:
		result, err := r.s.d.Results.Result(r.ctx, r.e.TenantID, *run)
		if err != nil {
			return err
		}
		r.tell(stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{Ref: c.Ref, Status: stepmachine.CallExecuted, Result: ResultOf(*run, result), Sent: true, Wrote: true}}, r.now)
		return nil
	}
	end, at, err := r.ended(c.Ref)
	if r.recorded[path] && end.Status == stepmachine.CallExecuted {
		end.Status, end.Sent = stepmachine.CallIntercepted, false
	}
	r.tell(stepmachine.VerbEnded{CallEnd: end}, at)
	return err
}

// ended returns the end of a step in the dry run, and when that was.
func (r *replay) ended(ref stepmachine.Ref) (end stepmachine.CallEnd, at time.Time, err error) {
	end = stepmachine.CallEnd{Ref: ref, Status: stepmachine.CallExecuted, Sent: true}
	row, known := r.steps[pathOf(ref)]
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
		return fmt.Errorf("execution: rebuild: %w", err)
	}
	o, err := r.s.replayed(r.ctx, child, payload, r.really)
	if err != nil {
		return err
	}
	r.others = append(r.others, o)
	if o.finish == nil {
		return nil // a change in it has no end yet
	}
	end := stepmachine.CallEnd{Ref: c.Ref, Status: stepmachine.CallExecuted}
	if end.Error = o.finish.Error; o.finish.Status != stepmachine.StatusCompleted {
		end.Status = stepmachine.CallFailed
	}
	output, err := o.finish.Output.Resolve(o.l.load)
	if err != nil {
		return fmt.Errorf("execution: rebuild: %w", err)
	}
	end.Result = stepmachine.Of(output)
	if len(output) > stepmachine.MaxInline {
		name := otherPrefix + c.Ref.String()
		end.Result, r.l.read[name] = Reference(name, output, nil), output
	}
	at := r.now
	if child.FinishedAt != nil {
		at = *child.FinishedAt
	}
	r.tell(stepmachine.MapEnded{CallEnd: end}, at)
	return nil
}

// childOf returns the execution that a step has started, where that is in the list of this one. A
// later attempt of the step is the one that counts.
func (r *replay) childOf(c stepmachine.StartMap) (child Execution, runs bool, err error) {
	attempts := 1
	if row, known := r.steps[pathOf(c.Ref)]; known {
		attempts = int(row.Attempts)
	}
	ref := c.Ref
	ref.Attempt = attempts
	rows, err := r.s.q.MapOfStep(r.ctx, r.s.d.DB.Tenant(r.e.TenantID), dbsqlc.MapOfStepParams{TenantID: r.e.TenantID, ParentID: r.e.ExecutionID, Step: ref.String()})
	if err != nil {
		return child, false, fmt.Errorf("execution: rebuild: %w", err)
	}
	for _, row := range rows {
		if child = head(row); child.changesOf != nil && child.listOf() == r.e.listOf() {
			return child, true, nil
		}
	}
	return child, false, nil
}

// find returns the arguments of the call of a change for which the machine waits.
func (r *replay) find(execution uuid.UUID, step string) (args json.RawMessage, asked bool, err error) {
	if r.e.ID == execution {
		v, asked := r.asked[step]
		if !asked {
			return nil, false, nil
		}
		args, err = v.Resolve(r.l.load)
		if err != nil {
			err = fmt.Errorf("execution: rebuild: %w", err)
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
