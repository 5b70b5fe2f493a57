package run

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// recheck returns what follows from the approval that the run has. The run may be sent, or
// must continue to wait, or it ends. Or the approval is superseded, because something that
// it is bound to has changed.
func (s *Service) recheck(ctx context.Context, p prepared) (next, error) {
	a, keyRevoked, err := s.readApproval(ctx, p.run)
	if err != nil {
		return next{}, err
	}
	if a.Status != governance.ApprovalPending && (a.Status != governance.ApprovalApproved || p.run.State != StateClaimed) {
		// The run may have been read before the approval was decided.
		moved, err := s.moved(ctx, p.run)
		switch {
		case err != nil:
			return next{}, err
		case moved:
			return s.admit(ctx, p.run.ref())
		}
	}
	if a.Status != governance.ApprovalPending && a.Status != governance.ApprovalApproved {
		// The end of the approval was recorded together with the run's.
		return stop(flow.Step{State: p.run.State, Done: true}, nil)
	}
	if keyRevoked {
		f := fault.New(fault.CodeAPIKeyRevoked, "")
		return stop(s.closeHeld(ctx, p, closing{
			status: governance.ApprovalCancelled, state: StateRefused, code: f.Code, message: f.Message,
			reason: "The API key that asked for the call was revoked.",
		}))
	}
	if why := p.drift(a); why != "" {
		return s.supersede(ctx, p, a.ID, why)
	}
	_, enough := a.Tally()
	switch {
	case a.Status == governance.ApprovalApproved && p.run.State == StateClaimed && enough && p.stopped != nil:
		return stop(s.switchedOff(p.run), nil)
	case a.Status == governance.ApprovalApproved && p.run.State == StateClaimed && enough:
		return next{send: &p}, nil
	case a.Status == governance.ApprovalApproved:
		return s.supersede(ctx, p, a.ID, "A user who approved may no longer approve.")
	case s.d.Now().Before(a.ExpiresAt):
		return stop(s.waiting(p.run, a.ID, a.Asking), nil)
	}
	return stop(s.timeOut(ctx, p, a))
}

// moved reports whether the held run's row has changed since it was read.
func (s *Service) moved(ctx context.Context, r Run) (bool, error) {
	now, err := s.glance(ctx, r.TenantID, r.ID)
	if err != nil {
		return false, err
	}
	return now.State != r.State || now.Attempt != r.Attempt || now.ApprovalID == nil || *now.ApprovalID != *r.ApprovalID, nil
}

// readApproval reads the approval that the run has, and whether its key was revoked.
func (s *Service) readApproval(ctx context.Context, r Run) (a approval.Asked, keyRevoked bool, err error) {
	b := &db.Batch{}
	reading := approval.QueueRead(b, r.TenantID, *r.ApprovalID)
	revoked := &db.Answer[bool]{}
	if r.KeyID != nil {
		revoked = db.Queue(b, s.q.KeyRevoked, dbsqlc.KeyRevokedParams{TenantID: r.TenantID, KeyID: *r.KeyID})
	}
	if err := s.d.DB.Send(ctx, r.TenantID, b); err != nil {
		return approval.Asked{}, false, fmt.Errorf("run: read the approval: %w", err)
	}
	a, err = reading.Asked()
	return a, revoked.Value, err
}

// drift returns which binding of the approval no longer matches the call, or "".
func (p prepared) drift(a approval.Asked) string {
	switch why := p.rebuilt(a.Bound); {
	case why != "":
		return why
	case len(p.verdict.Lookups) > 0:
		return "" // the policies are asked again when the call is sent, with its look-ups
	case p.verdict.Decision == governance.Block:
		return "The call is blocked now: " + p.verdict.Reason
	case !slices.EqualFunc(p.requirements(), a.Requirements, sameRequirement):
		return "The policies that hold the call are not the ones that were asked by: one has changed, or its conditions are no longer met."
	}
	return ""
}

// rebuilt returns why the request, or what a repeat of it does, would differ from what the
// approval is about, or "".
func (p prepared) rebuilt(bound approval.Binding) string {
	switch {
	case !p.sameCall(bound.CallHash):
		return "The call is not the one that was asked about."
	case !bytes.Equal(p.target.SchemaHash(), bound.SchemaHash):
		return "The verb has changed: its schema, or the request that is made of it."
	case p.target.Risk() != bound.Risk:
		return fmt.Sprintf("The verb has changed: its risk level was %s and is %s now.", bound.Risk, p.target.Risk())
	case bound.Operation != "" && p.target.Operation() != bound.Operation:
		return fmt.Sprintf("The verb has changed: its operation type was %s and is %s now.", bound.Operation, p.target.Operation())
	case bound.Idempotency != "" && p.target.Idempotency() != bound.Idempotency:
		return fmt.Sprintf("The verb has changed: its idempotency was %s and is %s now.", bound.Idempotency, p.target.Idempotency())
	case p.target.Connected() != nil, !sameID(p.target.CredentialID(), bound.CredentialID):
		return "The provider's credential has changed."
	}
	return ""
}

func sameID(a, b *uuid.UUID) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func sameRequirement(a, b governance.Requirement) bool {
	return sameID(a.PolicyID, b.PolicyID) && a.Version == b.Version
}

// supersede closes an approval that no longer matches the call, and judges the call again.
func (s *Service) supersede(ctx context.Context, p prepared, id, why string) (next, error) {
	b := &db.Batch{}
	changed := db.Queue(b, s.q.ReleaseRun, p.releaseParams(nil, s.d.Now()))
	s.requireChanged(b, p.run)
	approval.Close(b, p.run.TenantID, id, approval.Closing{Status: governance.ApprovalSuperseded, Reason: why})
	p.noteApproval(b, audit.ApprovalSuperseded, id, string(governance.ApprovalSuperseded), map[string]any{"reason": why})
	p.run.emitDecided(b, event.Decided{ApprovalID: id, Status: string(governance.ApprovalSuperseded), Reason: why})
	failpoint.Hit("before_supersede", p.run.ID)
	done, found, err := s.apply(ctx, p.run, b, changed)
	failpoint.Hit("after_supersede", p.run.ID)
	switch {
	case err != nil:
		return next{}, err
	case !found:
		return stop(s.movedOn(ctx, p.run.ref()))
	}
	looked := p.run.State != StateClaimed && (p.run.lookups != nil || len(p.verdict.Lookups) > 0)
	p.run.State, p.run.ApprovalID, p.run.Held, p.run.GiveUpAt, p.run.ExpiresAt = done.State, nil, done.Held, done.GiveUpAt, done.ExpiresAt
	if looked { // what was looked up before the hold no longer counts
		p.run.lookups = nil
		p.read = claimedRun{run: p.run, at: s.d.Now()}
		if err := p.judge(ctx); err != nil {
			return next{}, err
		}
		if p.needsLookups() {
			return next{}, &lookupsNeededError{p}
		}
	}
	return s.clear(ctx, p)
}

// releaseParams make the run claimed again, with the approval that released it, or without
// one where it is judged again. Nobody waits for its answer.
func (p prepared) releaseParams(approvalID *string, now time.Time) dbsqlc.ReleaseRunParams {
	expires := p.run.renewed(now)
	var sent []byte
	if p.run.EditedArgs != nil {
		// They were judged, so they can be read.
		sent, _ = fingerprint(p.run.key, p.run.Verb, p.run.EditedArgs, p.run.DryRun)
	}
	return dbsqlc.ReleaseRunParams{
		SentFingerprint: sent,
		ApprovalID:      approvalID, GiveUpAt: now, ExpiresAt: &expires, TenantID: p.run.TenantID, ID: p.run.ID, Attempt: p.run.Attempt,
		EditedArgs: p.run.sealOptional(datakey.RunEditedArgs, p.run.EditedArgs),
	}
}

// expiredReason is the reason of an end that nobody decided.
const expiredReason = "Nobody decided in time."

// timeOut ends an approval that was not decided in time. Where the policies escalate, it
// first asks owners and admins too, once and for the same time again.
func (s *Service) timeOut(ctx context.Context, p prepared, a approval.Asked) (flow.Step, error) {
	timeout, onTimeout, _ := governance.MergedRule(a.Requirements)
	if onTimeout != governance.OnTimeoutEscalate || a.Escalated || p.run.boundsPeople() && p.run.expired(s.d.Now()) {
		return s.closeHeld(ctx, p, closing{
			status: governance.ApprovalExpired, state: StateExpired, code: fault.CodeGovernanceBlocked,
			message: expiredReason, reason: expiredReason,
		})
	}
	until := p.run.askedUntil(s.d.Now().Add(timeout))
	err := s.d.DB.InTenant(ctx, p.run.TenantID, func(tx pgx.Tx) error {
		escalated, err := approval.Escalate(ctx, tx, p.run.TenantID, a.ID, until)
		if err != nil || !escalated {
			return err
		}
		b := &db.Batch{}
		p.noteApproval(b, audit.ApprovalEscalated, a.ID, "", map[string]any{"expires_at": until.UTC()})
		p.run.emitEscalated(b, event.Escalated{
			Kind: "approval_timeout", Reason: expiredReason + " Owners and admins may decide too.", ApprovalID: a.ID, ExpiresAt: until.UTC(),
		})
		return b.SendIn(ctx, tx)
	})
	if err != nil {
		return flow.Step{}, fmt.Errorf("run: escalate: %w", err)
	}
	a.ExpiresAt, a.Escalated = until, true
	return s.waiting(p.run, a.ID, a.Asking), nil
}

// closing is how a held run ends without being sent.
type closing struct {
	status  governance.ApprovalStatus // of the approval
	state   State                     // of the run; a dry run stays intercepted
	code    fault.Code
	message string // for the caller
	reason  string // for the people who look at the approval
}

// closeHeld ends a held run and its approval in one transaction.
func (s *Service) closeHeld(ctx context.Context, p prepared, c closing) (flow.Step, error) {
	r := p.run
	end := approval.Closing{Status: c.status, Reason: c.reason}
	if r.State == StateClaimed {
		// The run is approved and not sent yet. The decision stays, unless what it is about is gone.
		var more []func(*db.Batch)
		if c.status == governance.ApprovalSuperseded {
			more = append(more, func(b *db.Batch) { approval.Close(b, r.TenantID, *r.ApprovalID, end) })
		}
		return s.finish(ctx, p, ending{state: StateRefused, code: c.code, message: c.message}, audit.RunRefused, more...)
	}
	b := &db.Batch{}
	changed := db.Queue(b, s.q.CloseHeldRun, closeParams(r, c.state, c.code, c.message))
	s.requireChanged(b, r)
	approval.Close(b, r.TenantID, *r.ApprovalID, end)
	p.noteApproval(b, closedAction(c.status), *r.ApprovalID, string(c.status), map[string]any{"reason": c.reason})
	r.emitDecided(b, event.Decided{ApprovalID: *r.ApprovalID, Status: string(c.status), Reason: c.reason})
	failpoint.Hit("before_close", r.ID)
	done, found, err := s.apply(ctx, r, b, changed)
	failpoint.Hit("after_close", r.ID)
	if err != nil {
		return flow.Step{}, err
	}
	s.carried.forget(r.ref())
	if !found {
		return s.movedOn(ctx, r.ref())
	}
	s.ended(done)
	return flow.Step{State: done.State, Done: true}, nil
}

func closeParams(r Run, state State, code fault.Code, message string) dbsqlc.CloseHeldRunParams {
	return dbsqlc.CloseHeldRunParams{
		State: string(state), ErrorCode: string(code), ErrorMessage: message, TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt,
	}
}
