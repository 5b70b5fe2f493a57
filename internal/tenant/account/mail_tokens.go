package account

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/mail"
)

// purpose is what a token that was mailed can be used for.
type purpose string

const (
	toVerify purpose = "verify"
	toReset  purpose = "reset"
	toChange purpose = "change"
)

// How long the tokens are valid, from when the mail is sent. A reset is the most dangerous.
const (
	verifyLifetime = 24 * time.Hour
	resetLifetime  = time.Hour
	changeLifetime = time.Hour
)

func (p purpose) lifetime() time.Duration {
	switch p {
	case toReset:
		return resetLifetime
	case toChange:
		return changeLifetime
	default:
		return verifyLifetime
	}
}

// keepToken stores the hash of the mail's token and returns the token. used means that the user
// has used it already, so the mail has arrived.
func (s *Service) keepToken(ctx context.Context, id, tenant, user uuid.UUID, p purpose, address string) (token string, used bool, err error) {
	token, hash := s.d.Secrets.MailToken(id)
	n, err := s.q.KeepMailToken(ctx, s.d.DB.Tenant(tenant), dbsqlc.KeepMailTokenParams{
		TokenHash: hash, TenantID: tenant, UserID: user, Purpose: string(p), Address: address, ExpiresAt: s.now().Add(p.lifetime()),
	})
	if err != nil {
		return "", false, fmt.Errorf("account: keep the token of a mail: %w", err)
	}
	return token, n == 0, nil
}

// mailed is a token that a person presents.
type mailed struct {
	dbsqlc.FindMailTokenRow

	hash []byte
}

// findToken returns the token, where it can be used for one of the purposes now. It refuses with
// INVALID_TOKEN and TOKEN_EXPIRED.
func (s *Service) findToken(ctx context.Context, token string, purposes ...purpose) (mailed, error) {
	if token == "" {
		return mailed{}, fault.Invalid("/token", "required", "token is required.")
	}
	hash, wellFormed := s.d.Secrets.MailTokenHash(token)
	if !wellFormed {
		return mailed{}, fault.New(fault.CodeInvalidToken, "")
	}
	row, err := s.q.FindMailToken(ctx, s.d.DB.Presenting(db.SettingMailToken, hex.EncodeToString(hash)), hash)
	switch {
	case db.IsNoRows(err):
		return mailed{}, fault.New(fault.CodeInvalidToken, "")
	case err != nil:
		return mailed{}, fmt.Errorf("account: find the token of a mail: %w", err)
	case row.UsedAt != nil:
		return mailed{}, fault.New(fault.CodeInvalidToken, "")
	case !row.ExpiresAt.After(s.now()):
		return mailed{}, fault.New(fault.CodeTokenExpired, "")
	}
	for _, p := range purposes {
		if row.Purpose == string(p) {
			return mailed{row, hash}, nil
		}
	}
	return mailed{}, fault.New(fault.CodeInvalidToken, "")
}

// use runs change in the transaction that uses the token up. Of two callers one is refused.
func (s *Service) use(ctx context.Context, m mailed, change func(pgx.Tx) error) error {
	return s.d.DB.InTenant(ctx, m.TenantID, func(tx pgx.Tx) error {
		n, err := s.q.UseMailToken(ctx, tx, dbsqlc.UseMailTokenParams{TokenHash: m.hash, TenantID: m.TenantID, Now: s.now()})
		switch {
		case err != nil:
			return fmt.Errorf("account: use the token of a mail: %w", err)
		case n == 0:
			return fault.New(fault.CodeInvalidToken, "")
		}
		return change(tx)
	})
}

// queueVoid makes the user's tokens of the purposes void.
func (s *Service) queueVoid(b *db.Batch, tenant, user uuid.UUID, purposes ...string) {
	db.QueueExec(b, s.q.VoidMailTokens, dbsqlc.VoidMailTokensParams{TenantID: tenant, UserID: user, Purposes: purposes, Now: s.now()})
}

// VerifyEmail uses the token that was mailed to an address: it is the user's from then on. That is
// the address they have, or the one that they change to. It refuses with INVALID_TOKEN and
// TOKEN_EXPIRED, and with CONFLICT where another user has the new address.
func (s *Service) VerifyEmail(ctx context.Context, who actor.Actor, token string) error {
	m, err := s.findToken(ctx, token, toVerify, toChange)
	if err != nil {
		return err
	}
	who = asUser(who, m.TenantID, m.UserID)
	if m.Purpose == string(toChange) {
		return s.use(ctx, m, func(tx pgx.Tx) error { return s.changeEmail(ctx, tx, who, m.Address) })
	}
	return s.use(ctx, m, func(tx pgx.Tx) error {
		n, err := s.q.VerifyEmail(ctx, tx, dbsqlc.VerifyEmailParams{TenantID: m.TenantID, ID: m.UserID, Email: m.Address, Now: s.now()})
		switch {
		case err != nil:
			return fmt.Errorf("account: verify email: %w", err)
		case n == 0:
			return fault.New(fault.CodeInvalidToken, "")
		}
		b := &db.Batch{}
		s.queueVoid(b, m.TenantID, m.UserID, string(toVerify))
		audit.Queue(b, aboutUser(who, audit.UserEmailVerified, m.UserID))
		return b.SendIn(ctx, tx)
	})
}

// changeEmail gives the user the address, and tells the one before.
func (s *Service) changeEmail(ctx context.Context, tx pgx.Tx, who actor.Actor, address string) error {
	user, err := s.user(ctx, tx, who.TenantID, who.ID)
	if err != nil {
		return err
	}
	n, err := s.q.ChangeEmail(ctx, tx, dbsqlc.ChangeEmailParams{TenantID: who.TenantID, ID: who.ID, Email: address, Now: s.now()})
	switch {
	case db.IsUnique(err, "users_email"), db.IsUnique(err, "users_tenant_email"):
		return fault.New(fault.CodeConflict, "The address belongs to another user or invitation. Change to another one.")
	case err != nil:
		return fmt.Errorf("account: change email: %w", err)
	case n == 0:
		return fault.New(fault.CodeInvalidToken, "")
	}
	b := &db.Batch{}
	s.queueVoid(b, who.TenantID, who.ID, string(toVerify), string(toReset), string(toChange))
	s.queueNotice(b, who.TenantID, who.ID, MailChanged, user.Email, mail.Data{})
	audit.Queue(b, aboutUser(who, audit.UserEmailChanged, who.ID))
	return b.SendIn(ctx, tx)
}

// ResetPassword uses the token of a mail to give its user another password. All their sessions
// end, and the address counts as verified. It refuses with INVALID_TOKEN, TOKEN_EXPIRED,
// WEAK_PASSWORD and VALIDATION_ERROR.
func (s *Service) ResetPassword(ctx context.Context, who actor.Actor, token, password string) error {
	if len(password) > maxPassword {
		return fault.Invalid("/new_password", "maxLength", "new_password has at most 1024 bytes.")
	}
	if err := checkNewPassword(password); err != nil {
		return err
	}
	m, err := s.findToken(ctx, token, toReset)
	if err != nil {
		return err
	}
	// Only a caller with a valid token costs a hash.
	hash, err := s.hashPassword(ctx, who, password)
	if err != nil {
		return err
	}
	who = asUser(who, m.TenantID, m.UserID)
	return s.use(ctx, m, func(tx pgx.Tx) error {
		n, err := s.q.ResetPassword(ctx, tx, dbsqlc.ResetPasswordParams{TenantID: m.TenantID, ID: m.UserID, Email: m.Address, PasswordHash: hash, Now: s.now()})
		switch {
		case err != nil:
			return fmt.Errorf("account: reset password: %w", err)
		case n == 0:
			return fault.New(fault.CodeInvalidToken, "")
		}
		ended, err := s.q.EndSessions(ctx, tx, dbsqlc.EndSessionsParams{TenantID: m.TenantID, UserID: m.UserID, Now: s.now()})
		if err != nil {
			return fmt.Errorf("account: end sessions: %w", err)
		}
		b := &db.Batch{}
		s.queueVoid(b, m.TenantID, m.UserID, string(toReset), string(toVerify), string(toChange))
		s.queueKnownAlone(b, Login{TenantID: m.TenantID, UserID: m.UserID}, s.attemptOf(who, m.Address).pair)
		s.queueNotice(b, m.TenantID, m.UserID, MailPassword, m.Address, mail.Data{})
		audit.Queue(b, aboutUser(who, audit.UserPasswordReset, m.UserID).With(map[string]any{"sessions": ended}))
		return b.SendIn(ctx, tx)
	})
}
