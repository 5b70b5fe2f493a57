// Package actor says who acts: an API key, a user, an agent, a Map, the service itself,
// or the operator of the platform. The api package builds an Actor once for each call,
// and every domain method that changes something takes it. The package decides nothing: the
// route table and the domain say what an actor may do.
package actor

import (
	"net/netip"
	"slices"

	"github.com/google/uuid"
)

// Kind is the kind of an actor. The audit trail stores it as text, so a value is never
// renamed.
type Kind string

// The kinds.
const (
	// Key is an API key.
	Key Kind = "key"
	// User is a person who is logged in.
	User Kind = "user"
	// Agent is a deployed agent in one of its turns.
	Agent Kind = "agent"
	// Map is a Map in one of its executions.
	Map Kind = "map"
	// Workflow is a run's workflow, where the caller is not known.
	Workflow Kind = "workflow"
	// System is the service by itself: an expiry, a repair.
	System Kind = "system"
	// Operator is the operator of the platform: a command on the machine, or a signal
	// from the Temporal UI. Operators belong to no tenant.
	Operator Kind = "operator"
)

// Role is what a user may do in their tenant. Users and grants store it as text.
type Role string

// The roles, from the one that may most to the one that may least.
const (
	RoleOwner    Role = "owner"
	RoleAdmin    Role = "admin"
	RoleApprover Role = "approver"
	RoleMember   Role = "member"
)

// Roles lists every role, from the one that may most to the one that may least.
func Roles() []Role { return []Role{RoleOwner, RoleAdmin, RoleApprover, RoleMember} }

// Valid reports whether the role exists.
func (r Role) Valid() bool { return slices.Contains(Roles(), r) }

// Actor is who acts, and how they reached us. The zero Actor is nobody; use SystemOf and
// OperatorAt for the two kinds that have no id.
type Actor struct {
	Kind Kind
	// TenantID is the tenant in which the actor acts. It is uuid.Nil for an operator who
	// acts on the platform.
	TenantID uuid.UUID
	// ID is the id of the key, user, agent or Map. It is uuid.Nil for the system and for
	// operators.
	ID uuid.UUID
	// Role of a user; "" for all others.
	Role Role
	// RequestID is the X-Request-Id of the call; "" where there was none.
	RequestID string
	// SourceAddr is the caller's network address, or the place that OperatorAt was given;
	// "" where there was none.
	SourceAddr string
	// Visited: the key is for a page or for one agent, so visitors may have it.
	Visited bool
}

// SystemOf returns the service itself, acting in a tenant.
func SystemOf(tenant uuid.UUID) Actor { return Actor{Kind: System, TenantID: tenant} }

// OperatorAt returns the platform's operator, acting from a place such as the command
// line. tenant is uuid.Nil where the operator acts on the platform.
func OperatorAt(tenant uuid.UUID, place string) Actor {
	return Actor{Kind: Operator, TenantID: tenant, SourceAddr: place}
}

// Network returns the part of the caller's address that belongs to one subscriber: an IPv4
// address, or the /64 of an IPv6 address. Any other SourceAddr is returned as it is.
func (a Actor) Network() string {
	address, err := netip.ParseAddr(a.SourceAddr)
	if err != nil {
		return a.SourceAddr
	}
	address = address.Unmap().WithZone("")
	if address.Is6() {
		if network, err := address.Prefix(64); err == nil {
			return network.String()
		}
	}
	return address.String()
}

// IDText returns the id as audit records show it: "" for the system and for operators.
func (a Actor) IDText() string {
	if a.ID == uuid.Nil {
		return ""
	}
	return a.ID.String()
}

// UserID returns the user's id, nil where the actor is no user.
func (a Actor) UserID() *uuid.UUID { return a.idOf(User) }

// KeyID returns the key's id, nil where the actor is no key.
func (a Actor) KeyID() *uuid.UUID { return a.idOf(Key) }

func (a Actor) idOf(kind Kind) *uuid.UUID {
	if a.Kind != kind {
		return nil
	}
	id := a.ID
	return &id
}

// String returns "kind:id", which columns such as created_by contain, and "kind" for an
// actor without an id.
func (a Actor) String() string {
	if a.ID == uuid.Nil {
		return string(a.Kind)
	}
	return string(a.Kind) + ":" + a.ID.String()
}
