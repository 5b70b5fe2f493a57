package oracle

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
)

// Past is what a suite knows of roles, policies and grants while it changed them.
type Past interface {
	// Roles lists the roles that the user can have had at some moment from a to b; "" is
	// that of a user who was removed.
	Roles(user uuid.UUID, a, b time.Time) []string
	// Holding lists the policies that certainly required an approval of the verb then.
	Holding(verb string, at time.Time) []string
	// Blocking lists the policies that certainly blocked the verb then.
	Blocking(verb string, at time.Time) []string
	// Revoked reports whether the grant was certainly revoked then.
	Revoked(grantID string, at time.Time) bool
}

// Approved judges the promise that nothing is sent that needed an approval and did not
// have it. It starts from what the provider carried out. Each effect must belong to a run
// of its own with the same arguments. That run must have been sent under an approval with
// enough votes or under a grant, unless it needed neither.
//
// A run needs one that was held, that is a dry run of a write, or whose verb is one of needs. With a
// past, one that a policy required an approval of then does too, and the voters' roles
// count; without one each user's approval counts.
func Approved(f Facts, effects []Effect, needs func(verb string) bool, past Past) []string {
	j := judge{Facts: f, needs: needs, past: past}
	sends, used := make([]string, len(f.Runs)), make([]bool, len(f.Runs))
	for i, r := range f.Runs {
		sends[i] = Canonical([]byte(r.Sends()))
	}
	for _, e := range effects {
		j.effect(e, sends, used)
	}
	return j.found
}

type judge struct {
	Facts

	needs func(verb string) bool
	past  Past
	found findings
}

// effect finds the run of an effect. Of several runs with the same call it takes one that
// was sent with permission.
func (j *judge) effect(e Effect, sends []string, used []bool) {
	args := Canonical([]byte(e.Args))
	var complaints findings
	for i, r := range j.Runs {
		of := r.ExecutionID == e.ExecutionID || e.ExecutionID == "" && r.Verb == e.Verb && r.SentAt != nil && sends[i] == args
		if !of || used[i] {
			continue
		}
		about := judge{Facts: j.Facts, needs: j.needs, past: j.past}
		if sends[i] != args {
			about.found.report("%s: %s was sent, and the call is %s", r.ExecutionID, args, r.Sends())
		}
		about.run(r, e.Read)
		if len(about.found) == 0 {
			used[i] = true
			return
		}
		complaints = about.found
	}
	if complaints == nil && j.mayPass(e) {
		return
	}
	if complaints == nil {
		complaints.report("the provider carried out %s %s, and no run with permission to send it is left", e.Verb, args)
	}
	j.found = append(j.found, complaints...)
}

// mayPass reports whether an effect without a run of its own is no matter of approvals.
func (j *judge) mayPass(e Effect) bool { return e.ExecutionID == "" && !j.needs(e.Verb) }

// run judges a run that was sent against what it was bound to at that moment.
func (j *judge) run(r Run, read bool) {
	var under struct {
		ApprovalID string `json:"approval_id"`
		GrantID    string `json:"grant_id"`
	}
	sends := j.records(func(a Record) bool {
		return a.ExecutionID == r.ExecutionID && (a.Action == "run.allowed" || a.Action == "run.notified")
	})
	if len(sends) == 0 || r.SentAt == nil {
		j.found.report("%s: sent, and no record says so", r.ExecutionID)
		return
	}
	if json.Unmarshal(sends[len(sends)-1].Details, &under) != nil {
		j.found.report("%s: the record of its sending cannot be read", r.ExecutionID)
	}
	at := *r.SentAt
	var holding []string
	if j.past != nil {
		holding = j.past.Holding(r.Verb, at)
		for _, policy := range j.past.Blocking(r.Verb, at) {
			j.found.report("%s: sent although policy %s blocks it", r.ExecutionID, policy)
		}
	}
	switch {
	case under.ApprovalID != "":
		j.approval(r, under.ApprovalID, holding, at)
	case under.GrantID != "":
		j.grant(r, under.GrantID, at)
	case len(holding) > 0, r.Held, r.DryRun && !read, j.needs(r.Verb):
		j.found.report("%s: sent without an approval; held %v, dry run %v, approval required by %v", r.ExecutionID, r.Held, r.DryRun, holding)
	}
}

// roleSlack is how long before the run is marked as sent its votes may have been counted.
const roleSlack = time.Second

func (j *judge) approval(r Run, id string, holding []string, at time.Time) {
	i := slices.IndexFunc(j.Approvals, func(a Approval) bool { return a.ID == id })
	if i < 0 || j.Approvals[i].RunID != r.ID || j.Approvals[i].Status != "approved" {
		j.found.report("%s: sent under %s, which is not an approved one of this run", r.ExecutionID, id)
		return
	}
	a := j.Approvals[i]
	var reqs []governance.Requirement
	if json.Unmarshal(a.Requirements, &reqs) != nil || len(reqs) == 0 {
		j.found.report("%s: the requirements of %s cannot be read", r.ExecutionID, id)
	}
	for _, policy := range holding {
		if !slices.ContainsFunc(reqs, func(q governance.Requirement) bool { return q.PolicyID != nil && q.PolicyID.String() == policy }) {
			j.found.report("%s: sent under %s, which does not know of policy %s that required an approval", r.ExecutionID, id, policy)
		}
	}
	for _, q := range reqs {
		if n := j.votes(q, a, at); n < int(q.Rule.Required) {
			j.found.report("%s: sent under %s with %d of %d votes", r.ExecutionID, id, n, q.Rule.Required)
		}
	}
}

// votes counts the users whose approvals count for the requirement at the time.
func (j *judge) votes(q governance.Requirement, a Approval, at time.Time) int {
	users := map[uuid.UUID]bool{}
	for _, d := range j.Decisions {
		if d.ApprovalID != a.ID || d.Decision != "approve" || d.CountedAt == nil || d.UserID == nil {
			continue
		}
		if j.past == nil {
			users[*d.UserID] = true
			continue
		}
		self := a.EditedBy != nil && *a.EditedBy == *d.UserID || slices.Contains(a.Editors, *d.UserID)
		for _, role := range j.past.Roles(*d.UserID, at.Add(-roleSlack), at) {
			v := governance.Voter{UserID: *d.UserID, Role: actor.Role(role), Self: self}
			users[*d.UserID] = users[*d.UserID] || role != "" && q.MayDecide(v, a.EscalatedAt != nil)
		}
	}
	n := 0
	for _, may := range users {
		if may {
			n++
		}
	}
	return n
}

func (j *judge) grant(r Run, id string, at time.Time) {
	i := slices.IndexFunc(j.Grants, func(g Grant) bool { return g.ID.String() == id })
	switch {
	case i < 0 || j.Grants[i].Verb != r.Verb || j.Grants[i].ExpiresAt.Before(at):
		j.found.report("%s: sent under grant %s, which is not for it", r.ExecutionID, id)
	case j.past != nil && j.past.Revoked(id, at):
		j.found.report("%s: sent under grant %s, which was revoked", r.ExecutionID, id)
	case r.Held || r.DryRun:
		j.found.report("%s: a held run was sent under grant %s", r.ExecutionID, id)
	}
}

// GrantsWithinBounds judges the promise that no grant is used more often than allowed.
func GrantsWithinBounds(f Facts) []string {
	var found findings
	for _, g := range f.Grants {
		n := 0
		for _, r := range f.Runs {
			if r.GrantID != nil && *r.GrantID == g.ID {
				n++
			}
		}
		if n > g.Uses || g.Uses > g.MaxUses {
			found.report("grant %s: %d runs, %d uses of %d", g.ID, n, g.Uses, g.MaxUses)
		}
	}
	return found
}
