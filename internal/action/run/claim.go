package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/dev/failpoint"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/datakey"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/verb"
)

// Request asks for one run.
type Request struct {
	Verb string
	Args json.RawMessage
	// Origin of a step of an agent or a Map; the zero Origin for a call over HTTP, whose
	// origin is the actor.
	Origin Origin
	// ExecutionID and IdempotencyKey are the caller's; either may be empty. A step has
	// the key that StepKey makes, and neither of these.
	ExecutionID    string
	IdempotencyKey string
	// KeyByHeader: IdempotencyKey came by the Idempotency-Key header. A repeat of it with
	// other arguments is refused.
	KeyByHeader bool
	// StepKey is the fence key of a step, see StepKey; "" for a call over HTTP.
	StepKey   string
	SessionID string
	Metadata  json.RawMessage
	DryRun    bool
	// Wait is how long to wait for the run's end, at most Config.MaxWait; nil means
	// Config.DefaultWait.
	Wait *time.Duration
}

// Outcome is the answer to a request: the run, and how this call relates to it.
type Outcome struct {
	Run Run
	// Cached: an earlier call claimed the run, and this one only reads it.
	Cached bool
	// ArgsDiffer names the argument paths where this call differs from the one that
	// claimed the run; "" where they are the same.
	ArgsDiffer string
}

// Outcomes of claim_run; see db/functions/claim_run.sql.
const (
	claimFresh       = "fresh"
	claimReclaimed   = "reclaimed"
	claimExisting    = "existing"
	claimMismatch    = "mismatch"
	claimConflict    = "conflict"
	claimUnknownVerb = "unknown_verb"
	claimReseal      = "reseal"
)

// startLimit is the time limit of one attempt to reach the workflow engine.
const startLimit = 10 * time.Second

// stepPrefix begins the fence keys that we derive. Callers' keys are visible ASCII, so no
// caller can claim a key with this character.
const stepPrefix = "\x1f"

// StepKey returns the fence key of a step of another execution. The same step, iteration
// and attempt always get the same key, and callers cannot claim it. The caller raises the
// attempt only after an end that provably had no effect.
func StepKey(executionID, path string, iteration, attempt int) string {
	return stepPrefix + executionID + stepPrefix + path + stepPrefix + strconv.Itoa(iteration) + stepPrefix + strconv.Itoa(attempt)
}

// Claimed is the result of a claim: the run that has the names of the call.
type Claimed struct {
	Outcome
	// Fresh: this call claimed the run, so it must be driven or started.
	Fresh bool
	// giveUp is the time until which the caller waits.
	giveUp time.Time
}

// Ref returns the claim by which the driving workflow names the run.
func (c Claimed) Ref() flow.RunRef { return c.Run.ref() }

// Do claims the run, starts its workflow and waits for its end, at most req.Wait. A run that
// an earlier call claimed is waited for and read, never executed again. The run may have
// ended in any state; see Run.Fault. The error is a fault where the call is refused or the
// workflow engine cannot be reached, and otherwise a failure of the database or ctx's cause.
func (s *Service) Do(ctx context.Context, who actor.Actor, req Request) (Outcome, error) {
	id := uuid.Must(uuid.NewV7())
	// Waiting begins before the claim, so that the run's end cannot be missed.
	waiter := s.hub.join(id)
	defer s.hub.leave(id, waiter)
	c, err := s.claim(ctx, id, who, req)
	if err != nil {
		return Outcome{}, err
	}
	if c.Run.ID != id {
		waiter = s.hub.join(c.Run.ID)
		defer s.hub.leave(c.Run.ID, waiter)
	}
	if c.Fresh {
		c.Run, err = s.startAndWait(ctx, c.Run, waiter, c.giveUp)
		return c.Outcome, err
	}
	if !c.Run.State.Answers() {
		s.startAgain(ctx, c.Run)
		c.Run, err = s.await(ctx, c.Run, waiter, c.giveUp)
	}
	return c.Outcome, err
}

// Claim takes the names of the call in the fence, or finds the run that has them. It starts
// nothing: the workflow that the origin names drives the run of a step, and may repeat the
// claim after a crash. A refusal is a fault.
func (s *Service) Claim(ctx context.Context, who actor.Actor, req Request) (Claimed, error) {
	return s.claim(ctx, uuid.Must(uuid.NewV7()), who, req)
}

// Await waits for the run's answer, at most until the given time, and returns the run as it
// is then. The error is ctx's cause, or a failure of the database.
func (s *Service) Await(ctx context.Context, r Run, until time.Time) (Run, error) {
	if r.State.Answers() {
		return r, nil
	}
	waiter := s.hub.join(r.ID)
	defer s.hub.leave(r.ID, waiter)
	return s.await(ctx, r, waiter, until)
}

func (s *Service) claim(ctx context.Context, id uuid.UUID, who actor.Actor, req Request) (Claimed, error) {
	name, err := verb.Parse(req.Verb)
	if err != nil {
		return Claimed{}, err
	}
	print, err := fingerprint(name, req.Args, req.DryRun)
	if err != nil {
		return Claimed{}, err
	}
	keys, execution, err := names(id, req)
	if err != nil {
		return Claimed{}, err
	}
	out := Claimed{giveUp: s.d.Now().Add(s.waitOf(req))}
	call := claimedCall{
		Origin: originOf(who, req.Origin, keys[0]), ID: id, ExecutionID: execution, Provider: name.Provider, Verb: name.Verb, DryRun: req.DryRun,
		SessionID: req.SessionID, RequestID: who.RequestID, SourceAddr: who.SourceAddr, GiveUpAt: out.giveUp,
	}
	outcome, r, err := s.claimRow(ctx, call, req.Args, dbsqlc.ClaimRunParams{
		Keys: keys, Provider: name.Provider, Verb: name.Verb, DryRun: req.DryRun, TenantID: who.TenantID,
		Fingerprint: print, Metadata: req.Metadata,
	})
	if err != nil {
		return Claimed{}, err
	}
	out.Run = r
	switch outcome {
	case claimUnknownVerb:
		return Claimed{}, fault.New(fault.CodeVerbNotFound, "No such verb in your catalog. GET /v1/runtime/actions/catalog lists the verbs that it has.")
	case claimConflict:
		return Claimed{}, fault.New(fault.CodeIdempotencyConflict, "")
	case claimMismatch:
		return Claimed{}, reused(r, "another verb, or a dry run against a real one")
	case claimFresh, claimReclaimed:
		out.Fresh = true
		failpoint.Hit("after_claim")
		return out, nil
	}
	out.Cached, out.ArgsDiffer = true, argsDiffer(r, req.Args, print)
	if out.ArgsDiffer != "" && req.KeyByHeader {
		return Claimed{}, reused(r, "other arguments ("+out.ArgsDiffer+")")
	}
	return out, nil
}

func (s *Service) waitOf(req Request) time.Duration {
	if req.Wait == nil {
		return s.cfg.DefaultWait
	}
	return min(*req.Wait, s.cfg.MaxWait)
}

// originOf completes the origin of a call. A call over HTTP has its actor as origin, and a
// workflow of its own, which is named after the key that was claimed first.
func originOf(who actor.Actor, o Origin, key string) Origin {
	if o.Kind == "" {
		o = Origin{Kind: who.Kind}
	}
	if o.KeyID == nil && o.UserID == nil {
		o.KeyID, o.UserID = who.KeyID(), who.UserID()
	}
	if o.WorkflowID == "" {
		o.WorkflowID = flow.RunWorkflowID(who.TenantID, key)
	}
	return o
}

// names returns the keys to claim and the execution id of the call.
func names(id uuid.UUID, req Request) (keys []string, execution string, err error) {
	execution = req.ExecutionID
	if execution == "" {
		execution = "exec_" + id.String()
	}
	if req.StepKey != "" {
		return []string{req.StepKey}, execution, nil
	}
	for _, k := range []string{req.ExecutionID, req.IdempotencyKey} {
		if strings.HasPrefix(k, stepPrefix) {
			return nil, "", fault.New(fault.CodeInvalidIdempotencyKey, "")
		}
		if k != "" && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		keys = []string{execution}
	}
	return keys, execution, nil
}

func reused(r Run, how string) error {
	f := fault.Newf(fault.CodeIdempotencyKeyReused, "This id was used before for %s. Nothing ran.", how)
	f.ExecutionID = r.ExecutionID
	return f
}

// claimRow asks the fence and reads the run that the keys name: one round trip. The arguments
// are sealed for the run of the call. Where the keys name another run that is to be claimed
// again, they are sealed once more, for that run.
func (s *Service) claimRow(ctx context.Context, call claimedCall, args json.RawMessage, p dbsqlc.ClaimRunParams) (outcome string, r Run, err error) {
	key, err := s.d.Keys.Key(ctx, p.TenantID)
	if err != nil {
		return "", Run{}, fmt.Errorf("run: claim: %w", err)
	}
	for range resealTries {
		p.Call = string(mustJSON(call))
		p.Args = Run{ID: call.ID, TenantID: p.TenantID, key: key}.seal(datakey.RunArgs, args)
		if outcome, r, err = s.claimOnce(ctx, key, p); err != nil || outcome != claimReseal {
			return outcome, r, err
		}
		call.ID = r.ID
	}
	return "", Run{}, fmt.Errorf("run: claim: the keys name another run each time")
}

// resealTries is how often a claim is tried. Keys never move to another run while that run
// exists, so the second claim succeeds.
const resealTries = 3

func (s *Service) claimOnce(ctx context.Context, key *datakey.Key, p dbsqlc.ClaimRunParams) (outcome string, r Run, err error) {
	b := &db.Batch{}
	claimed := db.Queue(b, s.q.ClaimRun, p)
	rows := db.Queue(b, s.q.RunByKey, dbsqlc.RunByKeyParams{TenantID: p.TenantID, Key: p.Keys[0]})
	if err := s.d.DB.Send(ctx, p.TenantID, b); err != nil {
		return "", Run{}, fmt.Errorf("run: claim: %w", err)
	}
	if r, _, err = oneOf(key, rows.Value); err != nil {
		return "", Run{}, err
	}
	return claimed.Value, r, nil
}

// startAndWait starts the workflow and waits for the row to end. The start does not depend
// on the caller: the run continues when the caller disconnects.
func (s *Service) startAndWait(ctx context.Context, r Run, w waiter, until time.Time) (Run, error) {
	if s.cfg.OneProcess {
		s.carried.addClaim(r)
	}
	failed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
		defer cancel()
		if err := s.start(ctx, r); err != nil {
			failed <- err
		}
	}()
	select {
	case done := <-w:
		return done, nil
	case err := <-failed:
		// The claim is committed: the sweeper or a repeat of the call starts it.
		s.d.Log.WarnContext(ctx, "workflow not started", "run_id", r.ID, "error", err)
		f := fault.New(fault.CodeServiceUnavailable, "The workflow engine cannot be reached. The call is claimed: repeat it with the same id.").Because(err)
		f.ExecutionID, f.Retryable = r.ExecutionID, true
		return r, f
	case <-ctx.Done():
		return r, context.Cause(ctx)
	case <-time.After(time.Until(until)):
		return r, nil
	case <-time.After(s.cfg.PollEvery):
		return s.await(ctx, r, w, until)
	}
}

func (s *Service) start(ctx context.Context, r Run) error {
	in := flow.ActionRunInput{RunRef: r.ref()}
	return s.d.Engine.StartRun(ctx, in, r.WorkflowID, flow.RunSummary(r.Verb.String(), string(r.Risk)))
}

// graceForStarter is how long a claim may have no workflow while its caller's process
// is still starting it.
const graceForStarter = time.Second

// startAgain repairs a claim whose process died before it started the workflow. The engine
// recognizes a start that was made before, so a needless one does nothing. Nothing is
// started for a run that another workflow drives.
func (s *Service) startAgain(ctx context.Context, r Run) {
	if r.State != StateClaimed || r.WorkflowID != r.ownWorkflow() || s.d.Now().Sub(r.UpdatedAt) < graceForStarter {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
		defer cancel()
		if err := s.start(ctx, r); err != nil {
			s.d.Log.WarnContext(ctx, "workflow not started", "run_id", r.ID, "error", err)
		}
	}()
}

// await waits for the end of the run. It gets a notice, and reads the row every PollEvery in
// case the notice was lost. When the time is over it returns the run as it is then.
func (s *Service) await(ctx context.Context, r Run, w waiter, until time.Time) (Run, error) {
	// The run may have ended between the claim's read and the join.
	poll := time.NewTimer(0)
	defer poll.Stop()
	deadline := time.NewTimer(time.Until(until))
	defer deadline.Stop()
	for {
		select {
		case done := <-w:
			return done, nil
		case <-poll.C:
			now, err := s.get(ctx, r.TenantID, r.ID)
			switch {
			case err == nil && now.State.Answers():
				return now, nil
			case err == nil:
				r = now
			case errors.Is(err, context.Canceled):
				return r, context.Cause(ctx)
			case !fault.HasCode(err, fault.CodeServiceUnavailable):
				return r, err
			}
			poll.Reset(s.cfg.PollEvery)
		case <-deadline.C:
			return r, nil
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
	}
}

func (s *Service) get(ctx context.Context, tenant, id uuid.UUID) (Run, error) {
	row, err := s.q.GetRun(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetRunParams{TenantID: tenant, ID: id})
	if err != nil {
		return Run{}, fmt.Errorf("run: get: %w", err)
	}
	return s.fromRow(ctx, row)
}
