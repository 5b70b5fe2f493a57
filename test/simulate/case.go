// Package simulate runs a Map on the step machine alone: what providers, models and people
// answer is written down beforehand, and time only moves where nothing else can happen. The
// tests of the machine use it, and it is how a Map can be tried without any effect. It never
// calls anything.
package simulate

import (
	"encoding/json"
	"fmt"

	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
)

// Case is a Map, what happens to it, and what has to come of it: the form of testdata/maps.
type Case struct {
	About   string                     `json:"about"`
	Map     json.RawMessage            `json:"map"`
	MapType mapdef.MapType             `json:"map_type"`
	Trigger Trigger                    `json:"trigger"`
	Maps    map[string]json.RawMessage `json:"maps"` // that map steps start, by id
	Answers []Answer                   `json:"answers"`
	// Models are the fixtures of a scripted model that answers the model steps so. Nothing here
	// reads them.
	Models  json.RawMessage `json:"models"`
	Happens []Happening     `json:"happens"`
	Expect  Expectation     `json:"expect"`
}

// Trigger is what starts the Map.
type Trigger struct {
	Payload json.RawMessage `json:"payload"`
	DryRun  bool            `json:"dry_run"`
}

// Answer is what a provider answers to calls of a verb, or a model to a step.
type Answer struct {
	Verb   string          `json:"verb"`
	Step   string          `json:"step"`
	Args   json.RawMessage `json:"args"` // of the calls that it answers; nil for any
	Result json.RawMessage `json:"result"`
	Error  *Refusal        `json:"error"`
	Times  int             `json:"times"` // how many calls it answers, 0 for 1
	// Write: the verb writes, so a dry run intercepts it.
	Write bool `json:"write"`
	// Waits is what a call that undoes a step waits for, until a release of its verb; "" for nothing.
	Waits stepmachine.Waiting `json:"waits"`
}

// Refusal is an error as an answer.
type Refusal struct {
	Code         string `json:"code"`
	Detail       string `json:"detail"`
	Retryable    bool   `json:"retryable"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	// Sent: the call left, so a write may have had its effect.
	Sent bool `json:"sent"`
}

// Happening is something from outside.
type Happening struct {
	After   mapdef.Duration `json:"-"`
	Event   *Outside        `json:"event"`
	Signal  *Outside        `json:"signal"`
	Decide  *Decision       `json:"decide"`
	Resolve *Resolution     `json:"resolve"`
	Release string          `json:"release"` // the verb of a call that no longer waits, and ends
	Control string          `json:"control"` // cancel, pause or resume
	Again   *Again          `json:"again"`
}

// Outside is an event, or a signal.
type Outside struct {
	Type      string          `json:"type"`
	Name      string          `json:"name"`
	Data      json.RawMessage `json:"data"`
	Correlate string          `json:"correlate"`
}

// Decision decides an approval.
type Decision struct {
	Step       string          `json:"step"`
	Decision   string          `json:"decision"`
	By         string          `json:"by"`
	Reason     string          `json:"reason"`
	EditedArgs json.RawMessage `json:"edited_args"`
	Response   json.RawMessage `json:"response"`
}

// Resolution settles a call whose outcome is not known.
type Resolution struct {
	Step    string          `json:"step"`
	Outcome string          `json:"outcome"` // executed or failed
	Result  json.RawMessage `json:"result"`
}

// Again takes a failed execution up.
type Again struct {
	FromStep string                     `json:"from_step"`
	Edits    map[string]json.RawMessage `json:"edits"`
}

// Expectation is what has to come of a case.
type Expectation struct {
	Status          stepmachine.Status `json:"status"`
	Output          json.RawMessage    `json:"output"`
	Error           map[string]any     `json:"error"` // the members that matter
	WaitingFor      map[string]any     `json:"waiting_for"`
	Calls           []Call             `json:"calls"`
	CallsInAnyOrder bool               `json:"calls_in_any_order"`
	Skipped         []string           `json:"skipped"`
	Trace           []string           `json:"trace"`
	// Actions is how many calls are counted, 0 for any.
	Actions int `json:"actions"`
	// Changes are those of a dry run.
	Changes []Change `json:"changes"`
}

// Call is a call that was sent.
type Call struct {
	Verb string          `json:"verb"`
	Args json.RawMessage `json:"args"`
}

// Change is a write that a dry run has intercepted.
type Change struct {
	Verb      string          `json:"verb"`
	Args      json.RawMessage `json:"args"`
	DependsOn []int           `json:"depends_on,omitempty"` // changes by their number, from 1

	id string
}

// UnmarshalJSON reads a happening; after is a duration.
func (h *Happening) UnmarshalJSON(raw []byte) error {
	type plain Happening
	read := struct {
		*plain
		After string `json:"after"`
	}{plain: (*plain)(h)}
	if err := json.Unmarshal(raw, &read); err != nil {
		return fmt.Errorf("read a happening: %w", err)
	}
	if read.After == "" {
		return nil
	}
	after, err := mapdef.ParseDuration(read.After)
	if err != nil {
		return fmt.Errorf("read a happening: after: %w", err)
	}
	h.After = after
	return nil
}

// compile reads and compiles a definition of the case.
func compile(raw json.RawMessage) (*stepmachine.Program, error) {
	def, faults := mapdef.Read(raw)
	if len(faults) > 0 {
		return nil, fmt.Errorf("read the Map: %s: %s", faults[0].Path, faults[0].Message)
	}
	p, err := stepmachine.Compile(def)
	if err != nil {
		return nil, fmt.Errorf("compile the Map: %w", err)
	}
	return p, nil
}
