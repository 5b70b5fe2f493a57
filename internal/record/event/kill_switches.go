package event

// The types of events about kill switches.
const (
	KillSwitchSet    Type = "kill_switch.set"
	KillSwitchLifted Type = "kill_switch.lifted"
)

// Switch are the members of an event about a kill switch.
type Switch struct {
	KillSwitchID string `json:"kill_switch_id" about:"The kill switch."`
	Scope        string `json:"scope" about:"What it covers." enum:"tenant,provider,verb,agent"`
	Target       string `json:"target" about:"The slug of the provider, the verb, or the id of the agent. Empty for the whole tenant."`
	Reason       string `json:"reason" about:"Why it was set."`
}

// SwitchedOff is the body of kill_switch.set.
type SwitchedOff struct {
	Switch
	SetBy string `json:"set_by" about:"The user who set it, as user:<id>."`
}

// Type implements Body.
func (SwitchedOff) Type() Type { return KillSwitchSet }

// SwitchedOn is the body of kill_switch.lifted.
type SwitchedOn struct {
	Switch
	LiftedBy string `json:"lifted_by" about:"The user who lifted it, as user:<id>."`
}

// Type implements Body.
func (SwitchedOn) Type() Type { return KillSwitchLifted }
