// Package mailing sends the mail that was queued. Any number of processes may do so at once: each
// mail is taken by one of them, and by another one where that one dies. The account domain writes
// the texts, and an SMTP server gets them. It sends at least once: a server may accept a mail whose
// acceptance is lost. Both then have the same Message-ID and the same link.
package mailing

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/edge/smtp"
	"agentruntime/internal/record/mail"
	"agentruntime/internal/tenant/account"
)

// Writer writes the text of a mail. ok is false where there is nothing to tell any more.
type Writer interface {
	Letter(ctx context.Context, m mail.Mail) (l account.Letter, ok bool, err error)
}

// Server takes messages for delivery.
type Server interface {
	Send(ctx context.Context, m smtp.Message) error
}

// Deps are what the sender works with; Now may be nil.
type Deps struct {
	DB     *db.Pool
	Dial   func(context.Context) (*pgx.Conn, error)
	Writer Writer
	Server Server
	Log    *slog.Logger
	Now    func() time.Time
}

// Sender sends what is due.
type Sender struct {
	d   Deps
	now func() time.Time
	// failing is the last attempt's error, "" where it succeeded.
	failing atomic.Pointer[string]
}

// New checks the collaborators.
func New(d Deps) (*Sender, error) {
	if d.DB == nil || d.Dial == nil || d.Writer == nil || d.Server == nil || d.Log == nil {
		return nil, errors.New("mailing: database, dial, writer, server and log are required")
	}
	return &Sender{d: d, now: db.Clock(d.Now)}, nil
}

// atOnce is how many mails one process sends at a time. An attempt ends well within mail.Lease.
const atOnce = 4

// schedule is the pause after each failed attempt. It is that of webhooks. After the last one the
// mail has failed.
func schedule() []time.Duration {
	return []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 24 * time.Hour}
}

// Run sends until ctx ends. A notice wakes it when a mail is queued. A look every 15 s finds what
// a lost notice would have told, and the mails whose next attempt is due.
func (s *Sender) Run(ctx context.Context) {
	woken := make(chan struct{}, 1)
	wake := func() {
		select {
		case woken <- struct{}{}:
		default: // it looks anyway
		}
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-woken:
			}
			if err := s.SendDue(ctx); err != nil && ctx.Err() == nil {
				s.d.Log.WarnContext(ctx, "mail cannot be taken from the queue", slog.Any("error", err))
			}
		}
	})
	listener := db.Listener{
		Connection: db.Connection{Dial: s.d.Dial, Log: s.d.Log, Purpose: "mail"}, Channel: mail.Channel,
		Hear:    func(context.Context, string) { wake() },
		Recheck: func(context.Context) error { wake(); return nil },
	}
	_ = listener.Listen(ctx) // the error is ctx's
}

// SendDue sends all mails that are due, and returns when none is.
func (s *Sender) SendDue(ctx context.Context) error {
	for {
		taken, err := mail.Take(ctx, s.d.DB, atOnce, s.now())
		if err != nil {
			return err
		}
		errs := make([]error, len(taken))
		var all sync.WaitGroup
		for i, m := range taken {
			all.Go(func() { errs[i] = s.attempt(ctx, m) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil || len(taken) == 0 {
			return err
		}
	}
}

// attempt sends one mail and notes what came of it. The error is one of the database: the mail is
// due again when its lease ends.
func (s *Sender) attempt(ctx context.Context, m mail.Taken) error {
	letter, ok, err := s.d.Writer.Letter(ctx, m.Mail)
	if err == nil && !ok {
		return mail.End(ctx, s.d.DB, m, mail.Void, "", s.now())
	}
	failpoint.Hit("mail_taken", m.ID)
	if err == nil {
		err = s.d.Server.Send(ctx, smtp.Message{ID: m.ID.String(), To: m.Address, Subject: letter.Subject, Text: letter.Text, WrittenAt: s.now()})
		if errors.Is(err, smtp.ErrPermanent) {
			s.note(nil) // the server works, and does not want this message
		} else {
			s.note(err)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err() // its lease ends soon
	}
	failpoint.Hit("mail_accepted", m.ID)
	if err == nil {
		return mail.End(ctx, s.d.DB, m, mail.Sent, "", s.now())
	}
	// The log names the row and no address.
	log := s.d.Log.With(slog.String("mail", m.ID.String()), slog.String("kind", string(m.Kind)), slog.Int("attempt", m.Attempt), slog.Any("error", err))
	pauses := schedule()
	if m.Attempt > len(pauses) || errors.Is(err, smtp.ErrPermanent) {
		log.ErrorContext(ctx, "mail was given up")
		return mail.End(ctx, s.d.DB, m, mail.Failed, err.Error(), s.now())
	}
	pause := pauses[m.Attempt-1]
	log.WarnContext(ctx, "mail was not sent", slog.Duration("again_in", pause))
	return mail.Retry(ctx, s.d.DB, m, err.Error(), s.now().Add(pause))
}

func (s *Sender) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.failing.Store(&text)
}

// Warnings tell operators that the last mail was not accepted, and why.
func (s *Sender) Warnings() []string {
	if text := s.failing.Load(); text != nil && *text != "" {
		return []string{"Mail is not accepted by the server of SMTP_URL: " + *text}
	}
	return nil
}
