package mailing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/edge/smtp"
	"agentruntime/internal/record/mail"
	"agentruntime/internal/tenant/account"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// writer writes the address as the text; mails to void@example.com are void.
type writer struct{}

func (writer) Letter(_ context.Context, m mail.Mail) (account.Letter, bool, error) {
	return account.Letter{Subject: "s", Text: "the secret link of " + m.Address}, m.Address != "void@example.com", nil
}

// server counts what it gets, and fails while it is down. What goes to nobody@example.com it
// refuses for good.
type server struct {
	down atomic.Bool
	mu   sync.Mutex
	got  []smtp.Message
}

func (s *server) Send(_ context.Context, m smtp.Message) error {
	if s.down.Load() {
		return errors.New("smtp: down")
	}
	if m.To == "nobody@example.com" {
		return fmt.Errorf("smtp: code 550: refused %w", smtp.ErrPermanent)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, m)
	return nil
}

// office is a queue, a server and a clock.
type office struct {
	db     testkit.DB
	server *server
	log    bytes.Buffer
	at     atomic.Pointer[time.Time]
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{db: testkit.Database(t), server: &server{}}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o.at.Store(&at)
	return o
}

func (o *office) clock() time.Time { return *o.at.Load() }

func (o *office) pass(d time.Duration) {
	at := o.clock().Add(d)
	o.at.Store(&at)
}

func (o *office) sender(t *testing.T) *Sender {
	t.Helper()
	s, err := New(Deps{DB: o.db.Pool, Dial: o.db.Dial, Writer: writer{}, Server: o.server, Log: slog.New(slog.NewTextHandler(&o.log, nil)), Now: o.clock})
	require.NoError(t, err)
	return s
}

func (o *office) queue(t *testing.T, address string) uuid.UUID {
	t.Helper()
	b, m := &db.Batch{}, mail.Mail{ID: uuid.Must(uuid.NewV7()), Kind: account.MailReset, Address: address}
	mail.Queue(b, m, o.clock())
	require.NoError(t, o.db.SendPresenting(t.Context(), db.SettingLoginEmail, address, b))
	return m.ID
}

func TestMailIsSentOnceByManySenders(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for range 30 {
		o.queue(t, "ada@example.com")
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { require.NoError(t, o.sender(t).SendDue(t.Context())) })
	}
	all.Wait()
	seen := map[string]bool{}
	for _, m := range o.server.got {
		seen[m.ID] = true
	}
	require.Len(t, o.server.got, 30)
	require.Len(t, seen, 30)
}

func TestFailedMailFollowsTheSchedule(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	id, s := o.queue(t, "ada@example.com"), o.sender(t)
	o.server.down.Store(true)
	require.NoError(t, s.SendDue(t.Context()))
	require.Equal(t, []string{"Mail is not accepted by the server of SMTP_URL: smtp: down"}, s.Warnings())
	tries := func() int { return bytes.Count(o.log.Bytes(), []byte(id.String())) }
	want := 1
	for _, pause := range []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 24 * time.Hour} {
		o.pass(pause - time.Second)
		require.NoError(t, s.SendDue(t.Context()))
		require.Equal(t, want, tries(), "before %s have passed", pause)
		o.pass(time.Second)
		require.NoError(t, s.SendDue(t.Context()))
		want++
		require.Equal(t, want, tries(), "after %s", pause)
	}
	require.Contains(t, o.log.String(), "mail was given up")
	o.server.down.Store(false)
	o.pass(30 * 24 * time.Hour)
	require.NoError(t, s.SendDue(t.Context()))
	require.Empty(t, o.server.got)
	require.NotContains(t, o.log.String(), "ada@")
	require.NotContains(t, o.log.String(), "secret")

	o.queue(t, "ada@example.com")
	require.NoError(t, s.SendDue(t.Context()))
	require.Len(t, o.server.got, 1)
	require.Empty(t, s.Warnings())
}

// A process that dies with a mail in its hands leaves it to another one.
func TestMailOfADeadProcessIsTakenOver(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.queue(t, "ada@example.com")
	taken, err := mail.Take(t.Context(), o.db.Pool, 10, o.clock())
	require.NoError(t, err)
	require.Len(t, taken, 1)
	s := o.sender(t)
	o.pass(mail.Lease - time.Second)
	require.NoError(t, s.SendDue(t.Context()))
	require.Empty(t, o.server.got)
	o.pass(time.Second)
	require.NoError(t, s.SendDue(t.Context()))
	require.Len(t, o.server.got, 1)
	// The first process comes back: what it says no longer counts.
	require.NoError(t, mail.Retry(t.Context(), o.db.Pool, taken[0], "late", o.clock()))
	require.NoError(t, s.SendDue(t.Context()))
	require.Len(t, o.server.got, 1)
}

func TestVoidMailIsNotSent(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.queue(t, "void@example.com")
	require.NoError(t, o.sender(t).SendDue(t.Context()))
	o.pass(24 * time.Hour)
	require.NoError(t, o.sender(t).SendDue(t.Context()))
	require.Empty(t, o.server.got)
}

func TestQueuedMailWakesTheSender(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	s := o.sender(t)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	defer running.Wait()
	defer stop()
	for i := range 3 {
		o.queue(t, "ada@example.com")
		require.Eventually(t, func() bool {
			o.server.mu.Lock()
			defer o.server.mu.Unlock()
			return len(o.server.got) == i+1
		}, time.Minute, 5*time.Millisecond)
	}
}

// A mail that the server refuses for good is not sent again, and says nothing about the others.
func TestMailRefusedForGoodHasFailedAtOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	id, s := o.queue(t, "nobody@example.com"), o.sender(t)
	require.NoError(t, s.SendDue(t.Context()))
	require.Contains(t, o.log.String(), "mail was given up")
	require.Empty(t, s.Warnings())
	o.pass(30 * 24 * time.Hour)
	require.NoError(t, s.SendDue(t.Context()))
	require.Equal(t, 1, bytes.Count(o.log.Bytes(), []byte(id.String())))
}
