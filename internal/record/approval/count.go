package approval

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// Proposal is a decision that a user made and that is not counted yet.
type Proposal struct {
	ID         uuid.UUID
	ApprovalID string
	// By is who decides. An operator can only reject.
	By      actor.Actor
	Approve bool
	Reason  string
	// EditedArgs replace the call's arguments; "" leaves them as they are. The domain of the
	// subject seals them, and it alone opens them.
	EditedArgs string
	// Response is what the approver answers to the form, sealed likewise; "" for none.
	Response string
}

// The words of a decision, as rows store them.
const (
	decidedApprove = "approve"
	decidedReject  = "reject"
)

// Propose stores a decision. It has no effect until it is counted.
func Propose(ctx context.Context, tx dbsqlc.DBTX, p Proposal) error {
	row := dbsqlc.ProposeDecisionParams{
		ID: p.ID, TenantID: p.By.TenantID, ApprovalID: p.ApprovalID, UserID: p.By.UserID(), Decision: decidedReject, Reason: p.Reason,
		RequestID: p.By.RequestID, SourceAddr: p.By.SourceAddr,
	}
	if p.Approve {
		row.Decision = decidedApprove
	}
	row.EditedArgs, row.Response = db.Optional(p.EditedArgs), db.Optional(p.Response)
	if err := dbsqlc.New().ProposeDecision(ctx, tx, row); err != nil {
		return fmt.Errorf("approval: propose: %w", err)
	}
	return nil
}

// Withdraw removes a decision that was not counted.
func Withdraw(ctx context.Context, tx dbsqlc.DBTX, tenant, decision uuid.UUID) error {
	if err := dbsqlc.New().WithdrawDecision(ctx, tx, dbsqlc.WithdrawDecisionParams{TenantID: tenant, ID: decision}); err != nil {
		return fmt.Errorf("approval: withdraw: %w", err)
	}
	return nil
}

// Decision is a stored decision.
type Decision struct {
	Proposal
	// Counted: the decision was counted, by a step that a crash interrupted.
	Counted bool
}

// ReadDecision returns a stored decision. Where it was withdrawn, db.IsNoRows is true for the
// error.
func ReadDecision(ctx context.Context, tx dbsqlc.DBTX, tenant, id uuid.UUID) (Decision, error) {
	row, err := dbsqlc.New().GetDecision(ctx, tx, dbsqlc.GetDecisionParams{TenantID: tenant, ID: id})
	if err != nil {
		return Decision{}, err
	}
	return decisionOf(tenant, row), nil
}

func decisionOf(tenant uuid.UUID, row dbsqlc.ApprovalDecision) Decision {
	d := Decision{Counted: row.CountedAt != nil}
	d.ID, d.ApprovalID, d.Approve, d.Reason = row.ID, row.ApprovalID, row.Decision == decidedApprove, row.Reason
	d.By = actor.Actor{Kind: actor.Operator, TenantID: tenant, RequestID: row.RequestID, SourceAddr: row.SourceAddr}
	if row.UserID != nil {
		d.By.Kind, d.By.ID = actor.User, *row.UserID
	}
	d.EditedArgs, d.Response = db.Text(row.EditedArgs), db.Text(row.Response)
	return d
}

// Counting is a decision that is being counted, with its approval.
type Counting struct {
	Decision Decision
	Asked    Asked
	Voter    governance.Voter
}

// Opening is a decision that a batch reads, with its approval.
type Opening struct {
	tenant   uuid.UUID
	decision *db.Answer[dbsqlc.ApprovalDecision]
	rows     *db.Answer[dbsqlc.Approval]
	votes    *db.Answer[[]dbsqlc.VotesWithRow]
	roles    *db.Answer[[]string]
}

// QueueOpen adds statements to a batch that read a decision and lock its approval. The
// transaction must have locked the subject before: every change of both takes the two locks in
// this order. Where the decision was withdrawn, db.IsNoRows is true for the error of the batch.
func QueueOpen(b *db.Batch, tenant, decision uuid.UUID) Opening {
	q := dbsqlc.New()
	return Opening{
		tenant:   tenant,
		decision: db.Queue(b, q.GetDecision, dbsqlc.GetDecisionParams{TenantID: tenant, ID: decision}),
		rows:     db.Queue(b, q.LockApprovalOf, dbsqlc.LockApprovalOfParams{TenantID: tenant, Decision: decision}),
		votes:    db.Queue(b, q.VotesWith, dbsqlc.VotesWithParams{TenantID: tenant, Decision: decision}),
		roles:    db.Queue(b, q.RoleOfDecider, dbsqlc.RoleOfDeciderParams{TenantID: tenant, Decision: decision}),
	}
}

// Counting returns what the batch read, once it was sent.
func (o Opening) Counting() (*Counting, error) {
	c := &Counting{Decision: decisionOf(o.tenant, o.decision.Value)}
	votes := make([]dbsqlc.VotesRow, len(o.votes.Value))
	for i, v := range o.votes.Value {
		votes[i] = dbsqlc.VotesRow(v)
	}
	var err error
	if c.Asked, err = asked(o.rows.Value, votes); err != nil {
		return nil, err
	}
	if user := c.Decision.By.UserID(); user != nil {
		// A user who was removed has no role, and so no vote.
		c.Voter = c.Asked.Voter(*user, actor.Role(strings.Join(o.roles.Value, "")))
	}
	return c, nil
}

// Open is QueueOpen in a transaction that is open already.
func Open(ctx context.Context, tx pgx.Tx, tenant, decision uuid.UUID) (*Counting, error) {
	b := &db.Batch{}
	opening := QueueOpen(b, tenant, decision)
	if err := b.SendIn(ctx, tx); err != nil {
		return nil, err
	}
	return opening.Counting()
}

func lock(ctx context.Context, tx dbsqlc.DBTX, tenant uuid.UUID, id string) (Asked, error) {
	q := dbsqlc.New()
	row, err := q.LockApproval(ctx, tx, dbsqlc.LockApprovalParams{TenantID: tenant, ID: id})
	if err != nil {
		return Asked{}, err
	}
	votes, err := q.Votes(ctx, tx, dbsqlc.VotesParams{TenantID: tenant, ApprovalID: id})
	if err != nil {
		return Asked{}, err
	}
	return asked(row, votes)
}

// Refusal returns why the decision does not count now, or "" where it counts; see
// governance.Refusal.
func (c *Counting) Refusal(now time.Time) fault.Code {
	return governance.Refusal(c.Asked.Asking, governance.Vote{Voter: c.Voter, Approve: c.Decision.Approve, Reason: c.Decision.Reason}, now)
}

// Take counts the decision, and adds an approval to the votes. It returns false where the
// decision was counted before.
func (c *Counting) Take(ctx context.Context, tx dbsqlc.DBTX) (bool, error) {
	n, err := dbsqlc.New().CountDecision(ctx, tx, dbsqlc.CountDecisionParams{TenantID: c.Decision.By.TenantID, ID: c.Decision.ID})
	if err != nil || n == 0 {
		return false, err
	}
	c.vote()
	return true, nil
}

// QueueTake is Take in a batch. Where the decision was counted before, or withdrawn, the whole
// transaction is undone; see db.IsNotChanged.
func (c *Counting) QueueTake(b *db.Batch) {
	q, tenant := dbsqlc.New(), c.Decision.By.TenantID
	db.Queue(b, q.CountDecision, dbsqlc.CountDecisionParams{TenantID: tenant, ID: c.Decision.ID})
	db.Queue(b, q.RequireDecisionCounted, dbsqlc.RequireDecisionCountedParams{TenantID: tenant, ID: c.Decision.ID})
	c.vote()
}

func (c *Counting) vote() {
	if c.Decision.Approve {
		c.Asked.Votes = append(c.Asked.Votes, c.Voter)
	}
}

// Carry counts an approval of another asking by the same user: the author of an edit
// approves the edited arguments. It returns nil where the requirements do not let them.
func (c *Counting) Carry(ctx context.Context, tx dbsqlc.DBTX, approvalID string) (*Counting, error) {
	tenant := c.Decision.By.TenantID
	to, err := lock(ctx, tx, tenant, approvalID)
	if err != nil {
		return nil, err
	}
	next := &Counting{Decision: c.Decision, Asked: to, Voter: to.Voter(c.Voter.UserID, c.Voter.Role)}
	next.Decision.ID, next.Decision.ApprovalID, next.Decision.EditedArgs = uuid.Must(uuid.NewV7()), approvalID, ""
	if !governance.MayDecide(to.Requirements, next.Voter, false) {
		return nil, nil //nolint:nilnil // no vote is a value here
	}
	if err := Propose(ctx, tx, next.Decision.Proposal); err != nil {
		return nil, err
	}
	if _, err := next.Take(ctx, tx); err != nil {
		return nil, err
	}
	return next, nil
}
