package governance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"agentruntime/test/oracle"
)

// bank is a provider with verbs of every risk and operation. It does what it is told
// and remembers every request.
type bank struct {
	srv *httptest.Server

	mu       sync.Mutex
	requests []request
	// arrived gets the id of each request. A request of modeHold waits until open is
	// closed.
	arrived chan string
	open    chan struct{}
	opened  sync.Once
}

// request is one that the bank got.
type request struct {
	verb   string
	method string
	path   string
	header http.Header
	body   string
	args   string // canonical
	id     string
}

// Values of the argument mode: how the bank answers a call.
const (
	modeHold  = "hold"  // wait until the bank opens
	modeLater = "later" // 429 with Retry-After: 1 the first time
)

const slug = "bank"

// refusedVerb takes the place of the verb in a request that the bank refused.
const refusedVerb = "refused"

// Verbs of the bank. Those of the table are named by risk and operation.
const (
	lowRead     = slug + ":low_read"
	lowPath     = slug + ":low_path"
	lowWrite    = slug + ":low_write"
	mediumWrite = slug + ":medium_write"
	highRead    = slug + ":high_read"
	highWrite   = slug + ":high_write"
	highOther   = slug + ":high_other"
	deleteThing = slug + ":delete_thing"
	secretWrite = slug + ":secret_write"
)

func newBank() *bank {
	b := &bank{arrived: make(chan string, 4096), open: make(chan struct{})}
	b.srv = httptest.NewServer(b)
	return b
}

// letGo answers all requests that are kept waiting, and all to come.
func (b *bank) letGo() { b.opened.Do(func() { close(b.open) }) }

// ServeHTTP implements http.Handler.
func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	got := request{method: r.Method, path: r.URL.RequestURI(), header: r.Header.Clone(), body: string(body)}
	got.verb, _, _ = strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	if got.args = oracle.Canonical(body); got.args == "" {
		got.args = "{}"
	}
	if r.Method == http.MethodDelete {
		got.verb = "delete_thing"
		got.args = oracle.Canonical([]byte(fmt.Sprintf(`{"id":%q}`, strings.TrimPrefix(r.URL.Path, "/things/"))))
	}
	got.verb = slug + ":" + got.verb
	var args struct{ ID, Mode string }
	_ = json.Unmarshal([]byte(got.args), &args)
	got.id = args.ID
	later := args.Mode == modeLater && len(b.of(args.ID)) == 0
	b.mu.Lock()
	if later {
		got.verb = refusedVerb
	}
	b.requests = append(b.requests, got)
	b.mu.Unlock()
	b.arrived <- args.ID
	if later {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	if args.Mode == modeHold {
		select {
		case <-b.open:
		case <-r.Context().Done():
		}
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"done":true}`)
}

// all returns what the bank got so far.
func (b *bank) all() []request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]request(nil), b.requests...)
}

// ids returns the argument id of each request.
func (b *bank) ids() []string {
	ids := []string{}
	for _, r := range b.all() {
		ids = append(ids, r.id)
	}
	return ids
}

// of returns the requests of a call, by its argument id.
func (b *bank) of(id string) []request {
	var list []request
	for _, r := range b.all() {
		if r.id == id {
			list = append(list, r)
		}
	}
	return list
}

// effects counts what the bank did: the requests that it did not refuse.
func (b *bank) effects() int {
	n := 0
	for _, r := range b.all() {
		if r.verb != refusedVerb {
			n++
		}
	}
	return n
}

// operation describes one POST of the bank.
func operation(id, risk, kind string, properties map[string]any) map[string]any {
	return map[string]any{
		"operationId": id, "summary": id,
		"x-agent-runtime": map[string]any{"risk_level": risk, "operation_type": kind},
		"requestBody": map[string]any{"content": map[string]any{"application/json": map[string]any{
			"schema": map[string]any{"type": "object", "properties": properties},
		}}},
		"responses": done(),
	}
}

func done() map[string]any {
	return map[string]any{"200": map[string]any{"description": "done", "content": map[string]any{
		"application/json": map[string]any{"schema": map[string]any{"type": "object"}},
	}}}
}

func typed(name string) map[string]any { return map[string]any{"type": name} }

// callProperties are the arguments of most verbs.
func callProperties() map[string]any {
	return map[string]any{
		"id": typed("string"), "mode": typed("string"), "note": typed("string"), "amount": typed("number"),
		"order": map[string]any{"type": "object", "properties": map[string]any{"total": typed("number")}},
		"items": map[string]any{"type": "array", "items": map[string]any{"type": "object", "properties": map[string]any{"amount": typed("number")}}},
	}
}

// bankPaths describes the bank; more adds operations.
func bankPaths() map[string]any {
	paths := map[string]any{}
	for _, risk := range risks {
		for _, kind := range []string{"read", "write"} {
			id := risk + "_" + kind
			paths["/"+id] = map[string]any{"post": operation(id, risk, kind, callProperties())}
		}
	}
	paths["/high_other"] = map[string]any{"post": operation("high_other", "high", "write", callProperties())}
	paths["/things/{id}"] = map[string]any{"delete": map[string]any{
		"operationId": "delete_thing", "summary": "Delete a thing", "responses": done(),
		"parameters": []any{map[string]any{"name": "id", "in": "path", "required": true, "schema": typed("string")}},
	}}
	// A harmless verb with arguments in all places of an address.
	paths["/low_path/{id}"] = map[string]any{"post": with(operation("low_path", "low", "write", map[string]any{"note": typed("string")}), map[string]any{
		"parameters": []any{
			map[string]any{"name": "id", "in": "path", "required": true, "schema": typed("string")},
			map[string]any{"name": "q", "in": "query", "schema": typed("string")},
			map[string]any{"name": "X-Note", "in": "header", "schema": typed("string")},
		},
	})}
	paths["/secret_write"] = map[string]any{"post": operation("secret_write", "high", "write", map[string]any{
		"id": typed("string"), "note": typed("string"), "memo": typed("string"), "amount": typed("number"),
		"door":      map[string]any{"type": "string", "format": "password"},
		"diagnosis": map[string]any{"type": "string", "x-sensitive": true},
		"nested":    map[string]any{"type": "object", "properties": map[string]any{"inner": map[string]any{"type": "string", "x-sensitive": true}, "memo": typed("string")}},
	})}
	return paths
}

var risks = []string{"low", "medium", "high"}

func bankDocument(paths map[string]any) json.RawMessage {
	raw, err := json.Marshal(map[string]any{
		"openapi": "3.0.3", "info": map[string]any{"title": "Bank", "version": "1"}, "paths": paths,
		"components": map[string]any{"securitySchemes": map[string]any{"key": map[string]any{"type": "http", "scheme": "bearer"}}},
		"security":   []any{map[string]any{"key": []any{}}},
	})
	if err != nil {
		panic(err) // it is made of plain values
	}
	return raw
}

// connect imports the bank's document, with a credential.
func (w *world) connect(paths map[string]any) {
	w.t.Helper()
	w.Connect(w.t, slug, w.bank.srv.URL, bankDocument(paths), "bearer", map[string]string{"token": "bank-token"})
}

// reimport replaces the document and returns the answer.
func (w *world) reimport(paths map[string]any) {
	w.t.Helper()
	a := w.User.Do(http.MethodPost, "/v1/providers", w.importBody(paths))
	require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Body)
}

func (w *world) importBody(paths map[string]any) map[string]any {
	return map[string]any{"slug": slug, "name": slug, "domain": "test", "base_url": w.bank.srv.URL, "openapi": bankDocument(paths)}
}

// report is what tests read of an import's answer.
type report struct {
	Imported int `json:"imported"`
	Degraded []struct{ Operation, Reason string }
	Rejected []struct{ Operation, Reason string }
}

// connectDocument imports a document of the test's own, for a provider without credentials.
func (w *world) connectDocument(document map[string]any) (r report) {
	w.t.Helper()
	document = with(m{"info": m{"title": "Bank", "version": "1"}}, document)
	a := w.User.Do(http.MethodPost, "/v1/providers", m{"slug": slug, "base_url": w.bank.srv.URL, "auth": m{"type": "none"}, "openapi": document})
	require.NoError(w.t, a.Err)
	require.Equal(w.t, http.StatusCreated, a.Status, "%s", a.Body)
	a.Data(w.t, &r)
	return r
}
