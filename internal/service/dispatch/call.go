package dispatch

import (
	"context"
	"encoding/json"

	"agentruntime/internal/action/run"
	"agentruntime/internal/kernel/redact"
	"agentruntime/internal/kernel/verb"
)

// call is one request, ready to be sent.
type call struct {
	t       *target
	req     Request
	secrets []string
}

// Preview implements run.Call. It is made of the masked arguments.
func (c *call) Preview(args json.RawMessage) json.RawMessage {
	return c.t.artefacts.plan.Preview(c.t.meta.BaseURL, c.t.Mask(args))
}

// Send implements run.Call: exactly one attempt.
func (c *call) Send(ctx context.Context, key string, mayBegin func() bool) run.Answer {
	defer c.noteUse(ctx)
	return c.req.Send(ctx, Attempt{
		Timeout: c.t.artefacts.head.Timeout(c.t.d.cfg.Timeout), Read: c.t.meta.Operation == verb.Read,
		KeyHeader: c.t.meta.Idempotency.Header(), Key: key, Clean: c.clean, MayBegin: mayBegin, Tenant: c.t.tenant,
	})
}

// clean takes the credential out of an answer.
func (c *call) clean(body []byte) []byte {
	if len(c.secrets) == 0 {
		return body
	}
	return redact.NewScrubber(c.secrets...).Scrub(body)
}

// noteUse brings the credential's last_used_at up to date, at most once a minute.
func (c *call) noteUse(ctx context.Context) {
	if id := c.t.CredentialID(); id != nil {
		if err := c.t.d.deps.Vault.MarkUsed(ctx, c.t.tenant, *id); err != nil {
			c.t.d.deps.Log.WarnContext(ctx, "noting the use of a credential failed", "credential_id", *id, "error", err)
		}
	}
}
