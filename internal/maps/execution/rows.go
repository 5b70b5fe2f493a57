package execution

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/bytelru"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
)

// readExecution returns the execution with its output.
func (s *rows) readExecution(ctx context.Context, tenant, id uuid.UUID) (Execution, error) {
	row, err := s.q.GetMapExecution(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetMapExecutionParams{TenantID: tenant, ID: id})
	if err != nil {
		return Execution{}, fmt.Errorf("execution: get: %w", err)
	}
	return s.openExecution(ctx, row)
}

// openExecution reads a row with its output and its error.
func (s *rows) openExecution(ctx context.Context, r dbsqlc.MapExecution) (Execution, error) {
	e := headOfRow(r)
	key, err := s.d.Keys.Key(ctx, r.TenantID)
	if err != nil {
		return e, fmt.Errorf("execution: %w", err)
	}
	if e.WaitingFor, err = s.Waiting(ctx, e); err != nil {
		return e, err
	}
	if e.Output, err = openOptional(key, e.place(datakey.MapOutput), r.Output); err != nil {
		return e, err
	}
	if e.Error, err = readOptional[stepmachine.Error](key, e.place(datakey.MapError), r.Error); err != nil {
		return e, err
	}
	undoing, err := readOptional[Undoing](key, e.place(datakey.MapUndoing), r.Compensation)
	if err == nil && undoing != nil {
		e.Undoing = *undoing
	}
	return e, err
}

// readHead is Head for what starts nothing: writes, looks and the end. They work whatever stands above, so
// that such an execution comes to its end: each step that would start something fails.
func (s *rows) readHead(ctx context.Context, ref flow.MapRef) (Execution, error) {
	if e, known := s.heads.Get(ref.ID); known && e.TenantID == ref.TenantID && e.Attempt == ref.Attempt {
		if e.Chain.Driver() == nil && e.broken == nil {
			return e, nil
		}
		caller, err := s.q.CallerOfMap(ctx, s.d.DB.Tenant(ref.TenantID), dbsqlc.CallerOfMapParams{TenantID: ref.TenantID, ID: ref.ID})
		if err != nil {
			return Execution{}, fmt.Errorf("execution: its message: %w", err)
		}
		e.takeChain(caller.Chain)
		e.Tainted, e.TaintSources, e.Metadata = caller.Tainted, caller.TaintSources, caller.Metadata
		return e, nil
	}
	row, err := s.q.GetMapExecution(ctx, s.d.DB.Tenant(ref.TenantID), dbsqlc.GetMapExecutionParams{TenantID: ref.TenantID, ID: ref.ID})
	if err != nil {
		return Execution{}, fmt.Errorf("execution: get: %w", err)
	}
	e := headOfRow(row)
	s.heads.Add(e)
	return e, nil
}

// headOfRow is a row without its texts.
func headOfRow(r dbsqlc.MapExecution) Execution {
	e := Execution{
		ID: r.ID, TenantID: r.TenantID, ExecutionID: r.ExecutionID, MapID: r.MapID, Version: r.Version, MapType: mapdef.MapType(r.MapType),
		DryRun: r.DryRun, Attempt: r.Attempt, Fingerprint: r.Fingerprint, Metadata: r.Metadata, SessionID: db.Text(r.SessionID),
		Customer: db.Text(r.Customer), Origin: actor.Kind(r.Origin), KeyID: r.KeyID, UserID: r.UserID, ParentID: db.Text(r.ParentID),
		Step: db.Text(r.Step), Depth: r.Depth, RequestID: r.RequestID, SourceAddr: r.SourceAddr, WorkflowID: r.WorkflowID,
		Status: stepmachine.Status(r.Status), WaitingFor: r.WaitingFor, WantsCancel: r.WantsCancel, WantsPause: r.WantsPause,
		Actions: r.Actions, Tokens: r.TokensUsed, Estimated: r.UsageEstimated, Asked: r.Asked, Governance: r.Governance, BegunAt: r.BegunAt, UpdatedAt: r.UpdatedAt, FinishedAt: r.FinishedAt, ErasedAt: r.ErasedAt,
		Awaited: r.Awaited, Wrote: r.Wrote, KeepsState: r.State != nil,
		payload: r.Payload, payloadInvented: r.PayloadInvented, outputInvented: r.OutputInvented,
		changesOf: r.ChangesOf, changesAt: r.ChangesAt, changesPath: r.ChangesPath,
		Tainted: r.Tainted, TaintSources: r.TaintSources, Reads: r.Reads, callerWorkflow: db.Text(r.CallerWorkflow),
	}
	e.takeChain(r.Chain)
	return e
}

// hearEnd hands an execution that another process has ended to those that wait for it in this one.
func (s *rows) hearEnd(ctx context.Context, tenant, id uuid.UUID) {
	if !s.hub.Awaited(id) {
		return
	}
	if e, err := s.readExecution(ctx, tenant, id); err == nil && e.Ended() {
		s.hub.Deliver(e.ID, e.Attempt, e)
	}
}

// sendBatch sends a batch that may have no statements.
func (s *rows) sendBatch(ctx context.Context, tenant uuid.UUID, b *db.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	return s.d.DB.Send(ctx, tenant, b)
}

// heads keeps executions without their outputs. A payload has up to 1 MiB, so their bytes are
// bounded, and not their number.
type heads struct {
	*bytelru.Cache[uuid.UUID, Execution]
}

// headsMost is how many bytes of heads a process keeps. One that it forgets is read again.
const headsMost = 32 << 20

func newHeads() (*heads, error) {
	kept, err := bytelru.New[uuid.UUID, Execution](headsMost)
	if err != nil {
		return nil, fmt.Errorf("execution: %w", err)
	}
	return &heads{kept}, nil
}

// headSize is what an execution takes besides its texts.
const headSize = 1 << 10

// Add keeps the head of an execution.
func (h *heads) Add(e Execution) {
	e.Output = nil
	h.Cache.Add(e.ID, e, headSize+len(e.payload)+len(e.Metadata)+len(e.WaitingFor), nil)
}

// readOptional opens a text and reads it; nil where there is none.
func readOptional[T any](key *datakey.Key, at datakey.Place, sealed *string) (*T, error) {
	text, err := openOptional(key, at, sealed)
	if err != nil || text == nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(text, v); err != nil {
		return nil, fmt.Errorf("execution: %s of %s: %w", at.Field, at.Row, err)
	}
	return v, nil
}

func openOptional(key *datakey.Key, at datakey.Place, stored *string) ([]byte, error) {
	if stored == nil {
		return nil, nil
	}
	text, err := key.Open(at, *stored)
	if err != nil {
		return nil, fmt.Errorf("execution: %s of %s: %w", at.Field, at.Row, err)
	}
	return text, nil
}

func sealOptional(key *datakey.Key, at datakey.Place, text []byte) *string {
	if text == nil {
		return nil
	}
	stored := key.Seal(at, text)
	return &stored
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("execution: %T: %v", v, err)) // of our own types
	}
	return text
}
