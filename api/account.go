package api

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/tenant/account"
)

// Accounts is what the endpoints of sessions and users need of the account domain.
type Accounts interface {
	Users
	Self
	Mailed
	SignUp(ctx context.Context, who actor.Actor, in account.SignupInput) (account.SignedUp, error)
	LogIn(ctx context.Context, who actor.Actor, in account.LoginInput) (account.Login, error)
	Refresh(ctx context.Context, who actor.Actor, refreshToken string) (account.Login, error)
	LogOut(ctx context.Context, who actor.Actor, session uuid.UUID) error
	AcceptInvitation(ctx context.Context, who actor.Actor, in account.AcceptInput) (account.Login, error)
	Join(ctx context.Context, who actor.Actor, in account.AcceptInput) error
}

type signupBody struct {
	Email    *string `json:"email"`
	Password *string `json:"password"`
	Name     *string `json:"name"`
}

type signupView struct {
	UserID  uuid.UUID `json:"userId"`
	Message string    `json:"message"`
}

// signUp answers without a Location. The caller must not learn whether the address had a
// user before.
func (h *accountHandlers) signUp(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b signupBody
	if err := c.Decode(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	in := account.SignupInput{Email: v.Required("/email", b.Email), Password: v.Required("/password", b.Password)}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	if b.Name != nil {
		in.Name = *b.Name
	}
	up, err := h.accounts.SignUp(ctx, c.Actor, in)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.Reply{Status: http.StatusCreated, Data: signupView(up)}, nil
}

type loginBody struct {
	Email    *string `json:"email"`
	Password *string `json:"password"`
}

type loginView struct {
	Token        string    `json:"token"`
	ExpiresIn    int64     `json:"expires_in"` // seconds
	RefreshToken string    `json:"refresh_token"`
	User         loginUser `json:"user"`
}

type loginUser struct {
	ID       uuid.UUID `json:"id"`
	Email    string    `json:"email"`
	TenantID uuid.UUID `json:"tenantId"`
}

func viewLogin(l account.Login) loginView {
	return loginView{
		Token: l.Token, ExpiresIn: int64(l.ExpiresIn.Seconds()), RefreshToken: l.RefreshToken,
		User: loginUser{ID: l.UserID, Email: l.Email, TenantID: l.TenantID},
	}
}

func (h *accountHandlers) logIn(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b loginBody
	if err := c.Decode(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	in := account.LoginInput{Email: v.Required("/email", b.Email), Password: v.Required("/password", b.Password)}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	login, err := h.accounts.LogIn(ctx, c.Actor, in)
	return wire.Answer(viewLogin, login, err)
}

type acceptBody struct {
	Token    *string `json:"token"`
	Password *string `json:"password"`
	Name     *string `json:"name"`
}

// acceptInvitation answers like a login: the invited person has their first session.
func (h *accountHandlers) acceptInvitation(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b acceptBody
	if err := c.Decode(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	in := account.AcceptInput{Token: v.Required("/token", b.Token), Password: v.Required("/password", b.Password)}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	if b.Name != nil {
		in.Name = *b.Name
	}
	login, err := h.accounts.AcceptInvitation(ctx, c.Actor, in)
	return wire.Answer(viewLogin, login, err)
}

type refreshBody struct {
	RefreshToken *string `json:"refresh_token"`
}

func (h *accountHandlers) refresh(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b refreshBody
	if err := c.Decode(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	token := v.Required("/refresh_token", b.RefreshToken)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	login, err := h.accounts.Refresh(ctx, c.Actor, token)
	return wire.Answer(viewLogin, login, err)
}

// logOut reads no body. The token names the session that ends.
func (h *accountHandlers) logOut(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	if err := h.accounts.LogOut(ctx, c.Actor, c.SessionID); err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(map[string]bool{"logged_out": true}), nil
}
