package governance

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/actor"
)

// Voter is a person who decides about an approval, or has decided in advance. NewVoter makes it.
type Voter struct {
	UserID uuid.UUID
	Role   actor.Role
	// Self: the voter asked for the call, or wrote a text that has become an argument of it.
	Self bool
}

// NewVoter returns the user as a voter about what requester has asked for and writers have written.
// requester is nil where no user or key has asked.
func NewVoter(user uuid.UUID, role actor.Role, requester *uuid.UUID, writers []uuid.UUID) Voter {
	return Voter{UserID: user, Role: role, Self: requester != nil && *requester == user || slices.Contains(writers, user)}
}

// MayDecide reports whether the requirement lets v decide. It does where it lists v or the
// role of v, or where the approval was escalated and v is an owner or admin. To decide about
// a call of their own, voters also need SelfApproval, escalated or not.
func (r Requirement) MayDecide(v Voter, escalated bool) bool {
	if v.Self && !r.Rule.SelfApproval {
		return false
	}
	if escalated && (v.Role == actor.RoleOwner || v.Role == actor.RoleAdmin) {
		return true
	}
	for _, a := range r.Rule.Approvers {
		switch a.Type {
		case ApproverRole:
			if a.Value != "" && a.Value == string(v.Role) {
				return true
			}
		case ApproverUser:
			if id, err := uuid.Parse(a.Value); err == nil && id != uuid.Nil && id == v.UserID {
				return true
			}
		}
	}
	return false
}

// MayDecide reports whether any of the requirements lets v decide.
func MayDecide(reqs []Requirement, v Voter, escalated bool) bool {
	for _, r := range reqs {
		if r.MayDecide(v, escalated) {
			return true
		}
	}
	return false
}

// Tally is how many approvals there are and are needed, for the requirement that lacks most.
type Tally struct{ Have, Need int32 }

// Count compares the votes for an approval with what it needs. A requirement needs the
// votes of as many different users as its rule says, at least one. A vote counts for every
// requirement that lets its voter decide. enough is true where each requirement has what it
// needs; it is false where there are no requirements.
func Count(reqs []Requirement, votes []Voter, escalated bool) (t Tally, enough bool) {
	for i, r := range reqs {
		one := Tally{Have: r.votes(votes, escalated), Need: max(r.Rule.Required, 1)}
		if lack := one.Need - one.Have; i == 0 || lack > t.Need-t.Have || (lack == t.Need-t.Have && one.Need > t.Need) {
			t = one
		}
	}
	return t, len(reqs) > 0 && t.Have >= t.Need
}

// votes returns how many different users with a vote may decide. A user who appears twice,
// once as the one who asked for the call, counts as the one who asked.
func (r Requirement) votes(votes []Voter, escalated bool) int32 {
	may := make(map[uuid.UUID]bool, len(votes))
	for _, v := range votes {
		before, seen := may[v.UserID]
		may[v.UserID] = r.MayDecide(v, escalated) && (before || !seen)
	}
	n := int32(0)
	for id, ok := range may {
		if ok && id != uuid.Nil {
			n++
		}
	}
	return n
}

// MergedRule returns what applies to an approval as a whole: the shortest time, rejection
// at its end if any requirement says so, and a reason for a rejection if any asks for one.
// A rule without a time has DefaultApprovalTimeout; so has an empty list.
func MergedRule(reqs []Requirement) (timeout time.Duration, onTimeout OnTimeout, reasonRequired bool) {
	timeout, onTimeout = DefaultApprovalTimeout, OnTimeoutReject
	for i, r := range reqs {
		own := r.Rule.Timeout()
		if own <= 0 {
			own = DefaultApprovalTimeout
		}
		if i == 0 {
			timeout, onTimeout = own, r.Rule.OnTimeout
		}
		timeout = min(timeout, own)
		if r.Rule.OnTimeout != OnTimeoutEscalate {
			onTimeout = OnTimeoutReject
		}
		reasonRequired = reasonRequired || r.Rule.ReasonRequired
	}
	return timeout, onTimeout, reasonRequired
}
