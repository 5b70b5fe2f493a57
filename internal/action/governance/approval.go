package governance

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/fault"
)

// ApprovalStatus is the state of an approval. Rows store it as text.
type ApprovalStatus string

// The statuses. A pending approval is decided, expires, is cancelled with its subject, or
// is superseded because something that it is bound to has changed. A blocked approval is
// the record of a blocked call, and is closed from the start.
const (
	ApprovalPending    ApprovalStatus = "pending"
	ApprovalApproved   ApprovalStatus = "approved"
	ApprovalRejected   ApprovalStatus = "rejected"
	ApprovalExpired    ApprovalStatus = "expired"
	ApprovalCancelled  ApprovalStatus = "cancelled"
	ApprovalSuperseded ApprovalStatus = "superseded"
	ApprovalBlocked    ApprovalStatus = "blocked"
)

// ApprovalStatuses lists every status.
func ApprovalStatuses() []ApprovalStatus {
	return []ApprovalStatus{
		ApprovalPending, ApprovalApproved, ApprovalRejected, ApprovalExpired, ApprovalCancelled, ApprovalSuperseded, ApprovalBlocked,
	}
}

// Valid reports whether the status exists.
func (s ApprovalStatus) Valid() bool { return slices.Contains(ApprovalStatuses(), s) }

// ApprovalKind is what an approval is about. Rows store it as text.
type ApprovalKind string

// The kinds: a call that was blocked, a call that is held, a dry run that an approver may
// release, a step of a Map that asks people, and the change set of a dry run of a Map.
const (
	ApprovalOfBlock   ApprovalKind = "block"
	ApprovalOfHold    ApprovalKind = "hold"
	ApprovalOfDryRun  ApprovalKind = "dry_run"
	ApprovalOfStep    ApprovalKind = "step"
	ApprovalOfChanges ApprovalKind = "changes"
)

// ApprovalKinds lists every kind.
func ApprovalKinds() []ApprovalKind {
	return []ApprovalKind{ApprovalOfHold, ApprovalOfDryRun, ApprovalOfBlock, ApprovalOfStep, ApprovalOfChanges}
}

// Valid reports whether the kind exists.
func (k ApprovalKind) Valid() bool { return slices.Contains(ApprovalKinds(), k) }

// Asking is an approval that people decide about, with the approvals it has so far.
type Asking struct {
	Status       ApprovalStatus
	ExpiresAt    time.Time
	Requirements []Requirement
	// Votes are the counted approvals.
	Votes []Voter
	// Escalated: owners and admins may decide too.
	Escalated bool
}

// Tally returns how many approvals the asking has and needs, and whether these are enough.
func (a Asking) Tally() (t Tally, enough bool) { return Count(a.Requirements, a.Votes, a.Escalated) }

// Vote is one decision about an asking.
type Vote struct {
	// Voter is the zero Voter for an operator of Temporal, who is not known and can only
	// reject.
	Voter   Voter
	Approve bool
	Reason  string
}

// Refusal returns why the vote does not count at the time now, or "" where it counts:
//
//	APPROVAL_NOT_PENDING   the asking is closed, or its time is over
//	APPROVER_NOT_ELIGIBLE  the requirements do not let the voter decide, or the voter is no
//	                       active user
//	CONFLICT               the voter has approved already
//	VALIDATION_ERROR       a rejection without the reason that a requirement asks for
//
// Self counts against an approval only: an editor withdraws their edit, and a caller their call,
// by rejecting it. It is the one rule of who may decide. The desk applies it before it stores a decision.
// The counting of decisions applies it again, to the rows as they are then.
func Refusal(a Asking, v Vote, now time.Time) fault.Code {
	voter := v.Voter
	if !v.Approve {
		voter.Self = false // nobody else is needed to give up a call or an edit of one's own
	}
	operator := v.Voter.UserID == uuid.Nil && !v.Approve
	approved := func(one Voter) bool { return one.UserID == v.Voter.UserID }
	_, _, reasonRequired := MergedRule(a.Requirements)
	switch {
	case a.Status != ApprovalPending || !now.Before(a.ExpiresAt):
		return fault.CodeApprovalNotPending
	case operator:
		return ""
	case !voter.Role.Valid() || !MayDecide(a.Requirements, voter, a.Escalated):
		return fault.CodeApproverNotEligible
	case v.Approve && slices.ContainsFunc(a.Votes, approved):
		return fault.CodeConflict
	case !v.Approve && reasonRequired && v.Reason == "":
		return fault.CodeValidation
	}
	return ""
}
