package stepmachine

import (
	"encoding/json"
	"strings"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/mapdef"
)

// CheckEdit returns what is wrong with the input of an edit that CanGoOn lets pass, by the type of its
// step. Paths begin at the input. What the schema of a verb says is left to the caller.
func (p *Program) CheckEdit(id string, input json.RawMessage) (details []fault.Detail) {
	for _, f := range p.ids[id].InputFaults(input) {
		details = append(details, fault.Detail{Path: f.Path, Rule: f.Rule, Message: f.Message})
	}
	return details
}

// TakesEdit returns the place of the task that takes the edit of a step after Again, without its attempt.
// sure is false for a step in a loop, but for the one that begins again with the input that it has: several
// iterations may take the edit, or one that has not begun, and each has an input of its own.
func (p *Program) TakesEdit(s *State, a Again, id string) (at Ref, sure bool) {
	step := p.ids[id]
	loops := p.loopsAround(step)
	if len(loops) == 0 {
		return Ref{Path: step.Pointer}, true
	}
	var dropped *Task
	if b, _ := p.rewindable(s, a.FromStep); b != nil && a.FromStep != "" {
		dropped = b.Task
	}
	for _, loop := range loops {
		if s.only(loop.Pointer+"/steps", dropped) == nil {
			return at, false
		}
	}
	b := s.only(step.Pointer[:strings.LastIndexByte(step.Pointer, '/')], dropped)
	if b == nil || b.Task == nil || b.Task.Path != step.Pointer || b.Task.Input == nil {
		return at, false
	}
	return b.Task.still(), true
}

// only returns the one block of a list that goes on; nil where there is none, or several. dropped is the
// step that begins again with all that is in it, nil for none.
func (s *State) only(list string, dropped *Task) (only *Block) {
	for _, b := range s.blocks {
		switch {
		case b.Path != list || b.owner.within(dropped):
		case only != nil:
			return nil
		default:
			only = b
		}
	}
	return only
}

// loopsAround returns the loops that a step is in.
func (p *Program) loopsAround(step *mapdef.Step) (loops []*mapdef.Step) {
	for _, loop := range p.ids {
		if kind := loop.Do.Type(); (kind == mapdef.TypeForeach || kind == mapdef.TypeWhile) && strings.HasPrefix(step.Pointer, loop.Pointer+"/steps/") {
			loops = append(loops, loop)
		}
	}
	return loops
}
