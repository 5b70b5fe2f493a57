package account

import (
	"context"
	"fmt"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/mail"
)

// NewEmail is what a person changes their address with.
type NewEmail struct{ Current, Email string }

// ChangeEmail mails a link to the new address; VerifyEmail with its token makes the change. The
// address before is told at once, and again then. A wrong password is refused and counted as by
// ChangePassword. It refuses with VALIDATION_ERROR, INVALID_CREDENTIALS, LOGIN_THROTTLED and
// QUOTA_EXCEEDED. It does not tell whether the new address is in use.
func (s *Service) ChangeEmail(ctx context.Context, who actor.Actor, in NewEmail) error {
	switch {
	case in.Current == "":
		return fault.Invalid("/current_password", "required", "current_password is required.")
	case len(in.Current) > maxPassword:
		return fault.Invalid("/current_password", "maxLength", "current_password has at most 1024 bytes.")
	}
	address, err := newAddress(in.Email)
	if err != nil {
		return err
	}
	user, err := s.user(ctx, s.d.DB.Tenant(who.TenantID), who.TenantID, who.ID)
	if err != nil {
		return err
	}
	if address == user.Email {
		return fault.Invalid("/email", "different", "email is your address already.")
	}
	found, ok, err := s.tryPassword(ctx, s.attemptOf(who, user.Email), LoginInput{Email: user.Email, Password: in.Current})
	if err != nil {
		return err
	}
	if !ok || found.UserID == nil || *found.UserID != who.ID {
		return fault.New(fault.CodeInvalidCredentials, "The current password is wrong.")
	}
	b, id := &db.Batch{}, newID()
	s.queueVoid(b, who.TenantID, who.ID, string(toChange)) // the last address counts
	_, hash := s.d.Secrets.MailToken(id)
	db.Queue(b, s.q.KeepMailToken, dbsqlc.KeepMailTokenParams{
		TokenHash: hash, TenantID: who.TenantID, UserID: who.ID, Purpose: string(toChange), Address: address, ExpiresAt: s.now().Add(changeLifetime),
	})
	s.queueLink(b, mail.Mail{ID: id, TenantID: &who.TenantID, UserID: &who.ID, Kind: MailChange, Address: address})
	s.queueNotice(b, who.TenantID, who.ID, MailChanging, user.Email, mail.Data{To: address})
	audit.Queue(b, aboutUser(who, audit.UserEmailChanging, who.ID))
	if err := s.d.DB.Send(ctx, who.TenantID, b); err != nil {
		return fmt.Errorf("account: ask to change email: %w", err)
	}
	return nil
}
