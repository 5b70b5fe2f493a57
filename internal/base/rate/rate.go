// Package rate has the rules of rate limits: how many requests a tenant may make in the present
// minute, hour and day, and how responses say it. Package auth counts requests, package limits
// reads and sets the limits, and api writes the headers. The counting itself is SQL:
// db/functions/count_request.sql.
package rate

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Limits is the most requests in a minute, an hour and a day. The windows begin with the
// minute, hour and day of UTC.
type Limits struct {
	Minute, Hour, Day int32
}

// Most is the highest limit that can be set: the type of the counters.
const Most = math.MaxInt32 - 1

// Default is what a tenant has where neither it nor the operator has set anything. It bounds
// a loop that has gone wild. Software that works through a list by hand does not reach it.
func Default() Limits { return Limits{Minute: 600, Hour: 20_000, Day: 200_000} }

// Development is what every tenant of a development server has.
func Development() Limits { return Limits{Minute: 1_000_000, Hour: 1_000_000, Day: 1_000_000} }

// Plan is what the operator allows every tenant.
type Plan struct {
	// Default is what a tenant has that has set no limit; the zero value means Default().
	Default Limits
	// Ceiling is the most that counts, whatever a tenant has set; the zero value means
	// Default.Ceiling().
	Ceiling Limits
}

// WithDefaults returns the plan with its zero values replaced.
func (p Plan) WithDefaults() Plan {
	if p.Default == (Limits{}) {
		p.Default = Default()
	}
	if p.Ceiling == (Limits{}) {
		p.Ceiling = p.Default.Ceiling()
	}
	return p
}

// Of returns the limits that count for a tenant that has set these; nil: not set.
func (p Plan) Of(minute, hour, day *int32) Limits {
	pick := func(set *int32, otherwise, ceiling int32) int32 {
		if set != nil {
			otherwise = *set
		}
		return min(otherwise, ceiling)
	}
	return Limits{
		pick(minute, p.Default.Minute, p.Ceiling.Minute), pick(hour, p.Default.Hour, p.Ceiling.Hour), pick(day, p.Default.Day, p.Ceiling.Day),
	}
}

// ceilingFactor is how far a tenant may go above the default where the operator has set no
// ceiling.
const ceilingFactor = 10

// Ceiling returns the highest limits that tenants may set where the operator has set none.
func (l Limits) Ceiling() Limits {
	times := func(n int32) int32 { return int32(min(int64(n)*ceilingFactor, Most)) }
	return Limits{times(l.Minute), times(l.Hour), times(l.Day)}
}

// Array returns the limits as the counting takes them.
func (l Limits) Array() []int32 { return []int32{l.Minute, l.Hour, l.Day} }

// Or returns the limits with those of given, by the names minute, hour and day, in their places.
// The error names what is not a limit.
func (l Limits) Or(given map[string]int64) (Limits, error) {
	for name, n := range given {
		into := map[string]*int32{"minute": &l.Minute, "hour": &l.Hour, "day": &l.Day}[name]
		switch {
		case into == nil:
			return Limits{}, fmt.Errorf("there is no window %q: the windows are minute, hour and day", name)
		case n < 1 || n > Most:
			return Limits{}, fmt.Errorf("%s must be a number from 1 to %d", name, Most)
		}
		*into = int32(n)
	}
	return l, nil
}

// Within reports whether no limit is above that of the ceiling.
func (l Limits) Within(ceiling Limits) bool {
	return l.Minute <= ceiling.Minute && l.Hour <= ceiling.Hour && l.Day <= ceiling.Day
}

// A Window is one limit with what was used of it.
type Window struct {
	// Name says which window it is and whose: minute, people-hour, key-day, address.
	Name  string
	Limit int64
	Used  int64
	// Length is that of the whole window, Left what is left of it.
	Length, Left time.Duration
	// Number is that of the window since 1970, by its length.
	Number int32
}

// Ends is when the window ends, in seconds since 1970.
func (w Window) Ends() int64 { return (int64(w.Number) + 1) * int64(w.Length/time.Second) }

// Subject returns whose window it is, keys or people, and its length in words; of is false for a
// window that is not the tenant's.
func (w Window) Subject() (subject, length string, of bool) {
	for i, name := range keyWindows() {
		switch w.Name {
		case name:
			return "keys", keyWindows()[i], true
		case peopleWindows()[i]:
			return "people", keyWindows()[i], true
		}
	}
	return "", "", false
}

// Remaining is how many requests the window has room for.
func (w Window) Remaining() int64 { return max(0, w.Limit-w.Used) }

// seconds rounds up: who waits that long is in the next window.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Reset is how many seconds are left of the window, at least 1.
func (w Window) Reset() int64 { return max(1, seconds(w.Left)) }

// State is what a request has found: all windows that it counts in.
type State struct {
	Windows []Window
	// Refused says that one of the windows was full, and the request was not counted.
	Refused bool
}

// Tightest returns the window with the least room, and of several the one that ends last. It
// is the zero Window where there is none.
func (s State) Tightest() Window {
	var found Window
	for i, w := range s.Windows {
		if i == 0 || w.Remaining() < found.Remaining() || w.Remaining() == found.Remaining() && w.Left > found.Left {
			found = w
		}
	}
	return found
}

// RetryAfter is when the last of the full windows ends.
func (s State) RetryAfter() time.Duration { return time.Duration(s.Tightest().Reset()) * time.Second }

// Policy is the value of RateLimit-Policy: every window with its quota (q) and its length in
// seconds (w), a list of structured fields (RFC 9651).
func (s State) Policy() string {
	b := make([]byte, 0, 40*len(s.Windows))
	for i, w := range s.Windows {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(append(append(b, '"'), w.Name...), `";q=`...)
		b = append(strconv.AppendInt(b, w.Limit, 10), ";w="...)
		b = strconv.AppendInt(b, int64(w.Length/time.Second), 10)
	}
	return string(b)
}

// Header is the value of RateLimit for one window: what remains (r), and the seconds until
// the window ends (t).
func (w Window) Header() string {
	b := make([]byte, 0, 40)
	b = append(append(append(b, '"'), w.Name...), `";r=`...)
	b = append(strconv.AppendInt(b, w.Remaining(), 10), ";t="...)
	return string(strconv.AppendInt(b, w.Reset(), 10))
}

// Counts are the requests of the present windows.
type Counts struct {
	Minute, Hour, Day int64
}

// Counts returns what was used of the windows of the tenant that the request counts in: those
// of its keys or of its people.
func (s State) Counts() Counts {
	if len(s.Windows) < 3 {
		return Counts{}
	}
	return Counts{s.Windows[0].Used, s.Windows[1].Used, s.Windows[2].Used}
}

// The names of the windows in which a key counts that has limits of its own.
const (
	KeyMinute = "key-minute"
	KeyHour   = "key-hour"
	KeyDay    = "key-day"
)

// The names of the windows by whose they are.
func keyWindows() [3]string    { return [3]string{"minute", "hour", "day"} }
func peopleWindows() [3]string { return [3]string{"people-minute", "people-hour", "people-day"} }
func ownWindows() [3]string    { return [3]string{KeyMinute, KeyHour, KeyDay} }

// lengths are those of the windows in minutes.
func lengths() [3]int64 { return [3]int64{1, 60, 24 * 60} }

// Own are the limits that a key has beside its tenant's. Nil: the tenant's alone.
type Own struct {
	Minute, Hour, Day *int32
}

// Fields are the limits that there are, by their public names, for an audit record.
func (o Own) Fields() map[string]int32 {
	out := map[string]int32{}
	for name, n := range map[string]*int32{"requests_per_minute": o.Minute, "requests_per_hour": o.Hour, "requests_per_day": o.Day} {
		if n != nil {
			out[name] = *n
		}
	}
	return out
}

// Any reports whether there is one.
func (o Own) Any() bool { return o.Minute != nil || o.Hour != nil || o.Day != nil }

// Read reads what count_request returns, for keys or people, with the limits that the key has of
// its own. after is how many requests were counted after this one by the same statement.
func Read(counted []int64, people bool, own Own, after int64) (State, error) {
	const one, both = 9, 13
	if len(counted) != one && (len(counted) != both || !own.Any()) {
		return State{}, errors.New("rate: the result of count_request has another form")
	}
	names := keyWindows()
	if people {
		names = peopleWindows()
	}
	now := counted[1]
	s := State{Refused: counted[0] == 0, Windows: make([]Window, 0, 2*len(names))}
	for i, limit := range counted[2:5] {
		s.Windows = append(s.Windows, window(names[i], limit, counted[5:9], i, now))
	}
	if len(counted) == both {
		for i, limit := range [3]*int32{own.Minute, own.Hour, own.Day} {
			if limit != nil {
				s.Windows = append(s.Windows, window(ownWindows()[i], int64(*limit), counted[9:13], i, now))
			}
		}
	}
	for i := range s.Windows {
		s.Windows[i].Used -= after
	}
	return s, nil
}

// window returns window i of {minute, used, used, used} at now, in ms.
func window(name string, limit int64, of []int64, i int, now int64) Window {
	const minute = int64(time.Minute / time.Millisecond)
	number := of[0] / lengths()[i]
	ends := (number + 1) * lengths()[i] * minute
	return Window{
		Name: name, Limit: limit, Used: of[1+i], Number: int32(number),
		Length: time.Duration(lengths()[i]) * time.Minute, Left: time.Duration(ends-now) * time.Millisecond,
	}
}
