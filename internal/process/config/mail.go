package config

import (
	"errors"
	"net/mail"
	"strings"

	"agentruntime/internal/record/mailserver"
)

// checkMail reports what is missing for mail to be sent. A process may be without a server: mail
// is then queued and not sent.
func (c Config) checkMail(bad func(string, ...any)) {
	production := c.Env == "production"
	if c.SMTPURL == "" {
		if c.RequireVerifiedEmail {
			bad("REQUIRE_VERIFIED_EMAIL needs SMTP_URL: without mail nobody can verify an address")
		}
		return
	}
	server, err := mailserver.Parse(c.SMTPURL)
	if err != nil {
		bad("SMTP_URL %w", err)
	} else if production && server.Encryption == mailserver.Plain {
		bad("SMTP_URL must not say tls=none when ENV=production: mail contains tokens")
	}
	if err := checkSender(c.MailFrom); err != nil {
		bad("MAIL_FROM %w", err)
	}
	switch {
	case c.PublicURL == "":
		bad("PUBLIC_URL is required with SMTP_URL: links in mail begin with it")
	case production && strings.HasPrefix(c.PublicURL, "http://"):
		bad("PUBLIC_URL must begin with https:// when ENV=production: links in mail contain tokens")
	}
}

func checkSender(text string) error {
	if text == "" {
		return errors.New("is required with SMTP_URL: the sender, as in Agent Runtime <no-reply@example.com>")
	}
	if _, err := mail.ParseAddress(text); err != nil {
		return errors.New("must be an address, as in Agent Runtime <no-reply@example.com>")
	}
	return nil
}
