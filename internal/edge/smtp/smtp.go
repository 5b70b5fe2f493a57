// Package smtp hands messages to one mail server. internal/service/mailing calls it. It keeps no
// queue and makes no second attempt, and it never logs.
package smtp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"

	"agentruntime/internal/record/mailserver"
)

// Config says where the server is and in whose name messages are sent.
type Config struct {
	Server mailserver.Server
	// From is an address, with a name or without: Agent Runtime <no-reply@example.com>.
	From string
}

// timeout bounds one attempt.
const timeout = 30 * time.Second

// Server is one mail server, safe for concurrent use.
type Server struct {
	host    string
	options []gomail.Option
	from    mail.Address
	domain  string
}

// New checks the sender.
func New(cfg Config) (*Server, error) {
	from, err := mail.ParseAddress(cfg.From)
	if err != nil {
		return nil, errors.New("smtp: the sender is not an address")
	}
	s := &Server{host: cfg.Server.Host, from: *from, domain: from.Address[strings.LastIndexByte(from.Address, '@')+1:]}
	s.options = []gomail.Option{
		gomail.WithPort(cfg.Server.Port), gomail.WithTimeout(timeout), gomail.WithHELO(s.domain), gomail.WithoutNoop(),
		gomail.WithTLSConfig(&tls.Config{ServerName: s.host, MinVersion: tls.VersionTLS12}),
	}
	switch cfg.Server.Encryption {
	case mailserver.TLS:
		s.options = append(s.options, gomail.WithSSL())
	case mailserver.Plain:
		s.options = append(s.options, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		s.options = append(s.options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	if cfg.Server.User != "" {
		s.options = append(s.options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(cfg.Server.User), gomail.WithPassword(cfg.Server.Password))
	}
	return s, nil
}

// Message is one text to one address.
type Message struct {
	// ID makes the Message-ID. It is the same in each attempt, so that a server or a reader can
	// tell that two are one.
	ID        string
	To        string
	Subject   string
	Text      string
	WrittenAt time.Time
}

// ErrPermanent is in the chain of an error of Send where another attempt would fail as well: the
// server has refused this message for good.
var ErrPermanent = errors.New("for good")

// Send returns nil once the server has accepted the message. The error says what failed, without
// the address and the text, and has ErrPermanent in its chain where another attempt is useless.
func (s *Server) Send(ctx context.Context, m Message) error {
	msg, err := s.message(m)
	if err != nil {
		return err
	}
	client, err := gomail.NewClient(s.host, s.options...)
	if err != nil {
		return errors.New("smtp: the settings of the server are refused")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// A server that has accepted the message and then closes the connection has accepted it.
	if err := client.DialAndSendWithContext(ctx, msg); err != nil && !msg.IsDelivered() {
		return failure(err)
	}
	return nil
}

func (s *Server) message(m Message) (*gomail.Msg, error) {
	if !single(m.To) || !single(m.Subject) || !single(m.ID) {
		return nil, fmt.Errorf("smtp: a header has a line break or another control character: refused %w", ErrPermanent)
	}
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(&s.from)
	if err := msg.EnvelopeFrom(s.from.Address); err != nil {
		return nil, errors.New("smtp: the sender is not an address")
	}
	to, err := mail.ParseAddress(m.To)
	if err != nil || to.Address != m.To {
		return nil, fmt.Errorf("smtp: the recipient is not an address: refused %w", ErrPermanent)
	}
	msg.ToMailAddress(to)
	msg.Subject(m.Subject)
	msg.SetMessageIDWithValue(m.ID + "@" + s.domain)
	msg.SetDateWithValue(m.WrittenAt)
	// Answering machines leave such mail alone (RFC 3834).
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	return msg, nil
}

// single reports whether a header of the text stays one line.
func single(text string) bool { return !strings.ContainsFunc(text, unicode.IsControl) }

// failure says what failed in words that name no address: servers repeat the recipient.
func failure(err error) error {
	send, is := errors.AsType[*gomail.SendError](err)
	if !is {
		var unknown *tls.CertificateVerificationError
		switch {
		case errors.As(err, &unknown):
			return errors.New("smtp: the certificate of the server is not valid for it")
		case errors.Is(err, context.DeadlineExceeded):
			return errors.New("smtp: the server took too long")
		}
		return errors.New("smtp: the server cannot be reached, or refuses encryption or login")
	}
	if permanent(send.ErrorCode()) {
		return fmt.Errorf("smtp: %s, code %d %s: refused %w", send.Reason, send.ErrorCode(), send.EnhancedStatusCode(), ErrPermanent)
	}
	return fmt.Errorf("smtp: %s, code %d %s", send.Reason, send.ErrorCode(), send.EnhancedStatusCode())
}

// permanent reports whether a code of a server refuses the message for good: 500 to 599, but for
// those about the login and the encryption (RFC 4954, section 6), which an operator can mend.
func permanent(code int) bool {
	switch code {
	case 530, 534, 535, 538:
		return false
	}
	return code >= 500 && code <= 599
}
