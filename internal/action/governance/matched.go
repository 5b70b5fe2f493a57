package governance

import "slices"

// doubts says for each condition of a policy why it could not be judged.
type doubts [MaxConditions + 1]why

// flags has a bit for each condition of a policy.
type flags uint64

// There are enough bits.
const _ = 64 - uint(len(doubts{}))

func (f flags) has(i int) bool { return f>>i&1 != 0 }

func (f *flags) add(i int) { *f |= 1 << i }

// findings say how the conditions of a policy came out. Those that were not needed to judge it are
// neither judged nor in doubt.
type findings struct {
	judged, met flags
	unsure      doubts
	doubt       bool // unsure has any
}

func (f *findings) reset() {
	f.judged, f.met = 0, 0
	if f.doubt {
		f.unsure, f.doubt = doubts{}, false
	}
}

func (f *findings) note(i int, ok bool, reason why) {
	switch {
	case reason != whyJudged:
		f.unsure[i], f.doubt = reason, true
		return
	case ok:
		f.met.add(i)
	}
	f.judged.add(i)
}

// matched is a policy that matched, and how its conditions came out.
type matched struct {
	*policy
	judged, met flags
	unsure      *doubts // nil for none
	// depends: it does so only where a look-up that was not made counts for it.
	depends bool
}

// few is how many policies that matched need no further memory.
const few = 8

// matches are the policies that matched.
type matches struct {
	n    int
	few  [few]matched
	more []matched // all, where they are not few
}

func (m *matches) all() []matched {
	if m.n > few {
		return m.more
	}
	return m.few[:m.n]
}

func (m *matches) add(one matched) {
	switch {
	case m.n < few:
		m.few[m.n] = one
	case m.n == few:
		m.more = append(append(make([]matched, 0, 4*few), m.few[:]...), one)
	default:
		m.more = append(m.more, one)
	}
	m.n++
}

// drop removes those of the kind.
func (m *matches) drop(is func(matched) bool) {
	n := len(slices.DeleteFunc(m.all(), is))
	if m.n > few {
		m.more = m.more[:n]
		copy(m.few[:], m.more)
	}
	m.n = n
}

// whyUnsure says why condition i could not be judged.
func (m *matched) whyUnsure(i int) why {
	if m.unsure == nil {
		return whyJudged
	}
	return m.unsure[i]
}
