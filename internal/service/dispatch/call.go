package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
)

// call is one request, ready to be sent.
type call struct {
	t   *target
	req Request
	// secret is the credential that the request has in it; the zero Secret where it has none.
	secret credential.Secret
}

// Preview implements run.Call. It is made of the masked arguments.
func (c *call) Preview(args json.RawMessage) json.RawMessage {
	return c.t.artefacts.plan.Preview(c.t.meta.BaseURL, c.t.Mask(args))
}

// Send implements run.Call: exactly one attempt.
func (c *call) Send(ctx context.Context, key string, mayBegin func() bool) run.Answer {
	a := c.attempt()
	a.Key, a.MayBegin, a.Leaks = key, mayBegin, c.leaks()
	return c.send(ctx, a)
}

// Look implements run.Call.
func (c *call) Look(ctx context.Context) run.Answer { return c.send(ctx, c.attempt()) }

func (c *call) send(ctx context.Context, a Attempt) run.Answer {
	defer c.noteUse(ctx)
	answer := c.req.Send(ctx, a)
	c.findError(ctx, &answer)
	return answer
}

func (c *call) attempt() Attempt {
	return Attempt{
		Timeout: c.t.artefacts.head.Timeout(c.t.d.cfg.Timeout), Read: c.t.meta.Operation == verb.Read,
		KeyHeader: c.t.meta.Idempotency.Header(), Clean: c.clean, Tenant: c.t.tenant,
	}
}

// clean takes the credential out of an answer.
func (c *call) clean(body []byte) []byte {
	values := c.secret.Values()
	if len(values) == 0 {
		return body
	}
	return redact.NewScrubber(values...).Scrub(body)
}

// minInFile is the shortest text of a credential that a file is searched for, in bytes. Text is cleared of
// shorter ones too, but a file that has one in it is lost as a whole.
const minInFile = 8

// leaks returns what reports whether a part of a file has the credential in it.
func (c *call) leaks() func(part []byte) bool {
	values := slices.DeleteFunc(c.secret.Hidden(), func(v string) bool { return len(v) < minInFile })
	if len(values) == 0 {
		return func([]byte) bool { return false }
	}
	scrubber := redact.NewScrubber(values...)
	return func(part []byte) bool { return !bytes.Equal(scrubber.Scrub(part), part) }
}

// noteUse brings the credential's last_used_at up to date, at most once a minute.
func (c *call) noteUse(ctx context.Context) {
	if id := c.t.CredentialID(); id != nil {
		if err := c.t.d.deps.Vault.MarkUsed(ctx, c.t.tenant, *id); err != nil {
			c.t.d.deps.Log.WarnContext(ctx, "noting the use of a credential failed", "credential_id", *id, "error", err)
		}
	}
}
