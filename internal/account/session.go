package account

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/fault"
)

// Refresh trades a refresh token for the next pair. A token that was used before
// is a stolen one, whoever of the two holders calls: the whole session ends. It
// refuses with INVALID_TOKEN or TOKEN_EXPIRED.
func (s *Service) Refresh(ctx context.Context, secret string) (Login, error) {
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
	var out Login
	var refusal error
	err = s.d.DB.InTenant(ctx, found.TenantID, func(tx pgx.Tx) (failed error) {
		// A refusal is not a failure of the transaction: what it revokes must commit.
		out, refusal, failed = s.rotate(ctx, tx, hash, found)
		return failed
	})
	if err != nil {
		return Login{}, err
	}
	return out, refusal
}

// rotate uses the token up and issues the next. Of two racing calls one finds it used.
func (s *Service) rotate(ctx context.Context, tx dbsqlc.DBTX, hash []byte, found dbsqlc.FindRefreshTokenRow) (out Login, refusal, err error) {
	now := s.now()
	fresh, err := s.q.UseRefreshToken(ctx, tx, dbsqlc.UseRefreshTokenParams{TokenHash: hash, TenantID: found.TenantID, Now: now})
	if err != nil {
		return Login{}, nil, fmt.Errorf("account: use refresh token: %w", err)
	}
	if fresh == 0 {
		revoke := dbsqlc.RevokeSessionParams{ID: found.SessionID, TenantID: found.TenantID, Now: now}
		if _, err := s.q.RevokeSession(ctx, tx, revoke); err != nil {
			return Login{}, nil, fmt.Errorf("account: revoke session: %w", err)
		}
		return Login{}, fault.New(fault.CodeInvalidToken, ""), nil
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
	out = Login{UserID: session.UserID, TenantID: found.TenantID, Email: session.Email}
	return out, nil, s.issue(ctx, tx, sessionRef{id: found.SessionID, ends: session.ExpiresAt}, &out)
}

// LogOut ends a session: its tokens are refused from the next call on. Ending one
// that has ended changes nothing.
func (s *Service) LogOut(ctx context.Context, tenant, session uuid.UUID) error {
	_, err := s.q.RevokeSession(ctx, s.d.DB.Tenant(tenant), dbsqlc.RevokeSessionParams{ID: session, TenantID: tenant, Now: s.now()})
	if err != nil {
		return fmt.Errorf("account: log out: %w", err)
	}
	return nil
}
