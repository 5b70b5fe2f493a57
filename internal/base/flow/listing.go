package flow

import "github.com/google/uuid"

// A SearchAttribute is a column of Temporal's list of workflows. Operators filter by it.
// All are of the type Keyword. Temporal stores values in the clear, so they are ids and
// words of the catalog, never arguments or secrets. Postgres visibility has ten columns of
// this type for all that a namespace needs, and every kind of workflow shares these.
type SearchAttribute string

// The search attributes. Lists that operators have saved contain their names.
const (
	// AttributeTenant is the id of the tenant.
	AttributeTenant SearchAttribute = "AgentRuntimeTenant"
	// AttributeKind is what the workflow is for, a Kind.
	AttributeKind SearchAttribute = "AgentRuntimeKind"
	// AttributeVerb is "provider:verb", for a workflow that makes one call.
	AttributeVerb SearchAttribute = "AgentRuntimeVerb"
	// AttributeRisk is the risk level of the verb when the workflow started.
	AttributeRisk SearchAttribute = "AgentRuntimeRisk"
	// AttributeExecution is the execution's id, which the caller may have chosen.
	AttributeExecution SearchAttribute = "AgentRuntimeExecution"
	// AttributeState is a State, a DeliveryState or the status of a Map: what the workflow waits for, or how it ended. One that
	// has none is under way, or was executed or completed without a wait.
	AttributeState SearchAttribute = "AgentRuntimeState"
	// AttributeSubject is the id of the Map, agent or webhook that the workflow acts for.
	AttributeSubject SearchAttribute = "AgentRuntimeSubject"
)

// SearchAttributes returns the table of all search attributes.
func SearchAttributes() []SearchAttribute {
	return []SearchAttribute{
		AttributeTenant, AttributeKind, AttributeVerb, AttributeRisk, AttributeExecution, AttributeState, AttributeSubject,
	}
}

// A Kind is what a workflow is for.
type Kind string

// The kinds.
const (
	// KindAction is one governed call.
	KindAction Kind = "action"
	// KindErasure is the erasure of a customer.
	KindErasure Kind = "erasure"
)

// Listing is what operators find a workflow by, and what they read of it in Temporal's list.
// A field that is empty is not listed.
type Listing struct {
	Kind   Kind
	Tenant uuid.UUID
	// Verb is "provider:verb", Risk its risk level.
	Verb, Risk string
	Execution  string
	Subject    string
	// Name is that of the Map or the agent, where it is known; the summary shows it.
	Name string
	// Event is the type of the event that a delivery delivers; custom.* for all that senders name.
	Event string
	// Details is a text in Markdown below the summary. It is encrypted.
	Details string
}

// Values returns the values of the search attributes that a workflow has from its start.
func (l Listing) Values() map[SearchAttribute]string {
	values := map[SearchAttribute]string{
		AttributeTenant: l.Tenant.String(), AttributeKind: string(l.Kind), AttributeVerb: l.Verb, AttributeRisk: l.Risk,
		AttributeExecution: l.Execution, AttributeSubject: l.Subject,
	}
	for name, value := range values {
		if value == "" {
			delete(values, name)
		}
	}
	return values
}
