package account

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/quota"
)

// LoginInput is what a person logs in with.
type LoginInput struct{ Email, Password string }

// Login is the result of a login or a refresh: a token for calls, and the secret for the
// next one. The refresh token is good once.
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
func (s *Service) LogIn(ctx context.Context, who actor.Actor, in LoginInput) (Login, error) {
	email, err := presentedAddress(in.Email, in.Password)
	if err != nil {
		return Login{}, err
	}
	subject := s.d.Secrets.LoginSubject(email, source(who))
	found, ok, err := s.tryPassword(ctx, who, in, email, subject)
	if err != nil {
		return Login{}, err
	}
	if !ok {
		return Login{}, fault.New(fault.CodeInvalidCredentials, "")
	}
	return s.startSession(ctx, asUser(who, *found.TenantID, *found.UserID), email, subject)
}

// tryPassword occupies a hasher's slot from reading the counted failures until this one is
// counted. So a burst can exceed the limit by the number of slots only.
func (s *Service) tryPassword(ctx context.Context, who actor.Actor, in LoginInput, email string, subject []byte) (dbsqlc.BeginLoginRow, bool, error) {
	var none dbsqlc.BeginLoginRow
	free, err := s.slots.take(ctx)
	if err != nil {
		return none, false, err
	}
	defer free()
	now := s.now()
	found, err := s.q.BeginLogin(ctx, s.d.DB.Presenting(db.SettingLoginEmail, email),
		dbsqlc.BeginLoginParams{Email: email, Subject: subject, Now: now})
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
	ok, err := s.passwords.matches(in.Password, stored)
	if err != nil {
		return none, false, err
	}
	if !ok {
		return none, false, s.countFailure(ctx, who, found.TenantID, found.UserID, subject)
	}
	return found, true, nil
}

// countFailure counts into the subject's window. If the user is known, it records the
// failed login. It is one statement either way, so that its time does not reveal which.
func (s *Service) countFailure(ctx context.Context, who actor.Actor, tenant, user *uuid.UUID, subject []byte) error {
	now := s.now()
	p := dbsqlc.CountFailedLoginParams{
		Subject: subject, Now: now, WindowEndsAt: now.Add(s.cfg.LoginWindow),
		RecordID: newID(), RequestID: who.RequestID, SourceAddr: who.SourceAddr,
	}
	if tenant != nil && user != nil {
		p.Known, p.TenantID, p.UserID = true, *tenant, user.String()
	}
	if err := s.q.CountFailedLogin(ctx, s.d.DB.Tenant(p.TenantID), p); err != nil {
		return fmt.Errorf("account: count failed login: %w", err)
	}
	return nil
}

func (s *Service) startSession(ctx context.Context, who actor.Actor, email string, subject []byte) (Login, error) {
	out := Login{UserID: who.ID, TenantID: who.TenantID, Email: email}
	b := &db.Batch{}
	db.QueueExec(b, s.q.ForgetFailedLogins, subject)
	db.QueueExec(b, s.q.DeleteEndedSessions, dbsqlc.DeleteEndedSessionsParams{TenantID: who.TenantID, UserID: who.ID, ExpiresAt: s.now()})
	if err := s.queueSession(b, &out); err != nil {
		return Login{}, err
	}
	audit.Queue(b, aboutUser(who, audit.UserLoggedIn, who.ID))
	if err := s.d.DB.Send(ctx, who.TenantID, b); err != nil {
		return Login{}, fmt.Errorf("account: start session: %w", err)
	}
	return out, nil
}

// queueSession adds a new session of the login's user and its first pair of tokens.
func (s *Service) queueSession(b *db.Batch, out *Login) error {
	now := s.now()
	session := sessionRef{id: newID(), ends: now.Add(s.cfg.SessionLifetime)}
	db.QueueExec(b, s.q.InsertSession, dbsqlc.InsertSessionParams{
		ID: session.id, TenantID: out.TenantID, UserID: out.UserID, CreatedAt: now, ExpiresAt: session.ends,
	})
	db.QueueExec(b, s.q.EndOldestSessions, dbsqlc.EndOldestSessionsParams{
		TenantID: out.TenantID, UserID: out.UserID, Now: now, Most: int32(s.cfg.Quotas.Most(quota.Sessions)),
	})
	return s.queueTokens(b, session, out)
}

// sessionRef is a session under way: its id and its end, however often refreshed.
type sessionRef struct {
	id   uuid.UUID
	ends time.Time
}

// queueTokens gives a session its next pair of tokens.
func (s *Service) queueTokens(b *db.Batch, session sessionRef, out *Login) error {
	secret, hash := s.d.Secrets.NewRefreshToken()
	expires := s.now().Add(s.cfg.RefreshLifetime)
	if expires.After(session.ends) {
		expires = session.ends
	}
	db.QueueExec(b, s.q.InsertRefreshToken, dbsqlc.InsertRefreshTokenParams{
		TokenHash: hash, TenantID: out.TenantID, SessionID: session.id, ExpiresAt: expires,
	})
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
