// Package api is the HTTP surface. It has the table of routes, with the credential that
// each takes, and one thin handler for each operation: decode, call one domain method,
// encode. It contains no rule of the domain and no query. Handlers belong to an area, such as
// Maps or customers: areas.go has a struct for each, with the services that its handlers call,
// and the names of its files begin with the area. The endpoints of executions ask the areas by a
// registry of kinds (execution_kinds.go). What handlers share is in package wire.
package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
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

// Server serves the API: the checks that each call passes, and the areas that answer it.
type Server struct {
	handler http.Handler
	// parameters are the query parameters of each route; see documentedParameters.
	parameters map[string][]string
	ready      func(context.Context) (warnings []string, err error)
	uploads    *uploads
	bodies     *share.Pool
	waits      *share.Pool

	gate        *gate
	suggestions suggestions
	repeats     repeats

	accounts   *accountHandlers
	tenant     *tenantHandlers
	policies   *policyHandlers
	approvals  *approvalHandlers
	actions    *actionHandlers
	executions *executionHandlers
	maps       *mapHandlers
	agents     *agentHandlers
	providers  *providerHandlers
	customers  *customerHandlers
	records    *recordHandlers
}

// New builds the router; every collaborator is required.
func New(d Deps) (*Server, error) {
	if missing := d.missing(); len(missing) > 0 {
		return nil, fmt.Errorf("api: these collaborators are missing: %s", strings.Join(missing, ", "))
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	parameters, err := documentedParameters(openapiJSON)
	if err != nil {
		return nil, err
	}
	s := assemble(d)
	s.parameters = parameters
	s.handler = wire.Middleware(d.Log, d.Now, d.Proxies, d.Addresses, s.router())
	return s, nil
}

// missing returns the names of the collaborators that a server cannot do without and does not have.
func (d Deps) missing() (names []string) {
	for _, required := range []struct {
		name string
		has  bool
	}{
		{"Auth", d.Auth != nil},
		{"Revocations", d.Revocations != nil},
		{"Log", d.Log != nil},
		{"Ready", d.Ready != nil},
		{"Addresses", d.Addresses != nil},
		{"Accounts", d.Accounts != nil},
		{"Keys", d.Keys != nil},
		{"Catalog", d.Catalog != nil},
		{"Tooling", d.Tooling != nil},
		{"Providers", d.Providers != nil},
		{"Importer", d.Importer != nil},
		{"Credentials", d.Credentials != nil},
		{"Runs", d.Runs != nil},
		{"Files", d.Files != nil},
		{"Approvals", d.Approvals != nil},
		{"Policies", d.Policies != nil},
		{"Audit", d.Audit != nil},
		{"Events", d.Events != nil},
		{"Webhooks", d.Webhooks != nil},
		{"Creations", d.Creations != nil},
		{"Customers", d.Customers != nil},
		{"Facts", d.Facts != nil},
		{"RateLimits", d.RateLimits != nil},
		{"Budgets", d.Budgets != nil},
		{"KillSwitches", d.KillSwitches != nil},
		{"ModelProviders", d.ModelProviders != nil},
		{"Maps", d.Maps != nil},
		{"Agents", d.Agents != nil},
		{"Advice", d.Advice != nil},
		{"Authoring", d.Authoring != nil},
		{"Executions", d.Executions != nil},
		{"Conversations", d.Conversations != nil},
		{"GoalChanges", d.GoalChanges != nil},
		{"AgentSessions", d.AgentSessions != nil},
		{"Sandboxes", d.Sandboxes != nil},
	} {
		if !required.has {
			names = append(names, required.name)
		}
	}
	return names
}

// assemble gives each area the services that its handlers call.
func assemble(d Deps) *Server {
	g := &gate{auth: d.Auth, revocations: d.Revocations, runs: d.Runs, rateLimits: d.RateLimits}
	streams := &liveStreams{gate: g, now: d.Now}
	suggest := suggestions{catalog: d.Catalog}
	answers, burst := newAnswers(), orNothing(d.Burst)
	s := &Server{
		ready: d.Ready, uploads: newUploads(d.Frugal), bodies: newBodies(), waits: newWaits(d.Connections),
		gate: g, suggestions: suggest, repeats: repeats{creations: d.Creations},
		accounts:  &accountHandlers{accounts: d.Accounts, keys: d.Keys},
		tenant:    &tenantHandlers{webhooks: d.Webhooks, rateLimits: d.RateLimits, budgets: d.Budgets, killSwitches: d.KillSwitches, suggestions: suggest},
		policies:  &policyHandlers{policies: d.Policies, burst: burst},
		approvals: &approvalHandlers{approvals: d.Approvals, suggestions: suggest, now: d.Now},
		actions: &actionHandlers{
			runs: d.Runs, files: d.Files, sandboxes: d.Sandboxes, events: d.Events, streams: streams, suggestions: suggest,
			answers: answers, judging: newJudging(), burst: burst, log: d.Log, now: d.Now,
		},
		agents: &agentHandlers{
			agents: d.Agents, advice: d.Advice, agentSessions: d.AgentSessions, conversations: d.Conversations, goalChanges: d.GoalChanges,
			customers: d.Customers, events: d.Events, streams: streams, now: d.Now,
		},
		customers: &customerHandlers{
			customers: d.Customers, facts: d.Facts, runs: d.Runs, executions: d.Executions, conversations: d.Conversations, agentSessions: d.AgentSessions,
			approvals: d.Approvals, events: d.Events, webhooks: d.Webhooks, credentials: d.Credentials, answers: answers,
			exports: make(chan struct{}, exportsAtOnce), now: d.Now,
		},
		records: &recordHandlers{events: d.Events, audit: d.Audit, streams: streams, now: d.Now},
	}
	s.providers = &providerHandlers{
		catalog: d.Catalog, tooling: d.Tooling, providers: d.Providers, importer: d.Importer, credentials: d.Credentials,
		modelProviders: d.ModelProviders, suggestions: suggest, uploads: s.uploads,
	}
	s.maps = &mapHandlers{
		maps: d.Maps, authoring: d.Authoring, executions: d.Executions, approvals: d.Approvals, events: d.Events, streams: streams, now: d.Now,
	}
	s.executions = &executionHandlers{actions: s.actions, maps: s.maps, agents: s.agents, records: s.records, now: d.Now}
	return s
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
	s.accounts.mountMailPages(mux)
	return mux
}
