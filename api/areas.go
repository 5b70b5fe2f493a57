package api

import (
	"log/slog"
	"time"

	"agentruntime/internal/base/share"
)

// The areas of the API. Each has a struct with the handlers of its endpoints, which contains
// only the services that they call. The table in routes.go joins them.

// accountHandlers are sign-up, sessions, mailed links, users and API keys.
type accountHandlers struct {
	accounts Accounts
	keys     Keys
}

// tenantHandlers are what a tenant sets for all its calls: webhooks, rate limits, budgets and kill
// switches.
type tenantHandlers struct {
	webhooks     Webhooks
	rateLimits   RateLimits
	budgets      Budgets
	killSwitches KillSwitches
	suggestions  suggestions
}

// policyHandlers are policies and masking.
type policyHandlers struct {
	policies Policies
	burst    func() (done func())
}

// approvalHandlers are approvals and grants.
type approvalHandlers struct {
	approvals   Approvals
	suggestions suggestions
	now         func() time.Time
}

// actionHandlers run verbs, judge calls, and return results and files.
type actionHandlers struct {
	runs        Runs
	files       Files
	sandboxes   Sandboxes
	events      Events
	streams     *liveStreams
	suggestions suggestions
	answers     *share.Pool
	judging     *share.Pool
	burst       func() (done func())
	log         *slog.Logger
	now         func() time.Time
}

// executionHandlers are the endpoints of all executions, whatever their kind. The areas of the kinds
// know what to do with one; see executionKind.
type executionHandlers struct {
	actions *actionHandlers
	maps    *mapHandlers
	agents  *agentHandlers
	records *recordHandlers
	now     func() time.Time
}

// mapHandlers are Maps, their versions and their executions.
type mapHandlers struct {
	maps       Maps
	authoring  Authoring
	executions Executions
	approvals  Approvals
	events     Events
	streams    *liveStreams
	now        func() time.Time
}

// agentHandlers are agents, their sessions, messages and goals.
type agentHandlers struct {
	agents        Agents
	advice        Advice
	agentSessions AgentSessions
	conversations Conversations
	goalChanges   GoalChanges
	customers     Customers
	events        Events
	streams       *liveStreams
	now           func() time.Time
}

// providerHandlers are the catalog, imports, credentials and the providers of models.
type providerHandlers struct {
	catalog        Catalog
	tooling        Tooling
	providers      Providers
	importer       Importer
	credentials    Credentials
	modelProviders ModelProviders
	suggestions    suggestions
	uploads        *uploads
}

// customerHandlers are customers, what is remembered about them, and their exports. An export reads
// from all services that store something about a customer.
type customerHandlers struct {
	customers     Customers
	facts         Facts
	runs          Runs
	executions    Executions
	conversations Conversations
	agentSessions AgentSessions
	approvals     Approvals
	events        Events
	webhooks      Webhooks
	credentials   Credentials
	answers       *share.Pool
	exports       chan struct{} // the turns of exports
	now           func() time.Time
}

// recordHandlers are the events and the audit trail.
type recordHandlers struct {
	events  Events
	audit   Audit
	streams *liveStreams
	now     func() time.Time
}
