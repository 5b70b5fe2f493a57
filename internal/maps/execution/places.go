package execution

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/record/quota"
)

// SQLSTATEs of take_map_place.
const (
	stateFull     = "AR010"
	stateTooMany  = "AR011"
	stateOfItself = "AR012"
	placeQueued   = "queued"
	waitsForPlace = `{"for":"concurrency","step":""}` // as take_map_place writes it
	keyMost       = 1024                              // bytes of a concurrency key
	keysAtATime   = 1000                              // of which a pass looks whether a place is free
)

// keyAgain is after how long a trigger may be repeated whose key was not evaluated, because the tenant has
// too many expressions evaluated. It is no place in a line: who was refused may not come again.
const keyAgain = 5 * time.Second

// place is the place that an execution asks for: of the concurrency key that its definition has.
type place struct {
	*mapdef.Concurrency

	tenant, mapID uuid.UUID
	key           []byte
}

// placeOf returns the place that an execution needs; nil where its definition has no concurrency. again: it
// had one before, maybe when empty keys were taken. The fault INVALID_ARGS says why the key has no value. It
// is SERVICE_UNAVAILABLE where the tenant has too many expressions evaluated at the moment.
func (s *places) placeOf(ctx context.Context, key *datakey.Key, v Version, payload []byte, about Execution, again bool) (*place, error) {
	c := v.Program.Definition().Concurrency
	if c == nil {
		return nil, nil //nolint:nilnil // no place is a value here
	}
	text, err := c.Key.Text(ctx, s.d.Sandbox.Briefly(about.TenantID.String()), expression.Roots{TriggerData: payload, Context: mustJSON(contextOf(about))})
	if err == nil && text == "" && !again {
		err = &expression.Failure{Code: expression.CodeResult, Detail: "it is null or empty, so all such executions would have one key"}
	}
	if err == nil && len(text) > keyMost {
		err = &expression.Failure{Code: expression.CodeLimit, Detail: fmt.Sprintf("it has more than %d bytes", keyMost)}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if _, busy := errors.AsType[*expression.BusyError](err); busy {
		f := fault.New(fault.CodeServiceUnavailable, "Too many expressions of your Maps are being evaluated. Repeat the trigger later.").Because(err)
		f.Retryable, f.RetryAfter = true, keyAgain
		return nil, f
	}
	if failure, failed := errors.AsType[*expression.Failure](err); failed {
		f := fault.New(fault.CodeInvalidArgs, "The concurrency key of the Map has no value for this payload.")
		f.Details = []fault.Detail{{Path: "/payload", Rule: "concurrency_key", Message: failure.Error()}}
		return nil, f
	}
	if err != nil {
		return nil, fmt.Errorf("execution: concurrency key: %w", err)
	}
	return &place{Concurrency: c, tenant: about.TenantID, mapID: v.MapID, key: key.Digest([]byte(text))}, nil
}

// queueLock takes the turn of the place's key in a transaction, before a row is locked.
func (s *places) queueLock(b *db.Batch, p *place) {
	if p != nil {
		db.QueueExec(b, s.q.LockMapPlaces, dbsqlc.LockMapPlacesParams{TenantID: p.tenant, MapID: p.mapID, Key: p.key})
	}
}

// queueTake takes the place for an execution; nil where it needs none.
func (s *places) queueTake(b *db.Batch, p *place, execution uuid.UUID) *db.Answer[dbsqlc.TakeMapPlaceRow] {
	if p == nil {
		return nil
	}
	return db.Queue(b, s.q.TakeMapPlace, dbsqlc.TakeMapPlaceParams{
		TenantID: p.tenant, MapID: p.mapID, Key: p.key, Execution: execution, Places: int32(p.Limit), WhenFull: string(p.WhenFull),
		Most: int32(s.d.Quotas.Most(quota.MapQueue)), Now: s.d.Now(),
	})
}

// refusedPlace returns the fault for a transaction that take_map_place has undone, and otherwise
// err.
func (s *places) refusedPlace(err error) error {
	switch db.StateOf(err) {
	case stateFull:
		return fault.New(fault.CodeConflict, "As many executions with the same concurrency key run as the Map allows. Trigger it again when one has ended; no id was claimed.")
	case stateTooMany:
		return fault.Newf(fault.CodeQuotaExceeded, "As many executions with the same concurrency key wait as may (quota %s: %d). Trigger the Map again later; no id was claimed.",
			quota.MapQueue, s.d.Quotas.Most(quota.MapQueue))
	case stateOfItself:
		return fault.New(fault.CodeConflict, "The executions that have the places of the concurrency key wait for the step that starts this Map. It would wait for itself.")
	default:
		return err
	}
}

// queueLockOf takes the turn of the key of an execution that ends in the batch.
func (s *places) queueLockOf(b *db.Batch, e Execution, d *mapdef.Definition) {
	if d.Concurrency != nil {
		db.QueueExec(b, s.q.LockPlacesOf, dbsqlc.LockPlacesOfParams{TenantID: e.TenantID, Execution: e.ID})
	}
}

// queueFree frees the place of an execution that ends in the batch; nil where it has none.
func (s *places) queueFree(b *db.Batch, e Execution, d *mapdef.Definition) *db.Answer[[]uuid.UUID] {
	if d.Concurrency == nil {
		return nil
	}
	return db.Queue(b, s.q.FreeMapPlace, dbsqlc.FreeMapPlaceParams{TenantID: e.TenantID, Execution: e.ID, Now: s.d.Now()})
}

// startPromoted starts the executions that have got a place. What is lost here, the sweeper does.
func (s *places) startPromoted(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) {
	for _, id := range ids {
		e, err := s.readExecution(ctx, tenant, id)
		if err == nil {
			err = s.workflows.startInTurn(ctx, e)
		}
		if err != nil {
			s.d.Log.WarnContext(ctx, "execution not started", "id", id, "error", err)
		}
	}
}

// sweptKey is the concurrency key at which a pass of SweepPlaces stopped; the zero value where it
// came to the end.
type sweptKey struct {
	tenant, mapID uuid.UUID
	key           []byte
}

// SweepPlaces gives places that are free, although executions wait for them: a newer version allows
// more, for example. The next pass goes on where it stopped. One process makes one pass at a time.
func (s *places) SweepPlaces(ctx context.Context) error {
	keys, err := s.q.KeysThatWait(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.KeysThatWaitParams{
		AfterTenant: s.sweptKey.tenant, AfterMap: s.sweptKey.mapID, AfterKey: s.sweptKey.key, Most: keysAtATime,
	})
	if err != nil {
		return fmt.Errorf("execution: places: %w", err)
	}
	s.sweptKey = sweptKey{key: []byte{}}
	if len(keys) == keysAtATime {
		last := keys[keysAtATime-1]
		s.sweptKey = sweptKey{last.TenantID, last.MapID, last.Key}
	}
	for _, k := range keys {
		if !k.Free {
			continue
		}
		b := &db.Batch{}
		db.QueueExec(b, s.q.LockMapPlaces, dbsqlc.LockMapPlacesParams{TenantID: k.TenantID, MapID: k.MapID, Key: k.Key})
		got := db.Queue(b, s.q.PromoteMapPlaces, dbsqlc.PromoteMapPlacesParams{TenantID: k.TenantID, MapID: k.MapID, Key: k.Key, Now: s.d.Now()})
		if err := s.d.DB.Send(ctx, k.TenantID, b); err != nil {
			s.d.Log.WarnContext(ctx, "places not given", "tenant_id", k.TenantID, "map_id", k.MapID, "error", err)
			continue
		}
		s.startPromoted(ctx, k.TenantID, got.Value)
	}
	return nil
}
