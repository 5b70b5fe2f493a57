// Package api is the HTTP surface. It has the table of routes, with the credential that
// each takes, and one thin handler for each operation: decode, call one domain method,
// encode. It contains no rule of the domain and no query. What handlers share is in
// package wire.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"agentruntime/api/wire"
	"agentruntime/internal/base/share"
	"agentruntime/internal/tenant/auth"
)

// Authenticator returns the principal of a secret that a caller presents. Both methods
// refuse with a fault.
type Authenticator interface {
	Key(ctx context.Context, raw string) (auth.Principal, error)
	Token(ctx context.Context, raw string) (auth.Principal, error)
}

// Revocations ends the requests of a key that is revoked while they run.
type Revocations interface {
	// Bind returns a context that is cancelled, with the fault API_KEY_REVOKED as
	// its cause, when the key is revoked; stop releases it.
	Bind(ctx context.Context, p auth.Principal) (bound context.Context, stop func())
}

// Deps are the collaborators of the handlers.
type Deps struct {
	Auth        Authenticator
	Revocations Revocations
	Log         *slog.Logger
	// Ready reports why the process cannot serve, nil when it can. Then warnings say what
	// operators should do.
	Ready func(context.Context) (warnings []string, err error)
	Now   func() time.Time
	// Proxies are believed about the address of a caller; nil means none.
	Proxies wire.Proxies
	// Addresses limit the requests without a valid credential.
	Addresses wire.Addresses

	Accounts    Accounts
	Keys        Keys
	Catalog     Catalog
	Tooling     Tooling
	Providers   Providers
	Importer    Importer
	Credentials Credentials
	Runs        Runs
	Files       Files
	Approvals   Approvals
	Policies    Policies
	Audit       Audit
	Events      Events
	Webhooks    Webhooks
	Creations   Creations
	Customers   Customers
	Facts       Facts
	RateLimits  RateLimits
	Budgets     Budgets

	KillSwitches   KillSwitches
	ModelProviders ModelProviders

	Maps       Maps
	Agents     Agents
	Advice     Advice
	Authoring  Authoring
	Executions Executions
	// Conversations are the messages to agents.
	Conversations Conversations
	// GoalChanges are what dry runs of goals would change.
	GoalChanges GoalChanges
	// AgentSessions are the sessions that these make.
	AgentSessions AgentSessions
	// Sandboxes evaluate the programs that cut results.
	Sandboxes Sandboxes
	// Connections is how many callers the process takes at once; 0 means 4,096. Those that wait have a part.
	Connections int
	// Frugal has the process use less memory until done is called. It is called for each body and
	// document that is large. Nil changes nothing.
	Frugal func() (done func())
	// Burst is Frugal for calls that take milliseconds. Nil changes nothing.
	Burst func() (done func())
}

// Server serves the API.
type Server struct {
	deps    Deps
	handler http.Handler
	// parameters are the query parameters of each route; see documentedParameters.
	parameters map[string][]string
	uploads    *uploads
	bodies     *share.Pool
	waits      *share.Pool
	answers    *share.Pool
	judging    *share.Pool
	burst      func() (done func())
	exports    chan struct{} // the turns of exports of customers
}

// New builds the router; every collaborator is required.
func New(d Deps) (*Server, error) {
	switch {
	case d.Auth == nil, d.Revocations == nil, d.Log == nil, d.Ready == nil, d.Addresses == nil:
		return nil, errors.New("api: authenticator, revocations, log, readiness and addresses are required")
	case d.Accounts == nil, d.Keys == nil, d.Catalog == nil, d.Tooling == nil, d.Providers == nil, d.Importer == nil, d.Credentials == nil, d.Runs == nil, d.Files == nil, d.Approvals == nil, d.Policies == nil, d.Audit == nil, d.Events == nil, d.Webhooks == nil, d.Creations == nil, d.RateLimits == nil, d.Maps == nil, d.Agents == nil, d.Advice == nil, d.Authoring == nil, d.Executions == nil, d.Conversations == nil, d.GoalChanges == nil, d.AgentSessions == nil, d.Sandboxes == nil:
		return nil, errors.New("api: a service is missing")
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	parameters, err := documentedParameters(openapiJSON)
	if err != nil {
		return nil, err
	}
	s := &Server{deps: d, parameters: parameters, uploads: newUploads(d.Frugal), bodies: newBodies(), waits: newWaits(d.Connections), answers: newAnswers(), judging: newJudging(), burst: orNothing(d.Burst), exports: make(chan struct{}, exportsAtOnce)}
	s.handler = wire.Middleware(d.Log, d.Now, d.Proxies, d.Addresses, s.router())
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

func (s *Server) router() http.Handler {
	mux := chi.NewRouter()
	mux.Use(wire.StorablePath)
	mux.NotFound(wire.Respond(wire.NotFound))
	mux.MethodNotAllowed(wire.Respond(wire.MethodNotAllowed))
	mux.Method(http.MethodGet, "/healthz", wire.Respond(healthz))
	mux.Method(http.MethodGet, "/readyz", wire.Respond(s.readyz))
	for _, rt := range s.routes() {
		mux.Method(rt.method, rt.path, s.guarded(rt))
	}
	mountDocs(mux)
	s.mountMailPages(mux)
	return mux
}
