package stepmachine

// A state has to fit into the input of a workflow, of which the server takes 2 MiB. So the more
// values it has, the smaller are those that it takes: the others are stored, and it refers to them.

// How large a value may be in a state that has so many bytes.
const (
	heavy, inlineHeavy   = 384 << 10, 1 << 10
	heavier, inlineLeast = 640 << 10, 64
	// weighAfter is how many bytes a state takes until it is weighed again.
	weighAfter = 32 << 10
)

// mostInline returns the most bytes that a value may have in the state now.
func (m *machine) mostInline() int {
	switch at := m.s.Weight + m.s.Taken; {
	case at > heavier:
		return inlineLeast
	case at > heavy:
		return inlineHeavy
	default:
		return MaxInline
	}
}

// takes counts a value that the state takes. It has most of them twice: as the output of a step, and
// as that of its block.
func (m *machine) takes(size int) {
	m.s.Taken += 2 * size
	if m.s.Taken > weighAfter {
		m.s.Weight, m.s.Taken = m.s.weigh(), 0
	}
}

// What a step that has begun, and one that has ended, take besides their values.
const (
	taskBytes   = 300
	resultBytes = 100
	// attemptBytes is what the number of a call takes with its key.
	attemptBytes = 50
)

// weigh returns about how many bytes the state has.
func (s *State) weigh() int {
	n := s.TriggerData.size() + s.Context.size() + weighNamed(s.Vars) + weighNamed(s.Edits) + weighResults(s.Results) + weighTask(s.Root) + weighEvents(s.Signals)
	for _, t := range s.Detached {
		n += weighTask(t)
	}
	for _, r := range s.Redone {
		n += weighResults(r.Results) + sizeOf(r.Item)
	}
	n += len(s.Attempts) * attemptBytes
	for _, ids := range s.Seen {
		for _, id := range ids {
			n += len(id)
		}
	}
	return n
}

func weighNamed(list []Named) (n int) {
	for i := range list {
		n += list[i].Value.size()
	}
	return n
}

func weighEvents(list []EventArrived) (n int) {
	for i := range list {
		n += list[i].Event.size()
	}
	return n
}

func weighResults(results map[string]*Result) (n int) {
	for _, r := range results {
		n += resultBytes + sizeOf(r.Output)
	}
	return n
}

func weighTask(t *Task) int {
	n := taskBytes + sizeOf(t.Input) + sizeOf(t.Output) + weighNamed(t.Assigned) + weighEvents(t.Inbox)
	if t.Loop != nil {
		n += t.Loop.Items.size()
		for i := range t.Loop.Kept {
			n += len(t.Loop.Kept[i].Output)
		}
	}
	if t.Compensation != nil {
		for _, v := range t.Compensation.values() {
			n += sizeOf(v)
		}
	}
	for _, b := range t.Blocks {
		n += sizeOf(b.Last) + sizeOf(b.Item) + weighResults(b.Results)
		if b.Task != nil {
			n += weighTask(b.Task)
		}
	}
	return n
}

func sizeOf(v *Value) int {
	if v == nil {
		return 0
	}
	return v.size()
}
