package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/dev/failpoint"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/verb"
)

// Caller is who asks for a run.
type Caller struct {
	TenantID   uuid.UUID
	KeyID      uuid.UUID
	RequestID  string
	SourceAddr string
}

// Request asks for one run.
type Request struct {
	Verb string
	Args json.RawMessage
	// ExecutionID and IdempotencyKey are the caller's; either may be empty.
	ExecutionID    string
	IdempotencyKey string
	// KeyByHeader: IdempotencyKey came by the Idempotency-Key header, whose repeats
	// with other arguments are refused.
	KeyByHeader bool
	SessionID   string
	Metadata    json.RawMessage
	DryRun      bool
	// Wait is how long to wait for the run's end; nil means the default.
	Wait *time.Duration
}

// Outcome is the answer to a request: the run, and how this call relates to it.
type Outcome struct {
	Run Run
	// Cached: another call ran it, this one only reads.
	Cached bool
	// ArgsDiffer names the argument paths in which this call departs from the one
	// that ran; "" where it does not.
	ArgsDiffer string
}

// outcomes of claim_run, see the migration that defines it.
const (
	claimFresh       = "fresh"
	claimReclaimed   = "reclaimed"
	claimExisting    = "existing"
	claimMismatch    = "mismatch"
	claimConflict    = "conflict"
	claimUnknownVerb = "unknown_verb"
)

// startLimit bounds one attempt to reach the workflow engine.
const startLimit = 10 * time.Second

// Do claims the run and waits for its end, at most req.Wait. A run that a call
// before this one claimed is waited for and read, never executed again. Refusals
// are faults; the run itself may have ended in any state, see Run.Fault.
func (s *Service) Do(ctx context.Context, who Caller, req Request) (Outcome, error) {
	name, err := verb.Parse(req.Verb)
	if err != nil {
		return Outcome{}, err
	}
	print, err := fingerprint(name, req.Args, req.DryRun)
	if err != nil {
		return Outcome{}, err
	}
	began := s.Now()
	wait := s.cfg.DefaultWait
	if req.Wait != nil {
		wait = min(*req.Wait, s.cfg.MaxWait)
	}
	id := uuid.Must(uuid.NewV7())
	p := s.claimParams(who, req, name, id, print, began.Add(wait))
	// Waiting begins before the claim: its end cannot be missed.
	waiter := s.hub.join(id)
	defer s.hub.leave(id, waiter)
	outcome, r, err := s.claim(ctx, p)
	if err != nil {
		return Outcome{}, err
	}
	switch outcome {
	case claimUnknownVerb:
		return Outcome{}, fault.New(fault.CodeVerbNotFound, "No such verb in your catalog. GET /v1/runtime/actions/catalog lists what there is.")
	case claimConflict:
		return Outcome{}, fault.New(fault.CodeIdempotencyConflict, "")
	case claimMismatch:
		return Outcome{}, reused(r, "another verb, or a dry run against a real one")
	case claimFresh:
		failpoint.Hit("after_claim")
		r, err = s.startAndWait(ctx, r, waiter, began.Add(wait))
		return Outcome{Run: r}, err
	}
	if r.ID != id {
		s.hub.leave(id, waiter)
		id = r.ID
		waiter = s.hub.join(id)
		defer s.hub.leave(id, waiter)
	}
	if outcome == claimReclaimed {
		r, err = s.startAndWait(ctx, r, waiter, began.Add(wait))
		return Outcome{Run: r}, err
	}
	differ := argsDiffer(r, req.Args, print)
	if differ != "" && req.KeyByHeader {
		return Outcome{}, reused(r, "other arguments ("+differ+")")
	}
	if !r.State.Answers() {
		s.startAgain(ctx, r)
		r, err = s.await(ctx, r, waiter, began.Add(wait))
	}
	return Outcome{Run: r, Cached: true, ArgsDiffer: differ}, err
}

func reused(r Run, how string) error {
	f := fault.Newf(fault.CodeIdempotencyKeyReused, "This id was used before for %s. Nothing ran.", how)
	f.ExecutionID = r.ExecutionID
	return f
}

func (s *Service) claimParams(who Caller, req Request, name verb.Name, id uuid.UUID, print []byte, giveUp time.Time) dbsqlc.ClaimRunParams {
	var keys []string
	for _, k := range []string{req.ExecutionID, req.IdempotencyKey} {
		if k != "" && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	execution := req.ExecutionID
	if execution == "" {
		execution = "exec_" + id.String()
	}
	if len(keys) == 0 {
		keys = []string{execution}
	}
	p := dbsqlc.ClaimRunParams{
		TenantID: who.TenantID, RunID: id, ExecutionID: execution, Keys: keys, Provider: name.Provider, Verb: name.Verb,
		Args: string(req.Args), Fingerprint: print, DryRun: req.DryRun, Metadata: req.Metadata, KeyID: &who.KeyID,
		RequestID: who.RequestID, SourceAddr: who.SourceAddr, GiveUpAt: giveUp,
	}
	if req.SessionID != "" {
		p.SessionID = &req.SessionID
	}
	return p
}

// claim asks the fence and reads the run that the keys name: one round trip.
func (s *Service) claim(ctx context.Context, p dbsqlc.ClaimRunParams) (outcome string, r Run, err error) {
	b := &pgx.Batch{}
	// In the order of dbsqlc.ClaimRunParams.
	b.Queue(dbsqlc.ClaimRun, p.Keys, p.Provider, p.Verb, p.DryRun, p.TenantID, p.RunID, p.ExecutionID, p.Args,
		p.Fingerprint, p.SessionID, p.Metadata, p.KeyID, p.RequestID, p.SourceAddr, p.GiveUpAt)
	b.Queue(dbsqlc.RunByKey, p.TenantID, p.Keys[0])
	err = s.DB.Batch(ctx, p.TenantID, b, func(res pgx.BatchResults) error {
		if err := res.QueryRow().Scan(&outcome); err != nil {
			return fmt.Errorf("run: claim: %w", err)
		}
		var err error
		r, _, err = oneRow(res)
		return err
	})
	return outcome, r, err
}

// startAndWait has the workflow started and waits for the row to end. The start is
// not tied to the caller: one who goes away does not take the run with him.
func (s *Service) startAndWait(ctx context.Context, r Run, w waiter, until time.Time) (Run, error) {
	if s.cfg.OneProcess {
		s.prepared.add(prepared{run: r})
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
		// The claim stands: the sweeper or a repeat of the call starts it.
		s.Log.WarnContext(ctx, "workflow not started", "run_id", r.ID, "error", err)
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
	return s.Engine.StartRun(ctx, r.ref(), r.ClaimKey, flow.RunSummary(r.Verb.String(), string(r.Risk)))
}

// graceForStarter is how long a claim may be without a workflow while its caller's
// process is still at it.
const graceForStarter = time.Second

// startAgain repairs a claim whose process died before it started the workflow. A
// start that was made is told apart by the engine, so a needless one does nothing.
func (s *Service) startAgain(ctx context.Context, r Run) {
	if r.State != StateClaimed || s.Now().Sub(r.UpdatedAt) < graceForStarter {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
		defer cancel()
		if err := s.start(ctx, r); err != nil {
			s.Log.WarnContext(ctx, "workflow not started", "run_id", r.ID, "error", err)
		}
	}()
}

// await waits for the end of the run: by notice, and by looking at the row every
// now and then in case the notice was lost. When the time is up it returns the run
// as it stands.
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
	row, err := dbsqlc.New().GetRun(ctx, s.DB.Tenant(tenant), dbsqlc.GetRunParams{TenantID: tenant, ID: id})
	if err != nil {
		return Run{}, fmt.Errorf("run: get: %w", err)
	}
	return fromRow(row), nil
}
