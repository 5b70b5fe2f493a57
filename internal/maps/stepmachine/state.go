package stepmachine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"agentruntime/internal/base/exactjson"
)

// Status is the status of an execution.
type Status string

// The statuses.
const (
	StatusRunning   Status = "running"
	StatusWaiting   Status = "waiting"
	StatusPending   Status = "pending_approval"
	StatusPaused    Status = "paused"
	StatusEscalated Status = "escalated"
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusCancelled Status = "cancelled"
)

// StepStatus is the status of a step.
type StepStatus string

// The statuses of a step. The last three are those that expressions can see.
const (
	StepRunning   StepStatus = "running"
	StepWaiting   StepStatus = "waiting"
	StepUnknown   StepStatus = "outcome_unknown"
	StepCancelled StepStatus = "cancelled" // given up, because another step failed or won
	StepCompleted StepStatus = "completed"
	StepFailed    StepStatus = "failed"
	StepSkipped   StepStatus = "skipped"
)

// State is an execution at one moment. Its fields are for the machine. Callers read Status,
// WaitingFor and Actions.
type State struct {
	Version   int       `json:"version"`
	Execution string    `json:"execution"` // its id: what ids and jitter are derived from
	DryRun    bool      `json:"dry_run,omitempty"`
	Began     time.Time `json:"began"`

	Status     Status    `json:"status"`
	WaitingFor *WaitsFor `json:"waiting_for,omitempty"` // nil unless something is waited for

	TriggerData Value   `json:"trigger_data"`
	Context     Value   `json:"context"`
	Vars        []Named `json:"vars,omitempty"` // sorted by name
	// Results are of the steps that ended outside of any foreach, by id.
	Results map[string]*Result `json:"results,omitempty"`
	// Edits are inputs that take the place of those in the definition, by step, once.
	Edits []Named `json:"edits,omitempty"`

	Root *Task `json:"root"` // the Map itself
	// Detached are calls in flight of steps that were given up.
	Detached []*Task `json:"detached,omitempty"`
	Ready    []Key   `json:"ready,omitempty"` // blocks that can go on
	Paused   bool    `json:"paused,omitempty"`
	Ending   *Ending `json:"ending,omitempty"` // nil until the end is decided

	Signals   []EventArrived `json:"signals,omitempty"`   // those that no step has used yet
	Signalled int            `json:"signalled,omitempty"` // how many have come
	// Seen has the ids of the events that a step in a loop has used, by path.
	Seen map[string][]string `json:"seen,omitempty"`
	// Attempts are the last numbers of calls whose next one is higher, by Key. After Again any step that
	// has made a call may begin again.
	Attempts map[string]int `json:"attempts,omitempty"`
	// Redone are the blocks of parts that begin again, by Key.
	Redone map[string]*Redone `json:"redone,omitempty"`

	Steps         int   `json:"steps,omitempty"`         // how many have begun
	Calling       int   `json:"calling,omitempty"`       // how many calls of verb steps have not ended
	Actions       int   `json:"actions,omitempty"`       // how many calls of verb steps were sent
	Compensations int   `json:"compensations,omitempty"` // how many calls are kept
	Broken        []int `json:"broken,omitempty"`        // those of them that cannot be made
	Asked         int   `json:"asked,omitempty"`         // how often Evaluate was asked for
	Changes       int   `json:"changes,omitempty"`       // how many writes were intercepted
	Emitted       int   `json:"emitted,omitempty"`       // how many events emit steps have emitted
	Room          int   `json:"room,omitempty"`          // how many events may be emitted before the next question for room
	Wished        int   `json:"wished,omitempty"`        // for how many events it has asked for room
	Kept          int64 `json:"kept,omitempty"`          // bytes of values that the caller was to keep
	Unknown       []Ref `json:"unknown,omitempty"`       // outcomes that nothing waits for
	// Weight is about how many bytes the state had when it was weighed, Taken those since.
	Weight int `json:"weight,omitempty"`
	Taken  int `json:"taken,omitempty"`

	tasks   map[Key]*Task
	blocks  map[Key]*Block
	waiting tally
}

// Key names a task by its step, or a block by its list, in one iteration.
type Key struct {
	Path      string `json:"path"`
	Iteration string `json:"iteration,omitempty"`
}

// String returns the key as one text.
func (k Key) String() string { return Ref{Path: k.Path, Iteration: k.Iteration}.String() }

// Result is what an ended step leaves behind.
type Result struct {
	Status StepStatus `json:"status"`
	Output *Value     `json:"output,omitempty"` // nil where nothing reads it
	Error  *Error     `json:"error,omitempty"`
	// Wrote: a call of the step, or of one within, has changed something.
	Wrote bool `json:"wrote,omitempty"`
	// Attempt is that of the step's last call. Final: the step failed, and that call may have had an
	// effect, so another one has the same number.
	Attempt int  `json:"attempt,omitempty"`
	Final   bool `json:"final,omitempty"`
	// Counted is how many calls of its iterations were counted.
	Counted int `json:"counted,omitempty"`
}

// Task is a step that has begun and has not ended.
type Task struct {
	Key
	Phase Phase     `json:"phase"`
	Began time.Time `json:"began"`
	// Attempt is the number of the last call, Tries how many calls count for retry.
	Attempt  int       `json:"attempt,omitempty"`
	Tries    int       `json:"tries,omitempty"`
	Delays   int       `json:"delays,omitempty"`  // waits for a provider that asked to wait
	Counted  int       `json:"counted,omitempty"` // calls of the last one that were counted: it, or those of a Map
	Deadline time.Time `json:"deadline,omitzero"`
	// Waits is what a call waits for, WaitsSince since when, and WaitsUntil until when at most.
	Waits      Waiting   `json:"waits,omitempty"`
	WaitsSince time.Time `json:"waits_since,omitzero"`
	WaitsUntil time.Time `json:"waits_until,omitzero"`
	// Ask is the number of the question that a model asks, from 1.
	Ask int `json:"ask,omitempty"`

	Asks     string         `json:"asks,omitempty"`     // the field that is evaluated
	AskedAs  int            `json:"asked_as,omitempty"` // the number of Evaluate
	Invented []string       `json:"invented,omitempty"` // of what that reads
	Input    *Value         `json:"input,omitempty"`
	Output   *Value         `json:"output,omitempty"`
	Error    *Error         `json:"error,omitempty"`
	Timers   []Timed        `json:"timers,omitempty"`
	Blocks   []*Block       `json:"blocks,omitempty"`
	Assigned []Named        `json:"assigned,omitempty"` // what a set step has evaluated
	Loop     *Loop          `json:"loop,omitempty"`
	Awaits   bool           `json:"awaits,omitempty"` // AwaitEvent was asked for
	Inbox    []EventArrived `json:"inbox,omitempty"`  // events that the filter judges; the first one now
	Wrote    bool           `json:"wrote,omitempty"`
	Edited   bool           `json:"edited,omitempty"` // Input is a person's
	Change   string         `json:"change,omitempty"` // the id under which a dry run recorded the call
	// Final: the last call may have had an effect, so another one has the same number.
	Final bool `json:"final,omitempty"`
	// Kept: the call that undoes the step is kept.
	Kept bool `json:"kept,omitempty"`
	// Compensation is what the arguments of that call are made of, where the step's block is gone.
	Compensation *Scope `json:"compensation,omitempty"`

	block *Block // that the step is in; nil for the Map and for detached calls
	// reused: the step ends now with what an earlier attempt of the execution has done.
	reused bool
}

// Timed is a timer that runs.
type Timed struct {
	Timer Timer     `json:"timer"`
	At    time.Time `json:"at"`
}

// Block is a list of steps that runs. The iteration of its Key is that of its steps.
type Block struct {
	Key
	Pos  int    `json:"pos"` // the step that runs, or the next one
	Task *Task  `json:"task,omitempty"`
	Last *Value `json:"last,omitempty"` // the output of the last step that was not skipped

	// Of an iteration: its index. Of one of a foreach also the item, never nil, and the results
	// of its steps.
	Index   *int               `json:"index,omitempty"`
	Item    *Value             `json:"item,omitempty"`
	Results map[string]*Result `json:"results,omitempty"`
	Counted int                `json:"counted,omitempty"` // calls within that were counted
	// As is the name of the item, or of Caught.
	As     string `json:"as,omitempty"`
	Caught *Error `json:"caught,omitempty"`

	Ended  bool   `json:"ended,omitempty"`
	Redo   int    `json:"redo,omitempty"`   // after Again: the steps before it ran already
	Failed *Error `json:"failed,omitempty"` // why the block was given up

	owner *Task
}

// Loop is how far a while or a foreach is.
type Loop struct {
	While bool   `json:"while,omitempty"`
	Next  int    `json:"next"` // the iteration that begins next
	Done  int    `json:"done"`
	Items Value  `json:"items"`
	Count int    `json:"count"`
	Wide  int    `json:"wide,omitempty"` // iterations at a time
	Kept  []Kept `json:"kept,omitempty"` // outputs, as long as they are small together
	Bytes int    `json:"bytes,omitempty"`
	// Counted is how many calls of the iterations that are over were counted.
	Counted int `json:"counted,omitempty"`
	// Spilled: the outputs are only in the caller's rows.
	Spilled  bool     `json:"spilled,omitempty"`
	Invented []string `json:"invented,omitempty"`

	items []json.RawMessage // of Items, decoded once
}

// Kept is the output of one iteration.
type Kept struct {
	Index  int             `json:"index"`
	Output json.RawMessage `json:"output"`
}

// Encode returns the state as JSON. The same events give the same bytes.
func (s *State) Encode() ([]byte, error) {
	raw, err := exactjson.Encode(s)
	if err != nil {
		return nil, fmt.Errorf("encode a state: %w", err)
	}
	return raw, nil
}

// Decode reads what Encode has written. It returns an error for a state of another machine.
func Decode(raw []byte) (*State, error) {
	s := &State{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(s); err != nil {
		return nil, fmt.Errorf("decode a state: %w", err)
	}
	if s.Version != Version {
		return nil, &VersionError{State: s.Version, Machine: Version}
	}
	s.link()
	return s, nil
}

// link makes what is not encoded: the indexes and the ways up.
func (s *State) link() {
	s.tasks, s.blocks, s.waiting = map[Key]*Task{}, map[Key]*Block{}, tally{}
	s.linkTask(s.Root)
	for _, t := range s.Detached {
		s.linkTask(t)
	}
}

func (s *State) linkTask(t *Task) {
	s.tasks[t.Key] = t
	s.waiting.add(t, 1)
	for _, b := range t.Blocks {
		b.owner = t
		s.blocks[b.Key] = b
		if b.Task != nil {
			b.Task.block = b
			s.linkTask(b.Task)
		}
	}
}
