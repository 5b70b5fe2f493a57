package policy

import (
	"fmt"

	"agentruntime/internal/fault"
	"agentruntime/internal/governance"
)

// checkRules holds enumerations to what there is.
func checkRules(p governance.Policy) []fault.Detail {
	var m mistakes
	if p.Mode != governance.Enforce && p.Mode != governance.Shadow {
		m.add("/mode", "enum", "mode is enforce or shadow.")
	}
	switch p.Action {
	case governance.ActionAllow, governance.ActionNotify, governance.ActionRequireApproval, governance.ActionBlock:
	default:
		m.add("/action/type", "enum", "action.type is allow, notify, require_approval or block.")
	}
	for i, x := range p.Matchers {
		switch x.Type {
		case governance.MatchVerb, governance.MatchProvider, governance.MatchRisk, governance.MatchOperation, governance.MatchDomain:
		default:
			m.add(fmt.Sprintf("/verbMatchers/%d/type", i), "enum", "type is verb, provider, risk_level, operation_type or domain.")
		}
	}
	return m
}
