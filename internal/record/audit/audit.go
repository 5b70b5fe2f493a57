// Package audit appends to the immutable record of every decision and state change. A
// record is queued into the transaction of its change, so that both exist or neither does.
// It also seals, lists, exports and verifies the records. Domain packages call it; it
// calls none of them.
package audit

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
)

// Record is one entry. Input must be masked before it gets here.
type Record struct {
	// ID orders records by time (UUIDv7); uuid.Nil lets the writer make it.
	ID        uuid.UUID
	TenantID  uuid.UUID
	ActorType actor.Kind
	ActorID   string
	Action    Action
	Provider  string
	Verb      string
	RiskLevel string
	Decision  string
	Outcome   string
	// SubjectType and SubjectID name what the record is about besides the run.
	SubjectType Subject
	SubjectID   string
	ExecutionID string
	SessionID   *string
	RequestID   string
	SourceAddr  string
	Input       json.RawMessage // masked arguments, nil where there are none
	Details     json.RawMessage
}

// Change starts the record of a change that who makes to a subject.
func Change(who actor.Actor, action Action, subject Subject, subjectID string) Record {
	return Record{
		TenantID: who.TenantID, ActorType: who.Kind, ActorID: who.IDText(), Action: action, SubjectType: subject, SubjectID: subjectID,
		RequestID: who.RequestID, SourceAddr: who.SourceAddr,
	}
}

// Queue adds the record to a batch of the tenant's transaction.
func Queue(b *db.Batch, r Record) { db.QueueExec(b, dbsqlc.New().AppendAudit, params(r)) }

// QueueWithMap adds the record of a trigger to the batch that claims the execution with the id. It is
// written only where the execution is fresh: its row is there then.
func QueueWithMap(b *db.Batch, r Record, execution uuid.UUID) {
	p := params(r)
	db.QueueExec(b, dbsqlc.New().AppendAuditWithMap, dbsqlc.AppendAuditWithMapParams{
		ID: p.ID, TenantID: p.TenantID, ActorType: p.ActorType, ActorID: p.ActorID, Action: p.Action, SubjectType: p.SubjectType, SubjectID: p.SubjectID,
		Outcome: p.Outcome, ExecutionID: p.ExecutionID, SessionID: p.SessionID, RequestID: p.RequestID, SourceAddr: p.SourceAddr, Details: p.Details, Execution: execution,
	})
}

// Append writes the record by itself or in the transaction tx.
func Append(ctx context.Context, tx dbsqlc.DBTX, r Record) error {
	if err := dbsqlc.New().AppendAudit(ctx, tx, params(r)); err != nil {
		return fmt.Errorf("audit: append: %w", err)
	}
	return nil
}

func params(r Record) dbsqlc.AppendAuditParams {
	p := dbsqlc.AppendAuditParams{
		ID: r.ID, TenantID: r.TenantID, ActorType: string(r.ActorType), ActorID: r.ActorID,
		Action: string(r.Action), Provider: r.Provider, Verb: r.Verb, RiskLevel: r.RiskLevel, Decision: r.Decision,
		Outcome: r.Outcome, SubjectType: string(r.SubjectType), SubjectID: r.SubjectID, ExecutionID: r.ExecutionID, SessionID: r.SessionID, RequestID: r.RequestID,
		SourceAddr: r.SourceAddr, Details: r.Details,
	}
	if p.ID == uuid.Nil {
		p.ID = uuid.Must(uuid.NewV7())
	}
	if r.Input != nil {
		input := string(r.Input)
		p.Input = &input
	}
	return p
}
