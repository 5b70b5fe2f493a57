package workflows

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/maps/stepmachine"
)

// mapOfMap is another Map that a step has started and waits for.
type mapOfMap struct {
	*mapCall

	waits     stepmachine.Waiting // what the machine was told that it waits for
	cancelled bool
}

// startMap starts another Map beside the loop, and waits for its end where the step does. What was
// done until now is written with the claim of its execution.
func (m *mapRun) startMap(ctx workflow.Context, c stepmachine.StartMap) {
	key := c.Ref.String()
	m.keep(key, c)
	if m.full {
		return
	}
	o := &mapOfMap{mapCall: &mapCall{m: m, key: key, ref: c.Ref}}
	m.calls[key] = o.mapCall
	in := flow.MapStart{MapWrites: m.takeWrites(ctx), Start: c, Tainted: m.tainted, Sources: m.sources, Reads: taint.Add(m.reads, m.sources...)}
	m.busy++ // by the start
	workflow.Go(ctx, func(ctx workflow.Context) {
		end, err := o.drive(ctx, in)
		if err != nil {
			return // the workflow ends
		}
		m.wrote = m.wrote || end.Wrote
		m.tell(stepmachine.MapEnded{CallEnd: end})
		delete(m.calls, key)
		m.answered(key)
	})
}

// drive returns the end of the other Map. Its workflow signals each change; a signal that is lost
// is made up for by looking now and then.
func (o *mapOfMap) drive(ctx workflow.Context, in flow.MapStart) (stepmachine.CallEnd, error) {
	var at flow.MapOfMap
	err := o.m.inTurn(ctx, func() (err error) {
		at, err = startMapOfMap(ctx, in)
		return err
	})
	o.m.busy--
	ref := flow.MapOfMapRef{MapRef: in.MapRef, Ref: o.ref, Child: at.Child}
	for after := lookAfter; err == nil && !at.Done; {
		o.tellWaits(at.Waits)
		var told bool
		summary := flow.WaitSummary(cmp.Or(at.Waits, stepmachine.WaitsMap), flow.ExecutionID(at.Child), "")
		if told, err = o.pauseFor(ctx, after, summary); err != nil {
			break
		}
		if told {
			after = lookAfter
		} else {
			after = min(2*after, lookAfterMost)
		}
		o.m.busy++
		if o.stopped && !o.cancelled {
			o.cancelled = true
			at, err = stopMapOfMap(ctx, ref)
		} else {
			at, err = lookAtMapOfMap(ctx, ref)
		}
		o.m.busy--
	}
	o.m.tainted, o.m.sources = o.m.tainted || at.Tainted, taint.Add(o.m.sources, at.Sources...)
	o.m.reads = taint.Add(o.m.reads, at.Reads...)
	return at.End, err
}

// lookAfterMost is the longest pause between two looks at another Map. Each takes seven events of
// the history.
const lookAfterMost = time.Hour

// tellWaits tells the machine what the other Map waits for, where that is new.
func (o *mapOfMap) tellWaits(waits stepmachine.Waiting) {
	switch waits {
	case o.waits:
		return
	case "":
		o.m.tell(stepmachine.CallGoesOn{Ref: o.ref})
	default:
		o.m.tell(stepmachine.CallWaits{Ref: o.ref, For: waits})
	}
	o.waits = waits
}

// pauseFor returns when there may be news, after the time at most. told is false where only the time
// has passed.
func (c *mapCall) pauseFor(ctx workflow.Context, after time.Duration, summary string) (told bool, err error) {
	told, err = workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{Timeout: after, TimerOptions: workflow.TimerOptions{Summary: summary}}, func() bool { return c.awake })
	c.awake = false
	return told, err
}
