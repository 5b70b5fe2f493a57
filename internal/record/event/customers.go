package event

// The types of events about customers.
const (
	CustomerCreated Type = "customer.created"
	CustomerMerged  Type = "customer.merged"
	CustomerErased  Type = "customer.erased"
)

// NewCustomer is the body of customer.created. It has no attribute of the customer: an event is
// kept by others too, where nobody could erase them.
type NewCustomer struct {
	Fields []string `json:"fields" about:"The fields that were given, without their values."`
}

// Type implements Body.
func (NewCustomer) Type() Type { return CustomerCreated }

// MergedCustomer is the body of customer.merged.
type MergedCustomer struct {
	MergedID string `json:"merged_id" about:"The customer that no longer exists. Its ids name the other one from now on."`
}

// Type implements Body.
func (MergedCustomer) Type() Type { return CustomerMerged }

// ErasedCustomer is the body of customer.erased.
type ErasedCustomer struct {
	Erased []ErasedKind `json:"erased" about:"What was erased beside the record itself."`
}

// ErasedKind counts what was erased of one kind.
type ErasedKind struct {
	Kind  string `json:"kind" about:"The kind of thing, as executions."`
	Count int64  `json:"count" about:"How many of them were erased."`
}

// Type implements Body.
func (ErasedCustomer) Type() Type { return CustomerErased }
