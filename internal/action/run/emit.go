package run

import (
	"context"
	"encoding/json"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/event"
)

// emit queues an event about the run into the transaction of its change. Its causes are what let
// the run through, and the execution that it is a step of.
func (r Run) emit(b *db.Batch, body event.Body, causes ...event.Cause) {
	if r.ParentID != nil {
		causes = append(causes, event.Cause{Type: event.CauseExecution, ID: *r.ParentID})
	}
	event.Queue(b, event.Event{TenantID: r.TenantID, About: r.eventAbout(), Causes: causes, Body: body, Key: r.key})
}

func (r Run) eventAbout() event.About {
	about, context := event.About{ExecutionID: r.ExecutionID, SessionID: db.Text(r.SessionID)}, r.about()
	about.CustomerID, about.AgentID = db.Text(context.Named()), db.Text(context.AgentID)
	return about
}

func (r Run) eventCall() event.Call {
	return event.Call{
		Verb: r.Verb.String(), Provider: r.Verb.Provider, RiskLevel: string(r.Risk), OperationType: string(r.Operation), DryRun: r.DryRun,
	}
}

// releasedBy returns the approval or the grant that let the run through.
func (r Run) releasedBy() (causes []event.Cause) {
	if r.ApprovalID != nil {
		causes = append(causes, event.Cause{Type: event.CauseApproval, ID: *r.ApprovalID})
	}
	if r.GrantID != nil {
		causes = append(causes, event.Cause{Type: event.CauseGrant, ID: r.GrantID.String()})
	}
	return causes
}

// emitEnd queues the event of an end, where there is one for it. A call that was refused before
// it was sent has one only where people decided about it: otherwise its caller has the answer.
func (p prepared) emitEnd(b *db.Batch, e ending, now time.Time) {
	p.emitEndWith(b, e, p.maskResult(e.result), now)
}

// emitEndWith is emitEnd with a result that is masked already.
func (p prepared) emitEndWith(b *db.Batch, e ending, result json.RawMessage, now time.Time) {
	r := p.run
	out := event.Outcome{
		Call: r.eventCall(), Attempt: int(r.Attempt), DurationMS: max(0, now.Sub(r.CreatedAt)).Milliseconds(), ProviderStatus: e.status,
		ApprovalID: db.Text(r.ApprovalID), Result: result, Resolved: e.resolved,
	}
	if e.code != "" {
		out.Error = &event.Problem{Code: string(e.code), Message: saying(e.message, e.words)}
	}
	if e.note.Error != nil {
		out.ResultError = &event.Problem{Code: e.note.Error.Code, Message: e.note.Error.Message}
	}
	switch e.state {
	case StateExecuted:
		r.emit(b, event.Executed{Outcome: out}, r.releasedBy()...)
	case StateFailed:
		r.emit(b, event.Failed{Outcome: out}, r.releasedBy()...)
	case StateOutcomeUnknown:
		r.emit(b, event.Unknown{Outcome: out}, r.releasedBy()...)
	case StateBlocked:
		r.emit(b, event.Blocked{
			Call: r.eventCall(), ApprovalID: db.Text(e.approvalID), PolicyName: r.PolicyName, Reason: r.Reason, Args: p.maskArgs(),
		})
	case StateRefused:
		if r.ApprovalID != nil {
			r.emit(b, event.Failed{Outcome: out}, r.releasedBy()...)
		}
	case StateClaimed, StateSending, StatePending, StateIntercepted, StateRejected, StateExpired, StateCancelled:
	}
}

// emitResolved queues the event of an outcome that a person found out. The result is what they
// wrote, so it is masked as those are that a provider wrote.
func (s *Service) emitResolved(ctx context.Context, b *db.Batch, r Run, p dbsqlc.ResolveRunParams, result json.RawMessage) {
	e := ending{state: State(p.State), code: fault.Code(p.ErrorCode), message: p.ErrorMessage, status: r.ProviderStatus, resolved: true}
	if len(result) < event.MostBytes {
		result = s.d.Targets.Mask(ctx, r.TenantID, r.Verb, Texts{Result: result}).Result
	}
	prepared{run: r}.emitEndWith(b, e, result, s.d.Now())
}

// emitAsked queues the events of a run that begins to wait for people.
func (p prepared) emitAsked(b *db.Batch, a approval.New) {
	p.emitRequested(b, a)
	if a.Kind == governance.ApprovalOfHold {
		p.run.emitEscalated(b, event.Escalated{Kind: "approval", Reason: p.run.Reason, ApprovalID: a.ID, ExpiresAt: a.ExpiresAt.UTC()})
	}
}

// emitRequested queues the event of an approval that people are asked for.
func (p prepared) emitRequested(b *db.Batch, a approval.New) {
	r := p.run
	r.emit(b, event.Requested{
		ApprovalID: a.ID, Kind: string(a.Kind), Call: r.eventCall(), PolicyName: r.PolicyName, Reason: r.Reason, ExpiresAt: a.ExpiresAt.UTC(), Args: a.Args,
	}, event.Cause{Type: event.CauseExecution, ID: r.ExecutionID})
}

func (r Run) emitEscalated(b *db.Batch, e event.Escalated) {
	e.Verb = r.Verb.String()
	r.emit(b, e, event.Cause{Type: event.CauseApproval, ID: e.ApprovalID}, event.Cause{Type: event.CauseExecution, ID: r.ExecutionID})
}

// emitDecided queues the event of an approval of the run that ended.
func (r Run) emitDecided(b *db.Batch, e event.Decided) {
	e.Verb, e.Provider = r.Verb.String(), r.Verb.Provider
	r.emit(b, e, event.Cause{Type: event.CauseApproval, ID: e.ApprovalID}, event.Cause{Type: event.CauseExecution, ID: r.ExecutionID})
}

// emit queues the event of the approval's end.
func (d *deciding) emit(b *db.Batch, status governance.ApprovalStatus, reason string) {
	d.p.run.emitDecided(b, event.Decided{
		ApprovalID: d.Asked.ID, Status: string(status), DecidedBy: d.Decision.By.String(), Reason: reason, Edited: status == governance.ApprovalSuperseded,
	})
}

// maskArgs returns the arguments as others than the caller may see them, nil where they are not
// known.
func (p prepared) maskArgs() json.RawMessage {
	if p.target == nil {
		return nil
	}
	return p.target.Mask(p.run.Effective())
}

// maskResult returns a result as others than the caller may see it. What is too large for an
// event stays as it is, because the event leaves it out.
func (p prepared) maskResult(result json.RawMessage) json.RawMessage {
	if p.target == nil {
		return nil
	}
	if result == nil || len(result) >= event.MostBytes {
		return result
	}
	return p.target.MaskResult(result)
}
