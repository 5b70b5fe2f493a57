package flow

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/stepmachine"
)

// QueueMaps is the task queue of the executions of Maps, QueueModels that of the calls of models.
const (
	QueueMaps   = "maps"
	QueueModels = "models"
)

// KindMap is one execution of a Map.
const KindMap Kind = "map"

// Names under which the workflow of Maps, its activities and its signals are registered.
const (
	WorkflowMapRun = "MapRun"

	// BeginMap reads what an execution begins with, or goes on with.
	BeginMap Activity[MapRef, MapBegun] = "BeginMap"
	// CallFromMap claims the run of a step, governs and sends it.
	CallFromMap Activity[MapCall, MapCallEnd] = "CallFromMap"
	// GoOnWithCall takes a run of a step further: it sends it again, or reads how it ended.
	GoOnWithCall Activity[MapCallRef, MapCallEnd] = "GoOnWithCall"
	// StopCallOfMap cancels a run of a step that was not sent.
	StopCallOfMap Activity[MapCallRef, MapCallEnd] = "StopCallOfMap"
	// EvaluateInMap evaluates an expression that reads stored values, or needs the sandbox.
	EvaluateInMap Activity[MapEvaluation, MapEvaluated] = "EvaluateInMap"
	// WriteMap writes what steps have done.
	WriteMap Activity[MapWrites, MapNews] = "WriteMap"
	// LookAtMap reads what people and others want of an execution.
	LookAtMap Activity[MapLook, MapNews] = "LookAtMap"
	// StartMapOfMap starts another Map for a step.
	StartMapOfMap Activity[MapStart, MapOfMap] = "StartMapOfMap"
	// LookAtMapOfMap reads how far that execution is.
	LookAtMapOfMap Activity[MapOfMapRef, MapOfMap] = "LookAtMapOfMap"
	// StopMapOfMap cancels that execution.
	StopMapOfMap Activity[MapOfMapRef, MapOfMap] = "StopMapOfMap"
	// AskInMap asks people on behalf of a step.
	AskInMap Activity[MapAsk, MapAsked] = "AskInMap"
	// CloseAskInMap ends the question of a step, and returns how it ended.
	CloseAskInMap Activity[MapAskEnd, MapDecision] = "CloseAskInMap"
	// AskModel has a model answer one request of a step.
	AskModel Activity[MapModelCall, MapModelTurn] = "AskModel"
	// FinishMap ends an execution.
	FinishMap Activity[MapFinish, MapResult] = "FinishMap"

	// SignalMapEnded tells the execution that started a Map that it has ended, or that it waits for
	// something else than before. It carries the execution's id.
	SignalMapEnded = "map_ended"
)

// MapRef names an attempt of an execution of a Map. Its row has everything else.
type MapRef struct {
	TenantID uuid.UUID `json:"tenant_id"`
	ID       uuid.UUID `json:"id"`
	Attempt  int32     `json:"attempt"`
}

// TriggeredAt returns when the execution was triggered, from its id.
func (r MapRef) TriggeredAt() time.Time {
	seconds, nanos := r.ID.Time().UnixTime()
	return time.Unix(seconds, nanos).UTC()
}

// MapInput starts a MapRun workflow.
type MapInput struct {
	MapRef
	// ShowsState: AttributeState is registered, so the workflow may set it.
	ShowsState bool `json:"shows_state,omitempty"`
	// Carried is what the workflow had before it continued in a new history; nil in the first.
	Carried *MapCarried `json:"carried,omitempty"`
}

// MapCarried is what an execution takes along into a new history.
type MapCarried struct {
	Private
	// State is the machine's, encoded. Open are the commands that have no answer yet.
	State MachineState         `json:"state"`
	Open  stepmachine.Commands `json:"open"`
	// Seq is the number of the next record of a step. Places is how far events were read.
	Seq    int               `json:"seq"`
	Places map[string]string `json:"places,omitempty"`
	// Stopped are waits that have ended, and whose rows are there.
	Stopped []stepmachine.StopAwaiting `json:"stopped,omitempty"`
	// Wrote: a call may have changed something.
	Wrote bool `json:"wrote,omitempty"`
	// Told are the last waits that others were told of.
	Told []string `json:"told,omitempty"`
	// Tainted: a model of the execution has read what others than the tenant wrote. Sources say what, and
	// Reads whose words the execution has.
	Tainted bool     `json:"tainted,omitempty"`
	Sources []string `json:"sources,omitempty"`
	Reads   []string `json:"reads,omitempty"`
}

// Bytes returns how many bytes the input of a workflow has, before it is encrypted.
func (in MapInput) Bytes() (int, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return 0, fmt.Errorf("flow: write the input of a workflow: %w", err)
	}
	return len(raw), nil
}

// MachineState is a state of the step machine, encoded.
type MachineState = json.RawMessage

// Private marks a payload with values of a tenant's Map. The codec endpoint for operators does
// not show those.
type Private struct {
	Private bool `json:"private"`
}

// IsPrivate is the value of Private in every payload that embeds it.
func IsPrivate() Private { return Private{true} }

// MapBegun is what an execution begins with.
type MapBegun struct {
	Private
	// Over: the attempt has ended, or never was; there is nothing to do.
	Over bool `json:"over,omitempty"`
	// Definition is the text of the version that the execution runs. It stays a text here: a process
	// has compiled it for other executions.
	Definition json.RawMessage       `json:"definition,omitempty"`
	Beginning  stepmachine.Beginning `json:"beginning"`
	// Again is what a retry goes on from: the state of the attempt before, and the event.
	State MachineState       `json:"state,omitempty"`
	Again *stepmachine.Again `json:"again,omitempty"`
	Seq   int                `json:"seq,omitempty"`
	// Parent is the workflow of the execution that waits for this one; "" where none does.
	Parent string `json:"parent,omitempty"`
	// Tainted: what has started the execution, or a model of an earlier attempt, has read what others than
	// the tenant wrote.
	Tainted bool     `json:"tainted,omitempty"`
	Sources []string `json:"sources,omitempty"`
	// Reads are the sources of others' words that the payload, or what an earlier attempt has kept, has.
	Reads []string `json:"reads,omitempty"`
}

// MapWrites is what steps have done since the last write. It is the input of activities only, so
// no history has it.
type MapWrites struct {
	MapRef
	// Seq is before the number of the first of Commands that has no place in Kept. A later one about the
	// same thing counts.
	Seq      int                   `json:"seq"`
	Commands []stepmachine.Command `json:"-"`
	// Kept are the first of Commands that an activity had and has not written.
	Kept []MapKept `json:"-"`
	// Show, where it is not nil, is what the execution waits for now.
	Show *MapShow `json:"show,omitempty"`
	// Waits are AwaitEvent and StopAwaiting, in their order. Since is zero for the trigger.
	Waits []stepmachine.Command `json:"-"`
	// Signals, where it is not nil, is what has become of the signals.
	Signals *MapSignals `json:"signals,omitempty"`
}

// MapKept is what an activity knew of a command that it has not written.
type MapKept struct {
	// Number is that of the record.
	Number int
	// Run is the run that the step of the record makes; the zero id for none.
	Run uuid.UUID
}

// Number returns the number of the record of a command.
func (w MapWrites) Number(command int) int {
	if command < len(w.Kept) {
		return w.Kept[command].Number
	}
	return w.Seq + command - len(w.Kept) + 1
}

// Run returns the run that the step of a command makes; the zero id where that is not known.
func (w MapWrites) Run(command int) uuid.UUID {
	if command < len(w.Kept) {
		return w.Kept[command].Run
	}
	return uuid.Nil
}

// Last returns the number of the last record.
func (w MapWrites) Last() int { return w.Seq + len(w.Commands) - len(w.Kept) }

// MapSignals counts the signals to an execution.
type MapSignals struct {
	// Heard is how many the step machine has taken, Unused how many of these no step has used.
	Heard  int `json:"heard"`
	Unused int `json:"unused"`
}

// MapShow is the status of an execution that has not ended.
type MapShow struct {
	Status     stepmachine.Status    `json:"status"`
	WaitingFor *stepmachine.WaitsFor `json:"waiting_for,omitempty"`
	// Tell, where it is not zero, is when a wait began that others are told of: once for each.
	Tell time.Time `json:"tell,omitzero"`
}

// MapCall asks for the call of a verb step.
type MapCall struct {
	MapWrites
	Call stepmachine.StartVerb `json:"-"`
	// Workflow is the id of the workflow that drives the run.
	Workflow string `json:"workflow"`
	// Compensates is the number of the kept call that this is; 0 for a step.
	Compensates int `json:"compensates,omitempty"`
	// Tool names the call that this is of an agent; nil for a step.
	Tool *MapTool `json:"tool,omitempty"`
	// Tainted: a model of the execution has read what others than the tenant wrote.
	Tainted bool     `json:"tainted,omitempty"`
	Sources []string `json:"sources,omitempty"`
	// Patience is how long the activity waits for the end of the call; 0 is the service's own.
	Patience time.Duration `json:"patience,omitempty"`
	// Later: where the call is short, a later activity may write the rows of the steps.
	Later bool `json:"later,omitempty"`
}

// MapCallRef names the run of a step.
type MapCallRef struct {
	MapRef
	Run RunRef          `json:"run"`
	Ref stepmachine.Ref `json:"ref"`
	// Parent is the workflow of the Map, which hands the run over where HandOver says so.
	Parent   string `json:"parent,omitempty"`
	HandOver bool   `json:"hand_over,omitempty"`
	// Look: the run is another workflow's, and only read.
	Look bool `json:"look,omitempty"`
	// Patience is that of MapCall.
	Patience time.Duration `json:"patience,omitempty"`
	// Followed is the call of a message whose reply is followed; nil for all others.
	Followed *TurnCall `json:"followed,omitempty"`
	// Turn is the message that makes the call; nil for a step of a Map. SwitchedOff: a kill switch covered
	// the call when it was last looked at.
	Turn        *TurnRef `json:"turn,omitempty"`
	SwitchedOff bool     `json:"switched_off,omitempty"`
}

// MapCallEnd is how far the call of a step is.
type MapCallEnd struct {
	Private
	Run RunRef `json:"run"`
	// Step is that of the run. Where it is Done, End is the end of the call.
	Step Step                `json:"step"`
	End  stepmachine.CallEnd `json:"end"`
	// HandedOver: another workflow drives the run.
	HandedOver bool `json:"handed_over,omitempty"`
	// Undoes says what a kept call undoes, at its beginning. It is nil for the call of a step.
	Undoes *MapUndoing `json:"undoes,omitempty"`
	// Followed: the call is one of a message whose reply is followed.
	Followed bool `json:"followed,omitempty"`
	// Unwritten: the activity has not written MapCall.Commands, so a later one does.
	Unwritten bool `json:"unwritten,omitempty"`
	// Weighed: Reads are the sources whose words, other than the tenant's, the end has. An end that nobody
	// has weighed counts as the words of its verb.
	Weighed bool     `json:"weighed,omitempty"`
	Reads   []string `json:"reads,omitempty"`
}

// ReadsOf returns the sources whose words, other than the tenant's, the end of a call of the verb has.
func (e MapCallEnd) ReadsOf(verb string) []string {
	if e.Weighed || !hasWords(e.End.Status, e.End.Error) {
		return e.Reads
	}
	return []string{verb}
}

// Awaits returns what the call waits for; "" for its provider. approval is the one that people still have
// to decide, "" for none.
func (e MapCallEnd) Awaits(approval string) stepmachine.Waiting {
	switch {
	case e.End.Status == stepmachine.CallUnknown:
		return stepmachine.WaitsResolve
	case approval != "":
		return stepmachine.WaitsApproval
	case e.Step.SwitchedOff:
		return stepmachine.WaitsKillSwitch
	default:
		return ""
	}
}

// MapUndoing says which completed step a call undoes, and by which execution_id people find the call.
type MapUndoing struct {
	Private
	Ref  stepmachine.Ref `json:"ref"`
	Call string          `json:"call"`
}

// MapTool names a call that a model has asked for, by where it is in the conversation of its step.
// A row has the verb and the arguments.
type MapTool struct {
	Turn   int `json:"turn"`
	Number int `json:"number"`
}

// MapModelCall asks for the next answer of a model. Rows have what the model reads.
type MapModelCall struct {
	Private
	MapRef
	Ref  stepmachine.Ref `json:"ref"`
	Turn int             `json:"turn"` // from 0
	// Ends are the ends of the calls that the turn before has asked for.
	Ends []MapToolEnd `json:"ends,omitempty"`
	// Input is the answer to the question of the turn before; nil for none.
	Input *stepmachine.Value `json:"input,omitempty"`
	// Reads are the sources of others' words that the execution has by now.
	Reads []string `json:"reads,omitempty"`
}

// MapToolEnd is how a call of an agent has ended.
type MapToolEnd struct {
	Private
	Number int                    `json:"number"`
	Status stepmachine.CallStatus `json:"status"`
	// Run is the run of the call, whose row has the result; zero where it has none.
	Run   uuid.UUID          `json:"run,omitzero"`
	Error *stepmachine.Error `json:"error,omitempty"`
	// Open: its outcome is unknown, and the agent hears once more of it when people have settled that.
	Open bool `json:"open,omitempty"`
	// Kind is that of the execution which the call has started; "" for a run. Run is its id then, and
	// Tainted: it has texts of others than the tenant.
	Kind    Kind `json:"kind,omitempty"`
	Tainted bool `json:"tainted,omitempty"`
	// Weighed: Sources are those whose words, other than the tenant's, the end has.
	Weighed bool     `json:"weighed,omitempty"`
	Sources []string `json:"sources,omitempty"`
}

// Taints reports whether who reads the end of the call reads what others than the tenant wrote.
func (e MapToolEnd) Taints() bool {
	return e.Tainted || len(e.Sources) > 0 || !e.Weighed && e.Kind == "" && hasWords(e.Status, e.Error)
}

// hasWords reports whether the end of a call has what a provider said.
func hasWords(status stepmachine.CallStatus, failed *stepmachine.Error) bool {
	return status == stepmachine.CallExecuted || failed != nil && hasProvidersWords(failed.Code)
}

// Weigh notes whose words the end of a run has. trusted: they are the tenant's own.
func (e *MapCallEnd) Weigh(verb string, trusted bool) {
	if e.Weighed = true; !trusted && hasWords(e.End.Status, e.End.Error) {
		e.Reads = []string{verb}
	}
}

// hasProvidersWords reports whether an error with the code says what a provider answered.
func hasProvidersWords(code string) bool {
	switch fault.Code(code) {
	case fault.CodeProviderRejected, fault.CodeProviderError, fault.CodeOutcomeUnknown:
		return true
	default:
		return false
	}
}

// MapModelTurn is what follows from the answer of a model.
type MapModelTurn struct {
	Private
	// Done: End is the end of the step.
	Done bool                `json:"done,omitempty"`
	End  stepmachine.CallEnd `json:"end"`
	// Calls are the numbers of the calls that the model asks for and may make. The next turn tells
	// it of all.
	Calls []int `json:"calls,omitempty"`
	// Verbs are those of Calls, in the same order, for operators to read. Histories from before calls had
	// them have none.
	Verbs []string `json:"verbs,omitempty"`
	// Waits is what the step waits for before the next turn: an input, or a signal of people; "" for
	// nothing.
	Waits stepmachine.Waiting `json:"waits,omitempty"`
	// Tainted: the model may have read what others than the tenant wrote, in this step or an earlier one.
	Tainted bool     `json:"tainted,omitempty"`
	Sources []string `json:"sources,omitempty"`
}

// MapStart asks for the execution of another Map.
type MapStart struct {
	MapWrites
	Start stepmachine.StartMap `json:"-"`
	// Tainted and Sources are those of MapCall, and Reads those of MapModelCall.
	Tainted bool     `json:"tainted,omitempty"`
	Sources []string `json:"sources,omitempty"`
	Reads   []string `json:"reads,omitempty"`
}

// MapOfMapRef names the execution that a step has started.
type MapOfMapRef struct {
	MapRef
	Ref   stepmachine.Ref `json:"ref"`
	Child uuid.UUID       `json:"child"`
}

// MapOfMap is how far the execution is that a step has started.
type MapOfMap struct {
	Private
	// Child is its id; zero where there is none, because it was refused.
	Child uuid.UUID `json:"child"`
	// Done: End is its end.
	Done bool                `json:"done,omitempty"`
	End  stepmachine.CallEnd `json:"end"`
	// Waits is what it waits for; "" where it works.
	Waits stepmachine.Waiting `json:"waits,omitempty"`
	// Tainted: a model of it has read what others than the tenant wrote. Sources say what.
	Tainted bool     `json:"tainted,omitempty"`
	Sources []string `json:"sources,omitempty"`
	// Reads are the sources of others' words that its end has.
	Reads []string `json:"reads,omitempty"`
}

// MapEvaluation asks for the value of an expression.
type MapEvaluation struct {
	MapRef
	Ask stepmachine.Evaluate `json:"-"`
	// Unwritten are the commands whose values no activity has written yet.
	Unwritten []stepmachine.Command `json:"-"`
}

// MapEvaluated is the value of an expression.
type MapEvaluated struct {
	Private
	stepmachine.Evaluated
	// Later, where it is not 0, says that there is no value yet, because the tenant has too much evaluated
	// at the moment. The caller asks again after so long.
	Later time.Duration `json:"later,omitempty"`
}

// MapLook writes what was done, and then asks for news that came after those that were read.
type MapLook struct {
	MapWrites
	// After is the number of the last signal that was read, Places how far the events were that each
	// wait asks for, by the path of its step.
	After  int64             `json:"after"`
	Places map[string]string `json:"places,omitempty"`
	// Ended are waits by the paths of their steps. Their rows are there, and nobody asks for their
	// events.
	Ended []string `json:"-"`
	// Seen are the events that a step in a loop has used, by its place in the definition.
	Seen map[string][]string `json:"-"`
	// Asks are the steps that wait for people.
	Asks []stepmachine.Ref `json:"asks,omitempty"`
}

// MapAsk asks people on behalf of a step.
type MapAsk struct {
	MapWrites
	Ask stepmachine.AskApproval `json:"-"`
	// Workflow is the id of the workflow that waits for the decision.
	Workflow string `json:"workflow"`
}

// MapAsked says that people were asked.
type MapAsked struct {
	Private
	// Failure is why they could not be; nil where they were.
	Failure *stepmachine.Error `json:"failure,omitempty"`
	// Closed: the question was asked before, and has its answer.
	Closed bool `json:"closed,omitempty"`
	// Details say in words who can decide, where and until when; HoldDetails writes them.
	Details string `json:"details,omitempty"`
}

// MapAskEnd ends the question of a step, where it has no decision.
type MapAskEnd struct {
	MapRef
	Ref stepmachine.Ref `json:"ref"`
	// Expired: its time is over; otherwise nothing asks any longer.
	Expired bool `json:"expired,omitempty"`
}

// MapDecision is how a question ended.
type MapDecision struct {
	Private
	stepmachine.Decided
}

// MapNews is what others want of an execution.
type MapNews struct {
	Private
	// Over: the attempt has ended by another hand.
	Over   bool `json:"over,omitempty"`
	Cancel bool `json:"cancel,omitempty"`
	Pause  bool `json:"pause,omitempty"`
	// Caller is the workflow of the message to an agent that hears of the execution; "" for none.
	Caller string `json:"caller,omitempty"`
	// Signals came since, in their order; Looked is the number of the last one.
	Signals []stepmachine.Signalled `json:"signals,omitempty"`
	// Decisions are those about approvals that steps wait for, Arrived the events.
	Decisions []stepmachine.Decided      `json:"decisions,omitempty"`
	Arrived   []stepmachine.EventArrived `json:"arrived,omitempty"`
	Looked    int64                      `json:"looked,omitempty"`
	// Places is how far the events are read now that each wait asks for, by the path of its step. More: there are more signals or events already.
	Places map[string]string `json:"places,omitempty"`
	More   bool              `json:"more,omitempty"`
}

// MapFinish ends an execution.
type MapFinish struct {
	MapWrites
	Finish stepmachine.Finish `json:"-"`
	// State is the machine's, encoded: what a retry goes on from.
	State MachineState `json:"-"`
	// Wrote: a call may have changed something.
	Wrote bool `json:"wrote,omitempty"`
	// Reads are the sources of others' words that the execution has, in its output and its state.
	Reads []string `json:"reads,omitempty"`
	// Kept is how many bytes of values the execution has kept.
	Kept int64 `json:"kept_bytes,omitempty"`
}

// MapResult is the result of the workflow.
type MapResult struct {
	Status stepmachine.Status `json:"status"`
}

// MapWorkflowID returns the id of the workflow that drives an attempt of an execution.
func MapWorkflowID(ref MapRef) string {
	return workflowID("map", ExecutionID(ref.ID), ref.TenantID, ref.ID.String(), ref.Attempt)
}
