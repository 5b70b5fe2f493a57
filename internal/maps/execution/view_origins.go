package execution

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/maps/mapdef"
)

// origins finds the calls that outputs of an execution may come from, unchanged. A step that waits for
// another Map without an output gives on what the last step of that Map gave. Which version of it ran
// is in the row of its execution. The rows are read once, where there is such a step.
type origins struct {
	s *rows
	e Execution

	read bool
	// err is why not all that ran is known. Then everything is masked where it matters.
	err error
	// ran has the versions that have run, by their Maps. of has the calls of those that were looked at.
	ran map[uuid.UUID][]int32
	of  map[versionOf][]ResultIn
}

type versionOf struct {
	id      uuid.UUID
	version int32
}

// mostBelow is how many executions of other Maps are looked at. A loop of all items that it may have
// stays below, also where each of its Maps starts another.
const mostBelow = 2*mapdef.MaxItems + 1_000

// errBelow is why not all that ran is known.
var errBelow = errors.New("the execution has waited for too many others")

func originsOf(s *rows, e Execution) *origins {
	return &origins{s: s, e: e, ran: map[uuid.UUID][]int32{}, of: map[versionOf][]ResultIn{}}
}

// anyCall is the result of a call that nobody knows: all values are masked.
func anyCall() []ResultIn { return []ResultIn{{}} }

// last returns the calls that the output of a list of steps may come from: that of its last step, and
// those before steps that may be skipped.
func (o *origins) last(ctx context.Context, steps []mapdef.Step) (results []ResultIn) {
	for i := len(steps) - 1; i >= 0; i-- {
		results = append(results, o.step(ctx, &steps[i])...)
		if steps[i].SkipIf.IsZero() {
			break
		}
	}
	return results
}

// step returns the calls that the output of a step may come from.
func (o *origins) step(ctx context.Context, step *mapdef.Step) (results []ResultIn) {
	switch do := step.Do.(type) {
	case *mapdef.DoVerb:
		results = []ResultIn{{Verb: do.Verb}}
	case *mapdef.DoForeach:
		results = o.last(ctx, do.Steps)
	case *mapdef.DoParallel:
		for _, b := range do.Branches {
			for _, r := range o.last(ctx, b.Steps) {
				results = append(results, ResultIn{r.Verb, r.Deep + 1})
			}
		}
	case *mapdef.DoMap:
		results = o.other(ctx, do)
	}
	for _, c := range step.Catch {
		results = append(results, o.last(ctx, c.Steps)...)
	}
	return results
}

// other returns the calls that the output of another Map may come from: of each version that has run.
// There are none where the step does not wait, and where no execution of that Map has begun.
func (o *origins) other(ctx context.Context, do *mapdef.DoMap) (results []ResultIn) {
	if !do.Wait {
		return nil
	}
	if o.readBelow(ctx); o.err != nil {
		return anyCall()
	}
	id, err := uuid.Parse(do.MapID)
	if err != nil {
		return nil // such a step starts nothing
	}
	for _, version := range o.ran[id] {
		if do.Version == 0 || do.Version == int(version) {
			results = append(results, o.version(ctx, versionOf{id, version})...)
		}
	}
	return results
}

// readBelow reads which versions of other Maps have run below the execution.
func (o *origins) readBelow(ctx context.Context) {
	if o.read {
		return
	}
	o.read = true
	rows, err := o.s.q.MapsBelow(ctx, o.s.d.DB.Reading(o.e.TenantID, db.ListLimit), dbsqlc.MapsBelowParams{
		TenantID: o.e.TenantID, ExecutionID: o.e.ExecutionID, Levels: MaxDepth - 1, Most: mostBelow,
	})
	if err != nil {
		o.err = fmt.Errorf("execution: the Maps that %s has waited for: %w", o.e.ExecutionID, err)
		return
	}
	var executions int64
	for _, row := range rows {
		o.ran[row.MapID] = append(o.ran[row.MapID], row.Version)
		executions += row.Executions
	}
	if executions >= mostBelow {
		o.err = errBelow
	}
}

// version returns the calls that the output of a version may come from. One that declares its output is
// masked as its own executions are: it adds none.
func (o *origins) version(ctx context.Context, of versionOf) (results []ResultIn) {
	if known, seen := o.of[of]; seen {
		return known
	}
	o.of[of] = anyCall() // for a Map within itself, which never runs
	v, err := o.s.d.Definitions.Version(ctx, o.e.TenantID, of.id, of.version)
	if err != nil {
		o.err = fmt.Errorf("execution: version %d of %s: %w", of.version, of.id, err)
		return anyCall()
	}
	if d := v.Program.Definition(); d.Output.IsZero() {
		results = distinct(o.last(ctx, d.Steps))
	}
	o.of[of] = results
	return results
}

// distinct returns each result once: the same Map may be in many branches.
func distinct(results []ResultIn) []ResultIn {
	seen := map[ResultIn]bool{}
	var out []ResultIn
	for _, r := range results {
		if !seen[r] {
			seen[r], out = true, append(out, r)
		}
	}
	return out
}
