package access

import "github.com/google/uuid"

// ids returns a tenant's ids of a kind.
func (own *tenant) ids(kind string) []string {
	switch kind {
	case "execution":
		return []string{own.execution, own.name + "-blocked"}
	case "approval":
		return []string{own.approval}
	case "grant":
		return []string{own.grant}
	case "modelProvider":
		return []string{own.modelProvider}
	case "killSwitch":
		return []string{own.killSwitch}
	case "customer":
		return []string{own.customer, own.name + "-customer"}
	case "fact":
		return []string{own.fact}
	case "erasure":
		return []string{own.erased}
	case "policy":
		return []string{own.policy}
	case "provider":
		return []string{own.provider}
	case "credential":
		return []string{own.credential}
	case "key":
		return []string{own.apiKey}
	case "user":
		return []string{own.people["owner"].id, own.people["member"].id, own.people["removed"].id, own.people["invited"].id}
	case "verb":
		return []string{own.provider + ":list_orders", own.provider + ":create_refund"}
	case "map":
		return []string{own.mapID}
	case "agent":
		return []string{own.agent}
	case "mapExecution":
		return []string{own.mapExecution}
	case "message":
		return []string{own.message}
	case "goal":
		return []string{own.goal}
	case "ownCustomer":
		return []string{own.customer}
	case "event":
		return []string{own.event}
	case "webhook":
		return []string{own.webhook}
	case "delivery":
		return []string{own.delivery}
	case "login":
		return []string{sessionIn(own.token)}
	case "session":
		return []string{own.name + "-session"}
	case "agentSession":
		return []string{own.agent + "/sessions/" + own.name + "-session"}
	}
	return nil
}

// unknown is an id of a kind that nobody has.
func unknown(kind string) string {
	switch kind {
	case "approval":
		return "appr_" + uuid.Must(uuid.NewV7()).String()
	case "mapExecution", "message", "goal":
		return "exec_" + uuid.Must(uuid.NewV7()).String()
	case "delivery":
		return "evt_" + uuid.Must(uuid.NewV7()).String()
	case "ownCustomer", "credential", "key", "login", "user", "grant", "policy", "customer", "fact", "erasure", "webhook", "killSwitch", "modelProvider", "map", "agent":
		return uuid.Must(uuid.NewV7()).String()
	case "agentSession":
		return uuid.Must(uuid.NewV7()).String() + "/sessions/beta-none"
	case "verb":
		return "beta-none:list_orders"
	}
	return "beta-none"
}
