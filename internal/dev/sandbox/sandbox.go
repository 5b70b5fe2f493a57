// Package sandbox is a small shop behind HTTP: orders, customers, refunds,
// tickets and messages. It stands in for a real provider in development, in
// examples and in tests, so that a run can be followed to its effect without an
// account anywhere.
//
// The package knows nothing of the runtime. Like any provider it is reached over HTTP
// only, described by the OpenAPI document it serves, and guarded by an API key. Its
// state survives the end of the process, not that of the machine.
package sandbox

import (
	"bytes"
	"crypto/subtle"
	_ "embed" // the OpenAPI document
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// KeyHeader is the header that carries the API key.
const KeyHeader = "X-Shop-Key"

// Config says how a shop is set up.
type Config struct {
	// APIKey is what callers send in KeyHeader. Required.
	APIKey string
	// Dir is the directory of the state file; "" keeps the state in memory.
	Dir string
	// Clock tells the time; nil is time.Now.
	Clock func() time.Time
	// Log takes what goes wrong with the state file; nil is slog.Default.
	Log *slog.Logger
}

// Server is a shop. It implements http.Handler and is safe for concurrent use.
type Server struct {
	key   []byte
	clock func() time.Time
	log   *slog.Logger
	mux   *http.ServeMux

	mu    sync.Mutex // guards store, for memory work and one append
	store *store
}

// New opens a shop: with the state in Dir, or with the seed data.
func New(cfg Config) (*Server, error) {
	if cfg.APIKey == "" {
		return nil, errors.New("sandbox: an API key is required")
	}
	s := &Server{key: []byte(cfg.APIKey), clock: cfg.Clock, log: cfg.Log}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	var err error
	if s.store, err = openStore(cfg.Dir, s.now()); err != nil {
		return nil, err
	}
	s.mux = s.routes()
	return s, nil
}

// Close closes the state file. Calls after it fail.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.close()
}

func (s *Server) now() time.Time { return s.clock().UTC().Truncate(time.Millisecond) }

//go:embed openapi.json
var document []byte

//go:embed refund_map.json
var refundMap []byte

// RefundMap returns the definition of a Map that refunds an order of the shop, for the provider
// "shop". A refund above 100.00 needs a policy that asks for approval.
func RefundMap() []byte { return bytes.Clone(refundMap) }

//go:embed order_map.json
var orderMap []byte

// OrderMap returns the definition of a Map by which an agent in the mode workflow_only tells customers of
// their orders, for the provider "shop".
func OrderMap() []byte { return bytes.Clone(orderMap) }

// documentBase is the server address in the embedded document.
const documentBase = "http://sandbox.invalid"

// Document returns the shop's OpenAPI 3.1 document, with baseURL (without a
// final slash) as its server.
func Document(baseURL string) []byte {
	quoted, err := json.Marshal(baseURL)
	if err != nil { // a string always marshals
		return nil
	}
	return bytes.ReplaceAll(document, []byte(`"`+documentBase+`"`), quoted)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == "/openapi.json" {
		w.Header().Set("Content-Type", "application/json")
		//nolint:gosec // G705: Document quotes the host, and this is JSON
		_, _ = w.Write(Document("http://" + r.Host)) // the caller has gone if this fails
		return
	}
	if subtle.ConstantTimeCompare([]byte(r.Header.Get(KeyHeader)), s.key) != 1 {
		writeError(w, refuse(http.StatusUnauthorized, "unauthorized", "Send a valid API key in the "+KeyHeader+" header."))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// routes is the shop's whole interface, in the order of the document.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders", handle(s, s.listOrders))
	mux.HandleFunc("POST /orders", handle(s, s.createOrder))
	mux.HandleFunc("GET /orders/{order_id}", handle(s, s.getOrder))
	mux.HandleFunc("PATCH /orders/{order_id}", handle(s, s.updateOrder))
	mux.HandleFunc("POST /orders/{order_id}/cancel", handle(s, s.cancelOrder))

	mux.HandleFunc("GET /customers", handle(s, s.listCustomers))
	mux.HandleFunc("POST /customers", handle(s, s.createCustomer))
	mux.HandleFunc("GET /customers/{customer_id}", handle(s, s.getCustomer))
	mux.HandleFunc("PATCH /customers/{customer_id}", handle(s, s.updateCustomer))
	mux.HandleFunc("DELETE /customers/{customer_id}", handle(s, s.deleteCustomer))

	mux.HandleFunc("GET /refunds", handle(s, s.listRefunds))
	mux.HandleFunc("POST /refunds", handle(s, s.createRefund))
	mux.HandleFunc("GET /refunds/{refund_id}", handle(s, s.getRefund))

	mux.HandleFunc("GET /tickets", handle(s, s.listTickets))
	mux.HandleFunc("POST /tickets", handle(s, s.createTicket))
	mux.HandleFunc("GET /tickets/{ticket_id}", handle(s, s.getTicket))
	mux.HandleFunc("POST /tickets/{ticket_id}/comments", handle(s, s.commentTicket))
	mux.HandleFunc("POST /tickets/{ticket_id}/close", handle(s, s.closeTicket))

	mux.HandleFunc("GET /messages", handle(s, s.listMessages))
	mux.HandleFunc("POST /messages", handle(s, s.sendMessage))

	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, refuse(http.StatusNotFound, "not_found", "There is no such path or method. See /openapi.json."))
	})
	return mux
}
