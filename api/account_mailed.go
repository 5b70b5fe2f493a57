package api

import (
	"context"
	"net/http"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/tenant/account"
)

// Mailed is what the endpoints around mail need of the account domain.
type Mailed interface {
	ResendVerification(ctx context.Context, who actor.Actor, email string) error
	ForgotPassword(ctx context.Context, who actor.Actor, email string) error
	VerifyEmail(ctx context.Context, who actor.Actor, token string) error
	ResetPassword(ctx context.Context, who actor.Actor, token, password string) error
	ChangeEmail(ctx context.Context, who actor.Actor, in account.NewEmail) error
}

type emailBody struct {
	Email *string `json:"email"`
}

// The answers to who names an address. They are the same whether it has a user.
const (
	resentMessage = "If the address has a user who has not verified it, a mail with a link is on its way."
	forgotMessage = "If the address has a user, a mail with a link is on its way."
)

func (h *accountHandlers) resendVerification(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return askForMail(ctx, c, h.accounts.ResendVerification, resentMessage)
}

func (h *accountHandlers) forgotPassword(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return askForMail(ctx, c, h.accounts.ForgotPassword, forgotMessage)
}

func askForMail(ctx context.Context, c *wire.Call, ask func(context.Context, actor.Actor, string) error, message string) (wire.Reply, error) {
	var b emailBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	email := v.Required("/email", b.Email)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	if err := ask(ctx, c.Actor, email); err != nil {
		return wire.Reply{}, err
	}
	return wire.Reply{Status: http.StatusAccepted, Data: map[string]string{"message": message}}, nil
}

type verifyBody struct {
	Token *string `json:"token"`
}

func (h *accountHandlers) verifyEmail(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b verifyBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	token := v.Required("/token", b.Token)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	if err := h.accounts.VerifyEmail(ctx, c.Actor, token); err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(map[string]bool{"verified": true}), nil
}

type resetBody struct {
	Token    *string `json:"token"`
	Password *string `json:"new_password"`
}

func (h *accountHandlers) resetPassword(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b resetBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	token, password := v.Required("/token", b.Token), v.Required("/new_password", b.Password)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	if err := h.accounts.ResetPassword(ctx, c.Actor, token, password); err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(map[string]bool{"changed": true}), nil
}

type changeEmailBody struct {
	Current *string `json:"current_password"`
	Email   *string `json:"email"`
}

func (h *accountHandlers) changeEmail(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b changeEmailBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	in := account.NewEmail{Current: v.Required("/current_password", b.Current), Email: v.Required("/email", b.Email)}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	if err := h.accounts.ChangeEmail(ctx, c.Actor, in); err != nil {
		return wire.Reply{}, err
	}
	return wire.Reply{Status: http.StatusAccepted, Data: map[string]string{"message": "A mail to the new address has a link to confirm it."}}, nil
}
