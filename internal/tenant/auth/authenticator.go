package auth

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
)

// usedResolution is how exact last_used_at is: a busy key is written once in this time.
const usedResolution = time.Minute

// Deps are what an Authenticator works with; Now may be nil.
type Deps struct {
	DB      *db.Pool
	Secrets *Secrets
	Tokens  *Tokens
	Now     func() time.Time
}

// Authenticator turns a presented secret into a principal. Nothing is cached: a
// revoked key and an ended session are refused from the next call on.
type Authenticator struct {
	d Deps
	q *dbsqlc.Queries
}

// NewAuthenticator checks the collaborators.
func NewAuthenticator(d Deps) (*Authenticator, error) {
	if d.DB == nil || d.Secrets == nil || d.Tokens == nil {
		return nil, errors.New("auth: database, secrets and tokens are required")
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Authenticator{d: d, q: dbsqlc.New()}, nil
}

// Key authenticates an API key in one round trip, a mistyped one in none; once a
// minute a second one notes that the key is in use. To do that in the same statement
// would double the time of every call. It refuses with INVALID_API_KEY or API_KEY_REVOKED.
func (a *Authenticator) Key(ctx context.Context, raw string) (Principal, error) {
	hash, wellFormed := a.d.Secrets.KeyHash(raw)
	if !wellFormed {
		return Principal{}, fault.New(fault.CodeInvalidAPIKey, "")
	}
	row, err := a.q.PresentAPIKey(ctx, a.d.DB.Presenting(db.SettingKeyHash, hex.EncodeToString(hash)), hash)
	switch {
	case db.IsNoRows(err):
		return Principal{}, fault.New(fault.CodeInvalidAPIKey, "")
	case err != nil:
		return Principal{}, fmt.Errorf("auth: read key: %w", err)
	case row.RevokedAt != nil:
		return Principal{}, fault.New(fault.CodeAPIKeyRevoked, "")
	}
	now := a.d.Now().UTC()
	usedBefore := now.Add(-usedResolution)
	if row.LastUsedAt == nil || !row.LastUsedAt.After(usedBefore) {
		use := dbsqlc.NoteAPIKeyUseParams{ID: row.ID, TenantID: row.TenantID, Now: now, UsedBefore: usedBefore}
		if err := a.q.NoteAPIKeyUse(ctx, a.d.DB.Tenant(row.TenantID), use); err != nil {
			return Principal{}, fmt.Errorf("auth: note use of key: %w", err)
		}
	}
	return Principal{
		Kind: actor.Key, TenantID: row.TenantID, Name: row.Name, KeyID: row.ID, Permissions: row.Permissions,
		AgentID: db.Text(row.AgentID), IdentityMode: db.Text(row.IdentityMode), AllowedOrigins: row.AllowedOrigins,
	}, nil
}

// Token authenticates a JWT and the session it belongs to, in one round trip. It
// refuses with INVALID_TOKEN or TOKEN_EXPIRED.
func (a *Authenticator) Token(ctx context.Context, raw string) (Principal, error) {
	c, err := a.d.Tokens.Verify(raw)
	if err != nil {
		return Principal{}, err
	}
	row, err := a.q.GetSession(ctx, a.d.DB.Tenant(c.TenantID), dbsqlc.GetSessionParams{ID: c.SessionID, TenantID: c.TenantID})
	switch {
	case db.IsNoRows(err):
		return Principal{}, fault.New(fault.CodeInvalidToken, "")
	case err != nil:
		return Principal{}, fmt.Errorf("auth: read session: %w", err)
	case row.UserID != c.UserID, row.RevokedAt != nil, !row.ExpiresAt.After(a.d.Now()):
		return Principal{}, fault.New(fault.CodeInvalidToken, "")
	}
	return Principal{
		Kind: actor.User, TenantID: c.TenantID, Name: row.Name,
		UserID: c.UserID, SessionID: c.SessionID, Email: row.Email, Role: actor.Role(row.Role),
	}, nil
}
