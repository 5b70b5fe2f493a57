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
		list := h.of[u.place()]
		up, down, _ := u.amounts()
		if !u.Counts {
			up, down = exact.Zero, exact.Zero
		}
		for n := range u.Readings {
			r := &u.Readings[n]
			edge := at.Truncate(time.Minute).Add(-r.Per)
			before, within, now := until(list, edge), until(list, edge.Add(time.Minute)), until(list, at)
			r.Filled, r.Unknown = true, now.unknown > before.unknown
			r.Low = now.done.Sub(within.done).Add(now.downs).Sub(before.downs).Add(down)
			r.High = now.done.Sub(before.done).Add(now.ups).Sub(before.ups).Add(up)
		}
	}
}

// until returns the sums over the calls that were sent before the time.
func until(list []counted, at time.Time) counted {
	n := sort.Search(len(list), func(i int) bool { return !list[i].sent.Before(at) })
	if n == 0 {
		return counted{}
	}
	return list[n-1]
}

// place names the window and the value.
func (u *WindowUse) place() [sha256.Size]byte { return sha256.Sum256(slices.Concat(u.ID[:], u.Value)) }

// amounts returns what the call adds; known is false where that is not known.
func (u *WindowUse) amounts() (up, down exact.Decimal, known bool) {
	if u.Up == "" {
		return exact.Zero, exact.Zero, false
	}
	return exact.RequireFromString(u.Up), exact.RequireFromString(u.Down), true
}
