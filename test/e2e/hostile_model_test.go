package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"agentruntime/internal/dev/strictmodel"
	"agentruntime/test/rig"
)

// hostileModel is a server with the API of OpenAI. Its model obeys every text that it reads, and lies;
// testdata/agents/README.md has its directives. It remembers what it was asked, by the name of the
// scenario in the instructions of the agent.
type hostileModel struct {
	mu    sync.Mutex
	asked map[string][]string
}

var hostile = &hostileModel{asked: map[string][]string{}}

// hostileServer starts the server and returns the setting by which tenants may choose it.
func hostileServer(s *rig.Suite) string {
	srv := httptest.NewServer(strictmodel.Server(hostile, strictmodel.Print))
	s.Cleanup(srv.Close)
	return "MODEL_SERVERS=hostile=" + srv.URL + "/v1"
}

// of returns the texts that the model has read in a scenario, one for each request.
func (h *hostileModel) of(scenario string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.asked[scenario]...)
}

// all returns all that the model has read.
func (h *hostileModel) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	for _, list := range h.asked {
		b.WriteString(strings.Join(list, "\n"))
	}
	return b.String()
}

type hostileMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls []hostileCall   `json:"tool_calls"`
}

type hostileCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (m hostileMessage) text() string {
	var text string
	if json.Unmarshal(m.Content, &text) != nil {
		return string(m.Content)
	}
	return text
}

// A directive ends with the last ]] of its place: an array of calls ends with one more.
var (
	inScenario = regexp.MustCompile(`You are scenario (\S+)\.`)
	directive  = regexp.MustCompile(`\[\[(call|later|loop|raw|say|dump|flood|flood-args)(?: (.*?))?\]\](?:$|[^\]])`)
)

// ServeHTTP implements http.Handler.
func (h *hostileModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var req struct{ Messages []hostileMessage }
	_ = json.Unmarshal(raw, &req)
	var read strings.Builder
	for _, m := range req.Messages {
		read.WriteString(m.text() + "\n")
	}
	var tools struct{ Tools json.RawMessage }
	_ = json.Unmarshal(raw, &tools)
	read.WriteString(string(tools.Tools))
	name := ""
	if found := inScenario.FindStringSubmatch(read.String()); found != nil {
		name = found[1]
	}
	h.mu.Lock()
	h.asked[name] = append(h.asked[name], read.String())
	h.mu.Unlock()
	text, calls := hostileAnswer(req.Messages, read.String())
	delta := map[string]any{"content": text, "tool_calls": calls}
	finish := "stop"
	if len(calls) > 0 {
		finish = "tool_calls"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(v map[string]any) {
		fmt.Fprintf(w, "data: %s\n\n", plainJSON(v))
	}
	chunk(map[string]any{"id": "1", "object": "chat.completion.chunk", "model": "gpt-4o-mini", "choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
	chunk(map[string]any{"id": "1", "object": "chat.completion.chunk", "model": "gpt-4o-mini", "choices": []any{}, "usage": map[string]any{"prompt_tokens": 900, "completion_tokens": 200, "total_tokens": 1100}})
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// hostileAnswer does what the texts say: those that are new to the model, and those that it is to obey later or
// always.
func hostileAnswer(messages []hostileMessage, read string) (text string, calls []hostileCall) {
	last, answers := -1, 0
	for i, m := range messages {
		if m.Role == "assistant" && m.text() != "I have read the results." { // that is a word of the service
			last = i
			answers++
		}
	}
	call := func(id, name, args string) {
		c := hostileCall{Index: len(calls), ID: id, Type: "function"}
		c.Function.Name, c.Function.Arguments = name, args
		calls = append(calls, c)
	}
	for i, m := range messages {
		if m.Role == "assistant" {
			continue
		}
		fresh := i > last || m.Role == "system" && messages[len(messages)-1].Role == "user"
		plain := m.text()
		if strings.Contains(plain, "<data") {
			plain = strings.ReplaceAll(plain, `\`, "") // it is in JSON
		}
		for _, d := range directive.FindAllStringSubmatch(strings.ReplaceAll(plain, "[[", "\n[[")+"\n", -1) {
			what, rest := d[1], d[2]
			tool, args, _ := strings.Cut(rest, " ")
			id := fmt.Sprintf("call_%d_%d", answers, len(calls))
			n, _ := strconv.Atoi(rest)
			switch {
			case what == "loop", what == "call" && fresh, what == "later" && !fresh && messages[len(messages)-1].Role == "user":
				call(id, tool, args)
			case !fresh:
			case what == "raw":
				var list []struct{ ID, Name, Args string }
				if json.Unmarshal([]byte(strings.ReplaceAll(rest, "\n", "")), &list) == nil {
					for _, one := range list {
						call(one.ID, one.Name, one.Args)
					}
				}
			case what == "say":
				text = rest
			case what == "dump":
				text = read
			case what == "flood":
				text = strings.Repeat("x", n)
			case what == "flood-args":
				call(id, "bazaar__create_order", `{"id":"`+strings.Repeat("x", n)+`"}`)
			}
		}
	}
	if text == "" && len(calls) == 0 {
		text = "It is done. A person approved it, and nothing waits."
	}
	return text, calls
}

// plainJSON encodes plain values.
func plainJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
