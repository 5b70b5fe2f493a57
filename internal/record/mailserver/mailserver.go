// Package mailserver reads the URL of the server that sends mail. internal/process/config checks it
// and internal/edge/smtp connects. It never connects itself.
package mailserver

import (
	"errors"
	"net/url"
	"strconv"
)

// Encryption is how the connection to a server is protected.
type Encryption string

// The kinds. Plain is for development only: mail contains tokens.
const (
	TLS      Encryption = "tls"      // from the first byte
	StartTLS Encryption = "starttls" // required after the greeting
	Plain    Encryption = "none"
)

// Server is where mail is handed over. It contains a password.
type Server struct {
	Host           string
	Port           int
	Encryption     Encryption
	User, Password string // "" for a server without login
}

// Parse reads smtps://user:password@host:465 (TLS) or smtp://user:password@host:587 (StartTLS, and
// Plain with ?tls=none). These ports are the defaults. No error contains the text, because it has a
// password.
func Parse(text string) (Server, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.Fragment != "" {
		return Server{}, errors.New("must be smtps://user:password@host:465 or smtp://user:password@host:587")
	}
	s := Server{Host: u.Hostname(), Port: 587, Encryption: StartTLS}
	if u.Scheme == "smtps" {
		s.Port, s.Encryption = 465, TLS
	}
	switch {
	case u.RawQuery == "tls=none" && s.Encryption == StartTLS:
		s.Encryption = Plain
	case u.RawQuery != "":
		return Server{}, errors.New("takes no parameter but tls=none, and that with smtp")
	}
	if text := u.Port(); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return Server{}, errors.New("has a port that is not between 1 and 65535")
		}
		s.Port = int(port)
	}
	s.User = u.User.Username()
	s.Password, _ = u.User.Password()
	return s, nil
}
