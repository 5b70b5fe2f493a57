package event

import (
	"encoding/json"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// The types of events about executions of Maps.
const (
	MapCompletedType Type = "map.completed"
	MapFailedType    Type = "map.failed"
	MapWaitingType   Type = "map.waiting"
)

// MapEnd are the members of an event about the end of an execution of a Map.
type MapEnd struct {
	MapID           string `json:"map_id" about:"The Map."`
	Version         int    `json:"version" about:"The version that ran."`
	Status          string `json:"status" about:"How it ended." enum:"completed,failed,cancelled"`
	ActionsExecuted int    `json:"actions_executed" about:"How many calls were sent."`
	DurationMS      int64  `json:"duration_ms" about:"Milliseconds from the trigger to the end."`
}

// MapCompleted is the body of map.completed.
type MapCompleted struct {
	MapEnd
	Output json.RawMessage `json:"output,omitempty" any:"" about:"The output, masked. Absent in an event that is truncated, and where it was not known what to mask."`
}

// Type implements Body.
func (MapCompleted) Type() Type { return MapCompletedType }

func (b MapCompleted) weight() int { return len(b.Output) }

func (b MapCompleted) small() Body {
	b.Output = nil
	return b
}

// MapError is why an execution failed.
type MapError struct {
	Code     string `json:"code" about:"The code of the error."`
	Title    string `json:"title" about:"What went wrong, for people."`
	Instance string `json:"instance" about:"The JSON Pointer of the step in the definition."`
}

// MapFailed is the body of map.failed, also for an execution that was cancelled.
type MapFailed struct {
	MapEnd
	Error        *MapError        `json:"error,omitempty" about:"Why. Absent where it was cancelled."`
	Compensation *MapCompensation `json:"compensation,omitempty" about:"What came of undoing its steps. Absent where nothing was to be undone, and no outcome is unknown."`
}

// MapCompensation is what came of undoing the steps of an execution.
type MapCompensation struct {
	Undone    int `json:"undone" about:"How many steps were undone."`
	NotUndone int `json:"not_undone" about:"How many were not. The execution lists their calls."`
	Unknown   int `json:"unknown" about:"How many calls of steps have an outcome that nobody knows. They are not touched."`
}

// Type implements Body.
func (MapFailed) Type() Type { return MapFailedType }

// MapWaiting is the body of map.waiting.
type MapWaiting struct {
	MapID      string     `json:"map_id" about:"The Map."`
	Version    int        `json:"version" about:"The version that runs."`
	WaitingFor string     `json:"waiting_for" about:"What for. Where the step waits for another Map, it is what that one waits for. A wait for input is one for the answer to a question of a model step." enum:"approval,event,timer,signal,resolve,map,kill_switch,input"`
	Step       string     `json:"step" about:"The id of the step that waits."`
	UndoneBy   string     `json:"undone_by,omitempty" about:"Where the call that undoes the step waits, its execution_id."`
	Until      *time.Time `json:"until,omitempty" about:"When the wait ends by itself. Absent where it does not."`
}

// Type implements Body.
func (MapWaiting) Type() Type { return MapWaitingType }

// NewCustom returns the body of a custom event. The sender's id makes it one event, however often
// it is queued. data is an object.
func NewCustom(kind Type, id, sentBy string, data json.RawMessage) Custom {
	return Custom{kind: kind, ID: id, SentBy: sentBy, Data: data}
}

// QueueCustom adds an event whose body is a Custom to a batch, unless the tenant has one with its
// id.
func QueueCustom(b *db.Batch, e Event) {
	sent, ok := e.Body.(Custom)
	if !ok {
		panic("event: QueueCustom queues custom events")
	}
	queueOnce(b, e, sent.ID, db.Optional(sent.Correlate))
}

// QueueOnce adds an event to a batch, unless the tenant has one under the name. Names that begin as
// our ids do are free for the service: senders may not use them.
func QueueOnce(b *db.Batch, e Event, name string) { queueOnce(b, e, name, nil) }

func queueOnce(b *db.Batch, e Event, name string, correlate *string) {
	p := params(e, time.Now())
	db.QueueOptional(b, dbsqlc.New().InsertCustomEvent, dbsqlc.InsertCustomEventParams{
		ID: p.ID, TenantID: p.TenantID, Type: p.Type, ExecutionID: p.ExecutionID, SessionID: p.SessionID, CustomerID: p.CustomerID,
		SourceID: name, Correlate: correlate, Body: p.Body,
	})
}
