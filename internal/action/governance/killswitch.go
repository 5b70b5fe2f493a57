package governance

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/verb"
)

// SwitchScope is what a kill switch covers.
type SwitchScope string

// The scopes. Rows store them as text, so a value is never renamed.
const (
	SwitchTenant   SwitchScope = "tenant"
	SwitchProvider SwitchScope = "provider"
	SwitchVerb     SwitchScope = "verb"
	SwitchAgent    SwitchScope = "agent"
)

// KillSwitch stops the calls that it covers, whatever the policies say.
type KillSwitch struct {
	ID     uuid.UUID   `json:"id"`
	Scope  SwitchScope `json:"scope"`
	Target *string     `json:"target"` // nil for the tenant
	Reason string      `json:"reason"`
	SetBy  uuid.UUID   `json:"set_by"`
	SetAt  time.Time   `json:"set_at"`
}

// Covers returns the scope and the target as one text, which SwitchesOver compares.
func (k KillSwitch) Covers() string {
	if k.Target == nil {
		return string(k.Scope)
	}
	return string(k.Scope) + ":" + *k.Target
}

// SwitchesOver returns what the kill switches cover that stop a call of the verb for the agent;
// nil where the call is for none.
func SwitchesOver(name verb.Name, agentID *string) []string {
	over := []string{
		KillSwitch{Scope: SwitchTenant}.Covers(),
		KillSwitch{Scope: SwitchProvider, Target: &name.Provider}.Covers(),
		KillSwitch{Scope: SwitchVerb, Target: new(name.String())}.Covers(),
	}
	if agentID != nil {
		over = append(over, KillSwitch{Scope: SwitchAgent, Target: agentID}.Covers())
	}
	return over
}

// StoppedBy returns the first of the switches that covers the call, nil where none does.
func StoppedBy(switches []KillSwitch, name verb.Name, agentID *string) *KillSwitch {
	for _, over := range SwitchesOver(name, agentID) {
		for i := range switches {
			if switches[i].Covers() == over {
				return &switches[i]
			}
		}
	}
	return nil
}

// Verdict returns the decision about a call that the switch covers.
func (k KillSwitch) Verdict() Verdict {
	what := "all calls of this tenant"
	if k.Target != nil {
		what = fmt.Sprintf("the calls of the %s %q", k.Scope, *k.Target)
	}
	return Verdict{Decision: Block, ShadowDecision: Block, Reason: fmt.Sprintf(
		"A kill switch stops %s. user:%s set it at %s, with the reason %q. "+
			"An owner or admin can lift it with DELETE /v1/kill-switch/%s. Then make the call again; the same id may be used.",
		what, k.SetBy, k.SetAt.UTC().Format(time.RFC3339), k.Reason, k.ID,
	)}
}
