package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/stepmachine"
)

// obey does what the machine asks for.
func (x *execution) obey(commands []stepmachine.Command) {
	for _, c := range commands {
		x.obey1(c)
	}
}

func (x *execution) obey1(c stepmachine.Command) {
	w := x.w
	switch c := c.(type) {
	case stepmachine.StartVerb, stepmachine.StartModel, stepmachine.StartMap, stepmachine.Compensate:
		x.call(c)
	case stepmachine.StopCall:
		x.stopCall(c)
	case stepmachine.Evaluate:
		e, err := x.program.Evaluate(w.ctx, w.opts.Sandbox, c, x.load)
		if err != nil {
			w.fail("%v", err)
		}
		x.arrive(e)
	case stepmachine.StartTimer:
		w.timers = append(w.timers, arrival{x, stepmachine.TimerFired{Ref: c.Ref, Timer: c.Timer}, c.At})
	case stepmachine.CancelTimer:
		w.timers = slices.DeleteFunc(w.timers, func(a arrival) bool {
			return a.x == x && a.e == stepmachine.Event(stepmachine.TimerFired(c))
		})
	case stepmachine.AskApproval:
		x.approvals[x.stepID(c.Ref.Path)] = c.Ref
	case stepmachine.CloseApproval:
		delete(x.approvals, x.stepID(c.Ref.Path))
		if c.Expired {
			x.arrive(stepmachine.Decided{Ref: c.Ref, Decision: stepmachine.Expired})
		}
	case stepmachine.AwaitEvent:
		x.await(c)
	case stepmachine.StopAwaiting:
		x.awaited = slices.DeleteFunc(x.awaited, func(a stepmachine.AwaitEvent) bool { return a.Ref == c.Ref })
	case stepmachine.Continue:
		x.arrive(stepmachine.Continued{})
	case stepmachine.Finish:
		x.finished(c)
	default:
		x.keep(c)
	}
}

// keep stores what the machine hands over.
func (x *execution) keep(c stepmachine.Command) {
	w := x.w
	switch c := c.(type) {
	case stepmachine.StoreValue:
		x.stored[c.ID] = c.Value
		delete(x.arrays, c.ID)
	case stepmachine.StoreIteration:
		id := stepmachine.Iterations(c.Ref)
		for len(x.iterated[id]) <= c.Index {
			x.iterated[id] = append(x.iterated[id], stepmachine.Value{})
		}
		x.iterated[id][c.Index] = c.Output
	case stepmachine.KeepCompensation:
		x.kept[c.Seq] = c
	case stepmachine.RecordChange:
		change := Change{Verb: c.Verb, Args: x.resolve(c.Args), id: c.ID}
		for i, before := range w.report.Changes {
			if slices.Contains(c.DependsOn, before.id) || slices.Contains(c.DependsOn, stepmachine.AnyChange) {
				change.DependsOn = append(change.DependsOn, i+1)
			}
		}
		w.report.Changes = append(w.report.Changes, change)
	case stepmachine.RecordStep:
		if c.Status == stepmachine.StepSkipped {
			w.report.Skipped = append(w.report.Skipped, c.ID)
		}
	}
}

func (x *execution) resolve(v stepmachine.Value) json.RawMessage {
	raw, err := v.Resolve(x.load)
	if err != nil {
		x.w.fail("%v", err)
	}
	return raw
}

// call answers a call.
func (x *execution) call(c stepmachine.Command) {
	switch c := c.(type) {
	case stepmachine.StartVerb:
		x.arrive(stepmachine.VerbEnded{CallEnd: x.verb(c.Ref, c.Verb, c.Args, c.DryRun)})
	case stepmachine.Compensate:
		x.compensate(c)
	case stepmachine.StartModel:
		a := x.w.answer(func(a Answer) bool { return a.Step == x.stepID(c.Ref.Path) })
		if a == nil {
			x.w.fail("nothing answers the step %s", x.stepID(c.Ref.Path))
			return
		}
		x.arrive(stepmachine.ModelEnded{CallEnd: a.end(c.Ref)})
	case stepmachine.StartMap:
		x.startMap(c)
	}
}

// compensate answers a call that undoes a step. One that waits ends after its release.
func (x *execution) compensate(c stepmachine.Compensate) {
	kept := x.kept[c.Seq]
	args := x.resolve(kept.Args)
	end, waits := x.answered(kept.Ref, kept.Verb, args, false)
	ended := stepmachine.CompensationEnded{
		Seq: c.Seq, Attempt: c.Attempt, Status: end.Status, Error: end.Error, Sent: end.Sent, MayRepeat: end.MayRepeat,
	}
	if waits == "" {
		x.sent(end.Sent, Call{kept.Verb, args})
		x.arrive(ended)
		return
	}
	x.waiting[kept.Verb] = waitingCall{Call{kept.Verb, args}, ended}
	x.arrive(stepmachine.CompensationWaits{Seq: c.Seq, Attempt: c.Attempt, For: waits, Ref: kept.Ref, Call: kept.Verb})
}

// sent notes a call that was sent.
func (x *execution) sent(was bool, c Call) {
	if was {
		x.w.report.Calls = append(x.w.report.Calls, c)
	}
}

// verb returns the end of a call of a verb. After one that was executed, another of its number is the
// same call: it ends as before, and is refused with other arguments.
func (x *execution) verb(ref stepmachine.Ref, verb string, args stepmachine.Value, dryRun bool) stepmachine.CallEnd {
	raw := x.resolve(args)
	if before, made := x.made[ref]; made && !same(before.args, raw) {
		return stepmachine.CallEnd{Ref: ref, Status: stepmachine.CallFailed, Error: stepmachine.NewError(string(fault.CodeConflict), "")}
	} else if made {
		return before.end
	}
	end, _ := x.answered(ref, verb, raw, dryRun)
	x.sent(end.Sent, Call{verb, raw})
	if end.Status == stepmachine.CallExecuted {
		x.made[ref] = madeCall{raw, end}
	}
	return end
}

// madeCall is a call that was executed.
type madeCall struct {
	args json.RawMessage
	end  stepmachine.CallEnd
}

// answered returns the end of a call that was not made before, and what it waits for until then.
func (x *execution) answered(ref stepmachine.Ref, verb string, raw json.RawMessage, dryRun bool) (stepmachine.CallEnd, stepmachine.Waiting) {
	a := x.w.answer(func(a Answer) bool { return a.Verb == verb && (a.Args == nil || same(a.Args, raw)) })
	if a == nil {
		x.w.fail("nothing answers %s %s", verb, raw)
		return stepmachine.CallEnd{Ref: ref, Status: stepmachine.CallFailed}, ""
	}
	end := a.end(ref)
	if dryRun && a.Write {
		end.Status, end.Sent, end.Wrote = stepmachine.CallIntercepted, false, false
	}
	return end, a.Waits
}

// end returns the answer as the end of a call.
func (a *Answer) end(ref stepmachine.Ref) stepmachine.CallEnd {
	if a.Error == nil {
		return stepmachine.CallEnd{
			Ref: ref, Status: stepmachine.CallExecuted, Result: stepmachine.Of(a.Result), Sent: true, Wrote: a.Write, MayRepeat: !a.Write,
		}
	}
	e := stepmachine.NewError(a.Error.Code, a.Error.Detail)
	e.Retryable, e.RetryAfterMS = a.Error.Retryable, a.Error.RetryAfterMS
	end := stepmachine.CallEnd{Ref: ref, Status: stepmachine.CallFailed, Error: e, Sent: a.Error.Sent, MayRepeat: !a.Error.Sent || !a.Write}
	if e.Code == string(fault.CodeOutcomeUnknown) {
		end.Status, end.Sent, end.MayRepeat = stepmachine.CallUnknown, true, false
	}
	return end
}

// answer takes the first answer that fits; nil where there is none.
func (w *world) answer(fits func(Answer) bool) *Answer {
	for i, a := range w.c.Answers {
		if w.taken[i] < max(1, a.Times) && fits(a) {
			w.taken[i]++
			return &a
		}
	}
	return nil
}

// same reports whether two texts are the same JSON.
func same(a, b json.RawMessage) bool {
	x, errX := exactjson.Decode(a)
	y, errY := exactjson.Decode(b)
	return errX == nil && errY == nil && exactjson.Text(x) == exactjson.Text(y)
}

// startMap starts another Map of the case.
func (x *execution) startMap(c stepmachine.StartMap) {
	p, err := compile(x.w.c.Maps[c.MapID])
	if err != nil {
		x.arrive(stepmachine.MapEnded{CallEnd: stepmachine.CallEnd{
			Ref: c.Ref, Status: stepmachine.CallFailed, Error: stepmachine.NewError("MAP_NOT_FOUND", ""), MayRepeat: true,
		}})
		return
	}
	id := x.id + "/" + strconv.Itoa(len(x.w.all))
	if !c.Wait {
		x.arrive(stepmachine.MapEnded{CallEnd: stepmachine.CallEnd{Ref: c.Ref, Status: stepmachine.CallExecuted, Result: executionID(id)}})
	}
	payload := stepmachine.Of(x.resolve(c.Payload))
	payload.Invented = c.Payload.Invented
	child := x.w.start(id, p, payload, c.DryRun)
	if c.Wait {
		child.parent, child.ref = x, c.Ref
		if child.finish != nil {
			child.tell()
		}
	}
}

// finished ends an execution, and tells the one that has started it.
func (x *execution) finished(c stepmachine.Finish) {
	x.finish = &c
	if x.parent != nil {
		x.tell()
	}
}

func (x *execution) tell() {
	end := stepmachine.CallEnd{Ref: x.ref, Error: x.finish.Error, MayRepeat: x.finish.Actions == 0}
	switch x.finish.Status {
	case stepmachine.StatusCompleted:
		end.Status = stepmachine.CallExecuted
		end.Result = stepmachine.Of(x.resolve(x.finish.Output))
		end.Result.Invented = x.finish.Output.Invented
	case stepmachine.StatusCancelled:
		end.Status = stepmachine.CallCancelled
	default:
		end.Status = stepmachine.CallFailed
		failed := *x.finish.Error
		failed.Instance = ""
		end.Error = &failed
	}
	x.parent.arrive(stepmachine.MapEnded{CallEnd: end})
}

// stopCall cancels a call whose answer has not arrived, or lets the answer arrive.
func (x *execution) stopCall(c stepmachine.StopCall) {
	for _, child := range x.w.all {
		if child.parent == x && child.ref == c.Ref && child.finish == nil {
			child.arrive(stepmachine.CancelRequested{})
		}
	}
}

// await passes on the events that have come, and notes that later ones count.
func (x *execution) await(c stepmachine.AwaitEvent) {
	x.awaited = append(x.awaited, c)
	for i, e := range x.w.came {
		x.pass(c, e, x.w.about[i])
	}
}

func (x *execution) pass(c stepmachine.AwaitEvent, e stepmachine.EventArrived, about *Outside) {
	if c.Type != about.Type || c.Correlate != "" && c.Correlate != about.Correlate {
		return
	}
	var when struct {
		Time string `json:"time"`
	}
	if err := json.Unmarshal(e.Event.JSON, &when); err != nil || when.Time < c.Since.Format(timeFormat) {
		return
	}
	e.Ref = c.Ref
	x.arrive(e)
}

// timeFormat sorts as times do.
const timeFormat = "2006-01-02T15:04:05.000Z"

// happen lets something from outside happen.
func (w *world) happen(h Happening) {
	x := w.root
	switch {
	case h.Event != nil:
		w.event(h.Event)
	case h.Signal != nil:
		x.next(stepmachine.Signalled{Signal: h.Signal.Name, Data: stepmachine.Of(h.Signal.Data)})
	case h.Decide != nil:
		w.decide(h.Decide)
	case h.Resolve != nil:
		w.settle(h.Resolve)
	case h.Release != "":
		w.release(h.Release)
	case h.Again != nil:
		again := stepmachine.Again{FromStep: h.Again.FromStep}
		for _, name := range slices.Sorted(maps.Keys(h.Again.Edits)) {
			again.Edits = append(again.Edits, stepmachine.Named{Name: name, Value: stepmachine.Of(h.Again.Edits[name])})
		}
		if stepmachine.CanGoOn(x.program, x.state, again) == nil {
			x.finish = nil
		}
		x.next(again)
	default:
		control := map[string]stepmachine.Event{
			"cancel": stepmachine.CancelRequested{}, "pause": stepmachine.PauseRequested{}, "resume": stepmachine.ResumeRequested{},
		}
		x.next(control[h.Control])
	}
}

func (w *world) event(o *Outside) {
	id := "evt_" + strconv.Itoa(len(w.came)+1)
	body, err := exactjson.Encode(map[string]any{
		"id": id, "type": o.Type, "data": o.Data, "correlate": o.Correlate, "time": w.now.Format(timeFormat),
	})
	if err != nil {
		w.fail("%v", err)
		return
	}
	e := stepmachine.EventArrived{ID: id, Event: stepmachine.Of(body)}
	w.came, w.about = append(w.came, e), append(w.about, o)
	for _, x := range w.all {
		for _, c := range slices.Clone(x.awaited) {
			x.pass(c, e, o)
		}
	}
}

func (w *world) decide(d *Decision) {
	for _, x := range w.all {
		ref, ok := x.approvals[d.Step]
		if !ok {
			continue
		}
		delete(x.approvals, d.Step)
		e := stepmachine.Decided{
			Ref: ref, Decision: stepmachine.Decision(d.Decision), By: d.By, Reason: d.Reason,
			Response: stepmachine.Of(d.Response), Payload: stepmachine.Of(d.EditedArgs),
		}
		if e.Decision == stepmachine.Approve && d.Response != nil {
			e.Decision = stepmachine.Respond
		}
		if e.Decision == stepmachine.Approve && d.EditedArgs != nil {
			e.Decision = stepmachine.Edit
		}
		x.next(e)
		return
	}
	w.fail("the step %s asks nobody", d.Step)
}

// release ends a call that waits.
func (w *world) release(verb string) {
	for _, x := range w.all {
		if held, is := x.waiting[verb]; is {
			delete(x.waiting, verb)
			x.sent(held.end.Sent, held.call)
			x.next(held.end)
			return
		}
	}
	w.fail("the call of %s asks nobody", verb)
}

func (w *world) settle(r *Resolution) {
	for _, x := range w.all {
		waits := x.state.WaitingFor
		unknown := x.finish != nil && len(x.finish.Unknown) > 0
		var ref stepmachine.Ref
		switch {
		case waits != nil && waits.For == stepmachine.WaitsResolve && waits.Step == r.Step:
			ref = waits.Ref
		case unknown:
			ref = x.finish.Unknown[0]
		default:
			continue
		}
		end := stepmachine.CallEnd{Ref: ref, Status: stepmachine.CallFailed}
		if r.Outcome == "executed" {
			end.Status, end.Result, end.Wrote = stepmachine.CallExecuted, stepmachine.Of(r.Result), true
		}
		x.next(stepmachine.Resolved{CallEnd: end})
		return
	}
	w.fail("the outcome of %s is not asked for", r.Step)
}

// at returns the part of a value that a JSON Pointer names.
func at(raw json.RawMessage, pointer string) (json.RawMessage, error) {
	for _, token := range strings.Split(pointer, "/")[1:] {
		raw = bytes.TrimSpace(raw)
		var err error
		if len(raw) > 0 && raw[0] == '[' {
			var items []json.RawMessage
			i, wrong := strconv.Atoi(token)
			if err = json.Unmarshal(raw, &items); err == nil && wrong == nil && i < len(items) {
				raw = items[i]
				continue
			}
		} else {
			var members map[string]json.RawMessage
			if err = json.Unmarshal(raw, &members); err == nil {
				raw = members[token]
				continue
			}
		}
		return nil, fmt.Errorf("simulate: no %s in a stored value", pointer)
	}
	return raw, nil
}
