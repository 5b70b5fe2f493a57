package execution

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
)

// Execution is one execution of a Map as its row is.
type Execution struct {
	ID          uuid.UUID
	TenantID    uuid.UUID
	ExecutionID string
	MapID       uuid.UUID
	Version     int32
	MapType     mapdef.MapType
	DryRun      bool
	Attempt     int32
	Fingerprint []byte
	Metadata    json.RawMessage
	SessionID   string
	Customer    string
	Origin      actor.Kind
	KeyID       *uuid.UUID
	UserID      *uuid.UUID
	ParentID    string
	Step        string
	Depth       int32
	RequestID   string
	SourceAddr  string
	WorkflowID  string
	Status      stepmachine.Status
	WaitingFor  json.RawMessage
	WantsCancel bool
	WantsPause  bool
	Actions     int32
	// Tokens is how many tokens its model steps have used, some of them by an estimate where Estimated is.
	Tokens     int64
	Estimated  bool
	Asked      bool
	Governance string
	Output     json.RawMessage
	Error      *stepmachine.Error
	// ErrorLeftOut: it has an error, which is too long for a list.
	ErrorLeftOut bool
	// Undoing is what came of undoing the steps.
	Undoing Undoing
	// KeepsState: it has failed, and its state is kept, from which a retry goes on.
	KeepsState bool
	BegunAt    *time.Time
	UpdatedAt  time.Time
	FinishedAt *time.Time
	// ErasedAt is when its texts were erased; nil while they are kept.
	ErasedAt *time.Time

	// Awaited: the step that started it waits for its end. Wrote: a call may have changed something.
	Awaited, Wrote bool
	// Tainted: what has started it, or a model of its own by then, had read what others than the tenant
	// wrote. Chain has the messages to agents above it.
	Tainted bool
	// TaintSources say what. Reads are the sources of others' words that its values have: of its payload
	// until it ends; nil where that is not known.
	TaintSources, Reads []string
	Chain               agentloop.Chain
	// broken is why Chain could not be read, and is empty; nil where it could.
	broken error

	callerWorkflow                  string // of the message that has started it
	mapName                         string // where the execution was claimed just now, otherwise ""
	payload                         string // sealed
	payloadInvented, outputInvented []string

	// changesOf is the dry run whose list has the changes of this one, nil for its own. changesAt is
	// their place in it, changesPath the steps that lead to this execution.
	changesOf   *uuid.UUID
	changesAt   []int32
	changesPath []string
}

// CreatedAt returns when the execution was triggered, from its id.
func (e Execution) CreatedAt() time.Time { return e.Ref().TriggeredAt() }

// Ended reports whether nothing further happens by itself.
func (e Execution) Ended() bool { return e.FinishedAt != nil }

// AgainSince returns when the attempt began; zero for the first one.
func (e Execution) AgainSince() time.Time {
	if e.Attempt < 2 || e.BegunAt == nil {
		return time.Time{}
	}
	return *e.BegunAt
}

// Took returns how long it took, or has taken until now.
func (e Execution) Took(now time.Time) time.Duration {
	if e.FinishedAt != nil {
		now = *e.FinishedAt
	}
	return max(now.Sub(e.CreatedAt()), 0)
}

// Waits returns what the execution waits for; nil where it waits for nothing.
func (e Execution) Waits() *stepmachine.WaitsFor {
	w := &stepmachine.WaitsFor{}
	if len(e.WaitingFor) == 0 || json.Unmarshal(e.WaitingFor, w) != nil {
		return nil
	}
	return w
}

// Ref names the execution for its workflow.
func (e Execution) Ref() flow.MapRef {
	return flow.MapRef{TenantID: e.TenantID, ID: e.ID, Attempt: e.Attempt}
}

// Starter returns the key or the user for whom the execution acts.
func (e Execution) Starter() actor.Actor {
	who := actor.Actor{Kind: actor.System, TenantID: e.TenantID, RequestID: e.RequestID, SourceAddr: e.SourceAddr}
	switch {
	case e.KeyID != nil:
		who.Kind, who.ID = actor.Key, *e.KeyID
	case e.UserID != nil:
		who.Kind, who.ID = actor.User, *e.UserID
	}
	return who
}

// About returns the metadata of what the step starts: a call or another execution. The words of the caller
// go on with it, because policies judge by them.
func (e Execution) About(step string) map[string]any {
	about := map[string]any{"map_id": e.MapID.String(), "step": step}
	governance.WordsOf(e.Origin == actor.Map || e.Origin == actor.Agent, e.Metadata).Write(about)
	return about
}

// place is where a text of the execution is sealed.
func (e Execution) place(f datakey.Field) datakey.Place {
	return datakey.Place{Tenant: e.TenantID, Row: e.ID, Field: f}
}

// executionIDOf returns the execution_id of the execution with the id.
func executionIDOf(id uuid.UUID) string { return "exec_" + id.String() }

// takeChain takes what is stored of what stands above the execution.
func (e *Execution) takeChain(stored json.RawMessage) {
	e.Chain, e.broken = agentloop.Chain{}, nil
	if stored == nil {
		return
	}
	if err := json.Unmarshal(stored, &e.Chain); err != nil {
		e.Chain, e.broken = agentloop.Chain{}, fmt.Errorf("execution: %s: %w: %w", e.ID, ErrChain, err)
	}
}

// Below returns the chain of what the execution starts.
func (e Execution) Below() agentloop.Chain {
	c := e.Chain
	c.Maps = e.Depth + 1
	return c
}
