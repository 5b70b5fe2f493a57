package stepmachine

import (
	"slices"
	"strconv"

	"agentruntime/internal/maps/mapdef"
)

// branch begins all branches of a parallel step.
func (m *machine) branch(t *Task, do *mapdef.DoParallel) {
	m.enter(t, phaseInside)
	for i := range do.Branches {
		m.open(t, &Block{Key: Key{t.Path + "/branches/" + strconv.Itoa(i) + "/steps", t.Iteration}})
	}
}

// branchEnded goes on when a branch has run to its end.
func (m *machine) branchEnded(t *Task, do *mapdef.DoParallel, _ *Block) {
	if do.Join != mapdef.JoinAll || t.allOver() {
		m.joined(t, do)
	}
}

// branchFailed reports whether the step goes on without a failed branch, and then does.
func (m *machine) branchFailed(t *Task, do *mapdef.DoParallel, b *Block, e *Error) bool {
	b.Failed = e
	over := t.allOver()
	switch {
	case do.Join == mapdef.JoinRace:
		return false
	case do.Join == mapdef.JoinAny && over && do.OnBranchError != mapdef.Skip:
		return false // none has completed
	case do.Join == mapdef.JoinAll && do.OnBranchError != mapdef.Skip:
		return false
	}
	m.freeze(b.Task)
	if over {
		m.joined(t, do)
	}
	return true
}

// allOver reports whether no branch runs any longer.
func (t *Task) allOver() bool {
	return !slices.ContainsFunc(t.Blocks, func(b *Block) bool { return !b.Ended && b.Failed == nil })
}

// joined ends a parallel step. The branches that still run are given up.
func (m *machine) joined(t *Task, do *mapdef.DoParallel) {
	members := make([]Named, 0, len(do.Branches))
	for i, branch := range do.Branches {
		output := Value{}
		if b := t.Blocks[i]; b.Ended && b.Last != nil {
			output = *b.Last
		}
		members = append(members, Named{branch.ID, output})
	}
	m.dropBlocks(t)
	m.complete(t, object(members))
}
