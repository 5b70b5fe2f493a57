package smtp

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/mail"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
	gomail "github.com/wneessen/go-mail"

	"agentruntime/internal/record/mailserver"
)

// got is one mail as a server gets it.
type got struct {
	from, to string
	raw      []byte
}

// server accepts mail, or refuses it with an answer that repeats the recipient.
type server struct {
	refuse int // the code; 0 accepts
	// login is the only user, as user:password; "" asks for none.
	login string
	mu    sync.Mutex
	mails []got
}

type session struct {
	s    *server
	in   bool // has logged in
	mail got
}

func (c *session) Reset()        { c.mail = got{} }
func (c *session) Logout() error { return nil }

func (c *session) Mail(from string, _ *smtp.MailOptions) error {
	if c.s.login != "" && !c.in {
		return smtp.ErrAuthRequired
	}
	c.mail.from = from
	return nil
}

func (c *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if c.s.refuse != 0 {
		return &smtp.SMTPError{Code: c.s.refuse, EnhancedCode: smtp.EnhancedCode{c.s.refuse / 100, 1, 1}, Message: "no user " + to}
	}
	c.mail.to += to
	return nil
}

func (c *session) Data(r io.Reader) (err error) {
	c.mail.raw, err = io.ReadAll(r)
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.mails = append(c.s.mails, c.mail)
	return err
}

// AuthMechanisms implements smtp.AuthSession.
func (c *session) AuthMechanisms() []string {
	if c.s.login == "" {
		return nil
	}
	return []string{sasl.Plain}
}

// Auth implements smtp.AuthSession.
func (c *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user+":"+password != c.s.login {
			return smtp.ErrAuthFailed
		}
		c.in = true
		return nil
	}), nil
}

// listen returns a server and the URL to reach it.
func listen(t *testing.T, refuse int) (*server, mailserver.Server) {
	t.Helper()
	s := &server{refuse: refuse}
	at, err := mailserver.Parse("smtp://" + s.serve(t, nil, false) + "?tls=none")
	require.NoError(t, err)
	return s, at
}

// serve returns the address of the server. With a certificate it offers STARTTLS, or takes TLS only.
func (s *server) serve(t *testing.T, certificate *tls.Config, fromTheStart bool) (address string) {
	t.Helper()
	srv := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{s: s}, nil }))
	srv.Domain, srv.TLSConfig = "localhost", certificate
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address = l.Addr().String()
	if fromTheStart {
		l = tls.NewListener(l, certificate)
	}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return address
}

func client(t *testing.T, at mailserver.Server) *Server {
	t.Helper()
	c, err := New(Config{Server: at, From: "Agent Runtime <no-reply@example.com>"})
	require.NoError(t, err)
	return c
}

func message() Message {
	return Message{ID: "m1", To: "ada@example.com", Subject: "Verify", Text: "Hello\n", WrittenAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func TestMessageArrives(t *testing.T) {
	t.Parallel()
	s, at := listen(t, 0)
	m := message()
	m.Text = "Grüße,\n\nhttps://runtime.example.com/account/verify-email?token=arm_" + strings.Repeat("a", 43) + "\n"
	require.NoError(t, client(t, at).Send(t.Context(), m))
	require.Len(t, s.mails, 1)
	require.Equal(t, []string{"no-reply@example.com", "ada@example.com"}, []string{s.mails[0].from, s.mails[0].to})
	read, err := mail.ReadMessage(bytes.NewReader(s.mails[0].raw))
	require.NoError(t, err)
	require.Equal(t, "<m1@example.com>", read.Header.Get("Message-ID"))
	require.Equal(t, "auto-generated", read.Header.Get("Auto-Submitted"))
	require.Equal(t, `"Agent Runtime" <no-reply@example.com>`, read.Header.Get("From"))
}

func TestHeaderInjectionIsRefused(t *testing.T) {
	t.Parallel()
	s, at := listen(t, 0)
	for _, evil := range []string{
		"x\r\nBcc: b@example.com", "x\nBcc: b@example.com", "x\rBcc: b@example.com", "x\r\n\r\nbody", "x\x00", "x\u0085y",
	} {
		for name, change := range map[string]func(*Message){
			"to": func(m *Message) { m.To = "ada@example.com" + evil }, "subject": func(m *Message) { m.Subject = evil }, "id": func(m *Message) { m.ID = evil },
		} {
			m := message()
			change(&m)
			require.Error(t, client(t, at).Send(t.Context(), m), "%s %q", name, evil)
		}
	}
	for _, to := range []string{"", "ada@example.com, bob@example.com", "Ada <ada@example.com>", "ada@example.com>\u0020RCPT TO:<bob@example.com", "no address"} {
		m := message()
		m.To = to
		require.Error(t, client(t, at).Send(t.Context(), m), to)
	}
	require.Empty(t, s.mails)
}

func TestTextStaysText(t *testing.T) {
	t.Parallel()
	s, at := listen(t, 0)
	m := message()
	m.Text = "one\r\n.\r\nMAIL FROM:<evil@example.com>\r\nRCPT TO:<bob@example.com>\r\nDATA\r\nSubject: other\r\n\r\nevil\r\n.\r\n.\n.\nQUIT\r\n"
	require.NoError(t, client(t, at).Send(t.Context(), m))
	require.Len(t, s.mails, 1)
	read, err := mail.ReadMessage(bytes.NewReader(s.mails[0].raw))
	require.NoError(t, err)
	require.Equal(t, []string{"Verify"}, read.Header["Subject"])
	body, err := io.ReadAll(read.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), "QUIT")
}

func TestFailureNamesNoAddress(t *testing.T) {
	t.Parallel()
	_, at := listen(t, 550)
	err := client(t, at).Send(t.Context(), message())
	require.ErrorContains(t, err, "code 550 5.1.1")
	require.ErrorIs(t, err, ErrPermanent)
	require.NotContains(t, err.Error(), "ada")
}

// A server without STARTTLS gets neither the login nor the mail.
func TestEncryptionIsRequired(t *testing.T) {
	t.Parallel()
	s, at := listen(t, 0)
	for _, e := range []mailserver.Encryption{mailserver.StartTLS, mailserver.TLS} {
		at.Encryption, at.User, at.Password = e, "user", "the password"
		err := client(t, at).Send(t.Context(), message())
		require.ErrorContains(t, err, "smtp: ")
		require.NotContains(t, err.Error(), "password")
		require.NotErrorIs(t, err, ErrPermanent)
	}
	require.Empty(t, s.mails)
}

// What a server refuses with 500 to 599 is refused for good, and nothing else: an operator can mend
// the login.
func TestRefusalForGood(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]bool{421: false, 450: false, 451: false, 452: false, 530: false, 535: false, 550: true, 552: true, 554: true} {
		_, at := listen(t, code)
		err := client(t, at).Send(t.Context(), message())
		require.Error(t, err)
		require.Equal(t, want, errors.Is(err, ErrPermanent), "%d: %v", code, err)
	}
	_, at := listen(t, 0)
	m := message()
	m.Subject = "x\r\nBcc: b@example.com"
	require.ErrorIs(t, client(t, at).Send(t.Context(), m), ErrPermanent)
}

// certified returns the settings of a server with a certificate for 127.0.0.1, and whom to trust.
func certified(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	with := httptest.NewTLSServer(nil) // it has such a certificate
	t.Cleanup(with.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(with.Certificate())
	return &tls.Config{Certificates: with.TLS.Certificates, MinVersion: tls.VersionTLS12}, trusted
}

// A mail goes to a server with a certificate and a login, by both kinds of encryption. A server
// whose certificate nobody has signed gets neither, and one that knows another password no mail.
func TestMessageArrivesEncryptedAfterTheLogin(t *testing.T) {
	t.Parallel()
	certificate, trusted := certified(t)
	const login = "ada:correct horse"
	for scheme, fromTheStart := range map[string]bool{"smtp": false, "smtps": true} {
		s := &server{login: login}
		address := s.serve(t, certificate, fromTheStart)
		to := func(password string, roots *x509.CertPool) *Server {
			at, err := mailserver.Parse(scheme + "://ada:" + url.PathEscape(password) + "@" + address)
			require.NoError(t, err)
			c := client(t, at)
			c.options = append(c.options, gomail.WithTLSConfig(&tls.Config{ServerName: at.Host, MinVersion: tls.VersionTLS12, RootCAs: roots}))
			return c
		}
		require.ErrorContains(t, to("correct horse", nil).Send(t.Context(), message()), "the certificate of the server is not valid for it", scheme)
		err := to("wrong", trusted).Send(t.Context(), message())
		require.Error(t, err, scheme)
		require.NotErrorIs(t, err, ErrPermanent, "an operator can mend it")
		require.NotContains(t, err.Error(), "wrong")
		require.Empty(t, s.mails)
		require.NoError(t, to("correct horse", trusted).Send(t.Context(), message()), scheme)
		require.Len(t, s.mails, 1, scheme)
	}
}

// A server that accepts the message and drops the connection has it: a second attempt would be a
// second mail.
func TestAcceptedMessageIsSentWhateverFollows(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		read := bufio.NewScanner(conn)
		_, _ = io.WriteString(conn, "220 here\r\n")
		for inData := false; read.Scan(); {
			switch line := read.Text(); {
			case inData && line == ".":
				_, _ = io.WriteString(conn, "250 accepted\r\n")
				return
			case inData:
			case line == "DATA":
				inData = true
				_, _ = io.WriteString(conn, "354 go on\r\n")
			default:
				_, _ = io.WriteString(conn, "250 fine\r\n")
			}
		}
	}()
	at, err := mailserver.Parse("smtp://" + l.Addr().String() + "?tls=none")
	require.NoError(t, err)
	require.NoError(t, client(t, at).Send(t.Context(), message()))
}
