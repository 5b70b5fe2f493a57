package strictmodel

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"agentruntime/internal/models/anthropic"
	"agentruntime/internal/models/model"
	"agentruntime/internal/models/openai"
	"agentruntime/internal/provider/credential"
)

// Judged returns the model behind the judges of both APIs, for one that is asked without a server. Each
// request is written by both adapters. One that an API refuses is an error, and is printed; the model is
// asked for the others.
func Judged(next model.Model) model.Model { return judged{next} }

type judged struct{ next model.Model }

// Generate implements model.Model.
func (j judged) Generate(ctx context.Context, req model.Request, stream model.Stream) (model.Response, error) {
	reasons, err := judge(ctx, req)
	switch {
	case err != nil:
		return model.Response{}, err
	case len(reasons) > 0:
		Print(reasons)
		return model.Response{}, &model.Error{Reason: "a strict server refuses the request: " + strings.Join(reasons, "; ")}
	}
	return j.next.Generate(ctx, req, stream)
}

// judge returns what servers of both APIs refuse of the request. The error is a fault of an adapter, or
// that of ctx.
func judge(ctx context.Context, req model.Request) ([]string, error) {
	const nowhere = "http://judge.invalid"
	j := &judgeTransport{}
	client, key := &http.Client{Transport: j}, credential.NewBearer("none")
	chat, err := openai.New(openai.Config{BaseURL: nowhere + "/v1", Credential: key, Client: client})
	if err != nil {
		return nil, err
	}
	messages, err := anthropic.New(anthropic.Config{BaseURL: nowhere, Credential: key, Client: client})
	if err != nil {
		return nil, err
	}
	for _, m := range []model.Model{chat, messages} {
		if _, err := m.Generate(ctx, req, model.Stream{}); err != nil && len(j.reasons) == 0 {
			return nil, err
		}
	}
	return j.reasons, nil
}

// judgeTransport judges requests in the place of a server, and answers all of them with a word.
type judgeTransport struct{ reasons []string }

// RoundTrip implements http.RoundTripper.
func (j *judgeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	answer := `{"choices":[{"message":{"content":"Yes."},"finish_reason":"stop"}]}`
	judge := Chat
	if strings.HasSuffix(r.URL.Path, "/messages") {
		answer, judge = `{"content":[{"type":"text","text":"Yes."}],"stop_reason":"end_turn"}`, Messages
	}
	j.reasons = append(j.reasons, judge(body)...)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader([]byte(answer))), Request: r}, r.Body.Close()
}
