package verb

import (
	"encoding/json"
	"fmt"
)

// Definition is a verb as an import makes it and the catalog stores it.
type Definition struct {
	Name        string // without the provider, unique within it
	Domain      string
	Description string
	Risk        Risk
	Operation   Operation
	Idempotency Idempotency
	// Schema is the JSON Schema 2020-12 of the arguments, complete in itself.
	Schema json.RawMessage
	// Plan says how a call is made. Only what calls plans of its kind looks into it.
	Plan json.RawMessage
}

// Report says what an import did to one operation of a document. The catalog stores it, so
// a field is never renamed.
type Report struct {
	Operation string `json:"operation"` // "GET /orders/{id}"
	Reason    string `json:"reason"`
}

// PlanKind says what makes the calls of a plan.
type PlanKind string

// KindHTTP is one HTTP request; see httpplan.
const KindHTTP PlanKind = "http"

// KindOf returns the kind of a stored plan. One that names none is from before there were
// kinds, and is KindHTTP.
func KindOf(plan json.RawMessage) (PlanKind, error) {
	var p struct {
		Kind PlanKind `json:"kind"`
	}
	if err := json.Unmarshal(plan, &p); err != nil {
		return "", fmt.Errorf("read the kind of a verb's plan: %w", err)
	}
	if p.Kind == "" {
		return KindHTTP, nil
	}
	return p.Kind, nil
}
