package run

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/audit"
	"agentruntime/internal/fault"
	"agentruntime/internal/governance"
	"agentruntime/internal/verb"
)

// preparedRuns carries what one step has read over to the next, which nearly always
// follows in the same process within milliseconds: the claim's row to Govern where API
// and worker share a process, and the row with its verb from Govern to Send. What is
// carried may be stale; every step that writes asks the row itself for its state.
// Losing an entry costs a read.
type preparedRuns struct{ cache *lru.Cache[Ref, prepared] }

type prepared struct {
	run     Run
	target  Target
	verdict governance.Verdict
}

// preparedSize is above the number of runs that one worker has in flight;
// preparedArgs, in bytes, keeps what is carried from growing with their arguments.
const (
	preparedSize = 2048
	preparedArgs = 32 << 10
)

func newPreparedRuns() *preparedRuns {
	cache, err := lru.New[Ref, prepared](preparedSize)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &preparedRuns{cache: cache}
}

func (p *preparedRuns) add(what prepared) {
	if len(what.run.Args) <= preparedArgs {
		p.cache.Add(what.run.ref(), what)
	}
}

// load reads the run and its verb and judges the call. mine is false where the row
// has ended or belongs to another attempt: then there is nothing to do.
func (s *Service) load(ctx context.Context, ref Ref) (p prepared, mine bool, err error) {
	r, err := s.claimed(ctx, ref)
	if err != nil {
		return prepared{}, false, err
	}
	if r.Attempt != ref.Attempt || r.State.Ended() {
		return prepared{run: r}, false, nil
	}
	t, err := s.Targets.Target(ctx, ref.TenantID, r.Verb)
	if err != nil {
		return prepared{run: r}, true, err
	}
	v := t.Judge(r.Args, contextOf(r.Metadata))
	r.Risk, r.Operation = t.Risk(), t.Operation()
	r.Decision, r.Reason, r.PolicyName = string(v.Decision), v.Reason, v.PolicyName
	return prepared{run: r, target: t, verdict: v}, true, nil
}

// claimed returns the run as its claim left it in this process, else as it stands.
func (s *Service) claimed(ctx context.Context, ref Ref) (Run, error) {
	if p, known := s.prepared.cache.Get(ref); known && p.target == nil {
		// Once only: a step that is repeated looks at the row.
		s.prepared.cache.Remove(ref)
		return p.run, nil
	}
	return s.get(ctx, ref.TenantID, ref.ID)
}

// Govern decides about a claimed run, in this order: is the verb known, is it
// blocked, do the arguments fit, is the provider connected, is it a dry run of a
// write. A refusal ends the row; a go leaves it claimed.
func (s *Service) Govern(ctx context.Context, ref Ref) (Step, error) {
	p, mine, err := s.load(ctx, ref)
	if mine && fault.HasCode(err, fault.CodeVerbNotFound) {
		return s.unprepared(ctx, p, fault.As(err))
	}
	if err != nil {
		if isMissing(err) {
			return s.rowMissing(ctx, ref)
		}
		return Step{}, err
	}
	if !mine {
		return Step{State: p.run.State, Done: true}, nil
	}
	if p.run.State == StateSending || p.run.MaybeSent {
		// A crash repeats this step after the send had begun: the send step knows what to do.
		return Step{State: p.run.State}, nil
	}
	if p.verdict.Decision != governance.Allow {
		return s.block(ctx, p)
	}
	if details := p.target.Check(p.run.Args); len(details) > 0 {
		f := fault.New(fault.CodeInvalidArgs, "")
		f.Details = details
		return s.refuse(ctx, p, f)
	}
	if f := p.target.Connected(); f != nil {
		return s.refuse(ctx, p, f)
	}
	if p.run.DryRun && p.target.Operation() == verb.Write {
		return s.intercept(ctx, p)
	}
	s.prepared.add(p)
	return Step{State: StateClaimed}, nil
}

// rowMissing answers for a workflow whose row is gone (a database restored from an
// older backup). Whether the call was sent cannot be known any more, so nothing is.
func (s *Service) rowMissing(ctx context.Context, ref Ref) (Step, error) {
	s.Log.ErrorContext(ctx, "a workflow's run has no row; nothing is sent for it", "run_id", ref.ID, "tenant_id", ref.TenantID)
	return Step{State: StateOutcomeUnknown, Done: true}, nil
}

// block ends the run as blocked, with a closed approval record that says why.
func (s *Service) block(ctx context.Context, p prepared) (Step, error) {
	return s.recordApproval(ctx, p, approvalBlocked, ending{state: StateBlocked, code: fault.CodeGovernanceBlocked, message: p.verdict.Reason}, "run.blocked")
}

// intercept ends a dry run of a write with the request that would have been sent.
func (s *Service) intercept(ctx context.Context, p prepared) (Step, error) {
	call, err := p.target.Prepare(ctx, p.run.Args)
	if f := fault.As(err); f != nil && f.Code != fault.CodeServiceUnavailable {
		return s.refuse(ctx, p, f)
	}
	if err != nil {
		return Step{}, err
	}
	return s.recordApproval(ctx, p, approvalPending, ending{state: StateIntercepted, result: call.Preview(p.run.Args)}, "run.intercepted")
}

// Statuses of an approval record.
const (
	approvalBlocked = "blocked"
	approvalPending = "pending"
)

// approvalLife is how long a pending approval waits (docs/governance.md).
const approvalLife = 24 * time.Hour

func (s *Service) recordApproval(ctx context.Context, p prepared, status string, e ending, action string) (Step, error) {
	id := "appr_" + uuid.Must(uuid.NewV7()).String()
	e.approvalID = &id
	a := dbsqlc.InsertApprovalParams{
		ID: id, TenantID: p.run.TenantID, RunID: p.run.ID, ExecutionID: p.run.ExecutionID, Status: status,
		Provider: p.run.Verb.Provider, Verb: p.run.Verb.Verb, Args: string(p.target.Mask(p.run.Args)),
		RiskLevel: string(p.run.Risk), PolicyName: p.run.PolicyName, Reason: p.run.Reason, Requester: p.run.KeyID,
	}
	if status == approvalPending {
		expires := s.Now().Add(approvalLife)
		a.ExpiresAt = &expires
	}
	return s.finish(ctx, p, e, action, func(b *pgx.Batch) {
		b.Queue(dbsqlc.InsertApproval, a.ID, a.TenantID, a.RunID, a.ExecutionID, a.Status, a.Provider, a.Verb, a.Args,
			a.RiskLevel, a.PolicyName, a.Reason, a.Requester, a.ExpiresAt)
	})
}

// refuse ends the run before anything was sent; its id may be used again.
func (s *Service) refuse(ctx context.Context, p prepared, f *fault.Error) (Step, error) {
	return s.finish(ctx, p, ending{state: StateRefused, code: f.Code, message: f.Message, details: f.Details}, "run.refused")
}

// ending is how a run ends.
type ending struct {
	state      State
	result     json.RawMessage
	status     int // the provider's
	code       fault.Code
	message    string
	details    []fault.Detail
	retryable  bool
	retryAfter time.Duration
	approvalID *string
	// fromSending: a refusal of a call that had moved to sending and had no effect.
	fromSending bool
}

// finish commits the end of the run, its audit record and what more belongs to it
// in one transaction and round trip, then tells those who wait. A row that another
// attempt or a human ended meanwhile is left as it is.
func (s *Service) finish(ctx context.Context, p prepared, e ending, action string, more ...func(*pgx.Batch)) (Step, error) {
	f := finishParams(p.run, e)
	b := &pgx.Batch{}
	b.Queue(dbsqlc.FinishRun, f.State, f.Result, f.ProviderStatus, f.ErrorCode, f.ErrorMessage, f.ErrorDetails, f.Retryable,
		f.RetryAfterMs, f.ApprovalID, f.RiskLevel, f.OperationType, f.Decision, f.PolicyName, f.Reason, f.TenantID, f.ID,
		f.Attempt, f.FromStates)
	b.Queue(dbsqlc.RequireRunChanged, f.TenantID, f.ID)
	for _, queue := range more {
		queue(b)
	}
	rec := p.record(action)
	rec.Outcome = string(e.state)
	rec.Details = auditDetails(e)
	audit.Queue(b, rec)
	var done Run
	var found bool
	err := s.DB.Batch(ctx, p.run.TenantID, b, func(res pgx.BatchResults) error {
		var err error
		if done, found, err = oneRow(res); err != nil {
			return err
		}
		if !found {
			return errNotOurs
		}
		return nil
	})
	if err != nil && !isNotOurs(err) {
		return Step{}, fmt.Errorf("run: finish: %w", err)
	}
	s.prepared.cache.Remove(p.run.ref())
	if !found {
		return Step{State: p.run.State, Done: true}, nil
	}
	s.ended(done)
	return Step{State: done.State, Done: true}, nil
}
