package pattern

import "regexp"

// Memo measures and compiles each expression once, for a reader that meets the same ones again and again.
// It keeps compiled ones within a bound of memory. One goroutine at a time uses it.
type Memo struct {
	most, room int
	known      map[string]*entry
	kept       []*entry // those that are compiled
	held       int      // instructions of these
	work       int
}

// entry is what is known of an expression.
type entry struct {
	size, work int
	err        error
	compiled   *Pattern // nil until it is asked for
}

// NewMemo returns a memo of expressions of at most that many instructions each. It keeps compiled ones
// of at most room instructions together: one takes about 100 bytes.
func NewMemo(most, room int) *Memo {
	return &Memo{most: most, room: room, known: map[string]*entry{}}
}

// Work returns what the memo has done so far, in instructions as Measure counts them. What it knew
// already has cost nothing.
func (m *Memo) Work() int { return m.work }

// Check returns why the expression cannot be compiled: ErrSyntax or ErrSize.
func (m *Memo) Check(expression string) error { return m.look(expression).err }

func (m *Memo) look(expression string) *entry {
	e, known := m.known[expression]
	if !known {
		e = &entry{}
		e.size, e.work, e.err = Measure(expression, m.most)
		m.known[expression] = e
		m.work += e.work
	}
	return e
}

// Compile is the function Compile with what the memo knows.
func (m *Memo) Compile(expression string) (*Pattern, error) {
	e := m.look(expression)
	if e.err != nil || e.compiled != nil {
		return e.compiled, e.err
	}
	m.work += e.work // compiling takes as long as measuring
	re, err := regexp.Compile(expression)
	if err != nil {
		e.err = ErrSyntax
		return nil, e.err
	}
	compiled := &Pattern{re: re, size: e.size}
	if m.held+e.size > m.room {
		for _, one := range m.kept {
			one.compiled = nil
		}
		m.kept, m.held = nil, 0
	}
	if e.size <= m.room {
		e.compiled = compiled
		m.kept = append(m.kept, e)
		m.held += e.size
	}
	return compiled, nil
}
