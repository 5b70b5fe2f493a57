package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/datakey"
	"agentruntime/internal/record/event"
)

// Bounds of one attempt.
const (
	attemptLimit = 15 * time.Second // the default of Config.Timeout
	// answerMost is how much of an answer is read and kept, and answerLimit how long the reading
	// takes after the status has come. The status decides, so the rest of the answer is not awaited.
	answerMost  = 4 << 10
	answerLimit = 2 * time.Second
)

// userAgent names the service to receivers.
const userAgent = "AgentRuntime-Webhooks/1"

// Problem is why no answer came.
type Problem string

// The problems.
const (
	ProblemTimeout    Problem = "timeout"            // none came in time
	ProblemRefused    Problem = "address_not_public" // the name has an address that is not public
	ProblemName       Problem = "name_not_found"     // the name has no address
	ProblemConnection Problem = "connection"         // it was refused, was closed, or TLS failed
	// ProblemUnreadable: the stored event or secret does not open. Nothing was sent.
	ProblemUnreadable Problem = "unreadable"
)

// Problems lists every problem.
func Problems() []Problem {
	return []Problem{ProblemTimeout, ProblemRefused, ProblemName, ProblemConnection, ProblemUnreadable}
}

// answer is what one attempt brought.
type answer struct {
	code    int // 0 where none came
	body    []byte
	problem Problem
}

// post makes one attempt. The caller's context does not end it.
func (s *Service) post(ctx context.Context, url string, header http.Header, body []byte) answer {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return answer{problem: ProblemConnection} // the URL was checked when it was stored
	}
	req.GetBody = nil // one attempt is one request
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	rep, err := s.d.Client.Do(req)
	if err != nil {
		return answer{problem: s.problem(ctx, err)}
	}
	defer rep.Body.Close()
	if rep.StatusCode == http.StatusSwitchingProtocols {
		return answer{code: rep.StatusCode} // its body is the connection, and no context ends a read of that
	}
	late := time.AfterFunc(answerLimit, cancel)
	defer late.Stop()
	out, _ := io.ReadAll(io.LimitReader(rep.Body, answerMost)) // what has come
	return answer{code: rep.StatusCode, body: out}
}

func (s *Service) problem(ctx context.Context, err error) Problem {
	var dns *net.DNSError
	switch {
	case errors.Is(err, s.d.Refused):
		return ProblemRefused
	case ctx.Err() != nil:
		return ProblemTimeout
	case errors.As(err, &dns):
		return ProblemName
	}
	return ProblemConnection
}

// sealAnswer returns an answer as it is stored; "" where there is none. What is no UTF-8 is
// replaced.
func sealAnswer(key *datakey.Key, tenant, eventID uuid.UUID, body []byte) string {
	if len(body) == 0 {
		return ""
	}
	return key.Seal(answerPlace(tenant, eventID), []byte(strings.ToValidUTF8(string(body), "\uFFFD")))
}

func answerPlace(tenant, eventID uuid.UUID) datakey.Place {
	return datakey.Place{Tenant: tenant, Row: eventID, Field: datakey.WebhookAnswer}
}

// signed returns the headers and the body of a delivery.
func signed(key *datakey.Key, d delivery, now time.Time) (http.Header, []byte, error) {
	body, err := event.Open(key, d.TenantID, d.EventID, *d.Body)
	if err != nil {
		return nil, nil, err
	}
	current, err := openSecret(key, d.TenantID, d.WebhookID, *d.Secret)
	if err != nil {
		return nil, nil, err
	}
	secrets := []secret{current}
	if d.PreviousSecret != nil && d.PreviousUntil != nil && now.Before(*d.PreviousUntil) {
		before, err := openSecret(key, d.TenantID, d.WebhookID, *d.PreviousSecret)
		if err != nil {
			return nil, nil, err
		}
		secrets = append(secrets, before)
	}
	return sign(event.PublicID(d.EventID), now, body, secrets), body, nil
}
