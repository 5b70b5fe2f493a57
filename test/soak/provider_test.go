package soak

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The verbs of the provider, by how they may be repeated.
const (
	verbWrite = "target:make_effect" // not at all
	verbKeyed = "target:make_keyed"  // under an idempotency key
	verbRead  = "target:read_thing"  // at will
)

// What the provider makes of a call. The id of the call ends with it.
const (
	fine    = "fine"
	slow    = "slow"    // answers after a moment
	limited = "limited" // 429 at first
	refused = "refused" // 422
	broken  = "broken"  // 500 at first, without an effect
	gateway = "gateway" // 502 at first, with the effect
	dropped = "dropped" // the connection ends after the effect, at first
	lost    = "lost"    // the connection ends before the effect, at first
)

// slowest is the longest answer of a slow provider, less than a stopping worker waits.
const slowest = 3 * time.Second

// modeOf reads what the provider makes of the call.
func modeOf(id string) string { return id[strings.LastIndexByte(id, '.')+1:] }

// provider is the third party. It survives every kill, and knows what really happened.
type provider struct {
	mu sync.Mutex
	// arrivals counts requests, effects what they changed.
	arrivals, effects map[string]int
	// kept are the answers by idempotency key.
	kept map[string]string
	// receipts are the last answers by id.
	receipts map[string]int
	serial   int
}

func newProvider() *provider {
	return &provider{arrivals: map[string]int{}, effects: map[string]int{}, kept: map[string]string{}, receipts: map[string]int{}}
}

func (p *provider) handler() http.Handler {
	mux := http.NewServeMux()
	for _, pattern := range []string{"POST /effects/{id}", "POST /keyed/{id}", "GET /things/{id}"} {
		mux.HandleFunc(pattern, p.serve)
	}
	return mux
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	p.mu.Lock()
	p.arrivals[id]++
	first := p.arrivals[id] == 1
	p.mu.Unlock()
	mode := modeOf(id)
	switch {
	case mode == refused:
		answer(w, http.StatusUnprocessableEntity, `{"error": "no"}`)
		return
	case mode == limited && first:
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusTooManyRequests, `{"error": "later"}`)
		return
	case mode == broken && first:
		answer(w, http.StatusInternalServerError, `{"error": "failed"}`)
		return
	case mode == lost && first:
		panic(http.ErrAbortHandler)
	}
	text := p.act(id, r.Header.Get("Idempotency-Key"), r.Method != http.MethodGet)
	switch {
	case mode == slow:
		select {
		case <-time.After(rand.N(slowest)):
		case <-r.Context().Done():
		}
	case mode == gateway && first:
		answer(w, http.StatusBadGateway, `{"error": "bad gateway"}`)
		return
	case mode == dropped && first:
		panic(http.ErrAbortHandler)
	}
	answer(w, http.StatusOK, text)
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // one that has gone away calls again
}

// act is the effect. It has happened before a byte of the answer leaves.
func (p *provider) act(id, key string, write bool) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kept, known := p.kept[key]; known && key != "" {
		return kept
	}
	if write {
		p.effects[id]++
	}
	p.serial++
	p.receipts[id] = p.serial
	text := fmt.Sprintf(`{"id": %q, "receipt": %d}`, id, p.serial)
	if key != "" {
		p.kept[key] = text
	}
	return text
}

func (p *provider) saw(id string) (effects, receipt int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.effects[id], p.receipts[id]
}

// document describes the provider; the three verbs differ in idempotency alone.
func document() json.RawMessage {
	const answers = `"responses": {"200": {"description": "done", "content": {"application/json": {"schema": {"type": "object"}}}}}`
	const id = `{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}`
	return json.RawMessage(`{"openapi": "3.1.0", "info": {"title": "Target", "version": "1"}, "paths": {
		"/effects/{id}": {"post": {"operationId": "makeEffect", "x-agent-runtime": {"risk_level": "low", "idempotency": "none"},
			"parameters": [` + id + `], ` + answers + `}},
		"/keyed/{id}": {"post": {"operationId": "makeKeyed", "x-agent-runtime": {"risk_level": "low", "idempotency": "header:Idempotency-Key"},
			"parameters": [` + id + `], ` + answers + `}},
		"/things/{id}": {"get": {"operationId": "readThing", "parameters": [` + id + `], ` + answers + `}}}}`)
}
