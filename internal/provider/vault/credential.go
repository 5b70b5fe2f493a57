package vault

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
)

// Status says whether a credential may be used.
type Status string

// The statuses. A caller moves a credential between active and revoked; expired
// is what the service finds out.
const (
	StatusActive  Status = "active"
	StatusRevoked Status = "revoked"
	StatusExpired Status = "expired"
)

// Credential is what the API shows of a credential: everything but the secret.
type Credential struct {
	ID         uuid.UUID
	Provider   string
	Type       credential.Kind
	Label      string
	CustomerID string // "" is the tenant's own
	// Schemes has the kind of each secret by its scheme; nil for a credential of one secret.
	Schemes map[string]credential.Kind
	// Origin is the one that the credential may be sent to: scheme, host and port. "" where it
	// was stored before its provider; then it is not sent.
	Origin string
	// AllowedHosts take the place of the origin where there are any.
	AllowedHosts []string
	Status       Status
	Version      int    // counts up with each rotation, from 1
	CreatedBy    string // "user:<id>" or "key:<id>"
	CreatedAt    time.Time
	UpdatedAt    time.Time
	LastUsedAt   *time.Time
	RotatedAt    *time.Time
	// ExpiresAt is when the provider ends it, as its owner said; nil: never.
	ExpiresAt *time.Time
}

// New is a credential to store.
type New struct {
	Provider     string
	Type         string // read without regard to case
	Label        string
	CustomerID   string
	Origin       string // "" takes that of the provider's base URL
	AllowedHosts []string
	Data         json.RawMessage // one object with exactly the fields of the type
	ExpiresAt    *time.Time      // nil: never
}

// Patch changes what is not nil.
type Patch struct {
	Label        *string
	Origin       *string
	AllowedHosts *[]string
	Status       *string // active or revoked, read without regard to case
	// ExpiresAt is a new end, and nil in it none any more. An expired credential is active again.
	ExpiresAt **time.Time
	// Expect is asked about the credential before the change.
	Expect fault.Expect[Credential]
}

// Filter selects credentials of a tenant for a list.
type Filter struct {
	Provider   string // "" is any
	Status     string // "" is any; read without regard to case
	CustomerID string // "" is any
	Before     uuid.UUID
	Limit      int
}

// Limits on the fields of a credential.
const (
	maxLabel    = 255 // bytes
	maxCustomer = 255 // visible ASCII characters
)

func parseStatus(path, s string, allowed ...Status) (Status, error) {
	names := make([]string, len(allowed))
	for i, a := range allowed {
		if strings.EqualFold(s, string(a)) {
			return a, nil
		}
		names[i] = string(a)
	}
	return "", fault.Invalid(path, "enum", near.Enum("status", s, names...))
}

func checkLabel(s string) error {
	if len(s) > maxLabel || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return fault.Invalid("/label", "maxLength", fmt.Sprintf("label has at most %d bytes and no control characters.", maxLabel))
	}
	return nil
}

// validProvider reports whether a credential can be for the provider: a slug, or one of models.
func validProvider(s string) bool { return verb.ValidSlug(strings.TrimPrefix(s, "model:")) }

// check refuses what no credential can have.
func (f Filter) check() error {
	if f.Provider != "" && !validProvider(f.Provider) {
		return fault.Invalid("query.provider", "pattern", "provider is a provider's slug.")
	}
	return checkCustomer("query.customer_id", f.CustomerID)
}

func checkCustomer(path, s string) error {
	if len(s) > maxCustomer || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fault.Invalid(path, "pattern", fmt.Sprintf("customer_id is 1 to %d visible ASCII characters.", maxCustomer))
	}
	return nil
}

// parsed is a New that passed every check.
type parsed struct {
	secret credential.Secret
	hosts  []string
}

func (n New) parse() (parsed, error) {
	if !validProvider(n.Provider) {
		return parsed{}, fault.Invalid("/provider", "pattern", "provider is a provider's slug, or model: and the slug of a model provider.")
	}
	t, err := ParseType(n.Type)
	if err != nil {
		return parsed{}, err
	}
	if err := checkLabel(n.Label); err != nil {
		return parsed{}, err
	}
	if err := checkCustomer("/customer_id", n.CustomerID); err != nil {
		return parsed{}, err
	}
	hosts, err := parseHosts(n.AllowedHosts)
	if err != nil {
		return parsed{}, err
	}
	if t == credential.Schemes && !verb.ValidSlug(n.Provider) {
		return parsed{}, fault.Invalid("/type", "enum", "A model provider takes one secret.")
	}
	c, err := parseData(t, n.Data)
	if err != nil {
		return parsed{}, err
	}
	return parsed{secret: c, hosts: hosts}, nil
}
