package workflows

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// Where calls are short, the rows of steps are written once for several of them. The activity of such a call
// gives back what it has not written, and a later one writes it. So the rows may be this far behind:

const (
	// mostKept is how long records wait for an activity that writes them. The rows of a short execution are
	// written at its end, those of a longer one about once a second.
	mostKept = time.Second
	// mostKeptRecords is how many may wait.
	mostKeptRecords = 32
)

// mayKeep reports whether the records that were not written may go on waiting, and since when they do.
// Only records of steps may: values and changes are read from their rows.
func (m *mapRun) mayKeep(ctx workflow.Context) (may bool, since time.Time) {
	now := workflow.Now(ctx)
	if since = m.keptSince; since.IsZero() {
		since = now
	}
	other := func(c stepmachine.Command) bool { _, is := c.(stepmachine.RecordStep); return !is }
	return now.Sub(since) < mostKept && len(m.written) <= mostKeptRecords && !slices.ContainsFunc(m.written, other), since
}

// keepWrites takes back what an activity has not written, for a later one. run is what the step makes
// that the activity has called; the zero id for none. The records keep their numbers, as others may be
// written by now, and stand in their order: of two about one step, the later one counts, whichever
// activity comes back first.
func (m *mapRun) keepWrites(w flow.MapWrites, ref stepmachine.Ref, run uuid.UUID, since time.Time) {
	type record struct {
		command stepmachine.Command
		flow.MapKept
	}
	records := make([]record, 0, len(w.Commands)+len(m.kept))
	for i, c := range w.Commands {
		at := record{c, flow.MapKept{Number: w.Number(i), Run: w.Run(i)}}
		if step, is := c.(stepmachine.RecordStep); is && step.Ref == ref {
			at.Run = run
		}
		records = append(records, at)
	}
	for i, kept := range m.kept {
		records = append(records, record{m.written[i], kept})
	}
	slices.SortStableFunc(records, func(a, b record) int { return a.Number - b.Number })
	written, kept := make([]stepmachine.Command, len(records)), make([]flow.MapKept, len(records))
	for i, r := range records {
		written[i], kept[i] = r.command, r.MapKept
	}
	m.written, m.kept = slices.Concat(written, m.written[len(m.kept):]), kept
	if m.keptSince.IsZero() || since.Before(m.keptSince) {
		m.keptSince = since
	}
}
