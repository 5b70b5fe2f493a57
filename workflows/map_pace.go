package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/maps/stepmachine"
)

// One workflow task can make many steps. What it may take is bounded: the server refuses an answer
// of more than 4 MiB, and the SDK gives a task up that computes for a second without a pause. Both
// would happen again at each repeat of the task, so the execution would never end. Its time is bounded
// too. Only when a task ends, its timers begin to run, and signals and decisions are seen. The SDK ends
// one with calls under way after 8 s.

const (
	// mostTaken is how many bytes of values a task gets from activities before it ends. The server's
	// bound is for all that the task answers, and mostInFlight results can come after this many.
	mostTaken = 1 << 20
	// mostInFlight is how many activities with a value as their result an execution makes at a time.
	mostInFlight = 50
	// mostEvaluating is how many expressions an execution has evaluated at a time. A process has few
	// children that evaluate, and it begins 128 executions of a tenant: so they ask for half of the places
	// that a worker has for local activities.
	mostEvaluating = 2
	// mostBegun is how often the machine asks to go on, with 500 steps each, before what was done is
	// written. That is a pause too, and a cancellation is seen.
	mostBegun = 10
	// mostQueued is how many events wait for the machine before it reads no further news.
	mostQueued = 200
	// mostLasted is how long a task makes calls, and mostPatience how long it waits for those under way
	// from its begin on, before they go on beside it. leastPatience is for a call that begins late.
	mostLasted    = 500 * time.Millisecond
	mostPatience  = time.Second
	leastPatience = 100 * time.Millisecond
)

// pace makes the pause that is due, and reports whether there was one.
func (m *mapRun) pace(ctx workflow.Context) (paused bool, err error) {
	switch {
	case m.taken > mostTaken:
		m.taken = 0
		return true, workflow.Sleep(ctx, time.Millisecond) // a timer ends the task
	case m.begun >= mostBegun:
		m.begun = 0
		news, err := writeMap(ctx, m.takeAll(ctx))
		if err == nil {
			m.heed(news)
		}
		return true, err
	case m.lasted(ctx) > mostLasted:
		err = workflow.Sleep(ctx, time.Millisecond)
		m.since = time.Time{} // a new task
		return true, err
	default:
		return false, nil
	}
}

// lasted returns how long the workflow task has lasted, by the times that its local activities ended.
func (m *mapRun) lasted(ctx workflow.Context) time.Duration {
	now := workflow.Now(ctx)
	if length := workflow.GetInfo(ctx).GetCurrentHistoryLength(); length != m.length || m.since.IsZero() {
		m.length, m.since = length, now // a new task
	}
	return now.Sub(m.since)
}

// patience returns how long an activity may wait for the end of a call.
func (m *mapRun) patience(ctx workflow.Context) time.Duration {
	return max(mostPatience-m.lasted(ctx), leastPatience)
}

// inTurn makes an activity when fewer than mostInFlight are made.
func (m *mapRun) inTurn(ctx workflow.Context, activity func() error) error {
	if m.inFlight >= mostInFlight {
		if err := workflow.Await(ctx, func() bool { return m.inFlight < mostInFlight }); err != nil {
			return err
		}
	}
	m.inFlight++
	defer func() { m.inFlight-- }()
	return activity()
}

// sizeOf returns how many bytes of values an event has.
func sizeOf(event stepmachine.Event) int {
	switch e := event.(type) {
	case stepmachine.VerbEnded:
		return len(e.Result.JSON)
	case stepmachine.MapEnded:
		return len(e.Result.JSON)
	case stepmachine.Resolved:
		return len(e.Result.JSON)
	case stepmachine.Evaluated:
		return len(e.Value.JSON)
	case stepmachine.EventArrived:
		return len(e.Event.JSON)
	case stepmachine.Signalled:
		return len(e.Data.JSON)
	case stepmachine.Decided:
		return len(e.Response.JSON) + len(e.Payload.JSON)
	default:
		return 0
	}
}
