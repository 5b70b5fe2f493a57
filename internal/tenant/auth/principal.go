// Package auth authenticates callers. It mints and checks API keys and tokens, and cancels
// the requests of a key that is revoked. The api package calls it. It does not decide what
// a caller may do: the route table does. Sign-up, login and the management of keys are in
// package account.
package auth

import (
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/rate"
)

// Permissions of API keys. No permission allows a key to manage API keys or to decide an
// approval. Keys can be given agents:*, maps:*, documents:manage and webhooks:manage
// already; no endpoint asks for these yet.
const (
	PermAgentsMessage     = "agents:message"
	PermActionsRun        = "actions:run"
	PermActionsCatalog    = "actions:catalog"
	PermMapsTrigger       = "maps:trigger"
	PermEventsSend        = "events:send"
	PermEventsRead        = "events:read"
	PermAgentsManage      = "agents:manage"
	PermApprovalsManage   = "approvals:manage"
	PermAuditManage       = "audit:manage"
	PermCredentialsManage = "credentials:manage"
	PermCustomersManage   = "customers:manage"
	PermDocumentsManage   = "documents:manage"
	PermMapsManage        = "maps:manage"
	PermPoliciesManage    = "policies:manage"
	PermProvidersManage   = "providers:manage"
	PermWebhooksManage    = "webhooks:manage"
)

// Permissions lists every permission that a key can be created with.
func Permissions() []string {
	return []string{
		PermAgentsMessage, PermActionsRun, PermActionsCatalog, PermMapsTrigger, PermEventsSend, PermEventsRead,
		PermAgentsManage, PermApprovalsManage, PermAuditManage, PermCredentialsManage, PermCustomersManage, PermDocumentsManage,
		PermMapsManage, PermPoliciesManage, PermProvidersManage, PermWebhooksManage,
	}
}

// Principal is an authenticated caller.
type Principal struct {
	Kind     actor.Kind // actor.Key or actor.User
	TenantID uuid.UUID
	Name     string // of the key or the user
	// Rate is what the request has found in the windows that it counts in.
	Rate rate.State

	// Of a key.
	KeyID        uuid.UUID
	Permissions  []string
	AgentID      string // "" = not locked to an agent
	IdentityMode string // "" = a Runtime key, which has none
	// IdentitySecrets are sealed: those under which a server vouches for customers. None: the key takes
	// customers on the caller's word.
	IdentitySecrets []string
	AllowedOrigins  []string
	AllowedIPs      []string // networks in CIDR form; empty = everywhere

	// Of a user.
	UserID    uuid.UUID
	SessionID uuid.UUID
	Email     string
	Role      actor.Role // read with the session on each call, so a change acts at once
}

// Has reports whether a key has the permission. Users have roles instead.
func (p Principal) Has(permission string) bool {
	return p.Kind == actor.Key && slices.Contains(p.Permissions, permission)
}

// MayCallFrom reports whether the key may be used from the address. A caller without an
// address is somewhere unknown.
func (p Principal) MayCallFrom(address string) bool {
	if len(p.AllowedIPs) == 0 {
		return true
	}
	from, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(p.AllowedIPs, func(text string) bool {
		network, err := netip.ParsePrefix(text)
		return err == nil && network.Contains(from)
	})
}

// Visited reports whether visitors may have the key: it is for a page or for one agent.
func (p Principal) Visited() bool {
	return p.Kind == actor.Key && (p.AgentID != "" || len(p.AllowedOrigins) > 0)
}

// Actor returns the caller as domain methods take them. requestID and sourceAddr are those
// of the call.
func (p Principal) Actor(requestID, sourceAddr string) actor.Actor {
	who := actor.Actor{Kind: p.Kind, TenantID: p.TenantID, ID: p.KeyID, Role: p.Role, RequestID: requestID, SourceAddr: sourceAddr}
	if p.Kind == actor.User {
		who.ID = p.UserID
	}
	who.Visited = p.Visited()
	return who
}
