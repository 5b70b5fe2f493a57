// Package auth answers who is calling: it mints and checks API keys and tokens,
// and cancels the requests of a key that is revoked. What a principal may do at an
// endpoint is the api package's route table; sign-up, login and the management of
// keys are the account package's.
package auth

import (
	"slices"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/actor"
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

// Principal is an authenticated caller.
type Principal struct {
	Kind     actor.Kind // actor.Key or actor.User
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
	Role      actor.Role // read with the session on each call, so a change acts at once
}

// Has reports whether a key holds the permission. Users have roles instead.
func (p Principal) Has(permission string) bool {
	return p.Kind == actor.Key && slices.Contains(p.Permissions, permission)
}

// Actor returns the caller as domain methods take them. requestID and sourceAddr are those
// of the call.
func (p Principal) Actor(requestID, sourceAddr string) actor.Actor {
	who := actor.Actor{Kind: p.Kind, TenantID: p.TenantID, ID: p.KeyID, Role: p.Role, RequestID: requestID, SourceAddr: sourceAddr}
	if p.Kind == actor.User {
		who.ID = p.UserID
	}
	return who
}
