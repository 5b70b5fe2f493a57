package execution

import (
	"agentruntime/db"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// about says what an event of the execution is about.
func about(e Execution) event.About {
	return event.About{ExecutionID: e.ExecutionID, SessionID: e.SessionID, CustomerID: e.Customer}
}

// causesOf returns what an event of an approval came from.
func causesOf(e Execution, approvalID string) []event.Cause {
	causes := []event.Cause{{Type: event.CauseExecution, ID: e.ExecutionID}}
	if approvalID != "" {
		causes = append([]event.Cause{{Type: event.CauseApproval, ID: approvalID}}, causes...)
	}
	return causes
}

// actor is the Map as the one that acts.
func (e Execution) actor() actor.Actor {
	return actor.Actor{Kind: actor.Map, TenantID: e.TenantID, ID: e.MapID}
}

// recordOf returns the audit record of what happened to an approval of a step.
func recordOf(who actor.Actor, e Execution, action audit.Action, id string, outcome governance.ApprovalStatus, details map[string]any) audit.Record {
	rec := audit.Change(who, action, audit.SubjectApproval, id)
	rec.ExecutionID, rec.SessionID, rec.Outcome = e.ExecutionID, db.Optional(e.SessionID), string(outcome)
	details["approval_id"] = id
	return rec.With(details)
}

func queueRequestedEvent(b *db.Batch, key *datakey.Key, e Execution, n approval.New) {
	event.Queue(b, event.Event{TenantID: e.TenantID, Key: key, About: about(e), Causes: causesOf(e, ""), Body: event.Requested{
		ApprovalID: n.ID, Kind: string(n.Kind), Reason: n.Reason, ExpiresAt: n.ExpiresAt.UTC(), Args: n.Args,
	}})
	if n.Edited == nil {
		event.Queue(b, event.Event{TenantID: e.TenantID, Key: key, About: about(e), Causes: causesOf(e, n.ID), Body: event.Escalated{
			Kind: "approval", Reason: n.Reason, ApprovalID: n.ID, ExpiresAt: n.ExpiresAt.UTC(),
		}})
	}
}

func queueDecidedEvent(b *db.Batch, key *datakey.Key, e Execution, d event.Decided) {
	event.Queue(b, event.Event{TenantID: e.TenantID, Key: key, About: about(e), Causes: causesOf(e, d.ApprovalID), Body: d})
}
