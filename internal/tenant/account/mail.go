package account

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/record/mail"
	"agentruntime/internal/record/quota"
)

// The kinds of mail. Letter has the text of each.
const (
	// MailSignup, MailResend and MailReset are asked for by anyone who names an address.
	MailSignup mail.Kind = "signup"
	MailResend mail.Kind = "resend"
	MailReset  mail.Kind = "reset"

	MailInvitation mail.Kind = "invitation"
	// MailChange goes to a user's next address, MailChanging and MailChanged to the one before.
	MailChange   mail.Kind = "change"
	MailChanging mail.Kind = "changing"
	MailChanged  mail.Kind = "changed"
	MailPassword mail.Kind = "password"
	// MailKeyCreated and MailKeyRotated go to the owners.
	MailKeyCreated mail.Kind = "key_created"
	MailKeyRotated mail.Kind = "key_rotated"
)

// MailBounds are the most mails within an hour. What is beyond is not sent, and the answer to the
// caller is the same: it must not tell what others have asked for. The zero value of each field
// takes the default named with it.
type MailBounds struct {
	// Address is how many mails with a link one address gets, from all that ask: 5.
	Address int
	// Source is how many mails one network address may ask for without a session: 60. Many people
	// may share an address.
	Source int
	// Notices is how many mails that only tell one account gets, and how many times the owners of
	// a tenant are told of keys: 20.
	Notices int
}

func (m MailBounds) withDefaults() MailBounds {
	if m.Address == 0 {
		m.Address = 5
	}
	if m.Source == 0 {
		m.Source = 60
	}
	if m.Notices == 0 {
		m.Notices = 20
	}
	return m
}

// linkTo bounds the mails with a link that an address gets.
func (s *Service) linkTo(address string) mail.Bound {
	return mail.Bound{Subject: s.d.Secrets.Subject("mail to", address), Most: s.cfg.Mails.Address}
}

// queueAsked queues what a stranger asks for. It needs the transaction to present the address.
func (s *Service) queueAsked(b *db.Batch, who actor.Actor, kind mail.Kind, address string, user *uuid.UUID) {
	mail.Queue(b, mail.Mail{ID: newID(), UserID: user, Kind: kind, Address: address, Bounds: []mail.Bound{
		s.linkTo(address), {Subject: s.d.Secrets.Subject("mail from", who.Network()), Most: s.cfg.Mails.Source},
	}}, s.now())
}

// queueLink queues a mail with a link, on behalf of a user of the tenant. The batch fails with
// QUOTA_EXCEEDED where the tenant has too many mails that wait, or has sent too many such in an hour.
func (s *Service) queueLink(b *db.Batch, m mail.Mail) {
	m.Bounds = []mail.Bound{s.linkTo(m.Address)}
	mail.Queue(b, m, s.now())
	for _, r := range []quota.Resource{quota.Mails, quota.MailLinks, quota.MailLinksUnverified} {
		s.cfg.Quotas.Queue(b, *m.TenantID, r)
	}
}

// queueNotice tells a user what happened to their account.
func (s *Service) queueNotice(b *db.Batch, tenant, user uuid.UUID, kind mail.Kind, address string, data mail.Data) {
	bound := mail.Bound{Subject: s.d.Secrets.Subject("notices to", user.String()), Most: s.cfg.Mails.Notices}
	mail.Queue(b, mail.Mail{ID: newID(), TenantID: &tenant, UserID: &user, Kind: kind, Address: address, Data: data, Bounds: []mail.Bound{bound}}, s.now())
}

// queueToOwners tells the owners of the tenant of a key.
func (s *Service) queueToOwners(b *db.Batch, who actor.Actor, kind mail.Kind, key Key) {
	bound := mail.Bound{Subject: s.d.Secrets.Subject("notices of", who.TenantID.String()), Most: s.cfg.Mails.Notices}
	mail.ToOwners(b, who.TenantID, kind, mail.Data{By: who.ID.String(), Name: key.Name, Preview: key.Preview}, bound, s.now())
}

// ask queues one mail to the address, whether or not it has a user: the sender finds out. So the
// answer and its time are the same.
func (s *Service) ask(ctx context.Context, who actor.Actor, kind mail.Kind, email string) error {
	address, err := newAddress(email)
	if err != nil {
		return err
	}
	b := &db.Batch{}
	s.queueAsked(b, who, kind, address, nil)
	if err := s.d.DB.SendPresenting(ctx, db.SettingLoginEmail, address, b); err != nil {
		return fmt.Errorf("account: queue mail: %w", err)
	}
	return nil
}

// ResendVerification mails the address another link, if it has a user who has not verified it.
// The error is VALIDATION_ERROR where it is no address.
func (s *Service) ResendVerification(ctx context.Context, who actor.Actor, email string) error {
	return s.ask(ctx, who, MailResend, email)
}

// ForgotPassword mails the address a link to set another password, if it has a user. The error is
// VALIDATION_ERROR where it is no address.
func (s *Service) ForgotPassword(ctx context.Context, who actor.Actor, email string) error {
	return s.ask(ctx, who, MailReset, email)
}
