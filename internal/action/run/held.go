package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/dev/failpoint"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/record/audit"
)

// held is an approval with what it has gathered.
type held struct {
	row        dbsqlc.Approval
	reqs       []governance.Requirement
	votes      []governance.Voter
	keyRevoked bool
}

func (h held) escalated() bool { return h.row.EscalatedAt != nil }

func (h held) enough() bool {
	_, enough := governance.Count(h.reqs, h.votes, h.escalated())
	return enough
}

// lookAtHeld says what follows from the approval that the run has: it may be sent, has
// to wait on, or falls because something it was bound to has changed.
func (s *Service) lookAtHeld(ctx context.Context, p prepared) (_ prepared, step Step, cleared bool, err error) {
	h, err := s.readHeld(ctx, p.run)
	if err != nil {
		return p, Step{}, false, err
	}
	if h.row.Status != approvalPending && (h.row.Status != approvalApproved || p.run.State != StateClaimed) {
		// The run may have been read before the decision that its approval shows.
		moved, err := s.moved(ctx, p.run)
		switch {
		case err != nil:
			return p, Step{}, false, err
		case moved:
			return s.admit(ctx, p.run.ref())
		}
	}
	switch h.row.Status {
	case approvalPending, approvalApproved:
	default:
		// Its end was recorded together with the run's.
		return p, Step{State: p.run.State, Done: true}, false, nil
	}
	if h.keyRevoked {
		f := fault.New(fault.CodeAPIKeyRevoked, "")
		step, err = s.closeHeld(ctx, p, closing{
			status: approvalCancelled, state: StateRefused, code: f.Code, message: f.Message, reason: "The API key that asked for the call was revoked.",
		})
		return p, step, false, err
	}
	if why := p.drift(h); why != "" {
		return s.supersede(ctx, p, h, why)
	}
	switch {
	case h.row.Status == approvalApproved && p.run.State == StateClaimed && h.enough():
		return p, Step{}, true, nil
	case h.row.Status == approvalApproved:
		return s.supersede(ctx, p, h, "Somebody who approved may not approve any more.")
	case s.Now().Before(*h.row.ExpiresAt):
		return p, waiting(p.run, h.row.ID, h.row.ExpiresAt, s.Now()), false, nil
	}
	step, err = s.timeOut(ctx, p, h)
	return p, step, false, err
}

// moved reports whether the held run's row is another than when it was read.
func (s *Service) moved(ctx context.Context, r Run) (bool, error) {
	now, err := s.get(ctx, r.TenantID, r.ID)
	if err != nil {
		return false, err
	}
	return now.State != r.State || now.Attempt != r.Attempt || now.ApprovalID == nil || *now.ApprovalID != *r.ApprovalID, nil
}

func (s *Service) readHeld(ctx context.Context, r Run) (h held, err error) {
	b := &pgx.Batch{}
	b.Queue(dbsqlc.ApprovalRow, r.TenantID, *r.ApprovalID)
	b.Queue(dbsqlc.Votes, r.TenantID, *r.ApprovalID)
	if r.KeyID != nil {
		b.Queue(dbsqlc.KeyRevoked, r.TenantID, *r.KeyID)
	}
	err = s.DB.Batch(ctx, r.TenantID, b, func(res pgx.BatchResults) error {
		rows, err := res.Query()
		if err != nil {
			return err
		}
		if h.row, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[dbsqlc.Approval]); err != nil {
			return err
		}
		if rows, err = res.Query(); err != nil {
			return err
		}
		votes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dbsqlc.VotesRow])
		if err != nil {
			return err
		}
		h.votes = voters(votes, h.row)
		if r.KeyID != nil {
			return res.QueryRow().Scan(&h.keyRevoked)
		}
		return nil
	})
	if err != nil {
		return held{}, fmt.Errorf("run: read the approval: %w", err)
	}
	return h, h.parse()
}

func (h *held) parse() error {
	if err := json.Unmarshal(h.row.Requirements, &h.reqs); err != nil {
		return fmt.Errorf("run: requirements of an approval: %w", err)
	}
	return nil
}

// voters are the counted approvals. Who edited the arguments approves his own.
func voters(votes []dbsqlc.VotesRow, a dbsqlc.Approval) []governance.Voter {
	var list []governance.Voter
	for _, v := range votes {
		list = append(list, governance.Voter{UserID: *v.UserID, Role: v.Role, Self: isSelf(a, *v.UserID)})
	}
	return list
}

func isSelf(a dbsqlc.Approval, user uuid.UUID) bool { return a.EditedBy != nil && *a.EditedBy == user }

// drift says what an approval was bound to and is no more; "" where all still holds.
func (p prepared) drift(h held) string {
	switch why := p.rebuilt(h); {
	case why != "":
		return why
	case p.verdict.Decision == governance.Block:
		return "The call is blocked now: " + p.verdict.Reason
	case !slices.EqualFunc(p.requirements(), h.reqs, sameRequirement):
		return "The policies that hold the call have changed."
	}
	return ""
}

// rebuilt says why the request would be another than the one that was asked about; ""
// where it would not.
func (p prepared) rebuilt(h held) string {
	switch {
	case !bytes.Equal(p.callHash(), h.row.CallHash):
		return "The call is not the one that was asked about."
	case !bytes.Equal(p.target.SchemaHash(), h.row.SchemaHash):
		return "The verb has changed: its schema, or the request that is made of it."
	case p.target.Connected() != nil, !sameID(p.target.CredentialID(), h.row.CredentialID):
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

// supersede closes an approval that no longer fits and judges the call anew.
func (s *Service) supersede(ctx context.Context, p prepared, h held, why string) (_ prepared, step Step, cleared bool, err error) {
	b := &pgx.Batch{}
	p.queueRelease(b, nil, p.run.EditedArgs, s.Now().Add(s.cfg.DefaultWait))
	queueClose(b, approvalSuperseded, why, nil, p.run.TenantID, h.row.ID)
	rec := p.record(audit.ApprovalSuperseded)
	rec.ActorType, rec.ActorID = actor.System, ""
	rec.Outcome, rec.SubjectType, rec.SubjectID = approvalSuperseded, audit.SubjectApproval, h.row.ID
	rec.Details = mustJSON(map[string]string{"approval_id": h.row.ID, "reason": why})
	audit.QueueRaw(b, rec)
	failpoint.Hit("before_supersede")
	done, found, err := s.apply(ctx, p.run, b)
	failpoint.Hit("after_supersede")
	switch {
	case err != nil:
		return p, Step{}, false, err
	case !found:
		step, err = s.movedOn(ctx, p.run.ref())
		return p, step, false, err
	}
	p.run.State, p.run.ApprovalID, p.run.Held, p.run.GiveUpAt = done.State, nil, done.Held, done.GiveUpAt
	return s.clear(ctx, p)
}

// queueRelease puts the run back among the claimed, with the approval that released it
// or none.
func (p prepared) queueRelease(b *pgx.Batch, approvalID *string, edited json.RawMessage, giveUp time.Time) {
	var args *string
	if edited != nil {
		text := string(edited)
		args = &text
	}
	b.Queue(dbsqlc.ReleaseRun, approvalID, args, giveUp, p.run.TenantID, p.run.ID, p.run.Attempt)
	b.Queue(dbsqlc.RequireRunChanged, p.run.TenantID, p.run.ID)
}

// timeOut ends an approval that nobody decided in time, or turns once to the owners
// and admins, for the same time again.
func (s *Service) timeOut(ctx context.Context, p prepared, h held) (Step, error) {
	timeout, onTimeout, _ := governance.MergedRule(h.reqs)
	if onTimeout != governance.OnTimeoutEscalate || h.escalated() {
		return s.closeHeld(ctx, p, closing{
			status: approvalExpired, state: StateExpired, code: fault.CodeGovernanceBlocked,
			message: "Nobody approved the call in time. Nothing was sent; the id may be used again.", reason: "Nobody decided in time.",
		})
	}
	until := s.Now().Add(timeout)
	err := s.DB.InTenant(ctx, p.run.TenantID, func(tx pgx.Tx) error {
		n, err := dbsqlc.New().EscalateApproval(ctx, tx, dbsqlc.EscalateApprovalParams{ExpiresAt: &until, TenantID: p.run.TenantID, ID: h.row.ID})
		if err != nil || n == 0 {
			return err
		}
		rec := p.record(audit.ApprovalEscalated)
		rec.ActorType, rec.ActorID = actor.System, ""
		rec.SubjectType, rec.SubjectID = audit.SubjectApproval, h.row.ID
		rec.Details = mustJSON(map[string]any{"approval_id": h.row.ID, "expires_at": until.UTC()})
		return audit.Append(ctx, tx, rec)
	})
	if err != nil {
		return Step{}, fmt.Errorf("run: escalate: %w", err)
	}
	return waiting(p.run, h.row.ID, &until, s.Now()), nil
}

func queueClose(b *pgx.Batch, status, reason string, by *uuid.UUID, tenant uuid.UUID, approvalID string) {
	b.Queue(dbsqlc.CloseApproval, status, reason, by, tenant, approvalID)
	b.Queue(dbsqlc.RequireApprovalIs, tenant, approvalID, status)
}

// closing is how a held run ends without being sent.
type closing struct {
	status  string // of the approval
	state   State  // of the run; a dry run stays intercepted
	code    fault.Code
	message string // for who called
	reason  string // for who looks at the approval
}

// closeHeld ends a held run and its approval in one transaction.
func (s *Service) closeHeld(ctx context.Context, p prepared, c closing) (Step, error) {
	r := p.run
	if r.State == StateClaimed {
		// Approved, and not sent yet: what was decided stays, unless it fell with what it was about.
		var more []func(*pgx.Batch)
		if c.status == approvalSuperseded {
			more = append(more, func(b *pgx.Batch) { queueClose(b, c.status, c.reason, nil, r.TenantID, *r.ApprovalID) })
		}
		return s.finish(ctx, p, ending{state: StateRefused, code: c.code, message: c.message}, audit.RunRefused, more...)
	}
	b := &pgx.Batch{}
	b.Queue(dbsqlc.CloseHeldRun, string(c.state), string(c.code), c.message, r.TenantID, r.ID, r.Attempt)
	b.Queue(dbsqlc.RequireRunChanged, r.TenantID, r.ID)
	queueClose(b, c.status, c.reason, nil, r.TenantID, *r.ApprovalID)
	rec := p.record(closedAction(c.status))
	rec.Outcome, rec.SubjectType, rec.SubjectID = c.status, audit.SubjectApproval, *r.ApprovalID
	rec.Details = mustJSON(map[string]string{"approval_id": *r.ApprovalID, "reason": c.reason})
	rec.ActorType, rec.ActorID = actor.System, ""
	audit.QueueRaw(b, rec)
	failpoint.Hit("before_close")
	done, found, err := s.apply(ctx, r, b)
	failpoint.Hit("after_close")
	if err != nil {
		return Step{}, err
	}
	s.prepared.cache.Remove(r.ref())
	if !found {
		return s.movedOn(ctx, r.ref())
	}
	s.ended(done)
	return Step{State: done.State, Done: true}, nil
}
