package account

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/mail"
)

// NewPassword is what a person changes their password with.
type NewPassword struct{ Current, New string }

// ChangePassword gives the caller another password and ends all their sessions but the one
// that is given. A mail tells them. A wrong current password is INVALID_CREDENTIALS and counts as a failed login,
// so a stolen token does not help to guess it; LOGIN_THROTTLED as for a login. It refuses a
// new one with WEAK_PASSWORD and VALIDATION_ERROR.
func (s *Service) ChangePassword(ctx context.Context, who actor.Actor, session uuid.UUID, in NewPassword) error {
	if err := checkChange(in); err != nil {
		return err
	}
	user, err := s.user(ctx, s.d.DB.Tenant(who.TenantID), who.TenantID, who.ID)
	if err != nil {
		return err
	}
	found, ok, err := s.tryPassword(ctx, s.attemptOf(who, user.Email), LoginInput{Email: user.Email, Password: in.Current})
	if err != nil {
		return err
	}
	if !ok || found.UserID == nil || *found.UserID != who.ID {
		return fault.New(fault.CodeInvalidCredentials, "The current password is wrong.")
	}
	hash, err := s.hashPassword(ctx, who, in.New)
	if err != nil {
		return err
	}
	return s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		n, err := s.q.ChangePassword(ctx, tx, dbsqlc.ChangePasswordParams{PasswordHash: hash, TenantID: who.TenantID, ID: who.ID, Was: *found.PasswordHash})
		switch {
		case err != nil:
			return fmt.Errorf("account: change password: %w", err)
		case n == 0:
			return fault.New(fault.CodeConflict, "The password was changed at the same time.")
		}
		ended, err := s.q.EndSessions(ctx, tx, dbsqlc.EndSessionsParams{TenantID: who.TenantID, UserID: who.ID, Now: s.now(), Keep: &session})
		if err != nil {
			return fmt.Errorf("account: end sessions: %w", err)
		}
		b := &db.Batch{}
		s.queueVoid(b, who.TenantID, who.ID, string(toReset), string(toChange))
		s.queueKnownAlone(b, Login{TenantID: who.TenantID, UserID: who.ID}, s.attemptOf(who, user.Email).pair)
		s.queueNotice(b, who.TenantID, who.ID, MailPassword, user.Email, mail.Data{})
		audit.Queue(b, aboutUser(who, audit.UserPasswordChanged, who.ID).With(map[string]any{"sessions": ended}))
		return b.SendIn(ctx, tx)
	})
}

// checkChange names the members of the body as the API does.
func checkChange(in NewPassword) error {
	switch {
	case in.Current == "":
		return fault.Invalid("/current_password", "required", "current_password is required.")
	case len(in.Current) > maxPassword:
		return fault.Invalid("/current_password", "maxLength", "current_password has at most 1024 bytes.")
	case len(in.New) > maxPassword:
		return fault.Invalid("/new_password", "maxLength", "new_password has at most 1024 bytes.")
	}
	return checkNewPassword(in.New)
}
