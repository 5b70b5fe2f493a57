package approvals

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"agentruntime/test/rig"
)

// The verbs of the provider, by the risk that its document gives them.
const (
	verbPeek   = "desk:peek"   // a read, low
	verbChange = "desk:change" // medium
	verbRefund = "desk:refund" // medium
	verbWipe   = "desk:wipe"   // high: blocked unless a policy opens it
)

// effect is one write that reached the provider.
type effect struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
	at     time.Time
}

// desk is the provider. It lives in the test's process, survives every kill, and knows
// what really happened.
type desk struct {
	url string

	mu      sync.Mutex
	effects map[string][]effect
	// later are ids whose first request is refused with a 429.
	later map[string]bool
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{effects: map[string][]effect{}, later: map[string]bool{}}
	d.url = rig.Serve(t, d)
	return d
}

// ServeHTTP implements http.Handler.
func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e := effect{at: time.Now()}
	if r.Method != http.MethodGet && json.Unmarshal(body, &e) == nil {
		if !d.took(e) {
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":%q}`, e.ID)
}

func (d *desk) took(e effect) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.later[e.ID] {
		delete(d.later, e.ID)
		return false
	}
	d.effects[e.ID] = append(d.effects[e.ID], e)
	return true
}

// refuseOnce has the first request of the id refused for two seconds.
func (d *desk) refuseOnce(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.later[id] = true
}

// refused reports whether that request has come.
func (d *desk) refused(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.later[id]
}

func (d *desk) of(id string) []effect {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]effect(nil), d.effects[id]...)
}

// document describes the provider. Each edition has one more argument, so that the
// schemas of its verbs differ.
func document(edition int) json.RawMessage {
	properties := map[string]any{"id": map[string]any{"type": "string"}, "amount": map[string]any{"type": "integer"}}
	for i := range edition {
		properties[fmt.Sprintf("note_%d", i)] = map[string]any{"type": "string"}
	}
	done := map[string]any{"200": map[string]any{"description": "done", "content": map[string]any{
		"application/json": map[string]any{"schema": map[string]any{"type": "object"}},
	}}}
	write := func(name, risk string) map[string]any {
		return map[string]any{"post": map[string]any{
			"operationId": name, "responses": done, "x-agent-runtime": map[string]any{"risk_level": risk},
			"requestBody": map[string]any{"required": true, "content": map[string]any{"application/json": map[string]any{
				"schema": map[string]any{"type": "object", "required": []string{"id"}, "properties": properties},
			}}},
		}}
	}
	raw, err := json.Marshal(map[string]any{
		"openapi": "3.0.3", "info": map[string]any{"title": "Desk", "version": "1"},
		"components": map[string]any{"securitySchemes": map[string]any{"key": map[string]any{"type": "http", "scheme": "bearer"}}},
		"security":   []any{map[string]any{"key": []any{}}},
		"paths": map[string]any{
			"/changes": write("change", "medium"), "/refunds": write("refund", "medium"), "/wipes": write("wipe", "high"),
			"/things": map[string]any{"get": map[string]any{
				"operationId": "peek", "responses": done,
				"parameters": []any{map[string]any{"name": "id", "in": "query", "schema": map[string]any{"type": "string"}}},
			}},
		},
	})
	if err != nil {
		panic(err) // it is made of plain values
	}
	return raw
}
