package desk

import (
	"context"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/approval"
)

// Who may approve is a rule over the policies' requirements, which no index knows. So Mine looks
// at pending approvals one by one. A tenant may have 10,000 of them that wait for others.
const (
	mineAtOnce = 500   // that one statement reads, without their arguments
	mineMost   = 2_000 // that one call looks at
)

// Mine is List for the approvals that wait for this user: they may approve them, and have not
// yet. next is the approval after which another call continues; "" after the last. A page can
// be shorter than f.Limit, also empty, where next is set: a call looks at mineMost pending
// approvals. It fails with VALIDATION_ERROR for a key, which decides nothing.
func (s *Desk) Mine(ctx context.Context, who actor.Actor, f Filter) (page []Approval, next string, err error) {
	if who.Kind != actor.User {
		return nil, "", fault.Invalid("query.mine", "kind", "A key decides nothing. Ask with a JWT for what waits for its user.")
	}
	if f.Status != "" && f.Status != governance.ApprovalPending {
		return []Approval{}, "", nil
	}
	f.Status, f.voter = governance.ApprovalPending, &who.ID
	ids, next, err := s.mine(ctx, who, f)
	if err != nil || len(ids) == 0 {
		return []Approval{}, next, err
	}
	// One that was decided in the meantime is no longer among them.
	f.only, f.Limit = &ids, len(ids)
	page, more, err := s.List(ctx, who.TenantID, f)
	if more && len(page) > 0 { // the arguments fill the page
		next = page[len(page)-1].ID
	}
	return page, next, err
}

// mine returns the ids of the first f.Limit approvals that the user may approve, and where to
// continue.
func (s *Desk) mine(ctx context.Context, who actor.Actor, f Filter) (ids []string, next string, err error) {
	some := f
	some.bare, some.Limit = true, mineAtOnce
	for looked := 0; looked < mineMost; {
		read, rest, err := s.List(ctx, who.TenantID, some)
		if err != nil {
			return nil, "", err
		}
		for i, a := range read {
			some.Before = a.ID
			if a.voted || !s.waitsFor(a, who) {
				continue
			}
			ids = append(ids, a.ID)
			if len(ids) == f.Limit {
				if !rest && i == len(read)-1 {
					return ids, "", nil
				}
				return ids, a.ID, nil
			}
		}
		if !rest || len(read) == 0 {
			return ids, "", nil
		}
		looked += len(read)
	}
	return ids, some.Before, nil
}

// waitsFor reports whether the user may approve.
func (s *Desk) waitsFor(a Approval, who actor.Actor) bool {
	asked := approval.Asked{ID: a.ID, Kind: a.Kind, Requester: a.Requester, Writers: a.Writers}
	asked.Status, asked.Requirements, asked.Escalated = a.Status, a.Requirements, a.EscalatedAt != nil
	if a.ExpiresAt != nil {
		asked.ExpiresAt = *a.ExpiresAt
	}
	if a.EditedBy != nil && a.EditedFrom != nil {
		asked.Edited = &approval.Edit{From: *a.EditedFrom, By: *a.EditedBy}
	}
	vote := governance.Vote{Voter: asked.Voter(who.ID, who.Role), Approve: true}
	return governance.Refusal(asked.Asking, vote, s.d.Now()) == ""
}
