// Package auth answers who is calling: it mints and checks API keys and tokens,
// and cancels the requests of a key that is revoked. What a principal may do at an
// endpoint is the api package's route table; sign-up, login and the management of
// keys are the account package's.
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

// Permissions of API keys. maps:trigger and the manage permissions are given only
// by name; there is none for API keys, and none decides an approval.
const (
	PermAgentsMessage     = "agents:message"
	PermActionsRun        = "actions:run"
	PermActionsCatalog    = "actions:catalog"
	PermMapsTrigger       = "maps:trigger"
	PermAgentsManage      = "agents:manage"
	PermApprovalsManage   = "approvals:manage"
	PermAuditManage       = "audit:manage"
	PermCredentialsManage = "credentials:manage"
	PermDocumentsManage   = "documents:manage"
	PermMapsManage        = "maps:manage"
	PermPoliciesManage    = "policies:manage"
	PermProvidersManage   = "providers:manage"
	PermWebhooksManage    = "webhooks:manage"
)

// Permissions lists every permission that a key can be created with.
func Permissions() []string {
	return []string{
		PermAgentsMessage, PermActionsRun, PermActionsCatalog, PermMapsTrigger,
		PermAgentsManage, PermApprovalsManage, PermAuditManage, PermCredentialsManage, PermDocumentsManage,
		PermMapsManage, PermPoliciesManage, PermProvidersManage, PermWebhooksManage,
	}
}

// Roles of users, from the one that may most to the one that may least.
const (
	RoleOwner    = "owner"
	RoleAdmin    = "admin"
	RoleApprover = "approver"
	RoleMember   = "member"
)

// Roles lists every role that a user can have, from the one that may most to the
// one that may least.
func Roles() []string { return []string{RoleOwner, RoleAdmin, RoleApprover, RoleMember} }

// Principal is an authenticated caller.
type Principal struct {
	Kind     Kind
	TenantID uuid.UUID
	Name     string // of the key or the user

	// Of a key.
	KeyID          uuid.UUID
	Permissions    []string
	AgentID        string // "" = not locked to an agent
	IdentityMode   string // "" = a Runtime key, which has none
	AllowedOrigins []string

	// Of a user.
	UserID    uuid.UUID
	SessionID uuid.UUID
	Email     string
	Role      string // read with the session on each call, so a change acts at once
}

// Has reports whether a key holds the permission. Users have roles instead.
func (p Principal) Has(permission string) bool {
	return p.Kind == KindKey && slices.Contains(p.Permissions, permission)
}
