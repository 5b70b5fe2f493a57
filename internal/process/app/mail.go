package app

import (
	"fmt"

	"agentruntime/internal/edge/smtp"
	"agentruntime/internal/record/mailserver"
	"agentruntime/internal/service/mailing"
)

// buildSender makes what sends mail. Without a mail server, which a development process may lack,
// mail is queued and not sent.
func (a *App) buildSender(writer mailing.Writer) error {
	if a.cfg.SMTPURL == "" {
		a.log.Warn("no mail is sent: SMTP_URL is not set")
		return nil
	}
	at, err := mailserver.Parse(a.cfg.SMTPURL)
	if err != nil {
		return fmt.Errorf("app: SMTP_URL %w", err)
	}
	server, err := smtp.New(smtp.Config{Server: at, From: a.cfg.MailFrom})
	if err != nil {
		return fmt.Errorf("app: mail: %w", err)
	}
	a.sender, err = mailing.New(mailing.Deps{DB: a.pool, Dial: a.pool.Dial, Writer: writer, Server: server, Log: a.log})
	return err
}
