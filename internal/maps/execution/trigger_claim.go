package execution

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/quota"
)

// claimRecord is a row to be claimed, by the names of its columns; claim_map reads it.
type claimRecord struct {
	ID          uuid.UUID  `json:"id"`
	ExecutionID string     `json:"execution_id"`
	MapID       uuid.UUID  `json:"map_id"`
	Version     int32      `json:"version"`
	MapType     string     `json:"map_type"`
	DryRun      bool       `json:"dry_run"`
	SessionID   *string    `json:"session_id"`
	Customer    *string    `json:"customer"`
	Origin      actor.Kind `json:"origin"`
	KeyID       *uuid.UUID `json:"key_id"`
	UserID      *uuid.UUID `json:"user_id"`
	ParentID    *string    `json:"parent_id"`
	Step        *string    `json:"step"`
	Depth       int32      `json:"depth"`
	RequestID   string     `json:"request_id"`
	SourceAddr  string     `json:"source_addr"`
	WorkflowID  string     `json:"workflow_id"`
}

// Outcomes of claim_map.
const (
	claimFresh    = "fresh"
	claimMismatch = "mismatch"
	claimConflict = "conflict"
)

// claimTries is how often a claim is made that lost a race for one of its keys.
const claimTries = 4

// governanceApproved is the governance status of an execution of which nothing was held or refused.
const governanceApproved = "approved"

// stepMark begins the names that we derive. Callers' names are visible ASCII.
const stepMark = "\x1f"

// keysOf returns the names of the trigger in the fence of its Map. A session_id and an
// Idempotency-Key are names of one kind.
func keysOf(req Request) []string {
	keys := []string{}
	if p := req.Parent; p != nil {
		return append(keys, stepMark+p.Execution.ExecutionID+stepMark+p.Step)
	}
	if req.SessionID != "" {
		keys = append(keys, req.SessionID)
	}
	if req.Key != "" && req.Key != req.SessionID {
		keys = append(keys, req.Key)
	}
	return keys
}

// claimRow returns the row of the execution that a trigger asks for.
func (s *triggers) claimRow(who actor.Actor, id uuid.UUID, v Version, req Request) claimRecord {
	row := claimRecord{
		ID: id, ExecutionID: executionIDOf(id), MapID: req.MapID, Version: v.Number, MapType: string(v.MapType),
		DryRun: req.DryRun || v.Program.Definition().DryRun, SessionID: db.Optional(req.SessionID), Customer: db.Optional(req.Customer), Origin: who.Kind,
		KeyID: who.KeyID(), UserID: who.UserID(), RequestID: who.RequestID, SourceAddr: who.SourceAddr,
		WorkflowID: flow.MapWorkflowID(flow.MapRef{TenantID: who.TenantID, ID: id, Attempt: 1}),
	}
	if p := req.Parent; p != nil {
		row.ParentID, row.Step, row.Depth = &p.Execution.ExecutionID, &p.Step, p.Execution.Depth+1
		row.Origin = actor.Map
		if p.turn != nil {
			row.Origin, row.Depth = actor.Agent, p.turn.Chain.Maps
		}
	}
	return row
}

// claimTry is a claim that is ready to be written. A try that loses a race is made again as it is.
type claimTry struct {
	who    actor.Actor
	params dbsqlc.ClaimMapParams
	row    claimRecord
	// parent is the step, or the message, that starts the execution; nil where a caller does.
	parent *Parent
	// assumed: the version was the published one when this process read it last. The claim makes sure.
	assumed bool
	// place is that of the concurrency key; nil where the Map has none.
	place *place
	// refused is why a fresh execution does not start; nil where it starts.
	refused error
	// fresh is the execution as it is where the claim makes it.
	fresh Execution
}

// newClaimTry seals the payload and evaluates the concurrency key. refused says why the version does not
// take the payload. A concurrency key without a value is a reason of the same kind.
func (s *triggers) newClaimTry(ctx context.Context, who actor.Actor, id uuid.UUID, v Version, req Request, refused error) (claimTry, error) {
	try := claimTry{who: who, row: s.claimRow(who, id, v, req), parent: req.Parent, assumed: v.assumed, refused: refused}
	key, err := s.d.Keys.Key(ctx, who.TenantID)
	if err != nil {
		return try, fmt.Errorf("execution: claim: %w", err)
	}
	canonical, err := strictjson.Canonical(req.Payload)
	if err != nil {
		return try, fault.New(fault.CodeInvalidJSON, "payload: "+err.Error())
	}
	row := try.row
	try.params = dbsqlc.ClaimMapParams{
		TenantID: who.TenantID, Keys: keysOf(req), Call: mustJSON(row), Fingerprint: key.Digest(canonical),
		Payload:  key.Seal(datakey.Place{Tenant: who.TenantID, Row: id, Field: datakey.MapPayload}, req.Payload),
		Metadata: req.Metadata, Now: s.d.Now(),
	}
	try.fresh = Execution{
		ID: id, TenantID: who.TenantID, ExecutionID: row.ExecutionID, MapID: row.MapID, Version: row.Version, MapType: v.MapType, DryRun: row.DryRun,
		Attempt: 1, Fingerprint: try.params.Fingerprint, Metadata: req.Metadata, SessionID: req.SessionID, Customer: req.Customer, Origin: row.Origin,
		KeyID: row.KeyID, UserID: row.UserID, ParentID: db.Text(row.ParentID), Step: db.Text(row.Step), Depth: row.Depth,
		RequestID: row.RequestID, SourceAddr: row.SourceAddr, WorkflowID: row.WorkflowID, Status: stepmachine.StatusRunning,
		Governance: governanceApproved, UpdatedAt: try.params.Now, payload: try.params.Payload, mapName: v.Program.Definition().Name,
	}
	if refused == nil {
		try.place, try.refused = s.places.placeOf(ctx, key, v, req.Payload, try.fresh, false)
		if fault.As(try.refused) == nil || len(try.params.Keys) == 0 {
			return try, try.refused
		}
	}
	return try, nil
}

// claimExecution takes the names of the trigger, or finds the execution that has them. The names come before the
// payload: refused says why the version does not take the payload, and is only returned where the names are new.
func (s *triggers) claimExecution(ctx context.Context, who actor.Actor, id uuid.UUID, v Version, req Request, refused error) (e Execution, fresh bool, err error) {
	if refused != nil && len(keysOf(req)) == 0 {
		return Execution{}, false, refused
	}
	try, err := s.newClaimTry(ctx, who, id, v, req, refused)
	if err != nil {
		return Execution{}, false, err
	}
	var claimed dbsqlc.ClaimMapRow
	var got *db.Answer[dbsqlc.TakeMapPlaceRow]
	for range claimTries {
		if claimed, got, err = s.claimOnce(ctx, try); !db.IsRaced(err) {
			break
		}
	}
	if err != nil {
		return Execution{}, false, s.places.refusedPlace(err)
	}
	failpoint.Hit("after_map_claim", id)
	if claimed.Outcome != claimFresh {
		if e, err = s.readExecution(ctx, who.TenantID, claimed.Execution); err != nil {
			return Execution{}, false, err
		}
		if req.Parent == nil { // otherwise a step is repeated, and no call
			if err := s.noteRepeat(ctx, who, e); err != nil {
				return Execution{}, false, err
			}
		}
		return e, false, refusal(claimed.Outcome, e, try.params.Fingerprint, req)
	}
	e = try.fresh
	if s.settlePlace(ctx, who.TenantID, got) {
		e.Status, e.WaitingFor = stepmachine.StatusWaiting, json.RawMessage(waitsForPlace)
	}
	if p := req.Parent; p != nil {
		e.Awaited, e.payloadInvented = p.Awaited, p.Invented
		e.inListOf(p)
		e.calledBy(p)
	}
	return e, true, nil
}

// claimOnce makes one try of a claim. A fresh execution gets an audit record, and counts in the quota of
// open executions. Where the trigger is refused, a fresh execution ends with that error and leaves nothing.
//
// Where nothing else is written with it, it is one round trip: its audit record is written only where
// the row of the execution is there.
func (s *triggers) claimOnce(ctx context.Context, try claimTry) (dbsqlc.ClaimMapRow, *db.Answer[dbsqlc.TakeMapPlaceRow], error) {
	tenant, row, parent := try.who.TenantID, try.row, try.parent
	first := &db.Batch{}
	s.places.queueLock(first, try.place)
	if try.assumed {
		db.Queue(first, s.q.RequirePublished, dbsqlc.RequirePublishedParams{TenantID: tenant, MapID: row.MapID, Version: row.Version})
	}
	var got *db.Answer[dbsqlc.TakeMapPlaceRow]
	counted := func() {}
	claimed := db.Queue(first, s.q.ClaimMap, try.params)
	if parent == nil && try.place == nil && try.refused == nil && s.room.Take(tenant) {
		audit.QueueWithMap(first, triggerRecord(try.who, row), row.ID)
		err := s.d.DB.Send(ctx, tenant, first)
		return claimed.Value, nil, err
	}
	err := s.d.DB.ReadAndWrite(ctx, tenant, first, func() (*db.Batch, error) {
		b := &db.Batch{}
		fresh := claimed.Value.Outcome == claimFresh
		if fresh && try.refused != nil {
			return nil, try.refused
		}
		if parent != nil && (fresh || parent.turn == nil) { // a message has noted its execution when that was fresh
			parent.also(b, claimed.Value.Execution)
		}
		if !fresh {
			return b, nil // it may have got another name
		}
		by := try.who
		if parent != nil {
			by = parent.actor(by)
			s.queueParent(b, tenant, row.ID, parent)
		}
		got = s.places.queueTake(b, try.place, row.ID)
		counted = s.room.Queue(b, tenant)
		s.d.Quotas.Queue(b, tenant, quota.MapValues)
		audit.Queue(b, triggerRecord(by, row))
		return b, nil
	})
	if err == nil {
		counted()
	}
	return claimed.Value, got, err
}

// triggerRecord is the audit record of a fresh execution.
func triggerRecord(by actor.Actor, row claimRecord) audit.Record {
	rec := audit.Change(by, audit.MapTriggered, audit.SubjectMap, row.MapID.String()).With(map[string]any{"version": row.Version, "dry_run": row.DryRun})
	rec.ExecutionID, rec.SessionID = row.ExecutionID, row.SessionID
	return rec
}

// queueParent notes what has started an execution, in the transaction of its claim.
func (s *triggers) queueParent(b *db.Batch, tenant, id uuid.UUID, p *Parent) {
	if t := p.turn; t != nil {
		db.QueueExec(b, s.q.SetMapCaller, dbsqlc.SetMapCallerParams{TenantID: tenant, ID: id, Chain: mustJSON(t.Chain), Workflow: t.Workflow, Tainted: t.Tainted, Sources: append([]string{}, t.TaintSources...)})
		return
	}
	db.QueueExec(b, s.q.SetMapParent, dbsqlc.SetMapParentParams{
		TenantID: tenant, ID: id, Awaited: p.Awaited, PayloadInvented: append([]string{}, p.Invented...),
		Chain: chainText(p.Execution.Chain), Tainted: p.Execution.Tainted,
		Sources: append([]string{}, p.Execution.TaintSources...), Reads: append([]string{}, p.reads...),
	})
	s.queueInListOf(b, tenant, id, p)
}

func (s *triggers) queueInListOf(b *db.Batch, tenant, id uuid.UUID, p *Parent) {
	if p.changesAt == nil {
		return
	}
	of := p.Execution.listOf()
	db.QueueExec(b, s.q.SetMapChangesOf, dbsqlc.SetMapChangesOfParams{
		TenantID: tenant, ID: id, ChangesOf: &of, ChangesAt: p.changesAt, ChangesPath: p.changesPath(),
	})
}

// inListOf puts an execution that a step has started into the list of its dry run.
func (e *Execution) inListOf(p *Parent) {
	if p.changesAt == nil {
		return
	}
	of := p.Execution.listOf()
	e.changesOf, e.changesAt, e.changesPath = &of, p.changesAt, p.changesPath()
}

// calledBy sets what the execution has of the message that starts it, or of the execution whose step
// does.
func (e *Execution) calledBy(p *Parent) {
	if t := p.turn; t != nil {
		e.Chain, e.Tainted, e.TaintSources, e.callerWorkflow = t.Chain, t.Tainted, t.TaintSources, t.Workflow
		e.Reads = append([]string{}, t.TaintSources...)
		return
	}
	e.Chain, e.Tainted, e.TaintSources, e.Reads = p.Execution.Chain, p.Execution.Tainted, p.Execution.TaintSources, append([]string{}, p.reads...)
}

// actor returns who starts the execution, for its audit record.
func (p *Parent) actor(who actor.Actor) actor.Actor {
	by := actor.Actor{Kind: actor.Map, TenantID: who.TenantID, ID: p.Execution.MapID, RequestID: who.RequestID, SourceAddr: who.SourceAddr}
	if p.turn != nil {
		by.Kind, by.ID = actor.Agent, p.turn.AgentID
	}
	return by
}

func (p *Parent) changesPath() []string {
	return append(slices.Clone(p.Execution.changesPath), p.place)
}

// chainText returns a chain as it is stored; nil where no agent is in it.
func chainText(c agentloop.Chain) json.RawMessage {
	if len(c.Turns) == 0 {
		return nil
	}
	return mustJSON(c)
}

// noteRepeat records that a trigger is answered from the execution of an earlier one. The error is
// that of audit.Journal.Add.
func (s *triggers) noteRepeat(ctx context.Context, who actor.Actor, e Execution) error {
	rec := audit.Change(who, audit.MapRepeated, audit.SubjectMap, e.MapID.String())
	rec.ExecutionID, rec.SessionID, rec.Outcome = e.ExecutionID, db.Optional(e.SessionID), string(e.Status)
	return s.d.Journal.Add(ctx, audit.Note{By: who, About: e.ID.String(), Record: rec})
}

// refusal returns why an earlier execution does not answer the trigger; nil where it does.
func refusal(outcome string, e Execution, print []byte, req Request) error {
	var f *fault.Error
	switch {
	case outcome == claimConflict:
		return fault.New(fault.CodeIdempotencyConflict, "session_id and Idempotency-Key name two different executions of the Map.")
	case outcome == claimMismatch:
		f = fault.New(fault.CodeIdempotencyKeyReused, "The execution of this name is a dry run and the trigger is not, or the other way round.")
	case e.ErasedAt != nil:
		f = fault.New(fault.CodeResultExpired, "")
	case req.Key != "" && !hmac.Equal(e.Fingerprint, print):
		f = fault.New(fault.CodeIdempotencyKeyReused, "The execution of this Idempotency-Key has another payload.")
	case req.Parent != nil && e.CreatedAt().Before(req.Parent.Execution.AgainSince()) && !hmac.Equal(e.Fingerprint, print):
		f = fault.New(fault.CodeIdempotencyKeyReused, "The execution that an earlier attempt has started for this step has another payload. Nothing ran.")
	default:
		return nil
	}
	f.ExecutionID = e.ExecutionID
	return f
}
