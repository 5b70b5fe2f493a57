package account

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/record/mail"
)

// The pages that links in mail open, below the public address. Package api serves them.
const (
	PageVerify = "/account/verify-email"
	PageReset  = "/account/reset-password"
	PageAccept = "/account/accept-invitation"
)

// Letter is a mail as it is sent. The text may contain a token: it is never logged or stored.
type Letter struct{ Subject, Text string }

// Letter writes the mail. ok is false where there is nothing to tell any more, so the mail is
// void. The same mail gets the same token each time.
func (s *Service) Letter(ctx context.Context, m mail.Mail) (l Letter, ok bool, err error) {
	if s.cfg.PublicURL == "" {
		return Letter{}, false, errors.New("account: links in mail need a public address")
	}
	switch m.Kind {
	case MailSignup, MailResend, MailReset:
		return s.askedLetter(ctx, m)
	case MailInvitation:
		return s.invitationLetter(ctx, m)
	case MailChange:
		token, used, err := s.keepToken(ctx, m.ID, *m.TenantID, *m.UserID, toChange, m.Address)
		return Letter{"Confirm your new email address", lines(
			"A user of Agent Runtime asked to change their email address to this one. To confirm it, open this link and press the button:",
			s.link(PageVerify, token),
			"The link is valid for one hour and for one use. If you did not ask for this, do nothing: the address stays as it is.")}, !used, err
	case MailKeyCreated, MailKeyRotated:
		by, err := s.nameOf(ctx, m)
		return keyLetter(m, by), true, err
	default:
		l, ok = notice(m)
		return l, ok, nil
	}
}

// nameOf returns the email address of the user who acted.
func (s *Service) nameOf(ctx context.Context, m mail.Mail) (string, error) {
	id, err := parseUserID(m.Data.By)
	if err != nil {
		return "", err
	}
	u, err := s.user(ctx, s.d.DB.Tenant(*m.TenantID), *m.TenantID, id)
	return u.Email, err
}

// askedLetter writes what a stranger asked for by naming an address. The text contains nothing that
// they wrote, or they could send their own words to others.
func (s *Service) askedLetter(ctx context.Context, m mail.Mail) (Letter, bool, error) {
	user, err := s.q.UserOfAddress(ctx, s.d.DB.Presenting(db.SettingLoginEmail, m.Address), m.Address)
	switch {
	case db.IsNoRows(err):
		return Letter{}, false, nil
	case err != nil:
		return Letter{}, false, fmt.Errorf("account: find the user of an address: %w", err)
	}
	own := m.UserID != nil && *m.UserID == user.ID // the sign-up has made this user
	switch {
	case m.Kind == MailReset:
		return s.tokenLetter(ctx, m, user, toReset, "Reset your password",
			"You asked to reset your password. To set another one, open this link:",
			"The link is valid for one hour and for one use. It ends all your sessions. If you did not ask for this, do nothing: your password stays as it is.")
	case m.Kind == MailSignup && !own:
		// A stranger may have signed up with the address before its owner did. A reset takes the
		// account from them.
		return s.tokenLetter(ctx, m, user, toReset, "You have an account already",
			"An account with this email address was asked for, and there is one already. Nothing has changed. If you asked for it, log in. To set another password, open this link:",
			"The link is valid for one hour and for one use. It ends all sessions of the account. If you did not ask for this, do nothing.")
	case user.EmailVerifiedAt != nil:
		return Letter{}, false, nil
	default:
		return s.tokenLetter(ctx, m, user, toVerify, "Verify your email address",
			"An account with this email address was made. To show that the address is yours, open this link and press the button:",
			"The link is valid for 24 hours and for one use. If you did not make the account, do nothing.")
	}
}

func (s *Service) tokenLetter(ctx context.Context, m mail.Mail, user dbsqlc.UserOfAddressRow, p purpose, subject, before, after string) (Letter, bool, error) {
	token, used, err := s.keepToken(ctx, m.ID, user.TenantID, user.ID, p, m.Address)
	page := PageVerify
	if p == toReset {
		page = PageReset
	}
	return Letter{subject, lines(before, s.link(page, token), after)}, !used, err
}

func (s *Service) invitationLetter(ctx context.Context, m mail.Mail) (Letter, bool, error) {
	token, hash := s.d.Secrets.MailedInvitation(m.ID)
	found, err := s.q.InvitedByMail(ctx, s.d.DB.Tenant(*m.TenantID), dbsqlc.InvitedByMailParams{TenantID: *m.TenantID, ID: *m.UserID, MailHash: hash})
	switch {
	case db.IsNoRows(err):
		return Letter{}, false, nil // accepted, withdrawn or sent again
	case err != nil:
		return Letter{}, false, fmt.Errorf("account: find the invitation of a mail: %w", err)
	}
	by, err := s.nameOf(ctx, m)
	return Letter{"You are invited", lines(
		fmt.Sprintf("%s invites you to the tenant %s of Agent Runtime. To accept, open this link and choose a password:", quoted(by), quoted(found.TenantName)),
		s.link(PageAccept, token),
		"The link is valid until "+found.InvitationExpiresAt.UTC().Format("2 January 2006, 15:04 UTC")+" and for one use. If you do not know who invites you, do nothing.")}, true, err
}

// notice writes what only tells, and contains no token.
func notice(m mail.Mail) (Letter, bool) {
	const react = "If that was not you, set another password at once and end your sessions."
	switch m.Kind {
	case MailPassword:
		return Letter{"Your password was changed", lines("The password of your account was changed.", "If that was not you, ask for a link to reset it, at once.")}, true
	case MailChanging:
		return Letter{"Your email address is about to change", lines("You asked to change the email address of your account to "+quoted(m.Data.To)+". It changes when the link in the mail to that address is opened.", react)}, true
	case MailChanged:
		return Letter{"Your email address was changed", lines("The email address of your account is now another one. This one gets no further mail of the account.",
			"If that was not you, ask an owner of your tenant or the operators for help, at once.")}, true
	default:
		return Letter{}, false // of a later release
	}
}

// keyLetter tells an owner of a key. The preview shows the key's first and last characters.
func keyLetter(m mail.Mail, by string) Letter {
	const react = "If nobody of your tenant did this, revoke the key at once."
	if m.Kind == MailKeyRotated {
		return Letter{"An API key has a new secret", lines(fmt.Sprintf("%s gave the API key %s another secret (%s).", quoted(by), quoted(m.Data.Name), m.Data.Preview), react)}
	}
	return Letter{"An API key was created", lines(fmt.Sprintf("%s created the API key %s (%s) in your tenant.", quoted(by), quoted(m.Data.Name), m.Data.Preview), react)}
}

// link returns the address of a page with the token. Only the person who reads the mail sees it.
func (s *Service) link(page, token string) string {
	return s.cfg.PublicURL + page + "?" + url.Values{"token": {token}}.Encode()
}

func lines(paragraphs ...string) string { return strings.Join(paragraphs, "\n\n") + "\n" }

// mostQuoted is how many characters of a name a mail quotes.
const mostQuoted = 80

// quoted returns a text that a user wrote, for a mail. It stays on one line, shows characters that
// hide or turn text by their codes, and no mail program makes a link of it.
func quoted(text string) string {
	var b strings.Builder
	b.WriteString(`"`)
	runes := []rune(text)
	for i, r := range runes {
		switch {
		case i == mostQuoted:
			return b.String() + `…"`
		case r == '.' && i+1 < len(runes) && (unicode.IsLetter(runes[i+1]) || unicode.IsDigit(runes[i+1])):
			b.WriteString("[.]")
		case r == ':' && i+1 < len(runes) && runes[i+1] == '/':
			b.WriteString("[:]")
		case r == '"', !unicode.IsGraphic(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zs, r) && r != ' ':
			fmt.Fprintf(&b, "[U+%04X]", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}
