// Package strictmodel refuses what servers of chat models refuse: it judges the requests of tests by the
// published rules of chat completions (OpenAI, and Mistral for ids) and of the messages of Anthropic. Test
// servers of models are behind Server, the scripted model of the development server behind Judged. It
// never answers for a model.
package strictmodel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/dev/toolrules"
)

// Print writes why requests were refused, for servers that many tests share: 400 fails the test that asked.
func Print(reasons []string) {
	fmt.Fprintln(os.Stderr, "a model server refused a request:", strings.Join(reasons, "; "))
}

// Server judges each request by the API of its path. One that its API refuses gets 400 with the reasons as
// that API writes them, and refused is told them. Others go on to next.
func Server(next http.Handler, refused func(reasons []string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var reasons []string
		form := `{"error":{"message":%s,"type":"invalid_request_error","param":null,"code":null}}`
		switch {
		case strings.HasSuffix(r.URL.Path, "/chat/completions"):
			reasons = Chat(body)
		case strings.HasSuffix(r.URL.Path, "/messages"):
			reasons, form = Messages(body), `{"type":"error","error":{"type":"invalid_request_error","message":%s}}`
		}
		if len(reasons) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		refused(reasons)
		text, err := json.Marshal(strings.Join(reasons, "; "))
		if err != nil {
			panic(err) // a text can be encoded
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, form, text)
	})
}

var (
	callName  = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	mistralID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
	blockID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

// verdict gathers what is wrong with a request.
type verdict []string

func (v *verdict) say(wrong bool, format string, args ...any) {
	if wrong {
		*v = append(*v, fmt.Sprintf(format, args...))
	}
}

// fields refuses members that an API does not know.
func (v *verdict) fields(body []byte, known string) {
	var members map[string]json.RawMessage
	v.say(json.Unmarshal(body, &members) != nil, "the request is no JSON object")
	for name := range members {
		v.say(!slices.Contains(strings.Fields(known), name), "%s: Extra inputs are not permitted", name)
	}
}

func (v *verdict) tools(tools []json.RawMessage, format tooldef.Format) {
	for i, tool := range tools {
		for _, wrong := range toolrules.Violations(format, tool) {
			v.say(true, "tools.%d: %s", i, wrong)
		}
	}
}

// isObject reports whether JSON is an object.
func isObject(raw []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(raw, &object) == nil && object != nil
}

type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// Chat returns why a server of chat completions refuses the request; none where it takes it.
func Chat(body []byte) (reasons []string) {
	var v verdict
	var req struct {
		Model    string
		Messages []chatMessage
		Tools    []json.RawMessage
	}
	v.fields(body, "model messages tools tool_choice temperature max_tokens max_completion_tokens stream stream_options response_format")
	v.say(json.Unmarshal(body, &req) != nil, "a member has the wrong type")
	v.say(req.Model == "", "model is missing")
	v.say(len(req.Messages) == 0, "messages is empty")
	v.tools(req.Tools, tooldef.OpenAI)
	var open []string
	seen := map[string]bool{}
	spoken, last := false, ""
	for i, m := range req.Messages {
		v.say(last == "tool" && m.Role == "user", "messages.%d: Unexpected role 'user' after role 'tool'", i) // Mistral, 3230
		v.say(last == m.Role && (m.Role == "user" || m.Role == "assistant"), "messages.%d: conversation roles must alternate, %s follows %[2]s", i, m.Role)
		last = m.Role
		if m.Role == "tool" {
			at := slices.Index(open, m.ToolCallID)
			v.say(at < 0, "messages.%d: the result of %q follows no call of it", i, m.ToolCallID)
			if at >= 0 {
				open = slices.Delete(open, at, at+1)
			}
			v.say(isEmpty(m.Content), "messages.%d: a result without content", i)
			continue
		}
		v.say(len(open) > 0, "messages.%d: calls %q have no results", i, open)
		open = nil
		switch m.Role {
		case "system":
			v.say(spoken, "messages.%d: system after the conversation has begun", i)
		case "user", "assistant":
			v.say(!spoken && m.Role == "assistant", "messages.%d: the assistant speaks first", i)
			spoken = true
		default:
			v.say(true, "messages.%d: role %q", i, m.Role)
		}
		v.say(len(m.ToolCalls) == 0 && isEmpty(m.Content), "messages.%d: %s without content", i, m.Role)
		v.say(len(m.ToolCalls) > 0 && (m.Role != "assistant" || len(req.Tools) == 0), "messages.%d: calls of %s, with %d tools", i, m.Role, len(req.Tools))
		for _, c := range m.ToolCalls {
			v.say(!mistralID.MatchString(c.ID), "messages.%d: id %q must be a-z, A-Z, 0-9, with a length of 9", i, c.ID)
			v.say(seen[c.ID], "messages.%d: id %q twice", i, c.ID)
			v.say(!callName.MatchString(c.Function.Name), "messages.%d: name %q", i, c.Function.Name)
			v.say(c.Type != "function", "messages.%d: type %q", i, c.Type)
			v.say(!isObject([]byte(c.Function.Arguments)), "messages.%d: arguments %q are no object", i, c.Function.Arguments)
			seen[c.ID] = true
			open = append(open, c.ID)
		}
	}
	v.say(len(open) > 0, "calls %q have no results", open)
	v.say(!spoken, "nobody has said anything")
	v.say(last == "assistant", "Expected last role User or Tool") // Mistral
	return v
}

// isEmpty reports whether content is no text with something in it. A list of parts is not.
func isEmpty(content json.RawMessage) bool {
	var text string
	return len(content) == 0 || json.Unmarshal(content, &text) == nil && strings.TrimSpace(text) == ""
}

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   []block         `json:"content"`
}

// mostCached is how many places of a request may be marked for the cache.
const mostCached = 4

// Messages returns why the messages API of Anthropic refuses the request; none where it takes it.
func Messages(body []byte) (reasons []string) {
	var v verdict
	var req struct {
		Model     string
		MaxTokens int `json:"max_tokens"`
		System    []block
		Messages  []struct {
			Role    string
			Content []block
		}
		Tools []json.RawMessage
	}
	v.fields(body, "model messages system tools tool_choice temperature max_tokens stream")
	v.say(json.Unmarshal(body, &req) != nil, "a member has the wrong type")
	v.say(req.Model == "", "model: Field required")
	v.say(req.MaxTokens < 1, "max_tokens: %d", req.MaxTokens)
	v.say(len(req.Messages) == 0, "messages: at least one message is required")
	v.tools(req.Tools, tooldef.Anthropic)
	v.texts("system", req.System)
	v.say(strings.Count(string(body), `"cache_control":`) > mostCached, "more than %d blocks with cache_control", mostCached)
	var open []string
	seen := map[string]bool{}
	last := ""
	for i, m := range req.Messages {
		at := fmt.Sprintf("messages.%d", i)
		v.say(m.Role != "user" && m.Role != "assistant", "%s: role %q", at, m.Role)
		v.say(i == 0 && m.Role != "user", "%s: first message must use the user role", at)
		v.say(m.Role == last, "%s: roles must alternate, %s twice", at, last)
		v.say(len(m.Content) == 0, "%s: no content", at)
		v.texts(at, m.Content)
		last = m.Role
		results := true
		for _, b := range m.Content {
			if b.Type != "tool_result" {
				results = false
				continue
			}
			n := slices.Index(open, b.ToolUseID)
			v.say(n < 0, "%s: unexpected tool_use_id %q in tool_result", at, b.ToolUseID)
			v.say(!results, "%s: tool_result blocks must come first", at)
			if n >= 0 {
				open = slices.Delete(open, n, n+1)
			}
		}
		v.say(len(open) > 0, "%s: tool_use ids %q without tool_result blocks", at, open)
		open = nil
		for _, b := range m.Content {
			if b.Type != "tool_use" {
				continue
			}
			v.say(m.Role != "assistant" || len(req.Tools) == 0, "%s: tool_use of %s, with %d tools", at, m.Role, len(req.Tools))
			v.say(!blockID.MatchString(b.ID), "%s: tool_use.id %q", at, b.ID)
			v.say(seen[b.ID], "%s: tool_use ids must be unique: %q", at, b.ID)
			v.say(!callName.MatchString(b.Name), "%s: tool_use.name %q", at, b.Name)
			v.say(!isObject(b.Input), "%s: tool_use.input is no object", at)
			seen[b.ID] = true
			open = append(open, b.ID)
		}
	}
	v.say(len(open) > 0, "tool_use ids %q without tool_result blocks", open)
	v.say(last == "assistant", "the conversation must end with a user message")
	return v
}

// texts refuses empty texts, and blocks of a type that no request of ours has.
func (v *verdict) texts(at string, blocks []block) {
	for _, b := range blocks {
		switch b.Type {
		case "text":
			v.say(strings.TrimSpace(b.Text) == "", "%s: text content blocks must contain non-whitespace text", at)
		case "tool_result":
			v.texts(at, b.Content)
		case "tool_use":
		default:
			v.say(true, "%s: block of type %q", at, b.Type)
		}
	}
}
