// Package mailbox is the mail server of the development server. It accepts every mail, keeps it as
// a file and shows it at /dev/mailbox. Only the development binary has it. It delivers nothing.
package mailbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/google/uuid"
)

const (
	// most is how many mails are kept; older ones are deleted.
	most      = 1000
	mostBytes = 1 << 20 // of one mail
	suffix    = ".eml"
	ioTimeout = 10 * time.Second
)

// Mailbox keeps mail in a directory. Several processes may share it.
type Mailbox struct {
	dir string
	log *slog.Logger
}

// New makes the directory.
func New(dir string, log *slog.Logger) (*Mailbox, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("mailbox: %w", err)
	}
	return &Mailbox{dir: dir, log: log}, nil
}

// Serve accepts mail by SMTP until the listener is closed.
func (m *Mailbox) Serve(l net.Listener) error {
	srv := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{box: m}, nil }))
	srv.Domain, srv.MaxMessageBytes, srv.MaxRecipients = "localhost", mostBytes, 1
	srv.ReadTimeout, srv.WriteTimeout = ioTimeout, ioTimeout
	srv.ErrorLog = slog.NewLogLogger(m.log.Handler(), slog.LevelDebug)
	if err := srv.Serve(l); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("mailbox: %w", err)
	}
	return nil
}

// session takes one mail after the other from a connection.
type session struct{ box *Mailbox }

func (s *session) Reset()                               {}
func (s *session) Logout() error                        { return nil }
func (s *session) Mail(string, *smtp.MailOptions) error { return nil }
func (s *session) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return s.box.keep(raw)
}

// keep writes the mail whole or not at all. Names are in the order of time.
func (m *Mailbox) keep(raw []byte) error {
	path := filepath.Join(m.dir, uuid.Must(uuid.NewV7()).String())
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return fmt.Errorf("mailbox: %w", err)
	}
	if err := os.Rename(path, path+suffix); err != nil {
		return fmt.Errorf("mailbox: %w", err)
	}
	names, err := m.names()
	if err != nil {
		return err
	}
	for _, old := range names[min(most, len(names)):] {
		if err := os.Remove(filepath.Join(m.dir, old)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("mailbox: %w", err)
		}
	}
	return nil
}

// names returns the files, the newest first.
func (m *Mailbox) names() ([]string, error) {
	files, err := os.ReadDir(m.dir)
	if err != nil {
		return nil, fmt.Errorf("mailbox: %w", err)
	}
	var out []string
	for _, f := range files {
		if strings.HasSuffix(f.Name(), suffix) {
			out = append(out, f.Name())
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out, nil
}

// Mail is one mail as the page shows it.
type Mail struct {
	ID      string    `json:"id"`
	To      string    `json:"to"`
	From    string    `json:"from"`
	Subject string    `json:"subject"`
	Date    time.Time `json:"date"`
	Text    string    `json:"text"`
}

// List returns the mails to an address, the newest first; "" is every address.
func (m *Mailbox) List(to string) ([]Mail, error) {
	names, err := m.names()
	if err != nil {
		return nil, err
	}
	out := []Mail{}
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join(m.dir, name)) //nolint:gosec // a name that the directory has
		if errors.Is(err, os.ErrNotExist) {
			continue // another process has deleted it
		}
		if err != nil {
			return nil, fmt.Errorf("mailbox: %w", err)
		}
		one, err := read(raw)
		if err != nil {
			return nil, fmt.Errorf("mailbox: %s: %w", name, err)
		}
		one.ID = strings.TrimSuffix(name, suffix)
		if to == "" || strings.EqualFold(one.To, to) {
			out = append(out, one)
		}
	}
	return out, nil
}

// read takes a mail with one part of text apart.
func read(raw []byte) (Mail, error) {
	msg, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Mail{}, err
	}
	body := msg.Body
	if strings.EqualFold(msg.Header.Get("Content-Transfer-Encoding"), "quoted-printable") {
		body = quotedprintable.NewReader(msg.Body)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return Mail{}, err
	}
	one := Mail{Text: strings.ReplaceAll(string(text), "\r\n", "\n"), From: msg.Header.Get("From")}
	if one.Subject, err = new(mime.WordDecoder).DecodeHeader(msg.Header.Get("Subject")); err != nil {
		return Mail{}, err
	}
	to, err := mail.ParseAddress(msg.Header.Get("To"))
	if err != nil {
		return Mail{}, err
	}
	one.To = to.Address
	one.Date, err = msg.Header.Date()
	return one, err
}

// page shows all mails.
//
//nolint:gochecknoglobals // a constant, which Go cannot write as one
var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Mailbox</title>
<style>body{font:15px/1.5 sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}pre{white-space:pre-wrap;overflow-wrap:anywhere}article{border-top:1px solid #ccc}</style>
<h1>Mailbox of the development server</h1>
<p>All mail that the service sent here, the newest first. As JSON: <code>Accept: application/json</code>, and <code>?to=</code> for one address.</p>
{{range .}}<article><h2>{{.Subject}}</h2><p>To {{.To}}, {{.Date.Format "2006-01-02 15:04:05 -0700"}}</p><pre>{{range .Parts}}{{if .Link}}<a href="{{.Text}}" rel="noreferrer">{{.Text}}</a>{{else}}{{.Text}}{{end}}{{end}}</pre></article>
{{else}}<p>No mail yet.</p>{{end}}</html>
`))

// Part is a piece of a mail's text.
type Part struct {
	Text string
	Link bool
}

// Parts cuts the text at its links: a line that begins with http is one.
func (m Mail) Parts() []Part {
	var out []Part
	for line := range strings.Lines(m.Text) {
		link := strings.HasPrefix(line, "http://") || strings.HasPrefix(line, "https://")
		if link {
			out = append(out, Part{strings.TrimSpace(line), true}, Part{"\n", false})
			continue
		}
		out = append(out, Part{line, false})
	}
	return out
}

// Path is where the mailbox is shown.
const Path = "/dev/mailbox"

// Front returns a handler that shows the mailbox at Path and passes all else on.
func (m *Mailbox) Front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != Path {
			next.ServeHTTP(w, r)
			return
		}
		m.show(w, r)
	})
}

func (m *Mailbox) show(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	if r.Method != http.MethodGet {
		h.Set("Allow", http.MethodGet)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	mails, err := m.List(r.URL.Query().Get("to"))
	if err != nil {
		m.log.ErrorContext(r.Context(), "the mailbox cannot be read", slog.Any("error", err))
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, mails) // the reader has gone away
		return
	}
	h.Set("Content-Type", "application/json; charset=utf-8")
	if err := json.NewEncoder(w).Encode(map[string][]Mail{"mails": mails}); err != nil {
		return // the reader has gone away
	}
}
