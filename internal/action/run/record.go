package run

import (
	"encoding/json"

	"agentruntime/db"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/record/audit"
)

// endedAction returns the audit action of a run that ended in the state after it was marked
// as sending.
func endedAction(s State) audit.Action {
	switch s {
	case StateExecuted:
		return audit.RunExecuted
	case StateFailed:
		return audit.RunFailed
	case StateOutcomeUnknown:
		return audit.RunOutcomeUnknown
	default:
		return audit.RunRefused
	}
}

// closedAction returns the audit action of an approval that was closed with the status and
// without a decision.
func closedAction(status governance.ApprovalStatus) audit.Action {
	switch status {
	case governance.ApprovalSuperseded:
		return audit.ApprovalSuperseded
	case governance.ApprovalExpired:
		return audit.ApprovalExpired
	default:
		return audit.ApprovalCancelled
	}
}

// record returns an audit record about the run, to be completed by the caller.
func (p prepared) record(action audit.Action) audit.Record {
	r := p.run
	rec := audit.Record{
		TenantID: r.TenantID, ActorType: actor.Workflow, ActorID: r.ID.String(), Action: action,
		Provider: r.Verb.Provider, Verb: r.Verb.Verb, RiskLevel: string(r.Risk), Decision: r.Decision,
		ExecutionID: r.ExecutionID, SessionID: r.SessionID, RequestID: r.RequestID, SourceAddr: r.SourceAddr,
	}
	switch { // a step acts for the starter of its execution
	case r.KeyID != nil:
		rec.ActorType, rec.ActorID = actor.Key, r.KeyID.String()
	case r.UserID != nil:
		rec.ActorType, rec.ActorID = actor.User, r.UserID.String()
	case r.AgentID != nil:
		rec.ActorType, rec.ActorID = actor.Agent, r.AgentID.String()
	}
	if p.target != nil {
		rec.Input = p.target.Mask(r.Effective())
	}
	return rec
}

// note queues the audit record of what the run's workflow did with the run.
func (p prepared) note(b *db.Batch, action audit.Action, outcome string, details json.RawMessage) {
	rec := p.record(action)
	rec.Outcome, rec.Details = outcome, details
	audit.Queue(b, rec)
}

// noteApproval queues the audit record of what the service itself did with the run's
// approval.
func (p prepared) noteApproval(b *db.Batch, action audit.Action, id, outcome string, details map[string]any) {
	audit.Queue(b, p.approvalRecord(action, id, outcome, details))
}

func (p prepared) approvalRecord(action audit.Action, id, outcome string, details map[string]any) audit.Record {
	rec := p.record(action)
	rec.ActorType, rec.ActorID = actor.System, ""
	rec.Outcome, rec.SubjectType, rec.SubjectID = outcome, audit.SubjectApproval, id
	details["approval_id"] = id
	rec.Details = mustJSON(details)
	return rec
}

// endDetails returns how a run ended, without the provider's answer. Of a blocked run they
// name the policies too: no other record does.
func (p prepared) endDetails(e ending) json.RawMessage {
	d := map[string]any{}
	if e.code != "" {
		d["code"], d["message"] = e.code, e.message
	}
	if e.status != 0 {
		d["provider_status"] = e.status
	}
	if e.note.Error != nil {
		d["result_error"] = e.note.Error.Code
	}
	if e.approvalID != nil {
		d["approval_id"] = *e.approvalID
	}
	if e.state == StateBlocked {
		return p.explained(d)
	}
	return mustJSON(d)
}
