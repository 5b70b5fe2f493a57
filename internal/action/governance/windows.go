package governance

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	exact "github.com/shopspring/decimal"
)

// Windows are those that one call is counted in, and those that conditions about it ask for. Set
// finds them. The caller reads what is recorded and puts it into the Readings.
type Windows struct{ Uses []WindowUse }

// WindowUse is one window and one call.
type WindowUse struct {
	ID WindowID
	// Value is the call's value of the field by which the window counts. Equal values are equal
	// bytes. It is nil where the call has no single value: then it is not counted.
	Value []byte
	// Also are the values of the other texts that name the call's customer. What was counted by them
	// counts too.
	Also [][]byte
	// Digest is Value as it is stored, and AlsoDigests are those of Also. The caller sets them.
	Digest      []byte
	AlsoDigests [][]byte
	// Counts: the window counts calls like this one.
	Counts bool
	// Up and Down are what the call adds, as decimal numbers: those of its amounts that are above 0
	// together, and those below 0. Where calls are counted they are 1 and 0. Both are "" where an
	// amount is not known.
	Up, Down string
	// Readings are what conditions ask for; none where the call is only counted.
	Readings []WindowReading

	reason why // there is no Value, or an amount is not known
}

// WindowReading is what a window of one length contains. The caller fills it, apart from Per.
type WindowReading struct {
	Per time.Duration
	// Filled: the calls of the whole period are recorded. Otherwise nothing is known.
	Filled bool
	// Unknown: the amount of an earlier call is not known.
	Unknown bool
	// High adds up the amounts above 0 of executed calls, of those that may still be, and of the
	// call itself. Low has only executed calls of these, and the amounts below 0 of all.
	Low, High exact.Decimal

	asked []windowAsked
}

// windowAsked is a condition of an enforced policy, and the side on which doubt counts.
type windowAsked struct {
	one    *condition
	strict bool
}

// boundWindow is a window of a set.
type boundWindow struct {
	*window

	source *Window
}

// HasWindows reports whether a policy of the set asks about a window.
func (s *Set) HasWindows() bool { return s != nil && len(s.windows) > 0 }

// Windows returns the windows that the call is counted in or judged by, nil for none.
func (s *Set) Windows(c Call) *Windows {
	if !s.HasWindows() {
		return nil
	}
	var buf [maxName]byte
	name := append(append(append(buf[:0], c.Verb.Provider...), ':'), c.Verb.Verb...)
	e := evaluation{call: c, args: document{data: c.Args, left: maxWork}, gathers: true}
	for i := range s.windows {
		if one := &s.windows[i]; one.counts(&c, name) {
			e.gathered.add(&e, one.window, name)
		}
	}
	s.index.consider(&e, name)
	if len(e.gathered.Uses) == 0 {
		return nil
	}
	return &Windows{e.gathered.Uses}
}

// Records returns the windows that count the call, apart from those in which it has no value. It
// is for calls that were recorded before a window was.
func (s *Set) Records(c Call, only func(WindowID) bool) []WindowUse {
	name := []byte(c.Verb.String())
	w := &Windows{}
	e := evaluation{call: c, args: document{data: c.Args, left: maxWork}}
	for i := range s.windows {
		if one := &s.windows[i]; only(one.id) && one.counts(&c, name) {
			w.add(&e, one.window, name)
		}
	}
	return slices.DeleteFunc(w.Uses, func(u WindowUse) bool { return u.Value == nil })
}

// WindowDef is a window of a set, for those who keep what it counts.
type WindowDef struct {
	ID WindowID
	// Longest is the longest period that a policy asks for.
	Longest time.Duration
	// OfArgs: what it counts is in the arguments of calls.
	OfArgs bool
}

// WindowDefs returns the windows that the enabled policies of the list ask for.
func WindowDefs(policies []Policy) []WindowDef {
	s := Compile(0, policies)
	defs := make([]WindowDef, len(s.windows))
	for i, w := range s.windows {
		defs[i] = WindowDef{ID: w.id, Longest: w.per, OfArgs: w.by.from == ofArgs || w.sum != nil}
	}
	return defs
}

// addWindows notes the windows of a policy in the set. The longest of those with one id stays.
func (s *Set) addWindows(p *policy) {
	for one := range conditions(p.conditions) {
		if one.window == nil {
			continue
		}
		at := slices.IndexFunc(s.windows, func(w boundWindow) bool { return w.id == one.window.id })
		switch {
		case at < 0:
			s.windows = append(s.windows, boundWindow{one.window, one.source.Window})
		case s.windows[at].per < one.window.per:
			s.windows[at].window = one.window
		}
	}
}

// add returns the use of a window, which is made where there is none yet.
func (w *Windows) add(e *evaluation, one *window, name []byte) *WindowUse {
	if u := w.use(one.id); u != nil {
		return u
	}
	u := WindowUse{ID: one.id, Counts: one.counts(&e.call, name)}
	u.Value, u.reason = one.by.single(e)
	if one.by.name == fieldCustomerID {
		if ref := e.call.Context.CustomerRef; ref != nil {
			u.Value = textIdentity([]byte(*ref)) // a record keeps its id, and may lose other names
		}
		u.Also = otherNames(&e.call.Context)
	}
	if u.Value == nil && (u.reason == whyNull || u.reason == whyLacks) {
		u.reason = whyNoWindow
	}
	if u.Counts && u.reason == whyJudged {
		u.Up, u.Down, u.reason = one.amounts(e)
	}
	w.Uses = append(w.Uses, u)
	return &w.Uses[len(w.Uses)-1]
}

// otherNames returns the values of the texts by which earlier calls may have named the customer of the
// call. A call is counted by Context.Named. So nothing has to move where a customer is created or merged.
func otherNames(c *Context) (also [][]byte) {
	counted := c.Named()
	for _, name := range c.CustomerNames {
		if counted != nil && name != *counted {
			also = append(also, textIdentity([]byte(name)))
		}
	}
	return also
}

func (w *Windows) use(id WindowID) *WindowUse {
	if w == nil {
		return nil
	}
	for i := range w.Uses {
		if w.Uses[i].ID == id {
			return &w.Uses[i]
		}
	}
	return nil
}

func (u *WindowUse) reading(per time.Duration) *WindowReading {
	for i := range u.Readings {
		if u.Readings[i].Per == per {
			return &u.Readings[i]
		}
	}
	return nil
}

// gatherWindows notes what a policy that may be about the call asks for.
func (e *evaluation) gatherWindows(p *policy) {
	for i := range p.conditions {
		p.conditions[i].eachWindow(p.tightens(), func(one *condition, strict bool) {
			u := e.gathered.add(e, one.window, []byte(e.call.Verb.String()))
			r := u.reading(one.window.per)
			if r == nil {
				u.Readings = append(u.Readings, WindowReading{Per: one.window.per})
				r = &u.Readings[len(u.Readings)-1]
			}
			if p.Mode == Enforce {
				r.asked = append(r.asked, windowAsked{one, strict})
			}
		})
	}
}

// eachWindow calls f for each condition on a window, with the side on which its doubt counts.
func (c *clause) eachWindow(strict bool, f func(one *condition, strict bool)) {
	if c.join == joinNot {
		strict = !strict
	}
	for i := range c.parts {
		c.parts[i].eachWindow(strict, f)
	}
	if c.join == joinNone && c.one.window != nil {
		f(c.one, strict)
	}
}

// inWindow is isMet for a condition on a window.
func (c *condition) inWindow(e *evaluation, strict bool) (ok bool, reason why) {
	u, r := e.windowOf(c)
	if reason := u.unjudged(r); reason != whyJudged {
		return strict, reason
	}
	return c.windowMeets(r.Low, r.High, strict), whyJudged
}

// actualOfWindow returns the number of a window that counts on this side, as it may be shown, and
// whether it is secret: a sum is, where the argument is that is added up.
func (e *evaluation) actualOfWindow(c *condition, strict bool) (json.RawMessage, bool) {
	secret := c.secret
	if c.window.sum != nil {
		_, masked := e.actual(c.window.sum, c.secret)
		secret = secret || masked
	}
	u, r := e.windowOf(c)
	var n exact.Decimal
	switch {
	case u.unjudged(r) != whyJudged:
		return null, secret
	case secret:
		return json.RawMessage(`"[masked]"`), true
	case c.decidedByHigh(strict):
		n = r.High
	default:
		n = r.Low
	}
	if text := n.String(); len(text) <= maxActual {
		return json.RawMessage(text), false
	}
	return tooLarge(), false
}

// windowOf returns what is known of the window of a condition.
func (e *evaluation) windowOf(c *condition) (*WindowUse, *WindowReading) {
	u := e.call.Windows.use(c.window.id)
	if u == nil {
		return nil, nil
	}
	return u, u.reading(c.window.per)
}

// unjudged says why a reading says nothing, whyJudged where it does.
func (u *WindowUse) unjudged(r *WindowReading) why {
	switch {
	case u != nil && u.reason != whyJudged:
		return u.reason
	case u == nil || r == nil || !r.Filled:
		return whyFilling
	case r.Unknown:
		return whyNoAmount
	}
	return whyJudged
}

// single returns the one value that the field leads to, in a form in which values are equal where
// conditions find them equal. Otherwise the reason says why there is none.
func (f *field) single(e *evaluation) (id []byte, reason why) {
	n := 0
	f.each(e, func(v value, _ int, missing why) bool {
		if n++; n > 1 {
			id, reason = nil, whyNotSingle
			return false
		}
		id, reason = identity(v, missing)
		return true
	})
	switch {
	case e.args.left < 0:
		return nil, whyWork
	case n == 0:
		return nil, whyLacks
	}
	return id, reason
}

// identity returns a value as bytes that are equal where values are, and where a number or a boolean
// reads as a text does. Most requests send both alike.
func identity(v value, missing why) ([]byte, why) {
	switch {
	case missing == whyOtherLacks:
		return nil, whyLacks
	case missing != whyJudged:
		return nil, missing
	}
	switch v.kind {
	case kindNull:
		return nil, whyNull
	case kindString:
		return textIdentity(v.text), whyJudged
	case kindBool:
		return textIdentity(v.text), whyJudged
	case kindNumber:
		d, ok := parseDecimal(v.text)
		if !ok {
			return nil, whyNotNumber
		}
		return textIdentity(d.text()), whyJudged
	default:
		return nil, whyNotSingle
	}
}

func textIdentity(text []byte) []byte { return append([]byte("s"), text...) }

// amounts returns what the call adds to the window: its amounts above 0 together, and those below.
// They are kept apart, so that a credit within a call hides no refund either.
func (w *window) amounts(e *evaluation) (up, down string, reason why) {
	if w.sum == nil {
		return "1", "0", whyJudged
	}
	ups, downs, n := exact.Zero, exact.Zero, 0
	w.sum.each(e, func(v value, _ int, missing why) bool {
		n++
		switch {
		case missing == whyOtherLacks:
			reason = whyLacks
		case missing != whyJudged:
			reason = missing
		case v.kind == kindNull:
			reason = whyNull
		case n > maxAmounts:
			reason = whyWork
		default:
			d, ok := parseNumber(v)
			if !ok {
				reason = whyNotNumber
				return false
			}
			if d.IsNegative() {
				downs = downs.Add(d)
			} else {
				ups = ups.Add(d)
			}
		}
		return reason == whyJudged
	})
	switch {
	case reason != whyJudged:
		return "", "", reason
	case e.args.left < 0:
		return "", "", whyWork
	case n == 0:
		return "", "", whyLacks
	}
	return ups.String(), downs.String(), whyJudged
}

// parseNumber reads a number that is exact.
func parseNumber(v value) (exact.Decimal, bool) {
	if v.kind != kindNumber {
		return exact.Zero, false
	}
	if _, ok := parseDecimal(v.text); !ok {
		return exact.Zero, false
	}
	d, err := exact.NewFromString(string(v.text))
	return d, err == nil
}

// storedUse is a WindowUse as the SQL functions count_windows and enter_windows read it.
type storedUse struct {
	Window string   `json:"window"`
	Value  string   `json:"value"`
	Also   []string `json:"also,omitempty"`
	// Lock is what calls with the same values lock, besides their own; "" where there are no others.
	Lock   string       `json:"lock,omitempty"`
	Up     *string      `json:"up"`
	Down   *string      `json:"down"`
	Counts bool         `json:"counts"`
	Reads  []storedRead `json:"reads"`
}

type storedRead struct {
	Per  int64         `json:"per"` // minutes
	Low  []storedBound `json:"low"`
	High []storedBound `json:"high"`
}

// storedBound is a number, and how the low or the high number of the window compares with it: -1, 0
// or 1. Where that is no longer so, the decision may be another.
type storedBound struct {
	Bound string `json:"bound"`
	Sign  int    `json:"sign"`
}

// Stored returns the windows in the form that the database takes. Where the call is not to be
// counted from now on, counted is false.
func (w *Windows) Stored(counted bool) json.RawMessage {
	list := []storedUse{}
	for i := range w.Uses {
		u := &w.Uses[i]
		if u.Value == nil || len(u.Readings) == 0 && (!counted || !u.Counts) {
			continue
		}
		one := storedUse{Window: hex.EncodeToString(u.ID[:]), Value: hex.EncodeToString(u.Digest), Counts: u.Counts, Reads: []storedRead{}}
		for _, d := range u.AlsoDigests {
			one.Also = append(one.Also, hex.EncodeToString(d))
		}
		if len(one.Also) > 0 {
			one.Lock = min(one.Value, slices.Min(one.Also))
		}
		if u.Up != "" {
			one.Up, one.Down = &u.Up, &u.Down
		}
		for at := range u.Readings {
			one.Reads = append(one.Reads, u.stored(&u.Readings[at]))
		}
		list = append(list, one)
	}
	raw, err := json.Marshal(list)
	if err != nil {
		panic(err) // texts always encode
	}
	return raw
}

// stored returns a reading with how it compares with what its conditions compare it with.
func (u *WindowUse) stored(r *WindowReading) storedRead {
	out := storedRead{Per: int64(r.Per / time.Minute), Low: []storedBound{}, High: []storedBound{}}
	if u.unjudged(r) != whyJudged {
		return out // in doubt the stricter side is taken already
	}
	for _, a := range r.asked {
		bound, orders := a.one.window.bound, a.one.op.meets != nil
		byHigh := a.one.decidedByHigh(a.strict)
		if byHigh || !orders {
			out.High = append(out.High, storedBound{bound.String(), r.High.Cmp(bound)})
		}
		if !byHigh || !orders {
			out.Low = append(out.Low, storedBound{bound.String(), r.Low.Cmp(bound)})
		}
	}
	return out
}

// Ask reports whether anything has to be read before the call is judged.
func (w *Windows) Ask() bool {
	return slices.ContainsFunc(w.Uses, func(u WindowUse) bool { return u.Value != nil && len(u.Readings) > 0 })
}

// storedCount is what count_windows returns of one reading.
type storedCount struct {
	Window  string        `json:"window"`
	Per     int64         `json:"per"`
	Low     exact.Decimal `json:"low"`
	High    exact.Decimal `json:"high"`
	Unknown bool          `json:"unknown"`
	Filled  bool          `json:"filled"`
}

// Take fills the readings with what count_windows has returned.
func (w *Windows) Take(counted json.RawMessage) error {
	var list []storedCount
	if err := json.Unmarshal(counted, &list); err != nil {
		return err //nolint:wrapcheck // json adds its own words
	}
	for _, c := range list {
		for i := range w.Uses {
			if hex.EncodeToString(w.Uses[i].ID[:]) != c.Window {
				continue
			}
			if r := w.Uses[i].reading(time.Duration(c.Per) * time.Minute); r != nil {
				r.Filled, r.Unknown, r.Low, r.High = c.Filled, c.Unknown, c.Low, c.High
			}
		}
	}
	return nil
}
