package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"agentruntime/internal/action/run"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/kernel/redact"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/provider/connectors"
)

// call is one request, ready to be sent.
type call struct {
	t       *target
	req     *connectors.Request
	secrets []string
}

// preview is a request as a human reads it before he decides.
type preview struct {
	Method  string          `json:"method"`
	URL     string          `json:"url"`
	Headers http.Header     `json:"headers"`
	Body    json.RawMessage `json:"body"`
}

// Preview implements run.Call. It is made of the masked arguments, so that a secret
// argument shows neither in the body nor in the address.
func (c *call) Preview(args json.RawMessage) json.RawMessage {
	plan := c.t.artefacts.plan
	shown, err := connectors.BuildRequest(plan, c.t.meta.BaseURL, c.t.Mask(args))
	if err != nil {
		// A masked argument that no longer fits its place (a file in base64): the
		// address is shown as the document has it, and nothing of the arguments.
		shown = &connectors.Request{Method: plan.Method, URL: c.t.meta.BaseURL + plan.Path}
	}
	p := preview{Method: shown.Method, URL: redact.MaskURL(shown.URL), Headers: redact.MaskHeaders(shown.Header), Body: json.RawMessage("null")}
	if len(shown.Body) > 0 {
		p.Body = shown.Body
		if !json.Valid(shown.Body) {
			// Marshalling a text cannot fail.
			p.Body, _ = json.Marshal(string(shown.Body)) //nolint:errchkjson // see above
		}
	}
	if p.Headers == nil {
		p.Headers = http.Header{}
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return json.RawMessage("{}")
	}
	return raw
}

// Send implements run.Call: exactly one attempt.
func (c *call) Send(ctx context.Context, key string) run.Answer {
	out := c.t.d.Client.Send(ctx, c.req, connectors.SendOptions{
		Timeout:           c.t.d.cfg.Timeout,
		Read:              c.t.meta.Operation == verb.Read,
		IdempotencyHeader: c.t.meta.Idempotency.Header(),
		IdempotencyKey:    key,
	})
	defer c.noteUse(ctx)
	a := run.Answer{Status: out.Status, RetryAfter: out.RetryAfter, Timeout: out.Timeout}
	switch out.Phase {
	case connectors.NotSent:
		a.Phase, a.Problem = run.NotSent, notSent(out.Err)
	case connectors.Sent:
		a.Phase = run.Sent
	case connectors.Answered:
		a.Phase = run.Answered
		c.read(out, &a)
	}
	return a
}

// noteUse brings the credential's last_used_at up to date, at most once a minute.
func (c *call) noteUse(ctx context.Context) {
	if id := c.t.CredentialID(); id != nil {
		if err := c.t.d.Vault.MarkUsed(ctx, c.t.tenant, *id); err != nil {
			c.t.d.Log.WarnContext(ctx, "noting the use of a credential failed", "credential_id", *id, "error", err)
		}
	}
}

// read takes the answer's body over, cleared of the credential in every form that a
// provider may echo it in.
func (c *call) read(out connectors.Outcome, a *run.Answer) {
	switch {
	case out.BodyErr != nil:
		a.Problem = "the response broke off"
		return
	case out.Truncated:
		a.Complete, a.Problem = true, fmt.Sprintf("the response is larger than %d bytes", connectors.DefaultMaxBytes)
		return
	}
	a.Complete = true
	body := out.Body
	if len(c.secrets) > 0 {
		body = redact.NewScrubber(c.secrets...).Scrub(body)
	}
	result, ok := connectors.ResultObject(out.ContentType, body, c.t.artefacts.plan.Declared)
	if !ok {
		a.Problem = "the response is not what the provider's document declares"
		return
	}
	a.Result = result
}

// notSent says why nothing left, in words that hold no address and no secret.
func notSent(err error) string {
	if errors.Is(err, egress.ErrRefused) {
		return "its address is not public"
	}
	return "no connection could be made"
}
