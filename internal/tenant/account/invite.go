package account

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/quota"
)

// InviteInput is the invited person and their role.
type InviteInput struct {
	Email string
	Name  string // optional
	Role  string // in any case
}

// Invite makes a user, who joins with the token that is returned. It does not reveal
// whether the address is in use in another tenant. It refuses with VALIDATION_ERROR,
// INSUFFICIENT_PERMISSIONS and QUOTA_EXCEEDED, and with CONFLICT where the tenant has a user
// or an invitation of this address.
func (s *Service) Invite(ctx context.Context, who actor.Actor, in InviteInput) (Invited, error) {
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
	hash := s.newInvitation(&out)
	err = s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
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
			InvitationHash: hash, InvitationExpiresAt: out.InvitationExpiresAt,
		})
		s.cfg.Quotas.Queue(b, who.TenantID, quota.Users)
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
	var out Invited
	_, err := s.manage(ctx, who, id, func(tx pgx.Tx, m managed) (User, error) {
		if m.target.Status != UserInvited {
			return User{}, fault.New(fault.CodeConflict, "The user has joined already.")
		}
		out = Invited{User: m.target}
		hash, b := s.newInvitation(&out), &db.Batch{}
		db.QueueExec(b, s.q.RenewInvitation, dbsqlc.RenewInvitationParams{
			TenantID: who.TenantID, ID: out.ID, InvitationHash: hash, InvitationExpiresAt: out.InvitationExpiresAt,
		})
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

// newInvitation gives a user the token to join with, and returns its hash.
func (s *Service) newInvitation(u *Invited) (hash []byte) {
	expires := s.now().Add(s.cfg.InvitationLifetime)
	u.Token, hash = s.d.Secrets.NewInvitationToken()
	u.InvitationExpiresAt = &expires
	return hash
}

// AcceptInput is what a person joins with.
type AcceptInput struct {
	Token, Password string
	Name            string // optional; the inviter's stays
}

// AcceptInvitation makes an invited person an active user and logs them in. A malformed,
// used or voided token is INVALID_TOKEN, an old one TOKEN_EXPIRED. Too many failures from
// one source are LOGIN_THROTTLED until the window ends. CONFLICT means that the address
// has an active user in another tenant. Only a caller with a good token learns that, and
// it counts as a failure.
func (s *Service) AcceptInvitation(ctx context.Context, who actor.Actor, in AcceptInput) (Login, error) {
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
	a := acceptance{hash: s.d.Secrets.InvitationHash(in.Token), subject: s.d.Secrets.InvitationSubject(source(who)), who: who, name: in.Name}
	if err := s.findInvitation(ctx, &a); err != nil {
		return Login{}, s.countRefusal(ctx, a, err)
	}
	password, err := s.hashPassword(ctx, in.Password)
	if err != nil {
		return Login{}, err
	}
	login, err := s.join(ctx, a, password)
	return login, s.countRefusal(ctx, a, err)
}

// acceptance is an invitation on its way to being accepted.
type acceptance struct {
	hash, subject []byte
	who           actor.Actor // as they called; tenant and user are those of the invitation
	tenant, user  uuid.UUID
	email, name   string
}

func (s *Service) findInvitation(ctx context.Context, a *acceptance) error {
	now := s.now()
	found, err := s.q.BeginAcceptance(ctx, s.d.DB.Presenting(db.SettingInvitation, hex.EncodeToString(a.hash)),
		dbsqlc.BeginAcceptanceParams{InvitationHash: a.hash, Subject: a.subject, Now: now})
	switch {
	case err != nil:
		return fmt.Errorf("account: find invitation: %w", err)
	case int(found.Failures) >= s.cfg.LoginFailures:
		throttled := fault.New(fault.CodeLoginThrottled, "")
		throttled.RetryAfter = found.WindowEndsAt.Sub(now)
		return throttled
	case found.UserID == nil:
		return fault.New(fault.CodeInvalidToken, "")
	case !found.InvitationExpiresAt.After(now):
		return fault.New(fault.CodeTokenExpired, "")
	}
	a.tenant, a.user, a.email = *found.TenantID, *found.UserID, *found.Email
	if a.name == "" {
		a.name = *found.Name
	}
	return nil
}

// countRefusal counts a token that is wrong or cannot be used, and returns err.
// Concurrent calls may exceed the limit together. Against a token of 256 bits that does
// not help, and only a good token costs the hash of a password.
func (s *Service) countRefusal(ctx context.Context, a acceptance, err error) error {
	if !fault.HasCode(err, fault.CodeInvalidToken) && !fault.HasCode(err, fault.CodeConflict) {
		return err
	}
	if cerr := s.countFailure(ctx, a.who, nil, nil, a.subject); cerr != nil {
		return cerr
	}
	return err
}

// join turns the invited user into an active one with their first session.
func (s *Service) join(ctx context.Context, a acceptance, password string) (Login, error) {
	now, out := s.now(), Login{UserID: a.user, TenantID: a.tenant, Email: a.email}
	err := s.d.DB.InTenant(ctx, a.tenant, func(tx pgx.Tx) error {
		n, err := s.q.AcceptInvitation(ctx, tx, dbsqlc.AcceptInvitationParams{
			Now: now, PasswordHash: &password, Name: a.name, TenantID: a.tenant, ID: a.user, InvitationHash: a.hash,
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
		if err := s.queueSession(b, &out); err != nil {
			return err
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
