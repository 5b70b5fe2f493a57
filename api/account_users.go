package api

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/tenant/account"
)

// Users is what the user endpoints need of the account domain.
type Users interface {
	User(ctx context.Context, tenant uuid.UUID, id string) (account.User, error)
	ListUsers(ctx context.Context, tenant uuid.UUID, f account.UserFilter) (page []account.User, more bool, err error)
	Invite(ctx context.Context, who actor.Actor, in account.InviteInput) (account.Invited, error)
	InviteAgain(ctx context.Context, who actor.Actor, id string) (account.Invited, error)
	ChangeUser(ctx context.Context, who actor.Actor, id string, c account.UserChange) (account.User, error)
	RemoveUser(ctx context.Context, who actor.Actor, id string, expect fault.Expect[account.User]) error
}

type userView struct {
	ID                  uuid.UUID  `json:"id"`
	Email               string     `json:"email"`
	Name                string     `json:"name"`
	Role                actor.Role `json:"role"`
	Status              string     `json:"status"`
	CreatedAt           time.Time  `json:"created_at"`
	JoinedAt            *time.Time `json:"joined_at"`
	InvitationExpiresAt *time.Time `json:"invitation_expires_at"`
	RemovedAt           *time.Time `json:"removed_at"`
	EmailVerifiedAt     *time.Time `json:"email_verified_at"`
}

// invitedView is a user with the token to join with. Only the response that creates the
// token shows it.
type invitedView struct {
	userView

	InvitationToken string `json:"invitation_token"`

	repeatMark
}

func viewUser(u account.User) userView { return userView(u) }

func userTag(u account.User) string { return wire.ViewTag(viewUser(u)) }

func viewInvited(i account.Invited) invitedView {
	return invitedView{userView: viewUser(i.User), InvitationToken: cmp.Or(i.Token, maskedToken)}
}

type inviteBody struct {
	Email *string `json:"email"`
	Name  *string `json:"name"`
	Role  *string `json:"role"`
}

func (h *accountHandlers) inviteUser(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b inviteBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	in := account.InviteInput{Email: v.Required("/email", b.Email), Role: v.Required("/role", b.Role)}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	if b.Name != nil {
		in.Name = *b.Name
	}
	invited, err := h.accounts.Invite(ctx, c.Actor, in)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.Created("/v1/users/"+invited.ID.String(), viewInvited(invited)), nil
}

// maskedToken stands where a repeated invitation does not show the token again, and where only the
// mail has one.
const maskedToken = "[masked]"

// getInvited answers a repeated invitation.
func (h *accountHandlers) getInvited(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	u, err := h.accounts.User(ctx, c.Actor.TenantID, c.Param("id"))
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(invitedView{userView: viewUser(u), InvitationToken: maskedToken}), nil
}

// inviteUserAgain reads no body. The path names the user who is invited again.
func (h *accountHandlers) inviteUserAgain(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	invited, err := h.accounts.InviteAgain(ctx, c.Actor, c.Param("id"))
	return wire.Answer(viewInvited, invited, err)
}

func (h *accountHandlers) getUser(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	u, err := h.accounts.User(ctx, c.Actor.TenantID, c.Param("id"))
	return wire.Answer(viewUser, u, err)
}

func (h *accountHandlers) listUsers(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var f account.UserFilter
	var err error
	if f.Limit, f.Before, err = c.PageByID(); err != nil {
		return wire.Reply{}, err
	}
	f.Status, _ = c.Query("status")
	users, more, err := h.accounts.ListUsers(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.ListByID(f.Limit, users, more, viewUser, func(u account.User) uuid.UUID { return u.ID }), nil
}

type userPatch struct {
	Role *string `json:"role"`
	Name *string `json:"name"`
}

func (h *accountHandlers) patchUser(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b userPatch
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	u, err := h.accounts.ChangeUser(ctx, c.Actor, c.Param("id"), account.UserChange{Role: b.Role, Name: b.Name, Expect: wire.Expect(c, userTag)})
	return wire.Answer(viewUser, u, err)
}

func (h *accountHandlers) removeUser(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return wire.DeletedUnless(h.accounts.RemoveUser(ctx, c.Actor, c.Param("id"), wire.Expect(c, userTag)))
}
