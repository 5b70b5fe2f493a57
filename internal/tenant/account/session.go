package account

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
)

// Refresh trades a refresh token for the next pair. A token that is used a second
// time was stolen, and either caller may be the thief: the whole session ends. It
// refuses with INVALID_TOKEN or TOKEN_EXPIRED, and with EMAIL_NOT_VERIFIED as LogIn does.
func (s *Service) Refresh(ctx context.Context, who actor.Actor, secret string) (Login, error) {
	if secret == "" {
		return Login{}, fault.Invalid("/refresh_token", "required", "refresh_token is required.")
	}
	hash, wellFormed := s.d.Secrets.RefreshTokenHash(secret)
	if !wellFormed {
		return Login{}, fault.New(fault.CodeInvalidToken, "")
	}
	found, err := s.q.FindRefreshToken(ctx, s.d.DB.Presenting(db.SettingRefreshHash, hex.EncodeToString(hash)), hash)
	if db.IsNoRows(err) {
		return Login{}, fault.New(fault.CodeInvalidToken, "")
	}
	if err != nil {
		return Login{}, fmt.Errorf("account: find refresh token: %w", err)
	}
	who.TenantID = found.TenantID
	var out Login
	var refusal error
	err = s.d.DB.InTenant(ctx, found.TenantID, func(tx pgx.Tx) (failed error) {
		// A refusal is not a failure of the transaction: what it revokes must commit.
		out, refusal, failed = s.rotate(ctx, tx, who, hash, found)
		return failed
	})
	if err != nil {
		return Login{}, err
	}
	return out, refusal
}

// rotate uses the token up and issues the next. Of two racing calls one finds it used.
func (s *Service) rotate(ctx context.Context, tx pgx.Tx, who actor.Actor, hash []byte, found dbsqlc.FindRefreshTokenRow) (out Login, refusal, err error) {
	now := s.now()
	fresh, err := s.q.UseRefreshToken(ctx, tx, dbsqlc.UseRefreshTokenParams{TokenHash: hash, TenantID: found.TenantID, Now: now})
	if err != nil {
		return Login{}, nil, fmt.Errorf("account: use refresh token: %w", err)
	}
	if fresh == 0 {
		err := s.endSession(ctx, tx, who, found.SessionID, audit.UserSessionRevoked)
		return Login{}, fault.New(fault.CodeInvalidToken, ""), err
	}
	session, err := s.q.LockSession(ctx, tx, dbsqlc.LockSessionParams{ID: found.SessionID, TenantID: found.TenantID})
	switch {
	case db.IsNoRows(err):
		return Login{}, fault.New(fault.CodeInvalidToken, ""), nil
	case err != nil:
		return Login{}, nil, fmt.Errorf("account: lock session: %w", err)
	case session.RevokedAt != nil:
		return Login{}, fault.New(fault.CodeInvalidToken, ""), nil
	case !found.ExpiresAt.After(now), !session.ExpiresAt.After(now):
		return Login{}, fault.New(fault.CodeTokenExpired, ""), nil
	}
	if err := s.requireVerified(session.EmailVerifiedAt); err != nil {
		return Login{}, err, nil
	}
	out = Login{UserID: session.UserID, TenantID: found.TenantID, Email: session.Email}
	b := &db.Batch{}
	if err := s.queueTokens(b, sessionRef{id: found.SessionID, ends: session.ExpiresAt}, &out); err != nil {
		return Login{}, nil, err
	}
	if err := b.SendIn(ctx, tx); err != nil {
		return Login{}, nil, fmt.Errorf("account: issue tokens: %w", err)
	}
	return out, nil, nil
}

// LogOut ends a session: its tokens are refused from the next call on. Ending one
// that has ended changes nothing.
func (s *Service) LogOut(ctx context.Context, who actor.Actor, session uuid.UUID) error {
	return s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		return s.endSession(ctx, tx, who, session, audit.UserLoggedOut)
	})
}

// endSession revokes a session and records it as action, unless it has ended.
func (s *Service) endSession(ctx context.Context, tx pgx.Tx, who actor.Actor, session uuid.UUID, action audit.Action) error {
	users, err := s.q.RevokeSession(ctx, tx, dbsqlc.RevokeSessionParams{ID: session, TenantID: who.TenantID, Now: s.now()})
	if err != nil {
		return fmt.Errorf("account: revoke session: %w", err)
	}
	for _, user := range users { // one at most
		if err := audit.Append(ctx, tx, aboutUser(who, action, user)); err != nil {
			return err
		}
	}
	return nil
}
