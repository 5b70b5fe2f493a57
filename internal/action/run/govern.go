package run

import (
	"context"
	"encoding/json"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/record/audit"
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
	// editedFrom is set where an approver's edit asks anew.
	editedFrom *editedFrom
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
	// A dry run has ended for its caller and may still wait for a human.
	if r.Attempt != ref.Attempt || r.State.Ended() && r.State != StateIntercepted {
		return prepared{run: r}, false, nil
	}
	t, err := s.Targets.Target(ctx, ref.TenantID, r.Verb)
	if err != nil {
		return prepared{run: r}, true, err
	}
	p = prepared{run: r, target: t}
	p.judge()
	return p, true, nil
}

// judge decides about the call as it would be sent, by the policies as the target has them.
func (p *prepared) judge() {
	v := p.target.Judge(p.run.Effective(), governance.ContextOf(p.run.Metadata))
	p.verdict = v
	p.run.Risk, p.run.Operation = p.target.Risk(), p.target.Operation()
	p.run.Decision, p.run.Reason, p.run.PolicyName = string(v.Decision), v.Reason, v.PolicyName
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

// Govern decides about a run as its row stands: a claimed one is let through, held or
// ended, a held one is looked at again. It can be repeated at any time. A go leaves the
// row claimed.
func (s *Service) Govern(ctx context.Context, ref Ref) (Step, error) {
	p, step, cleared, err := s.admit(ctx, ref)
	if !cleared {
		return step, err
	}
	if p.run.State == StateClaimed && !p.run.MaybeSent {
		s.prepared.add(p)
	}
	return Step{State: p.run.State}, nil
}

// admit reads the run and judges it. cleared is true where it may be sent, or may have
// been and the send step has to look; else the step says what came of it.
func (s *Service) admit(ctx context.Context, ref Ref) (p prepared, step Step, cleared bool, err error) {
	p, mine, err := s.load(ctx, ref)
	switch {
	case isMissing(err):
		step, err = s.rowMissing(ctx, ref), nil
	case mine && fault.HasCode(err, fault.CodeVerbNotFound):
		step, err = s.verbGone(ctx, p)
	case err != nil:
	case !mine:
		step = Step{State: p.run.State, Done: true}
	case p.run.State == StateSending, p.run.MaybeSent:
		return p, step, true, nil
	case p.run.ApprovalID != nil:
		return s.lookAtHeld(ctx, p)
	default:
		return s.clear(ctx, p)
	}
	return p, step, false, err
}

// verbGone ends a run whose verb the catalog no longer has.
func (s *Service) verbGone(ctx context.Context, p prepared) (Step, error) {
	if again, yes := s.underWay(p.run); yes {
		return again, nil
	}
	f := fault.New(fault.CodeVerbNotFound, "")
	if p.run.ApprovalID != nil {
		return s.closeHeld(ctx, p, closing{
			status: approvalSuperseded, state: StateRefused, code: f.Code, message: f.Message, reason: "The verb is no longer in the catalog.",
		})
	}
	return s.unprepared(ctx, p, f)
}

// clear judges a run that waits for nobody, in this order: is it blocked, do the
// arguments fit, is the provider connected, is it held, is it a dry run of a write. A
// refusal ends the row.
func (s *Service) clear(ctx context.Context, p prepared) (_ prepared, step Step, cleared bool, err error) {
	if p.verdict.Decision == governance.Block {
		step, err = s.block(ctx, p)
		return p, step, false, err
	}
	if details := p.target.Check(p.run.Effective()); len(details) > 0 {
		f := fault.New(fault.CodeInvalidArgs, "")
		f.Details = details
		step, err = s.refuse(ctx, p, f)
		return p, step, false, err
	}
	if f := p.target.Connected(); f != nil {
		step, err = s.refuse(ctx, p, f)
		return p, step, false, err
	}
	switch {
	case p.run.DryRun && p.target.Operation() == verb.Write:
		step, err = s.hold(ctx, p, StateIntercepted)
	case p.run.Held, p.verdict.ApprovalRequired():
		granted, err := s.useGrant(ctx, &p)
		if err != nil || granted {
			return p, step, granted, err
		}
		step, err = s.hold(ctx, p, StatePending)
		return p, step, false, err
	case p.verdict.Decision == governance.Allow:
		err = s.dropGrant(ctx, &p)
		return p, step, err == nil, err
	default:
		// A decision that this code does not know lets nothing through.
		step, err = s.block(ctx, p)
	}
	return p, step, false, err
}

// rowMissing answers for a workflow whose row is gone (a database restored from an
// older backup). Whether the call was sent cannot be known any more, so nothing is.
func (s *Service) rowMissing(ctx context.Context, ref Ref) Step {
	s.Log.ErrorContext(ctx, "a workflow's run has no row; nothing is sent for it", "run_id", ref.ID, "tenant_id", ref.TenantID)
	return Step{State: StateOutcomeUnknown, Done: true}
}

// block ends the run as blocked, with a closed approval record that says why.
func (s *Service) block(ctx context.Context, p prepared) (Step, error) {
	id := newApprovalID()
	p.run.Decision = string(governance.Block)
	a := p.approval(id, kindBlock)
	a.Status = approvalBlocked
	e := ending{state: StateBlocked, code: fault.CodeGovernanceBlocked, message: p.verdict.Reason, approvalID: &id}
	return s.finish(ctx, p, e, audit.RunBlocked, func(b *pgx.Batch) { queueApproval(b, a) }, p.queueMatches)
}

// refuse ends the run before anything was sent; its id may be used again.
func (s *Service) refuse(ctx context.Context, p prepared, f *fault.Error) (Step, error) {
	return s.finish(ctx, p, ending{state: StateRefused, code: f.Code, message: f.Message, details: f.Details}, audit.RunRefused)
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
func (s *Service) finish(ctx context.Context, p prepared, e ending, action audit.Action, more ...func(*pgx.Batch)) (Step, error) {
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
	audit.QueueRaw(b, rec)
	done, found, err := s.apply(ctx, p.run, b)
	if err != nil {
		return Step{}, err
	}
	s.prepared.cache.Remove(p.run.ref())
	if !found {
		return s.movedOn(ctx, p.run.ref())
	}
	s.ended(done)
	return Step{State: done.State, Done: true}, nil
}

// movedOn is the step of a run that somebody else changed first. One that has ended is
// done; any other goes on, and the send step looks at what it is now. A workflow that
// ended here would leave its approval to nobody.
func (s *Service) movedOn(ctx context.Context, ref Ref) (Step, error) {
	s.prepared.cache.Remove(ref)
	r, err := s.get(ctx, ref.TenantID, ref.ID)
	if err != nil {
		return Step{}, err
	}
	waits := r.State == StateIntercepted && r.ApprovalID != nil
	if r.Attempt != ref.Attempt || r.State.Ended() && !waits {
		return Step{State: r.State, Done: true}, nil
	}
	return Step{State: r.State, After: lookAgain}, nil
}
