package chaos

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// The verbs of the provider, by how they may be repeated.
const (
	verbWrite = "target:make_effect" // not at all
	verbKeyed = "target:make_keyed"  // under an idempotency key
	verbRead  = "target:read_thing"  // at will
	// verbLooked is a write that may not be repeated. A policy looks a thing up before it.
	verbLooked = "target:make_looked"
)

// Points in the middle of a body, where the provider is stopped and not the service.
const (
	inRequest  = "in_request"
	inResponse = "in_response"
)

// Bodies that are stopped are larger than the buffers of the sockets between the two, so
// that the writer is really in the middle.
const (
	heldBytes   = 400 << 10
	otherBytes  = 1 << 10
	socketBytes = 16 << 10
)

// filler makes a body large if the run is stopped in it, which its id says.
func filler(id, point string) string {
	if strings.Contains(id, point) {
		return strings.Repeat("x", heldBytes)
	}
	return strings.Repeat("x", otherBytes)
}

// provider is the third party. It lives in the test's process, survives every
// kill, and knows what really happened.
type provider struct {
	gate *gate
	url  string

	mu sync.Mutex
	// arrivals counts requests that came in whole, effects what they changed.
	arrivals, effects map[string]int
	// answers are kept by idempotency key.
	answers map[string]string
	serial  int
}

func startProvider(t *testing.T, g *gate) *provider {
	t.Helper()
	p := &provider{gate: g, arrivals: map[string]int{}, effects: map[string]int{}, answers: map[string]string{}}
	mux := http.NewServeMux()
	mux.Handle("GET /failpoint", g)
	mux.HandleFunc("POST /effects/{id}", p.serve)
	mux.HandleFunc("POST /keyed/{id}", p.serve)
	mux.HandleFunc("POST /looked/{id}", p.serve)
	mux.HandleFunc("GET /found/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"id": r.PathValue("id")})
	})
	mux.HandleFunc("GET /things/{id}", p.serve)
	srv := httptest.NewUnstartedServer(mux)
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(socketBytes)
			_ = tcp.SetWriteBuffer(socketBytes)
		}
		return ctx
	}
	srv.Start()
	t.Cleanup(func() {
		g.open()
		srv.CloseClientConnections()
		srv.Close()
	})
	p.url = srv.URL
	return p
}

// answer is what the provider says; the receipt is another one for each effect.
type answer struct {
	ID      string `json:"id"`
	Receipt int    `json:"receipt"`
	Filler  string `json:"filler"`
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	if _, err := io.CopyN(io.Discard, r.Body, r.ContentLength/2); err != nil {
		return
	}
	p.gate.pass(r.Context(), inRequest, r.PathValue("id"))
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return // it never arrived whole: no effect
	}
	text := p.act(r.PathValue("id"), r.Header.Get("Idempotency-Key"), r.Method != http.MethodGet)
	w.Header().Set("Content-Type", "application/json")
	half := len(text) / 2
	_, _ = io.WriteString(w, text[:half])
	_ = http.NewResponseController(w).Flush()
	p.gate.pass(r.Context(), inResponse, r.PathValue("id"))
	_, _ = io.WriteString(w, text[half:])
}

// act is the effect. It has happened before a byte of the answer leaves.
func (p *provider) act(id, key string, write bool) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrivals[id]++
	if kept, known := p.answers[key]; known && key != "" {
		return kept
	}
	if write {
		p.effects[id]++
	}
	p.serial++
	// Three fields of plain types always encode.
	text, _ := json.Marshal(answer{ID: id, Receipt: p.serial, Filler: filler(id, inResponse)}) //nolint:errchkjson // see above
	if key != "" {
		p.answers[key] = string(text)
	}
	return string(text)
}

func (p *provider) counts(id string) (arrivals, effects int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.arrivals[id], p.effects[id]
}

// document describes the provider. Its writes differ in idempotency alone; a policy is about makeLooked.
func document() json.RawMessage {
	const answers = `"responses": {"200": {"description": "done", "content": {"application/json": {"schema": {"type": "object"}}}}}`
	const id = `{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}`
	const body = `"requestBody": {"required": true, "content": {"application/json": {"schema":
		{"type": "object", "required": ["filler"], "properties": {"filler": {"type": "string"}}}}}}`
	return json.RawMessage(`{"openapi": "3.1.0", "info": {"title": "Target", "version": "1"}, "paths": {
		"/effects/{id}": {"post": {"operationId": "makeEffect", "x-agent-runtime": {"risk_level": "low", "idempotency": "none"},
			"parameters": [` + id + `], ` + body + `, ` + answers + `}},
		"/keyed/{id}": {"post": {"operationId": "makeKeyed", "x-agent-runtime": {"risk_level": "low", "idempotency": "header:Idempotency-Key"},
			"parameters": [` + id + `], ` + body + `, ` + answers + `}},
		"/looked/{id}": {"post": {"operationId": "makeLooked", "x-agent-runtime": {"risk_level": "low", "idempotency": "none"},
			"parameters": [` + id + `], ` + body + `, ` + answers + `}},
		"/found/{id}": {"get": {"operationId": "findThing", "parameters": [` + id + `], ` + answers + `}},
		"/things/{id}": {"get": {"operationId": "readThing", "parameters": [` + id + `], ` + answers + `}}}}`)
}

func arguments(verb, id string) map[string]any {
	args := map[string]any{"id": id}
	if verb != verbRead {
		args["filler"] = filler(id, inRequest)
	}
	return args
}
