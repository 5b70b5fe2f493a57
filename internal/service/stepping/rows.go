package stepping

import (
	"context"
	"sync"
	"time"

	"agentruntime/db"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/execution"
)

// soon is how long a call lasts before the rows show its step, where a later activity may write them.
const soon = 300 * time.Millisecond

// rows writes the rows of the steps that go with a call: with the claim of its run, or where they may come
// later, when the call has lasted for a while. Those of a short call are left to a later activity.
type rows struct {
	s  *Stepper
	e  execution.Execution
	in flow.MapCall
	// queue adds the rows to the transaction of the claim; nil where they come later.
	queue func(*db.Batch, execution.Called)
	late  *time.Timer

	mu sync.Mutex
	// run is the name that the rows have for the run of the call; committed: it is claimed. written: the rows
	// are written.
	run                      string
	committed, written, over bool
}

// rowsOf returns what writes the rows of a call. stop must be called.
func (s *Stepper) rowsOf(ctx context.Context, e execution.Execution, in flow.MapCall) (*rows, error) {
	r := &rows{s: s, e: e, in: in}
	if in.Later {
		r.mu.Lock() // the timer may fire before it is noted
		defer r.mu.Unlock()
		r.late = time.AfterFunc(soon, func() { r.writeLate(ctx) })
		return r, nil
	}
	var err error
	r.queue, err = s.Prepare(ctx, e, in.MapWrites)
	return r, err
}

// called names the run that a step shows; those of an agent are many, and its calls of models show them.
func (r *rows) called() execution.Called {
	if r.in.Tool != nil {
		return execution.Called{}
	}
	return execution.Called{Ref: r.in.Call.Ref, Run: r.run}
}

// claimed writes the rows with the claim of the run with the execution_id.
func (r *rows) claimed(b *db.Batch, run string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run = run
	if r.queue != nil {
		r.queue(b, r.called())
		r.written = true
	}
}

// isClaimed notes that the claim is committed.
func (r *rows) isClaimed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed = true
}

// writeLate writes the rows while the call lasts. Before the claim is committed, nobody knows whether there
// is a run of that name. Then it looks again later, and so it does where the write fails.
func (r *rows) writeLate(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	if !r.committed {
		r.late.Reset(soon)
		return
	}
	err := r.s.WriteSteps(ctx, r.e, r.in.MapWrites, r.called())
	if r.written = err == nil; err != nil {
		r.s.d.Log.WarnContext(ctx, "the rows of steps are written later", "execution_id", r.e.ExecutionID, "error", err)
		r.late.Reset(soon)
	}
}

// stop ends the writing.
func (r *rows) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.late != nil {
		r.late.Stop()
	}
}

// left reports whether the rows are left to a later activity. A repeat of the call has found an earlier run:
// rows that were written with another name get that of the run.
func (r *rows) left(ctx context.Context, run string) (bool, error) {
	if r.written && r.in.Tool == nil && r.run != run {
		return false, r.s.NameRun(ctx, r.e, execution.Called{Ref: r.in.Call.Ref, Run: run})
	}
	return !r.written, nil
}
