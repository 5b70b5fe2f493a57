package account

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/fault"
)

// LoginInput is what a person logs in with, and from where.
type LoginInput struct {
	Email, Password string
	Source          netip.Addr
}

// Login is what a login or a refresh gives: a token for calls, and the secret that
// gets the next one. The refresh token is good once.
type Login struct {
	Token        string
	ExpiresIn    time.Duration // of Token
	RefreshToken string

	UserID, TenantID uuid.UUID
	Email            string
}

// LogIn starts a session. An unknown address and a wrong password get the same
// answer, INVALID_CREDENTIALS, after the same work. Too many of either from one
// source are LOGIN_THROTTLED until the window ends, for the right password too.
func (s *Service) LogIn(ctx context.Context, in LoginInput) (Login, error) {
	email, err := presentedAddress(in.Email, in.Password)
	if err != nil {
		return Login{}, err
	}
	subject := s.d.Secrets.LoginSubject(email, in.Source)
	found, ok, err := s.tryPassword(ctx, email, in.Password, subject)
	if err != nil {
		return Login{}, err
	}
	if !ok {
		return Login{}, fault.New(fault.CodeInvalidCredentials, "")
	}
	return s.startSession(ctx, *found.TenantID, *found.UserID, email, subject)
}

// tryPassword holds a hasher's slot from the look at the counted failures until
// this one is counted: of a burst, no more than the slots can pass the limit.
func (s *Service) tryPassword(ctx context.Context, email, password string, subject []byte) (dbsqlc.BeginLoginRow, bool, error) {
	var none dbsqlc.BeginLoginRow
	free, err := s.slots.take(ctx)
	if err != nil {
		return none, false, err
	}
	defer free()
	now := s.now()
	as := s.d.DB.Presenting(db.SettingLoginEmail, email)
	found, err := s.q.BeginLogin(ctx, as, dbsqlc.BeginLoginParams{Email: email, Subject: subject, Now: now})
	if err != nil {
		return none, false, fmt.Errorf("account: find user: %w", err)
	}
	if int(found.Failures) >= s.cfg.LoginFailures {
		throttled := fault.New(fault.CodeLoginThrottled, "")
		throttled.RetryAfter = found.WindowEndsAt.Sub(now)
		return none, false, throttled
	}
	stored := ""
	if found.PasswordHash != nil {
		stored = *found.PasswordHash
	}
	ok, err := s.passwords.matches(password, stored)
	if err != nil {
		return none, false, err
	}
	if !ok {
		err := s.q.CountFailedLogin(ctx, as, dbsqlc.CountFailedLoginParams{
			Subject: subject, Now: now, WindowEndsAt: now.Add(s.cfg.LoginWindow),
		})
		if err != nil {
			return none, false, fmt.Errorf("account: count failed login: %w", err)
		}
	}
	return found, ok, nil
}

func (s *Service) startSession(ctx context.Context, tenant, user uuid.UUID, email string, subject []byte) (Login, error) {
	now, session := s.now(), newID()
	ends := now.Add(s.cfg.SessionLifetime)
	out := Login{UserID: user, TenantID: tenant, Email: email}
	err := s.d.DB.InTenant(ctx, tenant, func(tx pgx.Tx) error {
		if err := s.q.ForgetFailedLogins(ctx, tx, subject); err != nil {
			return fmt.Errorf("account: forget failed logins: %w", err)
		}
		ended := dbsqlc.DeleteEndedSessionsParams{TenantID: tenant, UserID: user, ExpiresAt: now}
		if err := s.q.DeleteEndedSessions(ctx, tx, ended); err != nil {
			return fmt.Errorf("account: delete ended sessions: %w", err)
		}
		err := s.q.InsertSession(ctx, tx, dbsqlc.InsertSessionParams{
			ID: session, TenantID: tenant, UserID: user, CreatedAt: now, ExpiresAt: ends,
		})
		if err != nil {
			return fmt.Errorf("account: insert session: %w", err)
		}
		return s.issue(ctx, tx, sessionRef{id: session, ends: ends}, &out)
	})
	return out, err
}

// sessionRef is a session under way: its id and its end, however often refreshed.
type sessionRef struct {
	id   uuid.UUID
	ends time.Time
}

// issue gives a session its next pair of tokens.
func (s *Service) issue(ctx context.Context, tx dbsqlc.DBTX, session sessionRef, out *Login) error {
	secret, hash := s.d.Secrets.NewRefreshToken()
	expires := s.now().Add(s.cfg.RefreshLifetime)
	if expires.After(session.ends) {
		expires = session.ends
	}
	err := s.q.InsertRefreshToken(ctx, tx, dbsqlc.InsertRefreshTokenParams{
		TokenHash: hash, TenantID: out.TenantID, SessionID: session.id, ExpiresAt: expires,
	})
	if err != nil {
		return fmt.Errorf("account: insert refresh token: %w", err)
	}
	token, lifetime, err := s.d.Tokens.Issue(out.UserID, out.TenantID, session.id)
	if err != nil {
		return fmt.Errorf("account: issue token: %w", err)
	}
	out.Token, out.ExpiresIn, out.RefreshToken = token, lifetime, secret
	return nil
}

// presentedAddress checks only that there is something to look for: an address
// that nobody can have is answered like one that nobody has.
func presentedAddress(email, password string) (string, error) {
	switch {
	case email == "":
		return "", fault.Invalid("/email", "required", "email is required.")
	case password == "":
		return "", fault.Invalid("/password", "required", "password is required.")
	case len(email) > maxEmail:
		return "", fault.Invalid("/email", "maxLength", "email has at most 254 characters.")
	}
	return strings.ToLower(email), checkPasswordSize(password)
}
