package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"agentruntime/internal/dev/mailbox"
)

// mailWait is how long a mail may take to the mailbox.
const mailWait = 30 * time.Second

// verify asks for another link to verify the address, and uses it when it is in the mailbox. The
// error says so where the mail went to another server.
func (c *client) verify(ctx context.Context, email string) error {
	ctx, cancel := context.WithTimeout(ctx, mailWait)
	defer cancel()
	if err := c.post(ctx, "/v1/auth/resend-verification", map[string]string{"email": email}, nil); err != nil {
		return err
	}
	tried := map[string]bool{}
	for {
		tokens, err := c.mailedTokens(ctx, email)
		if err != nil {
			return err
		}
		for _, token := range tokens { // an earlier one may have expired
			if !tried[token] && c.post(ctx, "/v1/auth/verify-email", map[string]string{"token": token}, nil) == nil {
				return nil
			}
			tried[token] = true
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("no mail to %s has arrived in the mailbox: %w", email, ctx.Err())
		}
	}
}

var mailedToken = regexp.MustCompile(`/account/verify-email\?token=(\S+)`)

// mailedTokens returns the tokens of the mails that ask to verify the address.
func (c *client) mailedTokens(ctx context.Context, email string) (tokens []string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+mailbox.Path+"?to="+url.QueryEscape(email), http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var box struct {
		Mails []mailbox.Mail `json:"mails"`
	}
	if err := json.NewDecoder(res.Body).Decode(&box); err != nil {
		return nil, fmt.Errorf("read the mailbox: %w", err)
	}
	for _, m := range box.Mails {
		if found := mailedToken.FindStringSubmatch(m.Text); found != nil {
			tokens = append(tokens, found[1])
		}
	}
	return tokens, nil
}
