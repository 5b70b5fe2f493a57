package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/httpplan"
	"agentruntime/internal/provider/providererror"
	"agentruntime/internal/provider/resultnote"
	"agentruntime/internal/record/resultfile"
)

// HTTP is the Caller of verb.KindHTTP. Files with which calls are answered are kept in files.
func HTTP(client *httpcall.Client, files *resultfile.Store) Caller { return httpCaller{client, files} }

type httpCaller struct {
	client *httpcall.Client
	files  *resultfile.Store
}

// Compile implements Caller.
func (c httpCaller) Compile(plan json.RawMessage) (Plan, error) {
	p, err := httpplan.Parse(plan)
	if err != nil {
		return nil, err
	}
	return &httpPlan{httpCaller: c, plan: p}, nil
}

type httpPlan struct {
	httpCaller

	plan httpplan.Plan
}

// Prepare implements Plan.
func (p *httpPlan) Prepare(baseURL string, args json.RawMessage) (Request, error) {
	req, err := httpcall.BuildRequest(p.plan, baseURL, args)
	if err != nil {
		return nil, err
	}
	return &httpRequest{httpPlan: p, req: req}, nil
}

// preview is a request as a human reads it before they decide.
type preview struct {
	Method  string          `json:"method"`
	URL     string          `json:"url"`
	Headers http.Header     `json:"headers"`
	Body    json.RawMessage `json:"body"`
}

// Preview implements Plan. A secret argument shows neither in the body nor in the address.
func (p *httpPlan) Preview(baseURL string, masked json.RawMessage) json.RawMessage {
	shown, err := httpcall.BuildRequest(p.plan, baseURL, masked)
	if err != nil {
		// A masked argument that no longer fits its place (a file in base64): the
		// address is shown as the document has it, and nothing of the arguments.
		shown = &httpcall.Request{Method: p.plan.Method, URL: baseURL + p.plan.Path}
	}
	out := preview{Method: shown.Method, URL: redact.MaskURL(shown.URL), Headers: redact.MaskHeaders(shown.Header), Body: json.RawMessage("null")}
	if len(shown.Body) > 0 {
		out.Body = shown.Body
		if !json.Valid(shown.Body) {
			// Marshalling a text cannot fail.
			out.Body, _ = json.Marshal(string(shown.Body)) //nolint:errchkjson // see above
		}
	}
	if out.Headers == nil {
		out.Headers = http.Header{}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return json.RawMessage("{}")
	}
	return raw
}

type httpRequest struct {
	*httpPlan
	req *httpcall.Request
}

// Address implements Request.
func (r *httpRequest) Address() string { return r.req.URL }

// Apply implements Request.
func (r *httpRequest) Apply(auth credential.Auth, secret credential.Secret) error {
	return httpcall.Apply(auth, secret, r.req)
}

// Send implements Request.
func (r *httpRequest) Send(ctx context.Context, a Attempt) run.Answer {
	f := &filing{ctx: ctx, files: r.files, a: a}
	opt := httpcall.SendOptions{
		Timeout: a.Timeout, Read: a.Read, IdempotencyHeader: a.KeyHeader, IdempotencyKey: a.Key, MayBegin: a.MayBegin, Owner: a.Tenant.String(),
	}
	if a.Leaks != nil {
		opt.Keep, opt.PartBytes = f.keep, resultfile.PartBytes
	}
	out := r.client.Send(ctx, r.req, opt)
	answer := run.Answer{Phase: out.Phase, Cause: out.Cause, Status: out.Status, RetryAfter: out.RetryAfter, Timeout: out.Timeout, Free: out.Free}
	switch out.Phase {
	case attempt.NotSent:
		answer.Problem = "no connection could be made"
		if errors.Is(out.Err, egress.ErrRefused) {
			answer.Problem, answer.Cause = "its address is not public", attempt.Ours
		}
	case attempt.Answered:
		answer.Said = providererror.Answer{
			Status: out.Status, Media: out.ContentType, Whole: out.BodyErr == nil && !out.Truncated,
			RetryAfter: out.RetryAfter, RequestID: string(a.Clean([]byte(out.RequestID))),
		}
		answer.Note.Headers = resultnote.Headers(out.Header, r.plan.Headers, a.Clean)
		read(out, a.Clean, &answer)
		f.end(ctx, out, &answer)
	case attempt.Sent:
	}
	return answer
}

// problem notes why an answer becomes no result.
func problem(a *run.Answer, code, words string) {
	a.Problem = words
	a.Note.Error = resultnote.NewProblem(code, words)
}

// read takes the answer's body over.
func read(out httpcall.Outcome, clean func([]byte) []byte, a *run.Answer) {
	a.Complete = out.BodyErr == nil
	switch {
	case out.BodyErr != nil:
		problem(a, resultnote.CutOff, "the response broke off")
		return
	case out.Truncated:
		problem(a, resultnote.TooLarge, tooLarge(out.IsFile))
		return
	case out.IsFile:
		return
	}
	a.Said.Body = clean(out.Body)
	result, wrapped, err := httpcall.ResultObject(out.ContentType, a.Said.Body)
	if err != nil {
		problem(a, resultnote.Malformed, err.Error())
		return
	}
	a.Result, a.Wrapped = result, wrapped
}
