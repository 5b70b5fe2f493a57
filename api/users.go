package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/tenant/account"
)

// Users is what the user endpoints need of the account domain. actor is the user who
// makes the change.
type Users interface {
	User(ctx context.Context, tenant uuid.UUID, id string) (account.User, error)
	ListUsers(ctx context.Context, tenant uuid.UUID, f account.UserFilter) (page []account.User, more bool, err error)
	Invite(ctx context.Context, tenant, actor uuid.UUID, in account.InviteInput) (account.Invited, error)
	InviteAgain(ctx context.Context, tenant, actor uuid.UUID, id string) (account.Invited, error)
	ChangeUser(ctx context.Context, tenant, actor uuid.UUID, id string, c account.UserChange) (account.User, error)
	RemoveUser(ctx context.Context, tenant, actor uuid.UUID, id string) error
}

type userView struct {
	ID                  uuid.UUID    `json:"id"`
	Email               string       `json:"email"`
	Name                string       `json:"name"`
	Role                account.Role `json:"role"`
	Status              string       `json:"status"`
	CreatedAt           time.Time    `json:"created_at"`
	JoinedAt            *time.Time   `json:"joined_at"`
	InvitationExpiresAt *time.Time   `json:"invitation_expires_at"`
	RemovedAt           *time.Time   `json:"removed_at"`
}

// invitedView is a user with the token that he joins by, in the answer that makes it.
type invitedView struct {
	userView

	InvitationToken string `json:"invitation_token"`
}

func viewUser(u account.User) userView { return userView(u) }

func viewInvited(i account.Invited) invitedView {
	return invitedView{userView: viewUser(i.User), InvitationToken: i.Token}
}

type inviteBody struct {
	Email *string `json:"email"`
	Name  *string `json:"name"`
	Role  *string `json:"role"`
}

func (s *Server) inviteUser(ctx context.Context, c *call) (reply, error) {
	var b inviteBody
	if err := c.decode(&b); err != nil {
		return reply{}, err
	}
	var v problems
	in := account.InviteInput{Email: v.present("/email", b.Email), Role: v.present("/role", b.Role)}
	if err := v.err(); err != nil {
		return reply{}, err
	}
	if b.Name != nil {
		in.Name = *b.Name
	}
	invited, err := s.Accounts.Invite(ctx, c.who.TenantID, c.who.UserID, in)
	if err != nil {
		return reply{}, err
	}
	return created("/v1/users/"+invited.ID.String(), viewInvited(invited)), nil
}

// inviteUserAgain reads no body: the path says whose invitation is made anew.
func (s *Server) inviteUserAgain(ctx context.Context, c *call) (reply, error) {
	invited, err := s.Accounts.InviteAgain(ctx, c.who.TenantID, c.who.UserID, c.param("id"))
	if err != nil {
		return reply{}, err
	}
	return ok(viewInvited(invited)), nil
}

func (s *Server) getUser(ctx context.Context, c *call) (reply, error) {
	u, err := s.Accounts.User(ctx, c.who.TenantID, c.param("id"))
	if err != nil {
		return reply{}, err
	}
	return ok(viewUser(u)), nil
}

func (s *Server) listUsers(ctx context.Context, c *call) (reply, error) {
	var f account.UserFilter
	var err error
	if f.Limit, err = c.limit(); err != nil {
		return reply{}, err
	}
	if f.Before, err = c.cursor(); err != nil {
		return reply{}, err
	}
	f.Status, _ = c.query("status")
	users, more, err := s.Accounts.ListUsers(ctx, c.who.TenantID, f)
	if err != nil {
		return reply{}, err
	}
	views := make([]userView, len(users))
	var last uuid.UUID
	for i, u := range users {
		views[i], last = viewUser(u), u.ID
	}
	return reply{data: views, page: pageOf(f.Limit, more, last)}, nil
}

type userPatch struct {
	Role *string `json:"role"`
	Name *string `json:"name"`
}

func (s *Server) patchUser(ctx context.Context, c *call) (reply, error) {
	var b userPatch
	if err := c.decode(&b); err != nil {
		return reply{}, err
	}
	u, err := s.Accounts.ChangeUser(ctx, c.who.TenantID, c.who.UserID, c.param("id"), account.UserChange(b))
	if err != nil {
		return reply{}, err
	}
	return ok(viewUser(u)), nil
}

func (s *Server) removeUser(ctx context.Context, c *call) (reply, error) {
	if err := s.Accounts.RemoveUser(ctx, c.who.TenantID, c.who.UserID, c.param("id")); err != nil {
		return reply{}, err
	}
	return ok(map[string]bool{"deleted": true}), nil
}
