package approval

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
)

// Closing is how an approval ends. This file is the only place that ends one.
type Closing struct {
	Status governance.ApprovalStatus
	// Reason is for the people who look at the approval.
	Reason string
	// By is the user who decided, nil where none did.
	By *uuid.UUID
	// Tell makes the sweeper tell the waiting workflow: it may not hear of the change
	// otherwise.
	Tell bool
}

// Close queues the end of an approval into its subject's transaction. Where another
// transaction closed it meanwhile, the whole transaction is undone; see db.IsNotChanged.
func Close(b *db.Batch, tenant uuid.UUID, id string, c Closing) {
	q := dbsqlc.New()
	db.Queue(b, q.CloseApproval, closeParams(tenant, id, c))
	db.Queue(b, q.RequireApprovalIs, dbsqlc.RequireApprovalIsParams{TenantID: tenant, ID: id, Status: string(c.Status)})
}

// CloseIn is Close in a transaction that is open already. It returns db.ErrNotChanged where
// another transaction closed the approval meanwhile.
func CloseIn(ctx context.Context, tx dbsqlc.DBTX, tenant uuid.UUID, id string, c Closing) error {
	n, err := dbsqlc.New().CloseApproval(ctx, tx, closeParams(tenant, id, c))
	if err == nil && n == 0 {
		err = db.ErrNotChanged
	}
	return err
}

func closeParams(tenant uuid.UUID, id string, c Closing) dbsqlc.CloseApprovalParams {
	return dbsqlc.CloseApprovalParams{
		Status: string(c.Status), ClosedReason: c.Reason, DecidedBy: c.By, Tell: c.Tell, TenantID: tenant, ID: id,
	}
}

// CloseOf queues the end of the approval that the subject waits for, if any. Unlike Close it
// takes no id, because an edit may have replaced the approval a moment ago. The sweeper tells
// the waiting workflow.
func CloseOf(b *db.Batch, s Subject, c Closing) {
	db.QueueExec(b, dbsqlc.New().CloseApprovalsOf, dbsqlc.CloseApprovalsOfParams{
		Status: string(c.Status), ClosedReason: c.Reason, DecidedBy: c.By,
		TenantID: s.TenantID, SubjectType: string(s.Type), SubjectID: s.ID,
	})
}

// Escalate lets owners and admins decide a pending approval too, once, until the given time.
// It returns false where the approval was not pending or was escalated before.
func Escalate(ctx context.Context, tx dbsqlc.DBTX, tenant uuid.UUID, id string, until time.Time) (bool, error) {
	n, err := dbsqlc.New().EscalateApproval(ctx, tx, dbsqlc.EscalateApprovalParams{ExpiresAt: &until, TenantID: tenant, ID: id})
	return n > 0, err
}

// Recheck queues a mark, for which the sweeper tells the approval's workflow to look again.
func Recheck(b *db.Batch, tenant uuid.UUID, id string) {
	db.QueueExec(b, dbsqlc.New().RecheckApproval, dbsqlc.RecheckApprovalParams{TenantID: tenant, ID: id})
}

// HandOver queues the change of the workflow that waits for the subject's approval.
func HandOver(b *db.Batch, s Subject, workflowID string) {
	db.QueueExec(b, dbsqlc.New().HandOverApproval, dbsqlc.HandOverApprovalParams{
		WorkflowID: workflowID, TenantID: s.TenantID, SubjectType: string(s.Type), SubjectID: s.ID,
	})
}
