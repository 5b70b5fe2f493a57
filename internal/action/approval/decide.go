package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/governance"
)

// Approver is the user who decides.
type Approver struct {
	TenantID   uuid.UUID
	UserID     uuid.UUID
	Role       string
	RequestID  string
	SourceAddr string
}

// Input is what somebody decides.
type Input struct {
	Approve bool
	Reason  string
	// EditedArgs replace the call's arguments; nil leaves them as they are.
	EditedArgs json.RawMessage
}

// reasonMost is the most characters of a reason.
const reasonMost = 2000

// Decide has a decision counted and returns the approval as it then stands; after an
// edit that is the one which replaced it. It refuses with APPROVAL_NOT_FOUND,
// APPROVAL_NOT_PENDING (also where it was decided a moment ago), APPROVER_NOT_ELIGIBLE,
// CONFLICT (the same user has approved already), VALIDATION_ERROR (no reason where the
// policy wants one) and, for edited arguments, what CheckEdit says.
func (s *Service) Decide(ctx context.Context, who Approver, id string, in Input) (Detailed, error) {
	a, err := s.Get(ctx, who.TenantID, id)
	if err != nil {
		return Detailed{}, err
	}
	if err := s.mayDecide(a, who, in); err != nil {
		return Detailed{}, err
	}
	if in.EditedArgs != nil {
		if err := s.Edits.CheckEdit(ctx, who.TenantID, a.RunID, in.EditedArgs); err != nil {
			return Detailed{}, err
		}
	}
	decision := uuid.Must(uuid.NewV7())
	if err := s.propose(ctx, who, a, decision, in); err != nil {
		return Detailed{}, err
	}
	code, err := s.Workflows.Decide(ctx, who.TenantID, a.ClaimKey, a.ID, decision)
	if code == "" && fault.HasCode(err, fault.CodeApprovalNotPending) {
		code, err = fault.CodeApprovalNotPending, nil
	}
	if err != nil && s.closedByOthers(ctx, who, a.ID) {
		// The workflow ended with the decision on its way to it.
		code, err = fault.CodeApprovalNotPending, nil
	}
	switch {
	case err != nil:
		// It may have reached the workflow: the proposal stays, and what became of it
		// shows in the approval.
		return Detailed{}, err
	case code != "":
		if err := s.withdraw(ctx, who.TenantID, decision); err != nil {
			return Detailed{}, err
		}
		return Detailed{}, refusal(code)
	}
	return s.after(ctx, who.TenantID, a, in)
}

// closedByOthers reports whether the approval waits no more, and not for what who said.
func (s *Service) closedByOthers(ctx context.Context, who Approver, id string) bool {
	now, err := s.Get(ctx, who.TenantID, id)
	return err == nil && now.Status != StatusPending &&
		!slices.ContainsFunc(now.Decisions, func(d Decision) bool { return d.UserID != nil && *d.UserID == who.UserID })
}

// mayDecide refuses what the approval's record shows to be refused, before anything is
// written.
func (s *Service) mayDecide(a Detailed, who Approver, in Input) error {
	if a.Status != StatusPending || !s.Now().Before(*a.ExpiresAt) {
		return fault.Newf(fault.CodeApprovalNotPending, "The approval does not wait for a decision: it is %s.", a.shownStatus(s))
	}
	if !governance.MayDecide(a.Requirements, a.voter(who.UserID, who.Role), a.EscalatedAt != nil) {
		return fault.New(fault.CodeApproverNotEligible, "")
	}
	if in.Approve {
		for _, d := range a.Decisions {
			if d.UserID != nil && *d.UserID == who.UserID {
				return fault.New(fault.CodeConflict, "You have approved this call already; it waits for others.")
			}
		}
	}
	if _, _, reason := governance.MergedRule(a.Requirements); reason && !in.Approve && in.Reason == "" {
		return fault.Invalid("/reason", "required", "The policy asks for a reason when a call is rejected.")
	}
	if len([]rune(in.Reason)) > reasonMost {
		return fault.Invalid("/reason", "length", fmt.Sprintf("reason has at most %d characters.", reasonMost))
	}
	return nil
}

// shownStatus names an approval whose time is over, and whose workflow has not said so
// yet, expired.
func (a Approval) shownStatus(s *Service) Status {
	if a.Status == StatusPending && a.ExpiresAt != nil && !s.Now().Before(*a.ExpiresAt) {
		return StatusExpired
	}
	return a.Status
}

func (s *Service) propose(ctx context.Context, who Approver, a Detailed, id uuid.UUID, in Input) error {
	p := dbsqlc.ProposeDecisionParams{
		ID: id, TenantID: who.TenantID, ApprovalID: a.ID, UserID: &who.UserID, Decision: "reject", Reason: in.Reason,
		RequestID: who.RequestID, SourceAddr: who.SourceAddr,
	}
	if in.Approve {
		p.Decision = "approve"
	}
	if in.EditedArgs != nil {
		text := string(in.EditedArgs)
		p.EditedArgs = &text
	}
	if err := s.q.ProposeDecision(ctx, s.DB.Tenant(who.TenantID), p); err != nil {
		return fmt.Errorf("approval: propose: %w", err)
	}
	return nil
}

func (s *Service) withdraw(ctx context.Context, tenant, id uuid.UUID) error {
	err := s.q.WithdrawDecision(ctx, s.DB.Tenant(tenant), dbsqlc.WithdrawDecisionParams{TenantID: tenant, ID: id})
	if err != nil {
		return fmt.Errorf("approval: withdraw: %w", err)
	}
	return nil
}

func refusal(code fault.Code) error {
	if code == fault.CodeConflict {
		return fault.New(code, "You have approved this call already; it waits for others.")
	}
	return fault.New(code, "")
}

// after reads what the decision came to.
func (s *Service) after(ctx context.Context, tenant uuid.UUID, before Detailed, in Input) (Detailed, error) {
	a, err := s.Get(ctx, tenant, before.ID)
	if err == nil && in.EditedArgs != nil && a.SupersededBy != nil {
		return s.Get(ctx, tenant, *a.SupersededBy)
	}
	return a, err
}
