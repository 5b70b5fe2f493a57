// Package circuit has the rules of the breakers between a tenant and its providers: which attempts
// count as failures, when a circuit opens, and whether a call passes. Package run asks it before
// and after each attempt. The state is a row that all processes share; the SQL functions
// record_calls and take_probe change it. This package does no I/O.
package circuit

import (
	"encoding/json"
	"fmt"
	"time"
)

// State of a circuit. Rows store it as text, so a value is never renamed.
type State string

// The states.
const (
	// Closed: calls pass.
	Closed State = "closed"
	// Open: no call passes until the pause is over.
	Open State = "open"
	// HalfOpen: one call, the probe, is under way or was lost; no other passes beside it.
	HalfOpen State = "half_open"
)

// Rule says when a circuit opens, and for how long.
type Rule struct {
	// Failures is how many attempts fail one after the other until it opens. The attempts of
	// one run are at most five while a caller waits, so one such call alone does not open it.
	Failures int
	// Window is the time over which the rate is counted, Calls the least number of runs in it,
	// and Percent the share of them whose first attempt fails when it opens.
	Window         time.Duration
	Calls, Percent int
	// Pause is the time until the first probe. Each probe that fails doubles it, up to Longest.
	Pause, Longest time.Duration
}

// TheRule is that of all circuits.
func TheRule() Rule {
	return Rule{Failures: 10, Window: time.Minute, Calls: 20, Percent: 50, Pause: 10 * time.Second, Longest: 5 * time.Minute}
}

// Array returns the rule as record_calls reads it; times in seconds.
func (r Rule) Array() []int32 {
	return []int32{
		int32(r.Failures), int32(r.Window / time.Second), int32(r.Calls), int32(r.Percent),
		int32(r.Pause / time.Second), int32(r.Longest / time.Second),
	}
}

// Gate is what a call finds at the circuit of its provider. The zero Gate is that of a circuit
// that is closed and whose last call did not fail.
type Gate struct {
	State    State
	Failures int
	// Wait is the time until a probe may begin, 0 where it may now. It says nothing of a closed
	// circuit.
	Wait time.Duration
}

// ReadGate reads what the SQL function circuit_over returned; null is the zero Gate.
func ReadGate(text json.RawMessage) (Gate, error) {
	var g struct {
		State    State `json:"state"`
		Failures int   `json:"failures"`
		WaitMs   int64 `json:"wait_ms"`
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &g); err != nil {
			return Gate{}, fmt.Errorf("circuit: %w", err)
		}
	}
	return Gate{State: g.State, Failures: g.Failures, Wait: time.Duration(g.WaitMs) * time.Millisecond}, nil
}

// IsClosed reports whether calls pass.
func (g Gate) IsClosed() bool { return g.State == Closed || g.State == "" }

// Troubled reports whether a success is news: the circuit is not closed, or the last call failed.
func (g Gate) Troubled() bool { return !g.IsClosed() || g.Failures > 0 }

// Stops returns how long a call has to wait for its turn, and whether it has to. A call that need
// not wait at a circuit that is not closed would be the probe.
func (g Gate) Stops() (wait time.Duration, yes bool) {
	if g.IsClosed() || g.Wait <= 0 {
		return 0, false
	}
	return g.Wait, true
}

// Failure is one attempt that failed: its kind, without an address and without words of the
// provider.
type Failure struct {
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
}

// Record is a circuit as people see it.
type Record struct {
	State State
	// Failures is how many attempts have failed since the last that succeeded.
	Failures int
	// Since is when it opened, or closed again; nil where it never opened.
	Since *time.Time
	// ProbeAt is when the next call may pass as a probe; nil where the circuit is closed.
	ProbeAt *time.Time
	// Last are the last failures, the newest first.
	Last []Failure
}

// ReadRecord reads a record as the query GetProvider returns it; null is a provider that has never
// failed.
func ReadRecord(text json.RawMessage) (Record, error) {
	row := struct {
		State    State       `json:"state"`
		Failures int         `json:"failures"`
		Since    *time.Time  `json:"since"`
		ProbeAt  *time.Time  `json:"probe_at"`
		Kinds    []string    `json:"error_kinds"`
		Times    []time.Time `json:"error_times"`
	}{State: Closed}
	if err := json.Unmarshal(text, &row); err != nil {
		return Record{}, fmt.Errorf("circuit: %w", err)
	}
	r := Record{State: row.State, Failures: row.Failures, Since: utc(row.Since), ProbeAt: utc(row.ProbeAt)}
	for i := range min(len(row.Kinds), len(row.Times)) { // a constraint of the table makes them equal
		r.Last = append(r.Last, Failure{Kind: row.Kinds[i], At: row.Times[i].UTC()})
	}
	return r, nil
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}
