package execution

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
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

// Request triggers a Map.
type Request struct {
	MapID uuid.UUID
	// Version is 0 for the published one.
	Version int32
	Payload json.RawMessage // an object
	// SessionID is the caller's name for the execution, Key that of the header Idempotency-Key; ""
	// where the caller gave none.
	SessionID, Key string
	Metadata       json.RawMessage
	Customer       string
	DryRun         bool
	// Wait is how long to wait for the end, at most Config.MaxWait; nil means Config.DefaultWait.
	Wait *time.Duration
	// Parent is set where a step of another Map starts this one, or an agent.
	Parent *Parent
}

// Parent is the step of the execution that starts another.
type Parent struct {
	Execution Execution
	Step      string // with the iterations around it, and its attempt
	// Awaited: the step waits for the end.
	Awaited bool
	// Invented lists the changes of a dry run from whose results the payload was built.
	Invented []string

	// reads are the sources of others' words that the payload may have.
	reads []string
	// turn is the message to an agent that starts it; nil where a step does.
	turn *TurnStart
	// also queues what is written with the claim of the execution with the id.
	also func(b *db.Batch, id uuid.UUID)
	// changesAt is the place of its changes in the list of the dry run, nil where it has a list of
	// its own.
	changesAt []int32
	place     string // of the step, without its attempt
}

// Outcome is the answer to a trigger.
type Outcome struct {
	Execution Execution
	// Cached: an earlier trigger made the execution, and this one only reads it.
	Cached bool
	// OtherPayload: that trigger had another payload than this one.
	OtherPayload bool
}

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

// Trigger claims an execution, starts its workflow and waits for its end, at most req.Wait. One
// that an earlier trigger claimed is waited for and read, never run again. A fault refuses the
// trigger; an execution that ends failed is no fault here.
func (s *triggers) Trigger(ctx context.Context, who actor.Actor, req Request) (Outcome, error) {
	version, refused := s.lastPublished(req, who.TenantID), error(nil)
	if version.assumed {
		refused = checkPayload(version, req)
	}
	if !version.assumed || refused != nil { // it may fit one that was published since
		var err error
		if version, err = s.versionOf(ctx, who.TenantID, req); err != nil {
			return Outcome{}, err
		}
		refused = checkPayload(version, req)
	}
	until := s.d.Now().Add(s.waitOf(req))
	id := uuid.Must(uuid.NewV7())
	w := s.hub.Join(id, 1)
	defer s.hub.Leave(id, w)
	e, fresh, err := s.claimExecution(ctx, who, id, version, req, refused)
	if version.assumed && db.IsNotChanged(err) { // another version was published since, or the Map deleted
		if version, err = s.versionOf(ctx, who.TenantID, req); err == nil {
			e, fresh, err = s.claimExecution(ctx, who, id, version, req, checkPayload(version, req))
		}
	}
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Execution: e, Cached: !fresh}
	if out.Cached {
		if out.OtherPayload, err = s.otherPayload(ctx, e, req); err != nil {
			return Outcome{}, err
		}
	}
	switch {
	case fresh:
		out.Execution, err = s.startAndWait(ctx, e, w.C, until)
		return out, err
	case e.Ended():
		return out, nil
	default:
		w = s.hub.Join(e.ID, e.Attempt)
		defer s.hub.Leave(e.ID, w)
	}
	out.Execution, err = s.waitForEnd(ctx, e, w.C, until)
	return out, err
}

// otherPayload reports whether the execution that answers a trigger has another payload.
func (s *triggers) otherPayload(ctx context.Context, e Execution, req Request) (bool, error) {
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return false, fmt.Errorf("execution: trigger: %w", err)
	}
	canonical, err := strictjson.Canonical(req.Payload)
	return err == nil && !hmac.Equal(e.Fingerprint, key.Digest(canonical)), err
}

// lastPublished returns the version that a trigger probably runs, without a look at the rows. It is
// not assumed where this process does not know it.
func (s *triggers) lastPublished(req Request, tenant uuid.UUID) (v Version) {
	if req.Version == 0 && req.Parent == nil {
		v, v.assumed = s.d.Definitions.LastPublished(tenant, req.MapID)
	}
	return v
}

// versionOf returns the version that a trigger runs.
func (s *triggers) versionOf(ctx context.Context, tenant uuid.UUID, req Request) (Version, error) {
	find := s.d.Definitions.Version
	if req.Version != 0 {
		find = s.d.Definitions.Named
	}
	return find(ctx, tenant, req.MapID, req.Version)
}

// checkPayload refuses a payload that does not fit the trigger_schema of the version.
func checkPayload(v Version, req Request) error {
	wrong := v.Program.CheckPayload(req.Payload)
	if wrong == nil {
		return nil
	}
	f := fault.New(fault.CodeInvalidArgs, "payload does not fit the trigger_schema of the Map.")
	f.Details = wrong
	return f
}

// startPatience is how long a trigger waits for the answer to a start, where its caller waits no
// longer. Where API and worker are apart, the first steps of the Map delay that answer.
const startPatience = time.Second

// startAndWait starts the workflow and waits for the end of the execution. The start does not
// depend on the caller.
func (s *triggers) startAndWait(ctx context.Context, e Execution, ends <-chan Execution, until time.Time) (Execution, error) {
	started := make(chan error, 1)
	go func() { started <- s.workflows.startInTurn(ctx, e) }()
	patience := time.NewTimer(startPatience)
	defer patience.Stop()
	select {
	case err := <-started:
		if err != nil {
			return e, notStarted(e, err)
		}
	case done := <-ends:
		return done, nil
	case <-patience.C:
		var giveUp context.CancelCauseFunc
		ctx, giveUp = context.WithCancelCause(ctx)
		defer giveUp(nil)
		go func() {
			if err := <-started; err != nil {
				giveUp(notStarted(e, err))
			}
		}()
	}
	return s.waitForEnd(ctx, e, ends, until)
}

// notStarted answers a trigger whose workflow could not be started. The sweeper starts it later.
func notStarted(e Execution, cause error) error {
	f := fault.New(fault.CodeServiceUnavailable, "The workflow engine cannot be reached. The trigger stands and runs once the engine is back: "+
		"read GET /v1/executions/{id}, or cancel it there.").Because(cause)
	f.ExecutionID, f.Retryable = e.ExecutionID, true
	return f
}

func (s *triggers) waitOf(req Request) time.Duration {
	if req.Wait == nil {
		return s.cfg.DefaultWait
	}
	return min(*req.Wait, s.cfg.MaxWait)
}

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

// executionIDOf returns the execution_id of the execution with the id.
func executionIDOf(id uuid.UUID) string { return "exec_" + id.String() }

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

// claimExecution takes the names of the trigger, or finds the execution that has them. The names come before the
// payload: refused says why the version does not take that, and is only returned where the names are new.
func (s *triggers) claimExecution(ctx context.Context, who actor.Actor, id uuid.UUID, v Version, req Request, refused error) (e Execution, fresh bool, err error) {
	if refused != nil && len(keysOf(req)) == 0 {
		return Execution{}, false, refused
	}
	key, err := s.d.Keys.Key(ctx, who.TenantID)
	if err != nil {
		return Execution{}, false, fmt.Errorf("execution: claim: %w", err)
	}
	canonical, err := strictjson.Canonical(req.Payload)
	if err != nil {
		return Execution{}, false, fault.New(fault.CodeInvalidJSON, "payload: "+err.Error())
	}
	row := s.claimRow(who, id, v, req)
	params := dbsqlc.ClaimMapParams{
		TenantID: who.TenantID, Keys: keysOf(req), Call: mustJSON(row), Fingerprint: key.Digest(canonical),
		Payload:  key.Seal(datakey.Place{Tenant: who.TenantID, Row: id, Field: datakey.MapPayload}, req.Payload),
		Metadata: req.Metadata, Now: s.d.Now(),
	}
	claimedAs := Execution{
		ID: id, TenantID: who.TenantID, ExecutionID: row.ExecutionID, MapID: row.MapID, Version: row.Version, MapType: v.MapType, DryRun: row.DryRun,
		Attempt: 1, Fingerprint: params.Fingerprint, Metadata: req.Metadata, SessionID: req.SessionID, Customer: req.Customer, Origin: row.Origin,
		KeyID: row.KeyID, UserID: row.UserID, ParentID: db.Text(row.ParentID), Step: db.Text(row.Step), Depth: row.Depth,
		RequestID: row.RequestID, SourceAddr: row.SourceAddr, WorkflowID: row.WorkflowID, Status: stepmachine.StatusRunning,
		Governance: governanceApproved, UpdatedAt: params.Now, payload: params.Payload, mapName: v.Program.Definition().Name,
	}
	var asked *place
	if refused == nil {
		asked, err = s.places.placeOf(ctx, key, v, req.Payload, claimedAs, false)
		if refused = err; err != nil && (fault.As(err) == nil || len(params.Keys) == 0) {
			return Execution{}, false, err
		}
	}
	var claimed dbsqlc.ClaimMapRow
	var got *db.Answer[dbsqlc.TakeMapPlaceRow]
	for range claimTries {
		if claimed, got, err = s.claimOnce(ctx, who, params, row, v, req.Parent, asked, refused); !db.IsRaced(err) {
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
		return e, false, refusal(claimed.Outcome, e, params.Fingerprint, req)
	}
	e = claimedAs
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

// claimOnce is one try of a claim. One that is fresh has an audit record, and counts in the quota of
// open executions. Where the trigger is refused, a fresh one ends with that error and leaves nothing.
//
// Where nothing else is written with it, it is one round trip: its audit record is written only where
// the row of the execution is there.
func (s *triggers) claimOnce(ctx context.Context, who actor.Actor, p dbsqlc.ClaimMapParams, row claimRecord, v Version, parent *Parent, asked *place, refused error) (dbsqlc.ClaimMapRow, *db.Answer[dbsqlc.TakeMapPlaceRow], error) {
	first := &db.Batch{}
	s.places.queueLock(first, asked)
	if v.assumed {
		db.Queue(first, s.q.RequirePublished, dbsqlc.RequirePublishedParams{TenantID: p.TenantID, MapID: row.MapID, Version: v.Number})
	}
	var got *db.Answer[dbsqlc.TakeMapPlaceRow]
	counted := func() {}
	claimed := db.Queue(first, s.q.ClaimMap, p)
	if parent == nil && asked == nil && refused == nil && s.room.Take(who.TenantID) {
		audit.QueueWithMap(first, triggerRecord(who, row), row.ID)
		err := s.d.DB.Send(ctx, who.TenantID, first)
		return claimed.Value, nil, err
	}
	err := s.d.DB.ReadAndWrite(ctx, who.TenantID, first, func() (*db.Batch, error) {
		b := &db.Batch{}
		fresh := claimed.Value.Outcome == claimFresh
		if fresh && refused != nil {
			return nil, refused
		}
		if parent != nil && (fresh || parent.turn == nil) { // a message has noted its execution when that was fresh
			parent.also(b, claimed.Value.Execution)
		}
		if !fresh {
			return b, nil // it may have got another name
		}
		by := who
		if parent != nil {
			by = parent.actor(who)
			s.queueParent(b, p.TenantID, row.ID, parent)
		}
		got = s.places.queueTake(b, asked, row.ID)
		counted = s.room.Queue(b, who.TenantID)
		s.d.Quotas.Queue(b, who.TenantID, quota.MapValues)
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

// startLimit is the time limit of one attempt to reach the workflow engine.
const startLimit = 10 * time.Second

// startWorkflow starts the workflow of the execution's attempt. It does not depend on the caller.
func (s *workflows) startWorkflow(ctx context.Context, e Execution) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	listing := flow.Listing{
		Kind: flow.KindMap, Tenant: e.TenantID, Execution: e.ExecutionID, Subject: e.MapID.String(), Name: e.mapName,
		Details: flow.ExecutionDetails(s.cfg.PublicURL, e.ExecutionID),
	}
	s.heads.Add(e)
	return s.d.Engine.StartMap(ctx, flow.MapInput{MapRef: e.Ref()}, e.WorkflowID, listing)
}

// hasEnded looks whether the execution has ended. It reads none of the texts, which are long.
func (s *triggers) hasEnded(ctx context.Context, e Execution) (bool, error) {
	ended, err := s.q.AwaitedMap(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.AwaitedMapParams{TenantID: e.TenantID, ID: e.ID})
	if err != nil {
		return false, fmt.Errorf("execution: await: %w", err)
	}
	return ended, nil
}

// Await waits for the end of an execution, at most until the given time, and returns it as it is
// then.
func (s *triggers) Await(ctx context.Context, e Execution, until time.Time) (Execution, error) {
	if e.Ended() {
		return e, nil
	}
	w := s.hub.Join(e.ID, e.Attempt)
	defer s.hub.Leave(e.ID, w)
	return s.waitForEnd(ctx, e, w.C, until)
}

func (s *triggers) waitForEnd(ctx context.Context, e Execution, ends <-chan Execution, until time.Time) (Execution, error) {
	deadline := time.NewTimer(time.Until(until))
	defer deadline.Stop()
	poll := time.NewTimer(s.cfg.PollEvery)
	defer poll.Stop()
	for last := false; ; {
		select {
		case done := <-ends:
			return done, nil
		case <-poll.C:
			poll.Reset(s.cfg.PollEvery)
		case <-deadline.C:
			last = true
		case <-ctx.Done():
			return e, context.Cause(ctx)
		}
		ended, err := s.hasEnded(ctx, e)
		if err == nil && (ended || last) {
			e, err = s.readExecution(ctx, e.TenantID, e.ID)
			if err == nil && (last || e.Ended()) {
				return e, nil
			}
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return e, context.Cause(ctx) // the read was broken off: the start has failed, or the key was revoked
		case err != nil && (last || !fault.HasCode(err, fault.CodeServiceUnavailable)):
			return e, err
		}
	}
}
