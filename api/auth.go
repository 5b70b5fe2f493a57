package api

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/google/uuid"

	"agentruntime/internal/tenant/account"
)

// Accounts is what the auth and the user endpoints need of the account domain.
type Accounts interface {
	Users
	SignUp(ctx context.Context, in account.SignupInput) (account.SignedUp, error)
	LogIn(ctx context.Context, in account.LoginInput) (account.Login, error)
	Refresh(ctx context.Context, refreshToken string) (account.Login, error)
	LogOut(ctx context.Context, tenant, session uuid.UUID) error
	AcceptInvitation(ctx context.Context, in account.AcceptInput) (account.Login, error)
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

// signUp answers without a Location: whether there is a new user is not for the
// caller to learn.
func (s *Server) signUp(ctx context.Context, c *call) (reply, error) {
	var b signupBody
	if err := c.decode(&b); err != nil {
		return reply{}, err
	}
	var v problems
	in := account.SignupInput{Email: v.present("/email", b.Email), Password: v.present("/password", b.Password)}
	if err := v.err(); err != nil {
		return reply{}, err
	}
	if b.Name != nil {
		in.Name = *b.Name
	}
	up, err := s.Accounts.SignUp(ctx, in)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusCreated, data: signupView(up)}, nil
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

func (s *Server) logIn(ctx context.Context, c *call) (reply, error) {
	var b loginBody
	if err := c.decode(&b); err != nil {
		return reply{}, err
	}
	var v problems
	in := account.LoginInput{Email: v.present("/email", b.Email), Password: v.present("/password", b.Password)}
	if err := v.err(); err != nil {
		return reply{}, err
	}
	// An address that cannot be read is one source like any other.
	in.Source, _ = netip.ParseAddr(sourceAddr(c.r))
	login, err := s.Accounts.LogIn(ctx, in)
	if err != nil {
		return reply{}, err
	}
	return ok(viewLogin(login)), nil
}

type acceptBody struct {
	Token    *string `json:"token"`
	Password *string `json:"password"`
	Name     *string `json:"name"`
}

// acceptInvitation answers as a login does: the invited person has his first session.
func (s *Server) acceptInvitation(ctx context.Context, c *call) (reply, error) {
	var b acceptBody
	if err := c.decode(&b); err != nil {
		return reply{}, err
	}
	var v problems
	in := account.AcceptInput{Token: v.present("/token", b.Token), Password: v.present("/password", b.Password)}
	if err := v.err(); err != nil {
		return reply{}, err
	}
	if b.Name != nil {
		in.Name = *b.Name
	}
	in.Source, _ = netip.ParseAddr(sourceAddr(c.r)) // as in logIn
	login, err := s.Accounts.AcceptInvitation(ctx, in)
	if err != nil {
		return reply{}, err
	}
	return ok(viewLogin(login)), nil
}

type refreshBody struct {
	RefreshToken *string `json:"refresh_token"`
}

func (s *Server) refresh(ctx context.Context, c *call) (reply, error) {
	var b refreshBody
	if err := c.decode(&b); err != nil {
		return reply{}, err
	}
	var v problems
	token := v.present("/refresh_token", b.RefreshToken)
	if err := v.err(); err != nil {
		return reply{}, err
	}
	login, err := s.Accounts.Refresh(ctx, token)
	if err != nil {
		return reply{}, err
	}
	return ok(viewLogin(login)), nil
}

// logOut reads no body: the token says which session ends.
func (s *Server) logOut(ctx context.Context, c *call) (reply, error) {
	if err := s.Accounts.LogOut(ctx, c.who.TenantID, c.who.SessionID); err != nil {
		return reply{}, err
	}
	return ok(map[string]bool{"logged_out": true}), nil
}

// present requires a text and leaves its form to the domain.
func (v *problems) present(path string, s *string) string {
	if s == nil {
		v.add(path, "required", path[1:]+" is required.")
		return ""
	}
	return *s
}
