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
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/strictjson"
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
