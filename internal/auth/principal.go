// Package auth answers who is calling: it mints and checks API keys and tokens,
// and cancels the requests of a key that is revoked. What a principal may do at an
// endpoint is the api package's route table.
package auth

import (
	"slices"

	"github.com/google/uuid"
)

// Kind is the kind of credential that a call was made with.
type Kind string

// The two kinds of credential.
const (
	KindKey  Kind = "key"  // X-API-Key
	KindUser Kind = "user" // Authorization: Bearer <JWT>
)

// Permissions of API keys (spec part 5; maps:trigger and the manage permissions
// are given only by name).
const (
	PermAgentsMessage  = "agents:message"
	PermActionsRun     = "actions:run"
	PermActionsCatalog = "actions:catalog"
	PermMapsTrigger    = "maps:trigger"
)

// Principal is an authenticated caller.
type Principal struct {
	Kind     Kind
	TenantID uuid.UUID

	// Of a key.
	KeyID          uuid.UUID
	Permissions    []string
	AgentID        string // "" = not locked to an agent
	IdentityMode   string
	AllowedOrigins []string

	// Of a user.
	UserID    uuid.UUID
	SessionID uuid.UUID
	Role      string
}

// Has reports whether a key holds the permission. Users have roles instead.
func (p Principal) Has(permission string) bool {
	return p.Kind == KindKey && slices.Contains(p.Permissions, permission)
}
