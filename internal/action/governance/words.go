package governance

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"agentruntime/internal/base/actor"
)

// InWords returns who can decide about the asking, one text for each requirement. The texts
// have only numbers, roles and the ids of users: operators of Temporal read them.
func (a Asking) InWords() []string {
	var words []string
	for _, r := range a.Requirements {
		words = append(words, r.inWords(r.votes(a.Votes, a.Escalated), a.Escalated))
	}
	return words
}

// namedMost bounds the approvers that a text names.
const namedMost = 6

func (r Requirement) inWords(have int32, escalated bool) string {
	who := r.Rule.names(escalated)
	if more := len(who) - namedMost; more > 0 {
		who = append(who[:namedMost], fmt.Sprintf("%d more", more))
	}
	by := "nobody who is named"
	if len(who) > 0 {
		by = strings.Join(who, ", ")
	}
	text := fmt.Sprintf("%d of %d approvals are there, from: %s", have, max(r.Rule.Required, 1), by)
	if !r.Rule.SelfApproval {
		text += " (but not for a call of their own)"
	}
	return text
}

// names returns the approvers of the rule, those that exist in any tenant: roles, and users
// by their ids.
func (r ApprovalRule) names(escalated bool) []string {
	var names []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, a := range r.Approvers {
		switch id, err := uuid.Parse(a.Value); {
		case a.Type == ApproverRole && actor.Role(a.Value).Valid():
			add("role " + a.Value)
		case a.Type == ApproverUser && err == nil:
			add("user " + id.String())
		}
	}
	if escalated {
		add("role " + string(actor.RoleOwner))
		add("role " + string(actor.RoleAdmin))
	}
	return names
}
