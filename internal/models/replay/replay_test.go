package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/models/model"
	"agentruntime/internal/models/replay"
)

// canned answers each request with the next of its answers.
type canned []model.Response

func (c *canned) Generate(_ context.Context, _ model.Request, stream model.Stream) (model.Response, error) {
	if len(*c) == 0 {
		return model.Response{}, &model.Error{Reason: "no more"}
	}
	answer := (*c)[0]
	*c = (*c)[1:]
	stream.Says(answer.Text)
	return answer, nil
}

func ask(t *testing.T, m model.Model, req model.Request) (answer model.Response, streamed string, err error) {
	t.Helper()
	answer, err = m.Generate(t.Context(), req, model.Stream{Delta: func(delta string) { streamed += delta }})
	return answer, streamed, err
}

// record returns a cassette of one request and its answer.
func record(t *testing.T, req model.Request, answer model.Response) []byte {
	t.Helper()
	var tape bytes.Buffer
	r, err := replay.NewRecorder(nil, &tape)
	require.NoError(t, err)
	got, _, err := ask(t, r.Of(&canned{answer}), req)
	require.NoError(t, err)
	require.Equal(t, answer, got, "an answer that is recorded stays as it is")
	return tape.Bytes()
}

func open(t *testing.T, tape []byte) *replay.Model {
	t.Helper()
	m, err := replay.New(tape)
	require.NoError(t, err)
	return m
}

const (
	first = "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90"
	other = "0199a1ef-9a10-7b33-a5a7-000000000001"
	new1  = "01a2074c-2435-7a9e-94d2-f0cda8d2d458"
)

// conversation is a request with a call and its result, about an execution of this id.
func conversation(id string) model.Request {
	return model.Request{
		Purpose: model.Reply, Model: "m-1", Instructions: "Be brief.", Limits: model.Limits{OutputTokens: 9},
		Messages: []model.Message{
			{Role: model.User, Text: "Where is it?"},
			{Role: model.Assistant, Calls: []model.ToolCall{{ID: "c1", Name: "shop__get", Args: json.RawMessage(`{"id": "` + id + `"}`)}}},
			{Role: model.Result, CallID: "c1", Text: `{"execution_id":"exec_` + id + `","at":"2026-11-23T07:00:00.5Z"}`},
		},
		Tools: []model.Tool{{Name: "shop__get", Description: "Get", Schema: json.RawMessage(`{"type": "object"}`)}},
	}
}

func TestReplayAnswersWhatWasRecorded(t *testing.T) {
	t.Parallel()
	want := model.Response{
		Model: "m-1-dated", Text: "It is under way. ", Finish: model.Calling, Usage: model.Usage{In: 10, Cached: 4, Out: 2},
		Calls: []model.ToolCall{{ID: "c2", Name: "shop__more", Args: json.RawMessage(`{"n":1}`)}, {ID: "c3", Name: "shop__get", Args: json.RawMessage(`{"half":`)}, {ID: "c4", Name: "x", Args: json.RawMessage(`"text"`)}},
	}
	m := open(t, record(t, conversation(first), want))
	for range 2 {
		got, streamed, err := ask(t, m, conversation(first))
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, want.Text, streamed)
	}
}

// Ids and times of another run get the same answer, which names those of that run.
func TestReplayKnowsAConversationWithOtherIDs(t *testing.T) {
	t.Parallel()
	m := open(t, record(t, conversation(first), model.Response{
		Text: "exec_" + first + " of 2026-11-23T07:00:00.5Z is under way, " + other + " is not", Finish: model.Calling,
		Calls: []model.ToolCall{{ID: "c2", Name: "shop__get", Args: json.RawMessage(`{"id":"` + first + `"}`)}},
	}))
	asked := conversation(new1)
	asked.Messages[2].Text = strings.Replace(asked.Messages[2].Text, "07:00:00.5Z", "08:30:00Z", 1)
	got, _, err := ask(t, m, asked)
	require.NoError(t, err)
	require.Equal(t, "exec_"+new1+" of 2026-11-23T08:30:00Z is under way, "+other+" is not", got.Text)
	require.JSONEq(t, `{"id":"`+new1+`"}`, string(got.Calls[0].Args))
}

func TestReplayRefusesWhatWasNotRecorded(t *testing.T) {
	t.Parallel()
	m := open(t, record(t, conversation(first), model.Response{Text: "yes"}))
	for name, change := range map[string]func(*model.Request){
		"another message":   func(r *model.Request) { r.Messages[0].Text = "secret word" },
		"one message less":  func(r *model.Request) { r.Messages = r.Messages[:1] },
		"another model":     func(r *model.Request) { r.Model = "m-2" },
		"another purpose":   func(r *model.Request) { r.Purpose = model.Plan },
		"other arguments":   func(r *model.Request) { r.Messages[1].Calls[0].Args = json.RawMessage(`{}`) },
		"another tool":      func(r *model.Request) { r.Tools[0].Schema = json.RawMessage(`{"type":"array"}`) },
		"ids that differ":   func(r *model.Request) { r.Messages[2].Text = strings.ReplaceAll(r.Messages[2].Text, first, other) },
		"another limit":     func(r *model.Request) { r.Limits.OutputTokens = 10 },
		"other advice":      func(r *model.Request) { r.Advice = "now" },
		"other instruction": func(r *model.Request) { r.Instructions = "" },
	} {
		req := conversation(first)
		change(&req)
		_, _, err := ask(t, m, req)
		var failure *model.Error
		require.ErrorAs(t, err, &failure, name)
		require.False(t, failure.Retryable, name)
		require.NotContains(t, failure.Reason, "secret", name)
	}
	_, err := m.Generate(func() context.Context { ctx, stop := context.WithCancel(t.Context()); stop(); return ctx }(), conversation(first), model.Stream{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestCassetteHasNoSecrets(t *testing.T) {
	t.Parallel()
	const key = "sk-proj-aB3dEf6hIj9kLm2nOp5qRs8t"
	req := conversation(first)
	req.Instructions, req.Advice = "Use "+key, "password: hunter2"
	req.Messages[0].Text = "my key is " + key
	req.Messages[1].Calls[0].Args = json.RawMessage(`{"password":"hunter2","note":"Bearer ` + key + `","deep":[{"text":"` + key + `"}]}`)
	req.Messages[2].Text = `<data>{"token":"hunter2"}</data>`
	req.Tools[0].Description = "Needs " + key
	answer := model.Response{Text: "Your key is " + key, Calls: []model.ToolCall{{ID: "c2", Name: "x", Args: json.RawMessage(`{"api_key":"hunter2"}`)}, {ID: "c3", Name: "x", Args: json.RawMessage(`{"a":"` + key)}}}
	tape := record(t, req, answer)
	require.NotContains(t, string(tape), "hunter2")
	require.NotContains(t, string(tape), "aB3dEf6h")
	got, _, err := ask(t, open(t, tape), req)
	require.NoError(t, err)
	require.Equal(t, "Your key is [masked]", got.Text)
}

// What a cassette has already is not recorded again, and failures never are.
func TestRecorderAddsWhatIsNew(t *testing.T) {
	t.Parallel()
	tape := record(t, conversation(first), model.Response{Text: "one"})
	var more bytes.Buffer
	r, err := replay.NewRecorder(tape, &more)
	require.NoError(t, err)
	m := r.Of(&canned{{Text: "two"}, {Text: "three"}})
	_, _, err = ask(t, m, conversation(new1))
	require.NoError(t, err)
	require.Empty(t, more.String())
	longer := conversation(first)
	longer.Advice = "now"
	_, _, err = ask(t, m, longer)
	require.NoError(t, err)
	_, _, err = ask(t, m, model.Request{})
	require.Error(t, err)
	require.Equal(t, 1, strings.Count(more.String(), "\n"))
	got, _, err := ask(t, open(t, append(tape, more.Bytes()...)), longer)
	require.NoError(t, err)
	require.Equal(t, "three", got.Text)

	r, err = replay.NewRecorder(nil, broken{})
	require.NoError(t, err)
	_, _, err = ask(t, r.Of(&canned{{Text: "lost"}}), longer)
	require.ErrorContains(t, err, "disk is full")
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestCassetteThatIsMalformedIsRefused(t *testing.T) {
	t.Parallel()
	for _, tape := range []string{"x", "[]", `{"asked":1}`, "{}\n{}{}"} {
		_, err := replay.New([]byte(tape))
		require.ErrorContains(t, err, "replay: ", tape)
		_, err = replay.NewRecorder([]byte(tape), broken{})
		require.Error(t, err, tape)
	}
}
