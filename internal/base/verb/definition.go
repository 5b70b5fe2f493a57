package verb

import (
	"encoding/json"
	"fmt"
	"time"
)

// Definition is a verb as an import makes it and the catalog stores it.
type Definition struct {
	Name        string // without the provider, unique within it
	Domain      string
	Description string
	Risk        Risk
	// RiskBy says where Risk comes from, and RiskWhy in words where a name says it.
	RiskBy      RiskBy
	RiskWhy     string
	Operation   Operation
	Idempotency Idempotency
	// Schema is the JSON Schema 2020-12 of the arguments, complete in itself.
	Schema json.RawMessage
	// Plan says how a call is made. Only what calls plans of its kind looks into it.
	Plan json.RawMessage
	// Answer is the JSON Schema of the body of a successful answer; nil where none is known. No call
	// is judged or checked by it.
	Answer json.RawMessage
}

// RiskBy is where the risk of a verb comes from, from the weakest to the strongest. The catalog
// stores it.
type RiskBy string

// Where a risk comes from.
const (
	ByMethod   RiskBy = "method"
	ByName     RiskBy = "name"     // words in the name of the verb or in the path
	ByDocument RiskBy = "document" // x-agent-runtime
	ByRule     RiskBy = "rule"     // a rule of the import
)

// Report says what an import did to one operation of a document. The catalog stores it, so
// a field is never renamed.
type Report struct {
	Operation string `json:"operation"` // "GET /orders/{id}"
	Reason    string `json:"reason"`
}

// EventType is what a provider sends by itself, in the report of its import. The catalog stores it,
// so a field is never renamed.
type EventType struct {
	Name    string `json:"name"`
	Summary string `json:"summary"` // "" where the document has none
}

// Server is a server of a document in the report of its import. The catalog stores it, so a
// field is never renamed.
type Server struct {
	URL     string `json:"url"`              // as the document writes it, "" where it names none
	BaseURL string `json:"base_url"`         // where its calls go, "" where it cannot be used
	Verbs   int    `json:"verbs"`            // how many verbs call it
	Reason  string `json:"reason,omitempty"` // why it cannot be used
}

// ServerChoice sends the calls of one server of a document elsewhere. Settings of imports store
// it, so a field is never renamed.
type ServerChoice struct {
	URL     string `json:"url"` // as the document writes it
	BaseURL string `json:"base_url"`
}

// PlanKind says what makes the calls of a plan.
type PlanKind string

// KindHTTP is one HTTP request; see httpplan.
const KindHTTP PlanKind = "http"

// PlanHead is what a stored plan says whatever its kind. Of a plan that says none of it,
// nothing is stored: approvals are bound to a plan's hash.
type PlanHead struct {
	// Kind is "" in a stored plan of HTTP.
	Kind PlanKind `json:"kind,omitempty"`
	// TimeoutMS bounds one attempt, in milliseconds; 0 means the service's own timeout.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// Security is what a call must present; nil where the provider's auth counts.
	Security Security `json:"security,omitempty"`
	// Normalized is a jq program that makes the normalized form of a result; "" where there is none.
	Normalized string `json:"normalized,omitempty"`
	// ErrorWhen is a jq program that says of the result of a 2xx whether it is an error all the same: it has
	// another result than false and null then; "" where there is none.
	ErrorWhen string `json:"error_when,omitempty"`
	// ReadBack settles a call whose outcome is unknown; nil where none is declared.
	ReadBack *ReadBack `json:"read_back,omitempty"`
}

// Timeouts that a document may declare for one attempt. The step that sends allows
// MaxTimeout.
const (
	MinTimeout = time.Second
	MaxTimeout = time.Minute
)

// Timeout returns how long one attempt may take, otherwise where the plan does not say.
func (h PlanHead) Timeout(otherwise time.Duration) time.Duration {
	if h.TimeoutMS <= 0 {
		return otherwise
	}
	return min(time.Duration(h.TimeoutMS)*time.Millisecond, MaxTimeout)
}

// HeadOf reads what a stored plan says whatever its kind. Kind is never "".
func HeadOf(plan json.RawMessage) (PlanHead, error) {
	var h PlanHead
	if err := json.Unmarshal(plan, &h); err != nil {
		return PlanHead{}, fmt.Errorf("read the head of a verb's plan: %w", err)
	}
	if h.Kind == "" {
		h.Kind = KindHTTP
	}
	return h, nil
}
