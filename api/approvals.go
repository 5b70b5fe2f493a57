package api

// Approvals is what the approval endpoints need.
type Approvals interface{}
