package account

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/record/audit"
)

// managesUsers reports whether a user of the role manages others. Only owners manage
// those.
func managesUsers(r actor.Role) bool { return r == actor.RoleOwner || r == actor.RoleAdmin }

func parseRole(s string) (actor.Role, error) {
	if r := actor.Role(strings.ToLower(s)); r.Valid() {
		return r, nil
	}
	return "", fault.Invalid("/role", "enum", near.Enum("role", actor.Role(s), actor.RoleOwner, actor.RoleAdmin, actor.RoleApprover, actor.RoleMember))
}

// The states of a user.
const (
	UserInvited = "invited" // has not accepted yet; the invitation may have expired
	UserActive  = "active"
	UserRemoved = "removed"
)

// User is a user of a tenant.
type User struct {
	ID                  uuid.UUID
	Email               string
	Name                string
	Role                actor.Role
	Status              string
	CreatedAt           time.Time
	JoinedAt            *time.Time
	InvitationExpiresAt *time.Time // while the user is invited
	RemovedAt           *time.Time
	// EmailVerifiedAt is when the user showed that the address is theirs; nil while they have not.
	EmailVerifiedAt *time.Time
}

// Invited is a user and the token of their invitation, which is shown this once. It is "" where
// only the mail may contain one.
type Invited struct {
	User
	Token string
}

func shown(r dbsqlc.GetUserRow) User {
	u := User{
		ID: r.ID, Email: r.Email, Name: r.Name, Role: actor.Role(r.Role), Status: UserInvited, CreatedAt: r.CreatedAt.UTC(),
		JoinedAt: db.UTC(r.JoinedAt), InvitationExpiresAt: db.UTC(r.InvitationExpiresAt), RemovedAt: db.UTC(r.RemovedAt),
		EmailVerifiedAt: db.UTC(r.EmailVerifiedAt),
	}
	switch {
	case r.RemovedAt != nil:
		u.Status = UserRemoved
	case r.JoinedAt != nil:
		u.Status = UserActive
	}
	return u
}

func unknownUser() error { return fault.New(fault.CodeUserNotFound, "") }

// parseUserID reads an id as it is written. Every other text is an unknown user.
func parseUserID(id string) (uuid.UUID, error) {
	parsed, err := uuid.Parse(id)
	if err != nil || parsed.String() != id {
		return uuid.Nil, unknownUser()
	}
	return parsed, nil
}

// User returns a user of the tenant, a removed one too, or USER_NOT_FOUND.
func (s *Service) User(ctx context.Context, tenant uuid.UUID, id string) (User, error) {
	parsed, err := parseUserID(id)
	if err != nil {
		return User{}, err
	}
	return s.user(ctx, s.d.DB.Tenant(tenant), tenant, parsed)
}

func (s *Service) user(ctx context.Context, tx dbsqlc.DBTX, tenant, id uuid.UUID) (User, error) {
	row, err := s.q.GetUser(ctx, tx, dbsqlc.GetUserParams{TenantID: tenant, ID: id})
	switch {
	case db.IsNoRows(err):
		return User{}, unknownUser()
	case err != nil:
		return User{}, fmt.Errorf("account: read user: %w", err)
	}
	return shown(row), nil
}

// UserFilter selects users for a list.
type UserFilter struct {
	Status string     // "" is all but the removed; "all"; else a state, in any case
	Before *uuid.UUID // the last one of the page before
	Limit  int
}

// ListUsers returns a page of the tenant's users, the newest first, and whether there are
// more after the last.
func (s *Service) ListUsers(ctx context.Context, tenant uuid.UUID, f UserFilter) (page []User, more bool, err error) {
	arg := dbsqlc.ListUsersParams{TenantID: tenant, Before: f.Before, N: int32(f.Limit + 1)}
	switch strings.ToLower(f.Status) {
	case "":
		arg.Active, arg.Invited = true, true
	case "all":
		arg.Active, arg.Invited, arg.Removed = true, true, true
	case UserActive:
		arg.Active = true
	case UserInvited:
		arg.Invited = true
	case UserRemoved:
		arg.Removed = true
	default:
		return nil, false, fault.Invalid("query.status", "enum", near.Enum("status", f.Status, UserActive, UserInvited, UserRemoved, "all"))
	}
	rows, err := s.q.ListUsers(ctx, s.d.DB.Reading(tenant, db.ListLimit), arg)
	if err != nil {
		return nil, false, fmt.Errorf("account: list users: %w", err)
	}
	rows, more = db.Page(rows, f.Limit)
	page = make([]User, len(rows))
	for i, r := range rows {
		page[i] = shown(dbsqlc.GetUserRow(r))
	}
	return page, more, nil
}

// UserChange changes what is not nil.
type UserChange struct {
	Role *string // in any case
	Name *string
	// Expect is asked about the user before the change.
	Expect fault.Expect[User]
}

// ChangeUser changes the role or the name of a user. It
// refuses with VALIDATION_ERROR, USER_NOT_FOUND, INSUFFICIENT_PERMISSIONS, and with
// CONFLICT where no active owner would be left.
func (s *Service) ChangeUser(ctx context.Context, who actor.Actor, id string, c UserChange) (User, error) {
	var to *actor.Role
	if c.Role != nil {
		r, err := parseRole(*c.Role)
		if err != nil {
			return User{}, err
		}
		to = &r
	}
	if c.Name != nil {
		if err := checkName(*c.Name); err != nil {
			return User{}, err
		}
	}
	return s.manage(ctx, who, id, func(tx pgx.Tx, m managed) (User, error) {
		if err := c.Expect.Check(m.target); err != nil {
			return User{}, err
		}
		return s.changeUser(ctx, tx, m, to, c.Name)
	})
}

func (s *Service) changeUser(ctx context.Context, tx pgx.Tx, m managed, role *actor.Role, name *string) (User, error) {
	was, u := m.target, m.target
	if role != nil {
		u.Role = *role
	}
	if name != nil {
		u.Name = *name
	}
	if u.Role == was.Role && u.Name == was.Name {
		return u, nil
	}
	if u.Role != was.Role {
		if err := s.mayLose(ctx, tx, m, u.Role); err != nil {
			return User{}, err
		}
	}
	b := &db.Batch{}
	db.QueueExec(b, s.q.UpdateUser, dbsqlc.UpdateUserParams{TenantID: m.who.TenantID, ID: u.ID, Role: string(u.Role), Name: u.Name})
	if u.Role != was.Role {
		audit.Queue(b, m.record(audit.UserRoleChanged).With(map[string]any{"from": was.Role, "to": u.Role}))
	}
	if u.Name != was.Name {
		audit.Queue(b, m.record(audit.UserRenamed))
	}
	if err := b.SendIn(ctx, tx); err != nil {
		return User{}, fmt.Errorf("account: change user: %w", err)
	}
	return u, nil
}

// RemoveUser ends a user's membership and their sessions, or withdraws an invitation. The
// row stays; the address is free for another user. It refuses as
// ChangeUser does; a second time is USER_NOT_FOUND. expect is asked about the user before.
func (s *Service) RemoveUser(ctx context.Context, who actor.Actor, id string, expect fault.Expect[User]) error {
	_, err := s.manage(ctx, who, id, func(tx pgx.Tx, m managed) (User, error) {
		if err := expect.Check(m.target); err != nil {
			return User{}, err
		}
		if err := s.mayLose(ctx, tx, m, ""); err != nil {
			return User{}, err
		}
		now, b := s.now(), &db.Batch{}
		db.QueueExec(b, s.q.RemoveUser, dbsqlc.RemoveUserParams{TenantID: m.who.TenantID, ID: m.target.ID, Now: now})
		db.QueueExec(b, s.q.RevokeSessionsOf, dbsqlc.RevokeSessionsOfParams{TenantID: m.who.TenantID, UserID: m.target.ID, Now: now})
		audit.Queue(b, m.record(audit.UserRemoved).With(map[string]any{"role": m.target.Role, "status": m.target.Status}))
		if err := b.SendIn(ctx, tx); err != nil {
			return User{}, fmt.Errorf("account: remove user: %w", err)
		}
		return User{}, nil
	})
	return err
}

// managed is a user about to be changed, and who changes them.
type managed struct {
	who    actor.Actor
	role   actor.Role // of who at this moment; it may have changed since the call began
	target User
}

func (m managed) record(action audit.Action) audit.Record {
	return aboutUser(m.who, action, m.target.ID)
}

// manage checks that the actor may change the user, and runs change. No other user of the
// tenant changes in that transaction.
func (s *Service) manage(ctx context.Context, who actor.Actor, id string, change func(pgx.Tx, managed) (User, error)) (out User, err error) {
	parsed, err := parseUserID(id)
	if err != nil {
		return User{}, err
	}
	err = s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		m := managed{who: who}
		if m.role, err = s.lockAs(ctx, tx, who); err != nil {
			return err
		}
		if m.target, err = s.user(ctx, tx, who.TenantID, parsed); err != nil {
			return err
		}
		switch {
		case m.target.Status == UserRemoved:
			return unknownUser()
		case managesUsers(m.target.Role) && m.role != actor.RoleOwner && who.ID != parsed:
			return fault.New(fault.CodeInsufficientPermissions, "Owners and admins are managed by owners: this takes the role owner.")
		}
		out, err = change(tx, m)
		return err
	})
	return out, err
}

// lockAs makes changes of the tenant's users run one after the other. It returns the
// actor's role after the earlier changes.
func (s *Service) lockAs(ctx context.Context, tx pgx.Tx, who actor.Actor) (actor.Role, error) {
	if err := s.q.LockUsers(ctx, tx, who.TenantID); err != nil {
		return "", fmt.Errorf("account: lock users: %w", err)
	}
	role, err := s.q.RoleOfActiveUser(ctx, tx, dbsqlc.RoleOfActiveUserParams{TenantID: who.TenantID, ID: who.ID})
	if err != nil && !db.IsNoRows(err) {
		return "", fmt.Errorf("account: read role: %w", err)
	}
	if !managesUsers(actor.Role(role)) {
		return "", fault.New(fault.CodeInsufficientPermissions, "This takes the role owner or admin.")
	}
	return actor.Role(role), nil
}

// mayGive refuses where a user of role by may not give another user the role to.
func mayGive(by, to actor.Role) error {
	if managesUsers(to) && by != actor.RoleOwner {
		return fault.New(fault.CodeInsufficientPermissions, "The roles owner and admin are given by owners: this takes the role owner.")
	}
	return nil
}

// mayLose refuses where the target may not change from their role to another; "" is none.
func (s *Service) mayLose(ctx context.Context, tx pgx.Tx, m managed, to actor.Role) error {
	if err := mayGive(m.role, to); err != nil {
		return err
	}
	if m.target.Role != actor.RoleOwner || m.target.Status != UserActive {
		return nil
	}
	others, err := s.q.CountOtherOwners(ctx, tx, dbsqlc.CountOtherOwnersParams{TenantID: m.who.TenantID, ID: m.target.ID})
	switch {
	case err != nil:
		return fmt.Errorf("account: count owners: %w", err)
	case others == 0:
		return fault.New(fault.CodeConflict, "This is the tenant's only active owner. Make another user an owner first.")
	}
	return nil
}
