package account

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/mail"
	"agentruntime/internal/record/quota"
)

// sent is one mail as a server gets it.
type sent struct {
	To string
	Letter
}

// deliver takes every mail that is due and writes it. Void mails are left out.
func (h *house) deliver(t *testing.T) []sent {
	t.Helper()
	var out []sent
	for {
		taken, err := mail.Take(t.Context(), h.db.Pool, 10, h.clock())
		require.NoError(t, err)
		if len(taken) == 0 {
			return out
		}
		for _, m := range taken {
			l, ok, err := h.Letter(t.Context(), m.Mail)
			require.NoError(t, err)
			outcome := mail.Void
			if ok {
				outcome = mail.Sent
				out = append(out, sent{m.Address, l})
			}
			require.NoError(t, mail.End(t.Context(), h.db.Pool, m, outcome, "", h.clock()))
		}
	}
}

// only returns the one mail that was queued.
func (h *house) only(t *testing.T) sent {
	t.Helper()
	all := h.deliver(t)
	require.Len(t, all, 1)
	return all[0]
}

var linkPattern = regexp.MustCompile(`https://runtime\.example\.com(/account/[a-z-]+)\?token=(\S+)`)

// token returns the token of the mail's link to the page.
func (m sent) token(t *testing.T, page string) string {
	t.Helper()
	found := linkPattern.FindStringSubmatch(m.Text)
	require.NotNil(t, found, m.Text)
	require.Equal(t, page, found[1])
	return found[2]
}

func (h *house) verified(t *testing.T, email string) bool {
	t.Helper()
	return one[bool](t, h, "select email_verified_at is not null from users where email = $1", email)
}

func TestSignUpMailsALinkThatVerifiesOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	m := h.only(t)
	require.Equal(t, "ada@example.com", m.To)
	token := m.token(t, PageVerify)
	require.False(t, h.verified(t, "ada@example.com"))

	requireCode(t, fault.CodeInvalidToken, h.VerifyEmail(t.Context(), from(home), token+"x"))
	require.NoError(t, h.VerifyEmail(t.Context(), from(home), token))
	require.True(t, h.verified(t, "ada@example.com"))
	requireCode(t, fault.CodeInvalidToken, h.VerifyEmail(t.Context(), from(home), token))
	require.Equal(t, int64(1), one[int64](t, h, "select count(*) from audit_records where action = 'user.email_verified'"))
}

func TestTokenOfMailEndsWithItsTime(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	verify := h.only(t).token(t, PageVerify)
	require.NoError(t, h.ForgotPassword(t.Context(), from(home), "ada@example.com"))
	reset := h.only(t).token(t, PageReset)

	h.pass(time.Hour)
	requireCode(t, fault.CodeTokenExpired, h.ResetPassword(t.Context(), from(home), reset, "another horse"))
	h.pass(23 * time.Hour)
	requireCode(t, fault.CodeTokenExpired, h.VerifyEmail(t.Context(), from(home), verify))
	require.NoError(t, h.ResendVerification(t.Context(), from(home), "ADA@example.com"))
	require.NoError(t, h.VerifyEmail(t.Context(), from(home), h.only(t).token(t, PageVerify)))
	require.NoError(t, h.ResendVerification(t.Context(), from(home), "ada@example.com"))
	require.Empty(t, h.deliver(t), "the address is verified")
}

func TestTokenOfOnePurposeServesNoOther(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	verify := h.only(t).token(t, PageVerify)
	require.NoError(t, h.ForgotPassword(t.Context(), from(home), "ada@example.com"))
	reset := h.only(t).token(t, PageReset)
	requireCode(t, fault.CodeInvalidToken, h.ResetPassword(t.Context(), from(home), verify, "another horse"))
	requireCode(t, fault.CodeInvalidToken, h.VerifyEmail(t.Context(), from(home), reset))
	_, err := h.accept(t, reset)
	requireCode(t, fault.CodeInvalidToken, err)
}

func TestResetEndsAllSessionsAndVoidsEarlierLinks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	login := h.join(t, "ada@example.com")
	h.deliver(t)
	for range 2 {
		require.NoError(t, h.ForgotPassword(t.Context(), from(home), "ada@example.com"))
	}
	both := h.deliver(t)
	require.Len(t, both, 2)
	requireCode(t, fault.CodeWeakPassword, h.ResetPassword(t.Context(), from(home), both[0].token(t, PageReset), "short"))
	require.NoError(t, h.ResetPassword(t.Context(), from(home), both[0].token(t, PageReset), "another horse"))

	_, err := h.authenticate(t, login.Token)
	require.Error(t, err, "its session has ended")
	_, err = h.Refresh(t.Context(), from(home), login.RefreshToken)
	requireCode(t, fault.CodeInvalidToken, err)
	_, err = h.logIn(t, "ada@example.com", password)
	requireCode(t, fault.CodeInvalidCredentials, err)
	_, err = h.logIn(t, "ada@example.com", "another horse")
	require.NoError(t, err)
	require.True(t, h.verified(t, "ada@example.com"))
	requireCode(t, fault.CodeInvalidToken, h.ResetPassword(t.Context(), from(home), both[1].token(t, PageReset), "a third horse"))
	require.Equal(t, "Your password was changed", h.only(t).Subject)
}

func TestUnknownAddressGetsNoMail(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ada := h.join(t, "ada@example.com")
	h.invite(t, ada, "bob@example.com", "member")
	h.deliver(t)
	for _, email := range []string{"nobody@example.com", "bob@example.com"} {
		require.NoError(t, h.ForgotPassword(t.Context(), from(home), email))
		require.NoError(t, h.ResendVerification(t.Context(), from(home), email))
	}
	require.Empty(t, h.deliver(t))
	require.Equal(t, int64(4), one[int64](t, h, "select count(*) from mails where outcome = 'void'"))
}

// The owner of an address gets the account, also where a stranger signed up with it first.
func TestSecondSignUpMailsAReset(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	stranger := h.join(t, "ada@example.com")
	h.deliver(t)
	h.signUp(t, "ada@example.com", "the owner's horse")
	m := h.only(t)
	require.Equal(t, "You have an account already", m.Subject)
	require.NoError(t, h.ResetPassword(t.Context(), from(home), m.token(t, PageReset), "the owner's horse"))
	_, err := h.authenticate(t, stranger.Token)
	require.Error(t, err)
	login, err := h.logIn(t, "ada@example.com", "the owner's horse")
	require.NoError(t, err)
	require.Equal(t, stranger.UserID, login.UserID)
}

func TestMailThatIsSentAgainHasTheSameLink(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	var links []string
	for range 2 { // the process dies before it notes that the mail was sent
		taken, err := mail.Take(t.Context(), h.db.Pool, 10, h.clock())
		require.NoError(t, err)
		require.Len(t, taken, 1)
		again, err := mail.Take(t.Context(), h.db.Pool, 10, h.clock())
		require.NoError(t, err)
		require.Empty(t, again, "it is leased")
		l, ok, err := h.Letter(t.Context(), taken[0].Mail)
		require.NoError(t, err)
		require.True(t, ok)
		links = append(links, l.Text)
		h.pass(mail.Lease)
	}
	require.Equal(t, links[0], links[1])
	require.NoError(t, h.VerifyEmail(t.Context(), from(home), sent{Letter: Letter{Text: links[0]}}.token(t, PageVerify)))
	require.Empty(t, h.deliver(t), "its token was used, so it has arrived")
}

func TestChangeOfEmail(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ada := h.join(t, "ada@example.com")
	h.join(t, "taken@example.com")
	h.deliver(t)
	requireCode(t, fault.CodeInvalidCredentials, h.ChangeEmail(t.Context(), as(ada), NewEmail{Current: "wrong", Email: "next@example.com"}))
	requireCode(t, fault.CodeValidation, h.ChangeEmail(t.Context(), as(ada), NewEmail{Current: password, Email: "ADA@example.com"}))
	requireCode(t, fault.CodeValidation, h.ChangeEmail(t.Context(), as(ada), NewEmail{Current: password, Email: "next@example.com\r\nBcc: x@example.com"}))
	require.Empty(t, h.deliver(t))

	ask := func(email string) (token string) {
		require.NoError(t, h.ChangeEmail(t.Context(), as(ada), NewEmail{Current: password, Email: email}))
		byAddress := map[string]sent{}
		for _, m := range h.deliver(t) {
			byAddress[m.To] = m
		}
		require.Len(t, byAddress, 2)
		require.Equal(t, "Your email address is about to change", byAddress["ada@example.com"].Subject)
		return byAddress[email].token(t, PageVerify)
	}
	first, taken := ask("next@example.com"), ask("taken@example.com")
	requireCode(t, fault.CodeInvalidToken, h.VerifyEmail(t.Context(), from(home), first))
	requireCode(t, fault.CodeConflict, h.VerifyEmail(t.Context(), from(home), taken))
	_, err := h.logIn(t, "ada@example.com", password)
	require.NoError(t, err)

	require.NoError(t, h.VerifyEmail(t.Context(), from(home), ask("next@example.com")))
	m := h.only(t)
	require.Equal(t, []string{"ada@example.com", "Your email address was changed"}, []string{m.To, m.Subject})
	_, err = h.logIn(t, "ada@example.com", password)
	requireCode(t, fault.CodeInvalidCredentials, err)
	_, err = h.logIn(t, "next@example.com", password)
	require.NoError(t, err)
	require.True(t, h.verified(t, "next@example.com"))
}

func TestInvitationByMailVerifiesTheAddress(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ada := h.join(t, "ada@example.com")
	h.deliver(t)
	shown := h.invite(t, ada, "bob@example.com", "member")
	h.invite(t, ada, "carol@example.com", "member")
	var mailed string
	for _, m := range h.deliver(t) {
		require.Contains(t, m.Text, `"ada@example[.]com" invites you to the tenant "Ada"`)
		if m.To == "bob@example.com" {
			mailed = m.token(t, PageAccept)
		}
	}
	require.NotEqual(t, shown.Token, mailed)
	_, err := h.accept(t, mailed)
	require.NoError(t, err)
	require.True(t, h.verified(t, "bob@example.com"))
	_, err = h.accept(t, shown.Token)
	requireCode(t, fault.CodeInvalidToken, err)
}

func TestInvitationAgainVoidsTheMailBefore(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ada := h.join(t, "ada@example.com")
	h.deliver(t)
	bob := h.invite(t, ada, "bob@example.com", "member")
	old := h.only(t).token(t, PageAccept)
	carol := h.invite(t, ada, "carol@example.com", "member")
	require.NoError(t, h.remove(t.Context(), ada, carol.ID))
	_, err := h.InviteAgain(t.Context(), as(ada), bob.ID.String())
	require.NoError(t, err)
	next := h.only(t).token(t, PageAccept) // none to Carol: the invitation was withdrawn
	_, err = h.accept(t, old)
	requireCode(t, fault.CodeInvalidToken, err)
	_, err = h.accept(t, next)
	require.NoError(t, err)
}

func TestVerifiedEmailCanBeRequired(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ada := h.join(t, "ada@example.com")
	h.deliver(t)
	early := h.invite(t, ada, "bob@example.com", "member")
	h.cfg.RequireVerifiedEmail = true
	_, err := h.logIn(t, "ada@example.com", "wrong horse")
	requireCode(t, fault.CodeInvalidCredentials, err)
	_, err = h.logIn(t, "ada@example.com", password)
	requireCode(t, fault.CodeEmailNotVerified, err)
	_, err = h.Refresh(t.Context(), from(home), ada.RefreshToken)
	requireCode(t, fault.CodeEmailNotVerified, err)
	_, err = h.accept(t, early.Token)
	requireCode(t, fault.CodeEmailNotVerified, err)
	require.Empty(t, h.invite(t, ada, "carol@example.com", "member").Token, "only the mail has one")

	require.NoError(t, h.ResendVerification(t.Context(), from(home), "ada@example.com"))
	for _, m := range h.deliver(t) {
		switch m.To {
		case "ada@example.com":
			require.NoError(t, h.VerifyEmail(t.Context(), from(home), m.token(t, PageVerify)))
		default:
			_, err := h.accept(t, m.token(t, PageAccept))
			require.NoError(t, err)
		}
	}
	_, err = h.logIn(t, "ada@example.com", password)
	require.NoError(t, err)
}

func TestOwnersAreToldOfKeys(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ada := h.join(t, "ada@example.com")
	h.add(t, ada, "bob@example.com", "owner")
	admin := h.add(t, ada, "carol@example.com", "admin")
	h.deliver(t)
	key, err := h.CreateKey(t.Context(), as(admin), KeyInput{Name: "see https://evil.example.com\u202e \"x\"", Permissions: []string{"actions:run"}})
	require.NoError(t, err)
	all := h.deliver(t)
	require.Len(t, all, 2)
	for _, m := range all {
		require.Contains(t, []string{"ada@example.com", "bob@example.com"}, m.To)
		require.Contains(t, m.Text, `"carol@example[.]com" created the API key "see https[:]//evil[.]example[.]com[U+202E] [U+0022]x[U+0022]" (`+key.Preview+`)`)
		require.NotContains(t, m.Text, key.Secret)
	}
	_, err = h.RotateKey(t.Context(), as(admin), key.ID.String(), 0)
	require.NoError(t, err)
	require.Len(t, h.deliver(t), 2)
}

func TestMailIsBounded(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	h.cfg.Mails = MailBounds{Address: 3, Source: 6, Notices: 2}
	count := func() int64 { return one[int64](t, h, "select count(*) from mails") }
	forgot := func(source, email string) {
		require.NoError(t, h.ForgotPassword(t.Context(), actor.Actor{SourceAddr: source}, email))
	}
	require.Equal(t, int64(1), count())
	for range 5 {
		forgot("198.51.100.1", "ada@example.com")
	}
	require.Equal(t, int64(3), count(), "three to one address")
	for _, email := range []string{"b@example.com", "c@example.com", "d@example.com"} {
		forgot("198.51.100.1", email)
	}
	require.Equal(t, int64(4), count(), "what was refused counts for the network address too")
	forgot("198.51.100.2", "e@example.com")
	require.Equal(t, int64(5), count(), "another network has mails of its own")
	h.pass(mail.Window)
	forgot("198.51.100.1", "ada@example.com")
	require.Equal(t, int64(6), count())

	login, err := h.logIn(t, "ada@example.com", password)
	require.NoError(t, err)
	h.deliver(t)
	for range 4 {
		_, err := h.CreateKey(t.Context(), as(login), KeyInput{Name: "k", Permissions: []string{"actions:run"}})
		require.NoError(t, err)
	}
	require.Len(t, h.deliver(t), 2)
}

func TestUnsentMailOfATenantIsBounded(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ada, bob := h.join(t, "ada@example.com"), h.join(t, "bob@example.com")
	h.deliver(t)
	var err error
	h.cfg.Quotas, err = quota.New(map[string]int64{"mails": 2})
	require.NoError(t, err)
	invite := func(who Login, email string) error {
		_, err := h.Invite(t.Context(), as(who), InviteInput{Email: email, Role: "member"})
		return err
	}
	require.NoError(t, invite(ada, "a@example.com"))
	require.NoError(t, invite(ada, "b@example.com"))
	requireCode(t, fault.CodeQuotaExceeded, invite(ada, "c@example.com"))
	requireCode(t, fault.CodeQuotaExceeded, h.ChangeEmail(t.Context(), as(ada), NewEmail{Current: password, Email: "next@example.com"}))
	require.NoError(t, invite(bob, "c@example.com"), "another tenant has a quota of its own")
	_, err = h.CreateKey(t.Context(), as(ada), KeyInput{Name: "k", Permissions: []string{"actions:run"}})
	require.NoError(t, err, "a key does not wait for mail")
	require.Len(t, h.deliver(t), 4)
	require.NoError(t, invite(ada, "c@example.com"))
}

// A stranger who signs up could have the service write to any number of people. A withdrawn invitation counts,
// since its mail is sent.
func TestMailWithLinksOfATenantIsBoundedInAnHour(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var err error
	now := time.Now() // the database's clock counts
	h.at.Store(&now)
	h.cfg.Quotas, err = quota.New(map[string]int64{"mail_links": 4, "mail_links_unverified": 2})
	require.NoError(t, err)
	h.signUp(t, "ada@example.com", password)
	ada, err := h.logIn(t, "ada@example.com", password)
	require.NoError(t, err)
	invite := func() error {
		made, err := h.Invite(t.Context(), as(ada), InviteInput{Email: uuid.NewString() + "@example.com", Role: "member"})
		if err == nil {
			err = h.RemoveUser(t.Context(), as(ada), made.ID.String(), nil)
		}
		return err
	}
	require.NoError(t, invite())
	require.NoError(t, invite())
	requireCode(t, fault.CodeQuotaExceeded, invite())
	requireCode(t, fault.CodeQuotaExceeded, h.ChangeEmail(t.Context(), as(ada), NewEmail{Current: password, Email: "next@example.com"}))
	one[int64](t, h, "WITH u AS (UPDATE users SET email_verified_at = now() RETURNING id) SELECT count(*) FROM u")
	require.NoError(t, invite(), "an owner has verified their address")
	require.NoError(t, h.ChangeEmail(t.Context(), as(ada), NewEmail{Current: password, Email: "next@example.com"}))
	requireCode(t, fault.CodeQuotaExceeded, invite())
	one[int64](t, h, "WITH u AS (UPDATE mails SET created_at = created_at - interval '61 minutes' RETURNING id) SELECT count(*) FROM u")
	require.NoError(t, invite(), "an hour later")
}

func TestOldMailIsForgotten(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	token := h.only(t).token(t, PageVerify)
	h.signUp(t, "bob@example.com", password)
	rows := func() [3]int64 {
		return [3]int64{
			one[int64](t, h, "select count(*) from mails"), one[int64](t, h, "select count(*) from mail_tokens"), one[int64](t, h, "select count(*) from mail_windows"),
		}
	}
	require.NoError(t, mail.Forget(t.Context(), h.db.Pool, h.clock()))
	require.Equal(t, [3]int64{2, 1, 3}, rows())
	h.pass(mail.Kept)
	require.NoError(t, mail.Forget(t.Context(), h.db.Pool, h.clock()))
	require.Equal(t, [3]int64{1, 1, 0}, rows(), "one was not sent yet, and the token expired a day later")
	requireCode(t, fault.CodeTokenExpired, h.VerifyEmail(t.Context(), from(home), token))
	h.pass(24 * time.Hour)
	require.NoError(t, mail.Forget(t.Context(), h.db.Pool, h.clock()))
	require.Equal(t, [3]int64{1, 0, 0}, rows())
}

func TestRowsOfMailContainNoToken(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ada := h.join(t, "ada@example.com")
	h.invite(t, ada, "bob@example.com", "member")
	require.NoError(t, h.ForgotPassword(t.Context(), from(home), "ada@example.com"))
	all := h.deliver(t)
	require.Len(t, all, 3)
	stored := one[string](t, h, "select string_agg(to_jsonb(m)::text, ' ') from mails as m") + one[string](t, h, "select string_agg(to_jsonb(m)::text, ' ') from mail_tokens as m") +
		one[string](t, h, "select string_agg(to_jsonb(a)::text, ' ') from audit_records as a")
	for _, m := range all {
		token := linkPattern.FindStringSubmatch(m.Text)[2]
		require.NotContains(t, stored, token[strings.IndexByte(token, '_')+1:])
	}
}
