package governance

import (
	"crypto/sha256"
	"slices"
	"sort"
	"time"

	exact "github.com/shopspring/decimal"
)

// History is what windows have counted of recorded calls, at any time since it begins. A simulation
// judges by it. The rule is that of the SQL function count_window.
type History struct {
	of     map[[sha256.Size]byte][]counted
	places int
}

// counted are sums over a call and all before it that have the same value in the same window.
type counted struct {
	sent             time.Time
	done, ups, downs exact.Decimal // of executed calls above 0, of others above 0, of all below 0
	unknown          int           // calls of which an amount is not known
}

// Add counts a call that was sent at the time, later than those added before. done: it was executed.
// Otherwise it may have been. uses is what Records has returned.
func (h *History) Add(uses []WindowUse, sent time.Time, done bool) {
	if h.of == nil {
		h.of = map[[sha256.Size]byte][]counted{}
	}
	for i := range uses {
		u := &uses[i]
		list := h.of[u.place()]
		c := counted{}
		if len(list) > 0 {
			c = list[len(list)-1]
		}
		up, down, known := u.amounts()
		c.sent, c.downs = sent, c.downs.Add(down)
		switch {
		case !known:
			c.unknown++
		case done:
			c.done = c.done.Add(up)
		default:
			c.ups = c.ups.Add(up)
		}
		h.of[u.place()] = append(list, c)
		h.places++
	}
}

// Size is how often a call was counted in a window.
func (h *History) Size() int { return h.places }

// Read fills the readings with what the windows contained at the time, and the call itself. The minute
// at which a window begins counts on the strict side.
func (h *History) Read(w *Windows, at time.Time) {
	for i := range w.Uses {
		u := &w.Uses[i]
		lists := h.lists(u)
		up, down, _ := u.amounts()
		if !u.Counts {
			up, down = exact.Zero, exact.Zero
		}
		for n := range u.Readings {
			r := &u.Readings[n]
			edge := at.Truncate(time.Minute).Add(-r.Per)
			before, within, now := until(lists, edge), until(lists, edge.Add(time.Minute)), until(lists, at)
			r.Filled, r.Unknown = true, now.unknown > before.unknown
			r.Low = now.done.Sub(within.done).Add(now.downs).Sub(before.downs).Add(down)
			r.High = now.done.Sub(before.done).Add(now.ups).Sub(before.ups).Add(up)
		}
	}
}

// lists returns what was counted by the call's value, and by the other names of its customer.
func (h *History) lists(u *WindowUse) [][]counted {
	lists := [][]counted{h.of[u.place()]}
	for _, other := range u.Also {
		lists = append(lists, h.of[u.ID.place(other)])
	}
	return lists
}

// until returns the sums over the calls that were sent before the time.
func until(lists [][]counted, at time.Time) (sum counted) {
	for _, list := range lists {
		n := sort.Search(len(list), func(i int) bool { return !list[i].sent.Before(at) })
		if n == 0 {
			continue
		}
		c := &list[n-1]
		sum.done, sum.ups, sum.downs, sum.unknown = sum.done.Add(c.done), sum.ups.Add(c.ups), sum.downs.Add(c.downs), sum.unknown+c.unknown
	}
	return sum
}

// place names the window and the value.
func (u *WindowUse) place() [sha256.Size]byte { return u.ID.place(u.Value) }

func (id WindowID) place(value []byte) [sha256.Size]byte {
	return sha256.Sum256(slices.Concat(id[:], value))
}

// amounts returns what the call adds; known is false where that is not known.
func (u *WindowUse) amounts() (up, down exact.Decimal, known bool) {
	if u.Up == "" {
		return exact.Zero, exact.Zero, false
	}
	return exact.RequireFromString(u.Up), exact.RequireFromString(u.Down), true
}
