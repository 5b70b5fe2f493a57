package smtp

import (
	"bytes"
	"io"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/mailserver"
)

// got is one mail as a server gets it.
type got struct {
	from, to string
	raw      []byte
}

// server accepts mail, or refuses it with an answer that repeats the recipient.
type server struct {
	refuse bool
	mu     sync.Mutex
	mails  []got
}

type session struct {
	s    *server
	mail got
}

func (c *session) Reset()        { c.mail = got{} }
func (c *session) Logout() error { return nil }

func (c *session) Mail(from string, _ *smtp.MailOptions) error { c.mail.from = from; return nil }

func (c *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if c.s.refuse {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no user " + to}
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

// listen returns a server and the URL to reach it.
func listen(t *testing.T, refuse bool) (*server, mailserver.Server) {
	t.Helper()
	s := &server{refuse: refuse}
	srv := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{s: s}, nil }))
	srv.Domain = "localhost"
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	at, err := mailserver.Parse("smtp://" + l.Addr().String() + "?tls=none")
	require.NoError(t, err)
	return s, at
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
	s, at := listen(t, false)
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
	s, at := listen(t, false)
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
	s, at := listen(t, false)
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
	_, at := listen(t, true)
	err := client(t, at).Send(t.Context(), message())
	require.ErrorContains(t, err, "code 550 5.1.1")
	require.NotContains(t, err.Error(), "ada")
}

// A server without STARTTLS gets neither the login nor the mail.
func TestEncryptionIsRequired(t *testing.T) {
	t.Parallel()
	s, at := listen(t, false)
	for _, e := range []mailserver.Encryption{mailserver.StartTLS, mailserver.TLS} {
		at.Encryption, at.User, at.Password = e, "user", "the password"
		err := client(t, at).Send(t.Context(), message())
		require.ErrorContains(t, err, "smtp: ")
		require.NotContains(t, err.Error(), "password")
	}
	require.Empty(t, s.mails)
}
