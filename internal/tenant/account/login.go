package account

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
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

// LogIn starts a session. An unknown address and a wrong password get the same answer,
// INVALID_CREDENTIALS, after the same work. The error is LOGIN_THROTTLED where Throttle
// refuses the attempt, for the right password too. With the right password only, it is
// EMAIL_NOT_VERIFIED where verified addresses are required.
func (s *Service) LogIn(ctx context.Context, who actor.Actor, in LoginInput) (Login, error) {
	email, err := presentedAddress(in.Email, in.Password)
	if err != nil {
		return Login{}, err
	}
	a := s.attemptOf(who, email)
	found, ok, err := s.tryPassword(ctx, a, in)
	if err != nil {
		return Login{}, err
	}
	if !ok {
		return Login{}, fault.New(fault.CodeInvalidCredentials, "")
	}
	if err := s.requireVerified(found.EmailVerifiedAt); err != nil {
		return Login{}, err
	}
	return s.startSession(ctx, asUser(who, *found.TenantID, *found.UserID), a, *found.PasswordHash)
}

// requireVerified returns EMAIL_NOT_VERIFIED where the installation requires what the user lacks.
func (s *Service) requireVerified(at *time.Time) error {
	if s.cfg.RequireVerifiedEmail && at == nil {
		return fault.New(fault.CodeEmailNotVerified, "")
	}
	return nil
}

// attempt is a login on its way.
type attempt struct {
	who   actor.Actor // as they called
	email string
	// The subjects under which failures are counted: email and network address together,
	// the network address alone, the email address alone.
	pair, source, account []byte
}

func (s *Service) attemptOf(who actor.Actor, email string) attempt {
	network := who.Network()
	return attempt{
		who: who, email: email,
		pair:    s.d.Secrets.Subject("login", email+"\x00"+network),
		source:  s.d.Secrets.Subject("logins from", network),
		account: s.d.Secrets.Subject("logins to", email),
	}
}

// tryPassword occupies a hasher's slot from reading the counted failures until this one is
// counted. So a burst can exceed a limit by the number of slots only. A delay is waited for
// without a slot.
func (s *Service) tryPassword(ctx context.Context, a attempt, in LoginInput) (dbsqlc.BeginLoginRow, bool, error) {
	var none dbsqlc.BeginLoginRow
	for delayed := false; ; delayed = true {
		free, err := s.slots.take(ctx, a.who.Network())
		if err != nil {
			return none, false, err
		}
		found, err := s.beginLogin(ctx, a)
		if err != nil {
			free()
			return none, false, err
		}
		delay := s.cfg.Throttle.delay(found)
		if delay > 0 && !delayed {
			free()
			if err := s.delays.wait(ctx, a.waitsAs(found.Known), delay); err != nil {
				return none, false, err
			}
			continue
		}
		ok, err := s.comparePassword(ctx, a, in, found)
		free()
		return found, ok, err
	}
}

// beginLogin reads the user and the counted failures. The error is LOGIN_THROTTLED where the
// throttle refuses the attempt.
func (s *Service) beginLogin(ctx context.Context, a attempt) (dbsqlc.BeginLoginRow, error) {
	now := s.now()
	found, err := s.q.BeginLogin(ctx, s.d.DB.Presenting(db.SettingLoginEmail, a.email), dbsqlc.BeginLoginParams{
		Email: a.email, Pair: a.pair, Source: a.source, Account: a.account, Now: now, Since: now.Add(-knownFor),
	})
	if err != nil {
		return found, fmt.Errorf("account: find user: %w", err)
	}
	return found, s.cfg.Throttle.refuseLogin(found, now)
}

func (s *Service) comparePassword(ctx context.Context, a attempt, in LoginInput, found dbsqlc.BeginLoginRow) (bool, error) {
	stored := ""
	if found.PasswordHash != nil {
		stored = *found.PasswordHash
	}
	ok, err := s.passwords.matches(in.Password, stored)
	if err != nil || ok {
		return ok, err
	}
	subjects := [][]byte{a.pair, a.source}
	if !found.Known {
		subjects = append(subjects, a.account)
	}
	return false, s.countFailure(ctx, a.who, found.TenantID, found.UserID, subjects...)
}

// countFailure counts into the subjects' windows. If the user is known, it records the
// failed login. The statements are the same either way, so that their time does not reveal
// which.
func (s *Service) countFailure(ctx context.Context, who actor.Actor, tenant, user *uuid.UUID, subjects ...[]byte) error {
	now := s.now()
	p := dbsqlc.CountFailuresParams{
		Subjects: subjects, Now: now, WindowEndsAt: now.Add(s.cfg.Throttle.Window),
		RecordID: newID(), RequestID: who.RequestID, SourceAddr: who.SourceAddr, UserID: uuid.Nil.String(),
	}
	if tenant != nil && user != nil {
		p.Known, p.TenantID, p.UserID = true, *tenant, user.String()
	}
	tx := s.d.DB.Tenant(p.TenantID)
	if err := s.q.CountFailures(ctx, tx, p); err != nil {
		return fmt.Errorf("account: count failures: %w", err)
	}
	if err := s.q.DeleteEndedAttempts(ctx, tx, now); err != nil {
		return fmt.Errorf("account: delete ended windows: %w", err)
	}
	return nil
}

// startSession starts a session of the user whose password has the hash. Where the password was
// changed since it was compared, it is as wrong as any other: INVALID_CREDENTIALS.
func (s *Service) startSession(ctx context.Context, who actor.Actor, a attempt, hash string) (Login, error) {
	out := Login{UserID: who.ID, TenantID: who.TenantID, Email: a.email}
	read := &db.Batch{}
	still := db.Queue(read, s.q.HoldPassword, dbsqlc.HoldPasswordParams{TenantID: who.TenantID, ID: who.ID, PasswordHash: hash})
	err := s.d.DB.ReadAndWrite(ctx, who.TenantID, read, func() (*db.Batch, error) {
		if len(still.Value) == 0 {
			return nil, fault.New(fault.CodeInvalidCredentials, "")
		}
		b := &db.Batch{}
		db.QueueExec(b, s.q.ForgetFailedLogins, a.pair)
		db.QueueExec(b, s.q.DeleteEndedSessions, dbsqlc.DeleteEndedSessionsParams{TenantID: who.TenantID, UserID: who.ID, ExpiresAt: s.now()})
		if err := s.queueSession(b, &out); err != nil {
			return nil, err
		}
		s.queueKnown(b, out, a.pair)
		audit.Queue(b, aboutUser(who, audit.UserLoggedIn, who.ID))
		return b, nil
	})
	if err != nil {
		return Login{}, fmt.Errorf("account: start session: %w", err)
	}
	return out, nil
}

// queueKnown remembers that the user has logged in from an address.
func (s *Service) queueKnown(b *db.Batch, l Login, pair []byte) {
	now := s.now()
	db.QueueExec(b, s.q.RememberLoginAddress, dbsqlc.RememberLoginAddressParams{TenantID: l.TenantID, UserID: l.UserID, Subject: pair, Now: now})
	db.QueueExec(b, s.q.ForgetLoginAddresses, dbsqlc.ForgetLoginAddressesParams{
		TenantID: l.TenantID, UserID: l.UserID, Before: now.Add(-knownFor), Most: knownMost,
	})
}

// queueKnownAlone forgets all addresses that the user has logged in from but this one. It belongs to
// each change of a password: another person may have had the one before.
func (s *Service) queueKnownAlone(b *db.Batch, l Login, pair []byte) {
	db.QueueExec(b, s.q.ForgetLoginAddresses, dbsqlc.ForgetLoginAddressesParams{TenantID: l.TenantID, UserID: l.UserID, Before: s.now()})
	s.queueKnown(b, l, pair)
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
