// Package account manages how people and software get into a tenant: sign-up, login,
// refresh and logout, the users with their roles, and API keys. The api package calls it.
// It never authenticates a call: package auth does, and provides the secrets and tokens
// through the interfaces below.
package account

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/record/quota"
)

// Secrets mints what callers later present and hashes it.
type Secrets interface {
	// NewKey returns an API key, its masked preview and the hash to store.
	NewKey() (secret, preview string, hash []byte)
	NewRefreshToken() (secret string, hash []byte)
	// RefreshTokenHash returns false for what cannot be a refresh token.
	RefreshTokenHash(secret string) ([]byte, bool)
	NewInvitationToken() (secret string, hash []byte)
	InvitationHash(secret string) []byte
	// MailToken and MailedInvitation return the token of a mail, the same each time.
	MailToken(mail uuid.UUID) (secret string, hash []byte)
	MailedInvitation(mail uuid.UUID) (secret string, hash []byte)
	// MailTokenHash returns false for what cannot be a token of a mail.
	MailTokenHash(secret string) ([]byte, bool)
	// Subject is what failures and mails of a kind are counted under, a keyed hash of 32 bytes.
	Subject(kind, of string) []byte
}

// Tokens signs the JWT of a session.
type Tokens interface {
	Issue(userID, tenantID, sessionID uuid.UUID) (token string, lifetime time.Duration, err error)
}

// Config has the values that an operator may change. The zero value of each
// takes the default named with it.
type Config struct {
	// SessionLifetime ends a login however often it is refreshed: 90 days.
	SessionLifetime time.Duration
	// RefreshLifetime is how long a refresh token waits to be used: 30 days.
	RefreshLifetime time.Duration
	// InvitationLifetime is how long an invitation can be accepted: 7 days.
	InvitationLifetime time.Duration
	// Throttle slows down callers who guess passwords and tokens.
	Throttle Throttle
	// Hashers is how many passwords are hashed at once, 19 MiB each: 2.
	Hashers int
	// Permissions a key can be created with; required.
	Permissions []string
	// Signup says who may become a user: SignupClosed.
	Signup Signup
	// Quotas bound keys, users and sessions.
	Quotas quota.Limits
	// PublicURL is where links in mail begin. Without it no mail can be written.
	PublicURL string
	// RequireVerifiedEmail refuses sessions to users whose address is not verified.
	RequireVerifiedEmail bool
	// Mails bound how much mail is sent.
	Mails MailBounds
}

func (c Config) withDefaults() Config {
	if c.SessionLifetime == 0 {
		c.SessionLifetime = 90 * 24 * time.Hour
	}
	if c.RefreshLifetime == 0 {
		c.RefreshLifetime = 30 * 24 * time.Hour
	}
	if c.InvitationLifetime == 0 {
		c.InvitationLifetime = 7 * 24 * time.Hour
	}
	c.Throttle = c.Throttle.withDefaults()
	c.Mails = c.Mails.withDefaults()
	if c.Signup == "" {
		c.Signup = SignupClosed
	}
	if c.Hashers == 0 {
		c.Hashers = 2
	}
	return c
}

// Deps are what the service works with; Now may be nil.
type Deps struct {
	DB      *db.Pool
	Secrets Secrets
	Tokens  Tokens
	// DataKeys seal the identity secrets of API keys. Without them no key can verify identities.
	DataKeys DataKeys
	// FirstPolicy is the policy that a new tenant begins with, as internal/action/policy stores it.
	FirstPolicy json.RawMessage
	Now         func() time.Time
}

// DataKeys finds the data key of a tenant.
type DataKeys interface {
	Key(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error)
}

// Service is the account domain.
type Service struct {
	cfg       Config
	d         Deps
	q         *dbsqlc.Queries
	passwords passwords
	slots     *slots
	delays    *delays
	now       func() time.Time // as the database stores it
}

// New checks configuration and collaborators.
func New(cfg Config, d Deps) (*Service, error) {
	if d.DB == nil || d.Secrets == nil || d.Tokens == nil || d.FirstPolicy == nil {
		return nil, errors.New("account: database, secrets, tokens and the first policy are required")
	}
	if len(cfg.Permissions) == 0 {
		return nil, errors.New("account: the permissions of API keys are required")
	}
	cfg = cfg.withDefaults()
	return &Service{cfg: cfg, d: d, q: dbsqlc.New(), passwords: newArgon2id(), slots: newSlots(cfg.Hashers), delays: newDelays(pause), now: db.Clock(d.Now)}, nil
}
