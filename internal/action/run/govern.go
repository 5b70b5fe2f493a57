package run

import (
	"context"
	"fmt"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/approval"
)

// prepared is a run with its verb and the verdict about the call.
type prepared struct {
	run     Run
	target  Target
	verdict governance.Verdict
	// stopped is the kill switch that covers the call; nil where none does.
	stopped *governance.KillSwitch
	// calls is what is recorded of the provider with the outcome of the attempt; nil where there
	// is nothing.
	calls *callReport
	// edit says who edited the arguments; nil where no approver did.
	edit *approval.Edit
	// read is what the run was judged by.
	read claimedRun
	// later: the call is judged again before it is sent, with its look-ups.
	later bool
}

// next is what follows for a run: exactly one of its fields is set.
type next struct {
	// send is the run for the send step: it may be sent, or may have been sent already.
	send *prepared
	// step is the result of the step where the run is not to be sent.
	step flow.Step
}

func stop(step flow.Step, err error) (next, error) { return next{step: step}, err }

// Govern decides about a run as its row is now. It lets a claimed run through, holds it or
// ends it, and looks at a held run again. A run that may be sent stays claimed, also where it has
// to wait for its provider's circuit. The step can
// be repeated at any time. Where this process made the claim, Govern uses the row that the
// claim left (carry.go); otherwise it reads the row. An error means that the step should be
// repeated.
func (s *Service) Govern(ctx context.Context, ref flow.RunRef) (flow.Step, error) {
	n, err := s.admit(ctx, ref)
	if need := lookups(err); need != nil {
		// The send step makes them: they may take long.
		s.carried.addClaim(need.read)
		return flow.Step{State: StateClaimed}, nil //nolint:nilerr // the error says what the run needs
	}
	if err != nil || n.send == nil {
		return n.step, err
	}
	if n.send.run.State == StateClaimed && !n.send.run.MaybeSent {
		if step, stopped, err := s.atCircuit(ctx, *n.send); stopped || err != nil {
			return step, err
		}
		s.carried.addJudgement(*n.send)
	}
	return flow.Step{State: n.send.run.State}, nil
}

// load reads the run and its verb and judges the call. Where the row has ended or belongs
// to another attempt, there is nothing to do and mine is false.
func (s *Service) load(ctx context.Context, ref flow.RunRef) (p prepared, mine bool, err error) {
	c, err := s.claimed(ctx, ref)
	if err != nil {
		return prepared{}, false, err
	}
	r := c.run
	// A dry run has ended for its caller and may still wait for approval.
	if r.Attempt != ref.Attempt || r.State.Ended() && r.State != StateIntercepted {
		return prepared{run: r}, false, nil
	}
	t, err := s.target(ctx, c)
	if err != nil {
		return prepared{run: r}, true, err
	}
	p = prepared{run: r, target: t, read: c}
	return p, true, p.judge(ctx)
}

// judge decides about the call as it would be sent, by the policies that the target has.
func (p *prepared) judge(ctx context.Context) error {
	about := p.run.about()
	p.stopped = p.target.StoppedBy(about)
	about.LookupsLater = p.later || p.stopped != nil
	v, err := p.target.Judge(ctx, p.run.Effective(), about)
	if err != nil {
		return err
	}
	p.run.Risk, p.run.Operation = p.target.Risk(), p.target.Operation()
	p.setVerdict(v)
	return nil
}

func (p *prepared) setVerdict(v governance.Verdict) {
	p.verdict = v
	p.run.Decision, p.run.Reason, p.run.PolicyName = string(v.Decision), v.Reason, v.PolicyName
}

// target returns the verb of the run, as it was read with the row or as it is now.
func (s *Service) target(ctx context.Context, c claimedRun) (Target, error) {
	r := c.run
	if c.read == nil || s.d.Now().Sub(c.at) > readKept {
		return s.d.Targets.Target(ctx, r.TenantID, r.Verb, r.account(), r.Effective())
	}
	return s.d.Targets.TargetRead(ctx, r.TenantID, r.Verb, r.account(), r.Effective(), c.read)
}

// claimed returns the run as its claim left it in this process, otherwise as its row is, with
// what its call needs. The error is as for get.
func (s *Service) claimed(ctx context.Context, ref flow.RunRef) (claimedRun, error) {
	if c, known := s.carried.takeClaim(ref); known {
		return c, nil
	}
	b := &db.Batch{}
	row := db.Queue(b, s.q.GetRun, dbsqlc.GetRunParams{TenantID: ref.TenantID, ID: ref.RunID})
	read := db.Queue(b, s.q.TargetOfRun, dbsqlc.TargetOfRunParams{TenantID: ref.TenantID, ID: ref.RunID})
	if err := s.d.DB.Send(ctx, ref.TenantID, b); err != nil {
		return claimedRun{}, fmt.Errorf("run: get: %w", err)
	}
	r, err := s.fromRow(ctx, row.Value)
	switch {
	case err != nil:
		return claimedRun{}, err
	case r.Unreadable != nil:
		return claimedRun{}, r.unreadable()
	}
	c := claimedRun{run: r, at: s.d.Now()}
	if len(read.Value) > 0 {
		c.read = read.Value[0]
	}
	return c, nil
}

// admit reads the run and judges it.
func (s *Service) admit(ctx context.Context, ref flow.RunRef) (next, error) {
	p, mine, err := s.load(ctx, ref)
	switch {
	case isMissing(err):
		return stop(s.rowMissing(ctx, ref), nil)
	case mine && fault.HasCode(err, fault.CodeVerbNotFound):
		return stop(s.verbGone(ctx, p))
	case err != nil:
		return next{}, err
	case !mine:
		return stop(s.endedStep(ctx, p.run, ref))
	case p.run.State == StateSending, p.run.MaybeSent:
		return next{send: &p}, nil
	case p.run.State == StateClaimed && p.run.expired(s.d.Now()) && !p.waitsForLift():
		return stop(s.expire(ctx, p))
	case p.needsLookups() && p.run.ApprovalID == nil && p.cannotRun():
		return s.refuseUnlooked(ctx, p)
	case p.needsLookups():
		return next{}, &lookupsNeededError{p}
	case p.run.ApprovalID != nil:
		return s.recheck(ctx, p)
	default:
		return s.clear(ctx, p)
	}
}

// cannotRun reports whether the call would be refused whatever policies say: its arguments do not
// fit, or its provider is not connected.
func (p prepared) cannotRun() bool {
	return len(p.target.Check(p.run.Effective())) > 0 || p.target.Connected() != nil
}

// refuseUnlooked ends a call that cannot run without the look-ups that its policies ask for. No
// caller makes reads at a provider by calls that cannot run.
func (s *Service) refuseUnlooked(ctx context.Context, p prepared) (next, error) {
	p.later = true
	if err := p.judge(ctx); err != nil {
		return next{}, err
	}
	return s.clear(ctx, p)
}

// verbGone ends a run whose verb the catalog no longer has.
func (s *Service) verbGone(ctx context.Context, p prepared) (flow.Step, error) {
	if again, yes := s.underWay(p.run); yes {
		return again, nil
	}
	f := fault.New(fault.CodeVerbNotFound, "")
	if p.run.ApprovalID != nil {
		return s.closeHeld(ctx, p, closing{
			status: governance.ApprovalSuperseded, state: StateRefused, code: f.Code, message: f.Message, reason: "The verb is no longer in the catalog.",
		})
	}
	return s.unprepared(ctx, p, f)
}

// clear judges a run that waits for no approval, in this order: is it blocked, do the
// arguments fit, is the provider connected, is it a dry run of a write, is it held. A
// refusal ends the row. A kill switch blocks a call that people were not asked about; one that
// they were is held again. A step of a Map or an agent waits for the lift.
func (s *Service) clear(ctx context.Context, p prepared) (next, error) {
	if p.waitsForLift() && p.verdict.Decision != governance.Block {
		return stop(s.awaitLift(ctx, p.run))
	}
	if p.stopped != nil && !p.run.Held {
		p.setVerdict(p.stopped.Verdict())
	}
	if p.verdict.Decision == governance.Block {
		return stop(s.block(ctx, p))
	}
	if details := p.target.Check(p.run.Effective()); len(details) > 0 {
		f := fault.New(fault.CodeInvalidArgs, "")
		f.Details = details
		return stop(s.refuse(ctx, p, f))
	}
	if f := p.target.Connected(); f != nil {
		return stop(s.refuse(ctx, p, f))
	}
	switch {
	case p.run.DryRun && p.target.Operation() == verb.Write:
		return stop(s.hold(ctx, p, StateIntercepted))
	case p.run.Held, p.verdict.ApprovalRequired():
		granted := false
		if p.stopped == nil {
			var err error
			if granted, err = s.useGrant(ctx, &p); err != nil {
				return next{}, err
			}
		}
		if granted {
			return next{send: &p}, nil
		}
		return stop(s.hold(ctx, p, StatePending))
	case p.verdict.Decision == governance.Allow:
		if err := s.dropGrant(ctx, &p); err != nil {
			return next{}, err
		}
		return next{send: &p}, nil
	default:
		// A decision that this code does not know lets nothing through.
		return stop(s.block(ctx, p))
	}
}

// rowMissing returns the step for a workflow whose row is gone (a database restored from an
// older backup). It is no longer known whether the call was sent, so nothing is sent.
func (s *Service) rowMissing(ctx context.Context, ref flow.RunRef) flow.Step {
	s.d.Log.ErrorContext(ctx, "a workflow's run has no row; nothing is sent for it", "run_id", ref.RunID, "tenant_id", ref.TenantID)
	return flow.Step{State: StateOutcomeUnknown, Done: true}
}
