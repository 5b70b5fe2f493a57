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
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/mail"
	"agentruntime/internal/record/quota"
)

// InviteInput is the invited person and their role.
type InviteInput struct {
	Email string
	Name  string // optional
	Role  string // in any case
}

// Invite makes a user, who joins with the token that is returned. It does not reveal
// whether the address is in use in another tenant. It refuses with SIGNUP_CLOSED, VALIDATION_ERROR,
// INSUFFICIENT_PERMISSIONS and QUOTA_EXCEEDED, and with CONFLICT where the tenant has a user
// or an invitation of this address.
func (s *Service) Invite(ctx context.Context, who actor.Actor, in InviteInput) (Invited, error) {
	if err := s.admits(SignupOpen, SignupInvite); err != nil {
		return Invited{}, err
	}
	email, err := newAddress(in.Email)
	if err != nil {
		return Invited{}, err
	}
	role, err := parseRole(in.Role)
	if err != nil {
		return Invited{}, err
	}
	if in.Name != "" {
		if err := checkName(in.Name); err != nil {
			return Invited{}, err
		}
	}
	out := Invited{User: User{ID: newID(), Email: email, Name: in.Name, Role: role, Status: UserInvited, CreatedAt: s.now()}}
	hash, m := s.newInvitation(&out, who)
	err = s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := idempotency.Write(ctx, tx, out.ID.String()); err != nil {
			return err
		}
		by, err := s.lockAs(ctx, tx, who)
		if err != nil {
			return err
		}
		if err := mayGive(by, role); err != nil {
			return err
		}
		b := &db.Batch{}
		db.QueueExec(b, s.q.InsertInvitedUser, dbsqlc.InsertInvitedUserParams{
			ID: out.ID, TenantID: who.TenantID, Email: email, Name: out.Name, Role: string(role), CreatedAt: out.CreatedAt,
			InvitationHash: hash, InvitationExpiresAt: out.InvitationExpiresAt, InvitationMailHash: m.hash,
		})
		s.queueLink(b, m.Mail)
		s.cfg.Quotas.Queue(b, who.TenantID, quota.Users)
		s.cfg.Quotas.Queue(b, who.TenantID, quota.RemovedUsers)
		audit.Queue(b, aboutUser(who, audit.UserInvited, out.ID).With(map[string]any{"role": role}))
		if err := b.SendIn(ctx, tx); err != nil {
			return fmt.Errorf("account: invite user: %w", err)
		}
		return nil
	})
	switch {
	case db.IsUnique(err, "users_tenant_email"):
		return Invited{}, fault.New(fault.CodeConflict, "The tenant has a user or an invitation of this address already.")
	case err != nil:
		return Invited{}, err
	}
	return out, nil
}

// InviteAgain voids the token of an invitation and returns another. It refuses as
// ChangeUser does, and with CONFLICT where the user has joined.
func (s *Service) InviteAgain(ctx context.Context, who actor.Actor, id string) (Invited, error) {
	if err := s.admits(SignupOpen, SignupInvite); err != nil {
		return Invited{}, err
	}
	var out Invited
	_, err := s.manage(ctx, who, id, func(tx pgx.Tx, m managed) (User, error) {
		if m.target.Status != UserInvited {
			return User{}, fault.New(fault.CodeConflict, "The user has joined already.")
		}
		out = Invited{User: m.target}
		b := &db.Batch{}
		hash, invitation := s.newInvitation(&out, who)
		idempotency.Queue(ctx, b, out.ID.String())
		db.QueueExec(b, s.q.RenewInvitation, dbsqlc.RenewInvitationParams{
			TenantID: who.TenantID, ID: out.ID, InvitationHash: hash, InvitationExpiresAt: out.InvitationExpiresAt, InvitationMailHash: invitation.hash,
		})
		s.queueLink(b, invitation.Mail)
		audit.Queue(b, m.record(audit.UserInvited).With(map[string]any{"role": out.Role, "again": true}))
		if err := b.SendIn(ctx, tx); err != nil {
			return User{}, fmt.Errorf("account: renew invitation: %w", err)
		}
		return out.User, nil
	})
	if err != nil {
		return Invited{}, err
	}
	return out, nil
}

// invitationMail is a mail with an invitation, and the hash of its token.
type invitationMail struct {
	mail.Mail

	hash []byte
}

// newInvitation gives a user the token to join with, and returns its hash and the mail. The token
// of the mail is another one. Only that one shows that the address is the user's. Where addresses
// must be verified, it is the only one that is told.
func (s *Service) newInvitation(u *Invited, who actor.Actor) (hash []byte, m invitationMail) {
	expires := s.now().Add(s.cfg.InvitationLifetime)
	u.Token, hash = s.d.Secrets.NewInvitationToken()
	if s.cfg.RequireVerifiedEmail {
		u.Token = ""
	}
	u.InvitationExpiresAt = &expires
	m.Mail = mail.Mail{ID: newID(), TenantID: &who.TenantID, UserID: &u.ID, Kind: MailInvitation, Address: u.Email, Data: mail.Data{By: who.ID.String()}}
	_, m.hash = s.d.Secrets.MailedInvitation(m.ID)
	return hash, m
}

// AcceptInput is what a person joins with.
type AcceptInput struct {
	Token, Password string
	Name            string // optional; the inviter's stays
}

// AcceptInvitation makes an invited person an active user and logs them in. A malformed,
// used or voided token is INVALID_TOKEN, an old one TOKEN_EXPIRED. The token of the mail verifies
// the address; where that is required, another one is EMAIL_NOT_VERIFIED. Too many bad tokens from
// one address are LOGIN_THROTTLED until the window ends; a good token is accepted even then.
// CONFLICT means that the address has an active user in another tenant. Only a caller with a
// good token learns that. So it counts, for the token and for the tenant that invited, and
// too many are LOGIN_THROTTLED.
func (s *Service) AcceptInvitation(ctx context.Context, who actor.Actor, in AcceptInput) (Login, error) {
	return s.acceptInvitation(ctx, who, in, true)
}

// Join is AcceptInvitation without a session, for a page.
func (s *Service) Join(ctx context.Context, who actor.Actor, in AcceptInput) error {
	_, err := s.acceptInvitation(ctx, who, in, false)
	return err
}

func (s *Service) acceptInvitation(ctx context.Context, who actor.Actor, in AcceptInput, begin bool) (Login, error) {
	if err := s.admits(SignupOpen, SignupInvite); err != nil {
		return Login{}, err
	}
	if in.Token == "" {
		return Login{}, fault.Invalid("/token", "required", "token is required.")
	}
	if in.Name != "" {
		if err := checkName(in.Name); err != nil {
			return Login{}, err
		}
	}
	if err := checkNewPassword(in.Password); err != nil {
		return Login{}, err
	}
	a := acceptance{hash: s.d.Secrets.InvitationHash(in.Token), who: who, name: in.Name, begin: begin}
	a.token, a.source = s.d.Secrets.Subject("invitation", string(a.hash)), s.d.Secrets.Subject("invitations from", who.Network())
	if err := s.findInvitation(ctx, &a); err != nil {
		return Login{}, s.countRefusal(ctx, a, err)
	}
	password, err := s.hashPassword(ctx, who, in.Password)
	if err != nil {
		return Login{}, err
	}
	login, err := s.join(ctx, a, password)
	return login, s.countRefusal(ctx, a, err)
}

// acceptance is an invitation on its way to being accepted.
type acceptance struct {
	hash []byte // of the token
	// token, source and inviter are the subjects under which failures are counted: the
	// invitation, the caller's address, the tenant that invited.
	token, source, inviter []byte
	// repeated: the token has failed before in its window.
	repeated     bool
	who          actor.Actor // as they called; tenant and user are those of the invitation
	tenant, user uuid.UUID
	email, name  string
	begin        bool // a session
}

func (s *Service) findInvitation(ctx context.Context, a *acceptance) error {
	now, limits := s.now(), s.cfg.Throttle
	found, err := s.q.BeginAcceptance(ctx, s.d.DB.Presenting(db.SettingInvitation, hex.EncodeToString(a.hash)),
		dbsqlc.BeginAcceptanceParams{InvitationHash: a.hash, Token: a.token, Source: a.source, Now: now})
	switch {
	case err != nil:
		return fmt.Errorf("account: find invitation: %w", err)
	case found.UserID == nil && int(found.SourceFailures) >= limits.SourceFailures:
		return throttled(found.SourceEndsAt.Sub(now))
	case found.UserID == nil:
		return fault.New(fault.CodeInvalidToken, "")
	case int(found.TokenFailures) >= limits.PairFailures:
		return throttled(found.TokenEndsAt.Sub(now))
	case !found.InvitationExpiresAt.After(now):
		return fault.New(fault.CodeTokenExpired, "")
	}
	if s.cfg.RequireVerifiedEmail && !found.ByMail {
		return fault.New(fault.CodeEmailNotVerified, "Accept the invitation by the link in its mail. Ask for another mail where there is none.")
	}
	a.tenant, a.user, a.email, a.repeated = *found.TenantID, *found.UserID, *found.Email, found.TokenFailures > 0
	if a.name == "" {
		a.name = *found.Name
	}
	return s.mayLearnConflict(ctx, a)
}

// mayLearnConflict refuses with LOGIN_THROTTLED where too many invitations of the tenant
// were refused with CONFLICT. Otherwise a tenant could find out which addresses are in use,
// by inviting them. A token that was refused before tells nothing new.
func (s *Service) mayLearnConflict(ctx context.Context, a *acceptance) error {
	a.inviter = s.d.Secrets.Subject("invitations of", a.tenant.String())
	if a.repeated {
		return nil
	}
	now := s.now()
	counted, err := s.q.FailuresOf(ctx, s.d.DB.Tenant(a.tenant), dbsqlc.FailuresOfParams{Subject: a.inviter, Now: now})
	switch {
	case err != nil:
		return fmt.Errorf("account: failed invitations of a tenant: %w", err)
	case int(counted.Failures) >= s.cfg.Throttle.PairFailures:
		return throttled(counted.EndsAt.Sub(now))
	}
	return nil
}

// countRefusal counts a token that is wrong or cannot be used, and returns err. Concurrent
// calls may exceed a limit together. Against a token of 256 bits that does not help, and
// only a good token costs the hash of a password. A wrong token is counted for the address
// only: a row for each of them could fill the table.
func (s *Service) countRefusal(ctx context.Context, a acceptance, err error) error {
	var subjects [][]byte
	switch {
	case fault.HasCode(err, fault.CodeInvalidToken):
		subjects = [][]byte{a.source}
	case fault.HasCode(err, fault.CodeConflict) && a.repeated:
		subjects = [][]byte{a.token}
	case fault.HasCode(err, fault.CodeConflict):
		subjects = [][]byte{a.token, a.inviter}
	default:
		return err
	}
	if cerr := s.countFailure(ctx, a.who, nil, nil, subjects...); cerr != nil {
		return cerr
	}
	return err
}

// join turns the invited user into an active one, with their first session where one begins.
func (s *Service) join(ctx context.Context, a acceptance, password string) (Login, error) {
	now, out := s.now(), Login{UserID: a.user, TenantID: a.tenant, Email: a.email}
	err := s.d.DB.InTenant(ctx, a.tenant, func(tx pgx.Tx) error {
		n, err := s.q.AcceptInvitation(ctx, tx, dbsqlc.AcceptInvitationParams{
			Now: now, PasswordHash: &password, Name: a.name, TenantID: a.tenant, ID: a.user, TokenHash: a.hash,
		})
		switch {
		case db.IsUnique(err, "users_email"):
			return fault.New(fault.CodeConflict, "The address of this invitation belongs to a user already. Ask for an invitation to another address.")
		case err != nil:
			return fmt.Errorf("account: accept invitation: %w", err)
		case n == 0:
			return fault.New(fault.CodeInvalidToken, "")
		}
		b := &db.Batch{}
		if a.begin {
			if err := s.queueSession(b, &out); err != nil {
				return err
			}
			s.queueKnown(b, out, s.attemptOf(a.who, a.email).pair)
		}
		audit.Queue(b, aboutUser(asUser(a.who, a.tenant, a.user), audit.UserJoined, a.user))
		if err := b.SendIn(ctx, tx); err != nil {
			return fmt.Errorf("account: start session: %w", err)
		}
		return nil
	})
	if err != nil {
		return Login{}, err
	}
	return out, nil
}
