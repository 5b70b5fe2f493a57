package access

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// accepts says which credentials an endpoint takes.
type accepts int

const (
	nothing     accepts = iota // public: credentials are not looked at
	keyOnly                    // a JWT is 401
	either                     // the key counts where both are sent
	fromServers                // as either, but no key with agent_id or allowed_origins
	userOnly                   // a genuine key is 403
	triggers                   // as either, but a key needs one of several permissions
	messages                   // as keyOnly, and a key of another agent is refused
)

// roles are those of the users who may, "" where none may.
type roles string

const (
	noUser   roles = ""
	owners   roles = "owner"
	admins   roles = "owner admin"
	deciders roles = "owner admin approver"
	anyRole  roles = "owner admin approver member"
)

func (r roles) include(role string) bool { return slices.Contains(strings.Fields(string(r)), role) }

// endpoint is one row of what was decided on credentials per endpoint.
type endpoint struct {
	accepts accepts
	roles   roles
	// permission is what a key needs; "" means that any active key will do.
	permission string
	// path and body make a call that does nothing, and admitted is the answer of the
	// endpoint itself to it, once the credential is past.
	path, body, admitted string
}

const (
	someID       = "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90"
	badBody      = "400 VALIDATION_ERROR"
	noExecution  = "404 EXECUTION_NOT_FOUND"
	noProvider   = "404 PROVIDER_NOT_FOUND"
	noCredential = "404 CREDENTIAL_NOT_FOUND"
	noAPIKey     = "404 API_KEY_NOT_FOUND"
	noSuchUser   = "404 USER_NOT_FOUND"
	noPolicy     = "404 POLICY_NOT_FOUND"
	noWebhook    = "404 WEBHOOK_NOT_FOUND"
	noMap        = "404 MAP_NOT_FOUND"
	noAgent      = "404 AGENT_NOT_FOUND"
	aMap         = `{"schema_version":"1","name":"m","steps":[]}`
	aPolicy      = `{"name":"p","action":{"type":"block"}}`
)

// decided lists the whole surface. It is written from what was decided, not from
// the code: a route that is missing here fails the test.
func decided() map[string]endpoint {
	all := map[string]endpoint{
		"POST /v1/policies/{id}/versions/{version}/restore": {either, admins, "policies:manage", "/v1/policies/" + someID + "/versions/1/restore", "", noPolicy},

		"POST /v1/maps":                        {either, admins, "maps:manage", "/v1/maps", "{}", "422 INVALID_MAP"},
		"GET /v1/maps":                         {either, anyRole, "maps:manage", "/v1/maps", "", "200 "},
		"POST /v1/maps/validate":               {either, anyRole, "maps:manage", "/v1/maps/validate", "{}", "200 "},
		"GET /v1/maps/{id}":                    {either, anyRole, "maps:manage", "/v1/maps/" + someID, "", noMap},
		"PUT /v1/maps/{id}":                    {either, admins, "maps:manage", "/v1/maps/" + someID, aMap, noMap},
		"DELETE /v1/maps/{id}":                 {either, admins, "maps:manage", "/v1/maps/" + someID, "", noMap},
		"GET /v1/maps/{id}/versions":           {either, anyRole, "maps:manage", "/v1/maps/" + someID + "/versions", "", noMap},
		"GET /v1/maps/{id}/versions/{version}": {either, anyRole, "maps:manage", "/v1/maps/" + someID + "/versions/1", "", noMap},
		"POST /v1/maps/{id}/publish":           {either, admins, "maps:manage", "/v1/maps/" + someID + "/publish", "", noMap},
		"POST /v1/maps/{id}/trigger":           {triggers, anyRole, "maps:trigger", "/v1/maps/" + someID + "/trigger", "{}", noMap},
		"GET /v1/maps/{id}/graph":              {either, anyRole, "maps:manage", "/v1/maps/" + someID + "/graph", "", noMap},

		"POST /v1/agents/{id}/message": {messages, noUser, "agents:message", "/v1/agents/" + someID + "/message", "{}", badBody},
		"POST /v1/agents/{id}/goals":   {messages, noUser, "agents:message", "/v1/agents/" + someID + "/goals", "{}", badBody},

		"GET /healthz":          {nothing, noUser, "", "/healthz", "", "200 "},
		"GET /readyz":           {nothing, noUser, "", "/readyz", "", "200 "},
		"POST /v1/auth/signup":  {nothing, noUser, "", "/v1/auth/signup", "{}", badBody},
		"POST /v1/auth/login":   {nothing, noUser, "", "/v1/auth/login", "{}", badBody},
		"POST /v1/auth/refresh": {nothing, noUser, "", "/v1/auth/refresh", "{}", badBody},

		"POST /v1/auth/resend-verification": {nothing, noUser, "", "/v1/auth/resend-verification", "{}", badBody},
		"POST /v1/auth/verify-email":        {nothing, noUser, "", "/v1/auth/verify-email", "{}", badBody},
		"POST /v1/auth/forgot-password":     {nothing, noUser, "", "/v1/auth/forgot-password", "{}", badBody},
		"POST /v1/auth/reset-password":      {nothing, noUser, "", "/v1/auth/reset-password", "{}", badBody},
		"POST /v1/auth/change-email":        {userOnly, anyRole, "", "/v1/auth/change-email", "{}", badBody},

		"POST /v1/auth/accept-invitation": {nothing, noUser, "", "/v1/auth/accept-invitation", "{}", badBody},

		"GET /v1/runtime/actions/catalog":             {keyOnly, noUser, "actions:catalog", "/v1/runtime/actions/catalog", "", "200 "},
		"GET /v1/runtime/actions/catalog/{verb}":      {keyOnly, noUser, "actions:catalog", "/v1/runtime/actions/catalog/no:verb", "", "404 VERB_NOT_FOUND"},
		"POST /v1/runtime/actions/run":                {keyOnly, noUser, "actions:run", "/v1/runtime/actions/run", "{}", badBody},
		"POST /v1/runtime/governance/evaluate":        {keyOnly, noUser, "actions:run", "/v1/runtime/governance/evaluate", "{}", badBody},
		"GET /v1/results/{id}":                        {either, anyRole, "actions:run", "/v1/results/none", "", noExecution},
		"GET /v1/executions":                          {either, anyRole, "", "/v1/executions", "", "200 "},
		"GET /v1/executions/{id}":                     {either, anyRole, "", "/v1/executions/none", "", noExecution},
		"GET /v1/executions/{id}/files/{file}":        {either, anyRole, "", "/v1/executions/none/files/" + someID, "", noExecution},
		"GET /v1/executions/{id}/events":              {either, anyRole, "", "/v1/executions/none/events", "", noExecution},
		"GET /v1/executions/{id}/stream":              {either, anyRole, "", "/v1/executions/none/stream", "", noExecution},
		"GET /v1/executions/{id}/graph":               {either, anyRole, "", "/v1/executions/none/graph", "", noExecution},
		"GET /v1/executions/{id}/changes":             {either, anyRole, "", "/v1/executions/none/changes", "", noExecution},
		"POST /v1/executions/{id}/changes/decide":     {userOnly, deciders, "", "/v1/executions/none/changes/decide", `{"approve":"all"}`, noExecution},
		"POST /v1/executions/{id}/cancel":             {either, deciders, "", "/v1/executions/none/cancel", "", noExecution},
		"POST /v1/executions/{id}/pause":              {userOnly, deciders, "", "/v1/executions/none/pause", "", noExecution},
		"POST /v1/executions/{id}/resume":             {userOnly, deciders, "", "/v1/executions/none/resume", "", noExecution},
		"POST /v1/executions/{id}/retry":              {userOnly, deciders, "", "/v1/executions/none/retry", "{}", noExecution},
		"POST /v1/executions/{id}/signal":             {userOnly, deciders, "", "/v1/executions/none/signal", `{"name":"go"}`, noExecution},
		"POST /v1/executions/{id}/resolve":            {userOnly, admins, "", "/v1/executions/none/resolve", "{}", badBody},
		"GET /v1/approvals":                           {either, anyRole, "approvals:manage", "/v1/approvals", "", "200 "},
		"GET /v1/approvals/counts":                    {either, anyRole, "approvals:manage", "/v1/approvals/counts", "", "200 "},
		"POST /v1/approvals/batch":                    {userOnly, anyRole, "", "/v1/approvals/batch", "{}", badBody},
		"POST /v1/approvals/{id}/approve":             {userOnly, anyRole, "", "/v1/approvals/appr_" + someID + "/approve", "{}", "404 APPROVAL_NOT_FOUND"},
		"POST /v1/approvals/{id}/reject":              {userOnly, anyRole, "", "/v1/approvals/appr_" + someID + "/reject", "{}", "404 APPROVAL_NOT_FOUND"},
		"GET /v1/budgets":                             {userOnly, anyRole, "", "/v1/budgets", "", "200 "},
		"PUT /v1/budgets":                             {userOnly, admins, "", "/v1/budgets", "{}", badBody},
		"GET /v1/model-providers":                     {userOnly, anyRole, "", "/v1/model-providers", "", "200 "},
		"POST /v1/model-providers":                    {userOnly, admins, "", "/v1/model-providers", "{}", badBody},
		"GET /v1/model-providers/{id}":                {userOnly, anyRole, "", "/v1/model-providers/" + someID, "", "404 MODEL_PROVIDER_NOT_FOUND"},
		"PATCH /v1/model-providers/{id}":              {userOnly, admins, "", "/v1/model-providers/" + someID, "{}", "404 MODEL_PROVIDER_NOT_FOUND"},
		"DELETE /v1/model-providers/{id}":             {userOnly, admins, "", "/v1/model-providers/" + someID, "", "404 MODEL_PROVIDER_NOT_FOUND"},
		"GET /v1/kill-switch":                         {userOnly, anyRole, "", "/v1/kill-switch", "", "200 "},
		"POST /v1/kill-switch":                        {userOnly, admins, "", "/v1/kill-switch", "{}", badBody},
		"GET /v1/kill-switch/{id}":                    {userOnly, anyRole, "", "/v1/kill-switch/" + someID, "", "404 KILL_SWITCH_NOT_FOUND"},
		"DELETE /v1/kill-switch/{id}":                 {userOnly, admins, "", "/v1/kill-switch/" + someID, "", "404 KILL_SWITCH_NOT_FOUND"},
		"GET /v1/grants":                              {either, anyRole, "approvals:manage", "/v1/grants", "", "200 "},
		"POST /v1/grants":                             {userOnly, deciders, "", "/v1/grants", "{}", badBody},
		"GET /v1/grants/{id}":                         {either, anyRole, "approvals:manage", "/v1/grants/" + someID, "", "404 GRANT_NOT_FOUND"},
		"PATCH /v1/grants/{id}":                       {userOnly, deciders, "", "/v1/grants/" + someID, "{}", "404 GRANT_NOT_FOUND"},
		"DELETE /v1/grants/{id}":                      {userOnly, deciders, "", "/v1/grants/" + someID, "", "404 GRANT_NOT_FOUND"},
		"GET /v1/approvals/{id}":                      {either, anyRole, "approvals:manage", "/v1/approvals/appr_" + someID, "", "404 APPROVAL_NOT_FOUND"},
		"GET /v1/policies":                            {either, anyRole, "policies:manage", "/v1/policies", "", "200 "},
		"POST /v1/policies":                           {either, admins, "policies:manage", "/v1/policies", "{}", badBody},
		"GET /v1/policies/{id}":                       {either, anyRole, "policies:manage", "/v1/policies/" + someID, "", noPolicy},
		"PUT /v1/policies/{id}":                       {either, admins, "policies:manage", "/v1/policies/" + someID, aPolicy, noPolicy},
		"PATCH /v1/policies/{id}":                     {either, admins, "policies:manage", "/v1/policies/" + someID, "{}", noPolicy},
		"DELETE /v1/policies/{id}":                    {either, admins, "policies:manage", "/v1/policies/" + someID, "", noPolicy},
		"GET /v1/policies/{id}/versions":              {either, anyRole, "policies:manage", "/v1/policies/" + someID + "/versions", "", noPolicy},
		"GET /v1/policies/{id}/coverage":              {either, anyRole, "policies:manage", "/v1/policies/" + someID + "/coverage", "", noPolicy},
		"POST /v1/policies/simulate":                  {either, admins, "policies:manage", "/v1/policies/simulate", "{}", badBody},
		"GET /v1/governance/masking":                  {either, anyRole, "policies:manage", "/v1/governance/masking", "", "200 "},
		"PUT /v1/governance/masking":                  {either, admins, "policies:manage", "/v1/governance/masking", "{}", badBody},
		"GET /v1/providers":                           {either, anyRole, "providers:manage", "/v1/providers", "", "200 "},
		"POST /v1/providers":                          {either, admins, "providers:manage", "/v1/providers", "{}", badBody},
		"GET /v1/providers/{slug}":                    {either, anyRole, "providers:manage", "/v1/providers/none", "", noProvider},
		"PATCH /v1/providers/{slug}":                  {either, admins, "providers:manage", "/v1/providers/none", "{}", noProvider},
		"GET /v1/providers/{slug}/document":           {either, anyRole, "providers:manage", "/v1/providers/none/document", "", noProvider},
		"GET /v1/providers/{slug}/verbs":              {userOnly, anyRole, "", "/v1/providers/none/verbs", "", noProvider},
		"DELETE /v1/providers/{slug}":                 {userOnly, admins, "", "/v1/providers/none", "", noProvider},
		"GET /v1/credentials":                         {either, anyRole, "credentials:manage", "/v1/credentials", "", "200 "},
		"POST /v1/credentials":                        {either, admins, "credentials:manage", "/v1/credentials", "{}", badBody},
		"GET /v1/credentials/{id}":                    {either, anyRole, "credentials:manage", "/v1/credentials/" + someID, "", noCredential},
		"PATCH /v1/credentials/{id}":                  {either, admins, "credentials:manage", "/v1/credentials/" + someID, "{}", noCredential},
		"DELETE /v1/credentials/{id}":                 {either, admins, "credentials:manage", "/v1/credentials/" + someID, "", noCredential},
		"POST /v1/credentials/{id}/validate":          {either, admins, "credentials:manage", "/v1/credentials/" + someID + "/validate", "", noCredential},
		"POST /v1/credentials/{id}/rotate":            {either, admins, "credentials:manage", "/v1/credentials/" + someID + "/rotate", "{}", badBody},
		"POST /v1/customers":                          {fromServers, admins, "", "/v1/customers", "{}", badBody},
		"GET /v1/customers":                           {fromServers, anyRole, "customers:manage", "/v1/customers", "", "200 "},
		"PATCH /v1/customers/{id}":                    {fromServers, admins, "customers:manage", "/v1/customers/none", "{}", "404 CUSTOMER_NOT_FOUND"},
		"DELETE /v1/customers/{id}":                   {fromServers, admins, "customers:manage", "/v1/customers/none", "", "404 CUSTOMER_NOT_FOUND"},
		"GET /v1/customers/{id}/erasure":              {fromServers, anyRole, "customers:manage", "/v1/customers/none/erasure", "", "404 CUSTOMER_NOT_FOUND"},
		"GET /v1/customers/{id}/export":               {fromServers, admins, "customers:manage", "/v1/customers/none/export", "", "404 CUSTOMER_NOT_FOUND"},
		"POST /v1/customers/{id}/merge":               {fromServers, admins, "customers:manage", "/v1/customers/none/merge", `{"customer_id":"other"}`, "404 CUSTOMER_NOT_FOUND"},
		"GET /v1/customers/{id}/memory":               {fromServers, anyRole, "customers:manage", "/v1/customers/none/memory", "", "404 CUSTOMER_NOT_FOUND"},
		"POST /v1/customers/{id}/memory":              {fromServers, admins, "customers:manage", "/v1/customers/none/memory", `{"text":"x"}`, "404 CUSTOMER_NOT_FOUND"},
		"GET /v1/customers/{id}/memory/{fact_id}":     {fromServers, anyRole, "customers:manage", "/v1/customers/none/memory/none", "", "404 CUSTOMER_NOT_FOUND"},
		"PATCH /v1/customers/{id}/memory/{fact_id}":   {fromServers, admins, "customers:manage", "/v1/customers/none/memory/none", "{}", "404 CUSTOMER_NOT_FOUND"},
		"DELETE /v1/customers/{id}/memory/{fact_id}":  {fromServers, admins, "customers:manage", "/v1/customers/none/memory/none", "", "404 CUSTOMER_NOT_FOUND"},
		"GET /v1/customers/{id}":                      {fromServers, anyRole, "", "/v1/customers/none", "", "404 CUSTOMER_NOT_FOUND"},
		"GET /v1/audit":                               {either, admins, "audit:manage", "/v1/audit", "", "200 "},
		"GET /v1/audit/verify":                        {either, admins, "audit:manage", "/v1/audit/verify", "", "200 "},
		"GET /v1/audit/export":                        {either, admins, "audit:manage", "/v1/audit/export?format=none", "", badBody},
		"GET /v1/audit/keys":                          {either, admins, "audit:manage", "/v1/audit/keys", "", "200 "},
		"GET /v1/webhooks":                            {either, anyRole, "webhooks:manage", "/v1/webhooks", "", "200 "},
		"POST /v1/webhooks":                           {either, admins, "webhooks:manage", "/v1/webhooks", "{}", badBody},
		"GET /v1/webhooks/{id}":                       {either, anyRole, "webhooks:manage", "/v1/webhooks/" + someID, "", noWebhook},
		"PATCH /v1/webhooks/{id}":                     {either, admins, "webhooks:manage", "/v1/webhooks/" + someID, "{}", noWebhook},
		"DELETE /v1/webhooks/{id}":                    {either, admins, "webhooks:manage", "/v1/webhooks/" + someID, "", noWebhook},
		"POST /v1/webhooks/{id}/rotate-secret":        {either, admins, "webhooks:manage", "/v1/webhooks/" + someID + "/rotate-secret", "", noWebhook},
		"POST /v1/webhooks/{id}/test":                 {either, admins, "webhooks:manage", "/v1/webhooks/" + someID + "/test", "", noWebhook},
		"POST /v1/webhooks/{id}/recover":              {either, admins, "webhooks:manage", "/v1/webhooks/" + someID + "/recover", `{"since":"2026-01-01T00:00:00Z"}`, noWebhook},
		"GET /v1/webhooks/{id}/deliveries":            {either, anyRole, "webhooks:manage", "/v1/webhooks/" + someID + "/deliveries", "", noWebhook},
		"GET /v1/webhooks/{id}/deliveries/{delivery}": {either, anyRole, "webhooks:manage", "/v1/webhooks/" + someID + "/deliveries/evt_" + someID, "", noWebhook},
		"POST /v1/webhooks/{id}/deliveries/{delivery}/redeliver": {
			either, admins, "webhooks:manage", "/v1/webhooks/" + someID + "/deliveries/evt_" + someID + "/redeliver", "", noWebhook,
		},
		"GET /v1/events":                {either, anyRole, "events:read", "/v1/events", "", "200 "},
		"POST /v1/events":               {keyOnly, noUser, "events:send", "/v1/events", "{}", badBody},
		"GET /v1/events/stream":         {either, anyRole, "events:read", "/v1/events/stream?type=!", "", badBody},
		"GET /v1/webhooks/event-types":  {either, anyRole, "webhooks:manage", "/v1/webhooks/event-types", "", "200 "},
		"GET /v1/events/{id}":           {either, anyRole, "events:read", "/v1/events/evt_" + someID, "", "404 EVENT_NOT_FOUND"},
		"GET /v1/api-keys":              {userOnly, admins, "", "/v1/api-keys", "", "200 "},
		"POST /v1/api-keys":             {userOnly, admins, "", "/v1/api-keys", "{}", badBody},
		"GET /v1/api-keys/{id}":         {userOnly, admins, "", "/v1/api-keys/" + someID, "", noAPIKey},
		"PATCH /v1/api-keys/{id}":       {userOnly, admins, "", "/v1/api-keys/" + someID, "{}", noAPIKey},
		"POST /v1/api-keys/{id}/rotate": {userOnly, admins, "", "/v1/api-keys/" + someID + "/rotate", "{}", noAPIKey},
		"DELETE /v1/api-keys/{id}":      {userOnly, admins, "", "/v1/api-keys/" + someID, "", noAPIKey},
		"GET /v1/users":                 {userOnly, anyRole, "", "/v1/users", "", "200 "},
		"POST /v1/users":                {userOnly, admins, "", "/v1/users", "{}", badBody},
		"GET /v1/users/{id}":            {userOnly, anyRole, "", "/v1/users/" + someID, "", noSuchUser},
		"PATCH /v1/users/{id}":          {userOnly, admins, "", "/v1/users/" + someID, "{}", noSuchUser},
		"DELETE /v1/users/{id}":         {userOnly, admins, "", "/v1/users/" + someID, "", noSuchUser},
		"POST /v1/users/{id}/invite":    {userOnly, admins, "", "/v1/users/" + someID + "/invite", "", noSuchUser},
		"GET /v1/rate-limits":           {either, anyRole, "", "/v1/rate-limits", "", "200 "},
		"PUT /v1/rate-limits":           {userOnly, owners, "", "/v1/rate-limits", "{}", badBody},
		"GET /v1/me":                    {either, anyRole, "", "/v1/me", "", "200 "},
		"GET /v1/auth/sessions":         {userOnly, anyRole, "", "/v1/auth/sessions", "", "200 "},
		"DELETE /v1/auth/sessions":      {userOnly, anyRole, "", "/v1/auth/sessions", "", "200 "},
		"DELETE /v1/auth/sessions/{id}": {userOnly, anyRole, "", "/v1/auth/sessions/" + someID, "", "404 SESSION_NOT_FOUND"},
		"POST /v1/auth/change-password": {userOnly, anyRole, "", "/v1/auth/change-password", "{}", badBody},
		"POST /v1/auth/logout":          {userOnly, anyRole, "", "/v1/auth/logout", "", "200 "},
	}
	maps.Copy(all, decidedOfAgents())
	return all
}

// caller is one kind of credential, as it is sent and as what it is.
type caller struct {
	header http.Header

	// key is false where no X-API-Key is sent; keyError is "" for a genuine one.
	key         bool
	keyError    string
	permissions []string
	origins     []string
	narrow      bool // the key has agent_id or allowed_origins
	locked      bool // the key has agent_id

	// token is false where no JWT is sent; tokenError is "" for a genuine one.
	token      bool
	tokenError string
	role       string
	email      string // whose it is
}

// want is what was decided for a caller at an endpoint.
func (e endpoint) want(c caller) string {
	if e.accepts == fromServers {
		e.accepts = either
		if c.key && c.keyError == "" && c.narrow {
			return "403 INSUFFICIENT_PERMISSIONS"
		}
	}
	if e.accepts == triggers {
		e.accepts = either
		if c.mayTrigger() {
			e.permission = ""
		}
	}
	if e.accepts == messages {
		e.accepts = keyOnly
		if c.locked {
			e.admitted = "403 AGENT_LOCKED"
		}
	}
	origin := c.header.Get("Origin")
	switch {
	case e.accepts == nothing:
		return e.admitted
	case c.key && (e.accepts == keyOnly || e.accepts == either): // the key counts, whatever else is sent
		switch {
		case c.keyError != "":
			return "401 " + c.keyError
		case e.permission != "" && !slices.Contains(c.permissions, e.permission):
			return "403 INSUFFICIENT_PERMISSIONS"
		case origin != "" && !slices.Contains(c.origins, origin):
			return "403 ORIGIN_NOT_ALLOWED"
		}
		return e.admitted
	case c.token && (e.accepts == userOnly || e.accepts == either):
		switch {
		case c.tokenError != "":
			return "401 " + c.tokenError
		case !e.roles.include(c.role):
			return "403 INSUFFICIENT_PERMISSIONS"
		}
		return e.admitted
	case c.key && e.accepts == userOnly:
		if c.keyError != "" {
			return "401 " + c.keyError
		}
		return "403 INSUFFICIENT_PERMISSIONS"
	}
	return "401 UNAUTHENTICATED"
}

// mayTrigger reports whether a key may trigger Maps without maps:trigger.
func (c caller) mayTrigger() bool {
	return !c.narrow && (slices.Contains(c.permissions, "actions:run") || slices.Contains(c.permissions, "agents:message"))
}

// needs names what a caller who lacks it is told: a key's permission, or the roles.
func (e endpoint) needs(c caller) []string {
	switch {
	case c.key && e.accepts == userOnly && !c.token:
		return []string{"JWT"}
	case c.key && e.accepts != userOnly:
		return []string{e.permission}
	}
	return strings.Fields(string(e.roles))
}

const (
	listedOrigin   = "https://app.example.com"
	unlistedOrigin = "https://evil.example.com"
)

// callers makes every kind of credential of tenant A.
func (w *world) callers(t *testing.T) map[string]caller {
	t.Helper()
	out := map[string]caller{"nothing": {header: headers()}}
	w.addKeys(t, out)
	good := w.a.token
	for role := range strings.FieldsSeq(string(anyRole)) {
		p := w.a.people[role]
		out[role+"'s token"] = caller{header: bearer(p.token), token: true, role: role, email: p.email}
	}
	out["token"] = out["owner's token"]
	fromPage := out["token"]
	fromPage.header = both(fromPage.header, headers("Origin", unlistedOrigin))
	out["token from a page"] = fromPage
	out["removed user's token"] = caller{header: bearer(w.a.people["removed"].token), token: true, tokenError: "INVALID_TOKEN"}
	invitation := w.a.people["invited"].token
	out["invitation as token"] = caller{header: bearer(invitation), token: true, tokenError: "INVALID_TOKEN"}
	out["invitation as key"] = caller{header: headers("X-API-Key", invitation), key: true, keyError: "INVALID_API_KEY"}
	for name, token := range w.badTokens(t) {
		out[name] = caller{header: bearer(token[0]), token: true, tokenError: token[1]}
	}
	out["basic authorization"] = caller{header: headers("Authorization", "Basic dXNlcjpwYXNz")}
	out["token without scheme"] = caller{header: headers("Authorization", good)}
	out["empty bearer"] = caller{header: headers("Authorization", "Bearer")}

	// Both at once: the key counts where keys are taken, else the token.
	runtime, revoked := out["runtime key"], out["revoked key"]
	expired := out["token expired"]
	out["runtime key and token"] = together(runtime, out["token"])
	out["runtime key and expired token"] = together(runtime, expired)
	out["revoked key and token"] = together(revoked, out["token"])
	out["revoked key and expired token"] = together(revoked, expired)
	out["unknown key and token"] = together(out["unknown key"], out["token"])
	out["agent key and token"] = together(out["agent key"], out["token"])
	out["runtime key and member's token"] = together(runtime, out["member's token"])
	return out
}

func (w *world) addKeys(t *testing.T, out map[string]caller) {
	t.Helper()
	add := func(name string, body map[string]any, permissions ...string) {
		body["name"] = name
		if permissions != nil {
			body["permissions"] = permissions
		}
		secret, _ := w.a.newKey(t, body)
		c := caller{header: headers("X-API-Key", secret), key: true, permissions: permissions}
		if permissions == nil {
			c.permissions = []string{"agents:message"} // what a key has that asks for none
		}
		c.origins, _ = body["allowed_origins"].([]string)
		c.locked = body["agent_id"] != nil
		c.narrow = c.locked || len(c.origins) > 0
		out[name] = c
	}
	add("agent key", map[string]any{})
	add("agent key locked to an agent", map[string]any{"agent_id": w.a.agent, "identity_mode": "required"})
	add("runtime key", map[string]any{}, "actions:run", "actions:catalog")
	add("key that only runs", map[string]any{}, "actions:run")
	add("key that only lists", map[string]any{}, "actions:catalog")
	add("maps key", map[string]any{}, "maps:trigger")
	add("maps key locked to an agent", map[string]any{"agent_id": w.a.agent, "identity_mode": "required"}, "maps:trigger")
	add("key that only talks to agents", map[string]any{}, "agents:message")
	add("agents key locked to an agent", map[string]any{"agent_id": w.a.agent, "identity_mode": "required"}, "agents:message")
	add("key that only sends events", map[string]any{}, "events:send")
	add("key that only reads events", map[string]any{}, "events:read")
	resources := []string{"agents", "approvals", "audit", "credentials", "customers", "documents", "maps", "policies", "providers", "webhooks"}
	var all []string
	for _, r := range resources {
		add(r+" manager's key", map[string]any{}, r+":manage")
		if r != "agents" && r != "maps" { // these lead to calls, and do not mix with the others
			all = append(all, r+":manage")
		}
	}
	add("key with every manage permission that makes no calls", map[string]any{}, all...)
	add("key with every permission that makes calls", map[string]any{}, "actions:run", "actions:catalog", "agents:message", "agents:manage",
		"maps:trigger", "maps:manage", "events:send", "events:read", "approvals:manage", "audit:manage", "documents:manage", "webhooks:manage")
	pages := map[string]any{"allowed_origins": []string{listedOrigin}}
	add("key of a page", pages, "actions:run", "actions:catalog", "approvals:manage")
	page := out["key of a page"]
	for name, origin := range map[string]string{
		"key of a page, there": listedOrigin, "key of a page, elsewhere": unlistedOrigin,
		"key of a page, from a file": "null", "key of a page, other port": listedOrigin + ":8443",
	} {
		c := page
		c.header = both(page.header, headers("Origin", origin))
		out[name] = c
	}
	server := out["runtime key"]
	out["runtime key as a token"] = caller{header: bearer(server.header.Get("X-API-Key")), key: true, permissions: server.permissions}
	server.header = both(server.header, headers("Origin", listedOrigin))
	out["runtime key from a page"] = server

	secret, id := w.a.newKey(t, map[string]any{"name": "revoked", "permissions": []string{"actions:run", "actions:catalog", "approvals:manage"}})
	require.Equal(t, http.StatusOK, w.a.User.Do(http.MethodDelete, "/v1/api-keys/"+id, nil).Status)
	refused := func(key, code string) caller {
		return caller{header: headers("X-API-Key", key), key: true, keyError: code}
	}
	out["revoked key"] = refused(secret, "API_KEY_REVOKED")
	out["unknown key"] = refused(unknownKey(), "INVALID_API_KEY")
	out["malformed key"] = refused("ark_none", "INVALID_API_KEY")
	out["mistyped key"] = refused(w.a.Runtime.Key[:len(w.a.Runtime.Key)-1]+"!", "INVALID_API_KEY")
	out["key in lower case"] = refused(strings.ToLower(w.a.Runtime.Key), "INVALID_API_KEY")
	out["token as key"] = refused(w.a.token, "INVALID_API_KEY")
}

func both(a, b http.Header) http.Header {
	out := a.Clone()
	maps.Copy(out, b)
	return out
}

func together(key, token caller) caller {
	key.header = both(key.header, token.header)
	key.token, key.tokenError, key.role, key.email = true, token.tokenError, token.role, token.email
	return key
}

func TestEndpointWithEachCredentialAnswersAsDecided(t *testing.T) {
	t.Parallel()
	w, table := theWorld(t), decided()
	for _, op := range w.doc.ops {
		require.Contains(t, table, op.id(), "a route that nothing was decided for")
	}
	require.Len(t, table, len(w.doc.ops), "something was decided for a route that is not there")
	callers := w.callers(t)
	cells := 0
	for id, e := range table {
		method, _, _ := strings.Cut(id, " ")
		for name, c := range callers {
			if id == "POST /v1/auth/logout" && c.token && c.tokenError == "" {
				c.header = both(c.header, bearer(w.LogIn(c.email, w.a.Password).Token)) // it ends
			}
			r := request{method: method, path: e.path, header: c.header}
			if e.body != "" {
				r.body = []byte(e.body)
			}
			got := w.call(t, r)
			want := e.want(c)
			require.Equal(t, want, outcome(got.Status, code(t, got)), "%s with %s: %s", id, name, got.Body)
			if want == "403 INSUFFICIENT_PERMISSIONS" {
				for _, missing := range e.needs(c) {
					require.Contains(t, message(t, got), missing, "%s with %s does not name what is missing", id, name)
				}
			}
			if origin := c.header.Get("Origin"); c.key && c.keyError == "" && (e.accepts == keyOnly || e.accepts == either || e.accepts == fromServers || e.accepts == triggers || e.accepts == messages) && slices.Contains(c.origins, origin) {
				require.Equal(t, origin, got.Header.Get("Access-Control-Allow-Origin"), "%s with %s", id, name)
			} else {
				require.Empty(t, got.Header.Get("Access-Control-Allow-Origin"), "%s with %s", id, name)
			}
			cells++
		}
	}
	t.Logf("%d cells: %d endpoints, %d kinds of credential", cells, len(table), len(callers))
}

// Refusals come in one order: who calls, whether they may, from where, what the body is
// like, and only then whether the thing exists.
func TestRefusalsComeInOneOrder(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	calls, _ := w.a.newKey(t, map[string]any{"name": "calls", "permissions": []string{"actions:run"}, "allowed_origins": []string{listedOrigin}})
	manages, _ := w.a.newKey(t, map[string]any{"name": "manages", "permissions": []string{"credentials:manage", "providers:manage"}, "allowed_origins": []string{listedOrigin}})
	agent, _ := w.a.newKey(t, map[string]any{"name": "agent", "allowed_origins": []string{listedOrigin}})
	large := strings.Repeat(" ", 1<<20) + `{}`
	for _, path := range []string{
		"POST /v1/runtime/actions/run", "POST /v1/runtime/governance/evaluate", "POST /v1/providers",
		"POST /v1/credentials", "PATCH /v1/credentials/" + someID, "PATCH /v1/credentials/none",
		"POST /v1/credentials/" + someID + "/rotate", "POST /v1/credentials/none/rotate",
	} {
		method, path, _ := strings.Cut(path, " ")
		page := manages
		if strings.HasPrefix(path, "/v1/runtime/") {
			page = calls
		}
		send := func(body string, h http.Header) string {
			a := w.call(t, request{method: method, path: path, body: []byte(body), header: h})
			return outcome(a.Status, code(t, a))
		}
		t.Run(method+" "+path, func(t *testing.T) {
			t.Parallel()
			fromElsewhere := headers("Origin", unlistedOrigin)
			text := headers("Content-Type", "text/plain")
			require.Equal(t, "401 UNAUTHENTICATED", send("{", both(fromElsewhere, text)))
			require.Equal(t, "401 INVALID_API_KEY", send("{", both(both(fromElsewhere, text), headers("X-API-Key", unknownKey()))))
			require.Equal(t, "403 INSUFFICIENT_PERMISSIONS", send("{", both(both(fromElsewhere, text), headers("X-API-Key", agent))))
			require.Equal(t, "403 ORIGIN_NOT_ALLOWED", send("{", both(both(fromElsewhere, text), headers("X-API-Key", page))))
			mine := headers("X-API-Key", page)
			require.Equal(t, "415 UNSUPPORTED_MEDIA_TYPE", send("{", both(mine, text)))
			if path != "/v1/providers" { // which takes more
				require.Equal(t, "413 PAYLOAD_TOO_LARGE", send(large, mine))
			}
			require.Equal(t, "400 INVALID_JSON", send("{", mine))
			require.Equal(t, "400 VALIDATION_ERROR", send(`{"verb":7,"label":7,"data":7,"slug":7}`, mine))
		})
	}
	t.Run("role before body", func(t *testing.T) {
		t.Parallel()
		member := both(bearer(w.a.people["member"].token), headers("Content-Type", "text/plain"))
		for _, path := range []string{"/v1/users", "/v1/api-keys", "/v1/providers", "/v1/credentials", "/v1/executions/none/resolve"} {
			a := w.call(t, request{method: http.MethodPost, path: path, header: member, body: []byte("{")})
			require.Equal(t, "403 INSUFFICIENT_PERMISSIONS", outcome(a.Status, code(t, a)), path)
		}
	})
	t.Run("body before unknown verb", func(t *testing.T) {
		t.Parallel()
		a := w.call(t, request{
			method: http.MethodPost, path: "/v1/runtime/actions/run", header: headers("X-API-Key", w.a.Runtime.Key),
			body: []byte(`{"verb":"no:verb","args":[]}`),
		})
		require.Equal(t, badBody, outcome(a.Status, code(t, a)))
		a = w.call(t, request{
			method: http.MethodPost, path: "/v1/runtime/actions/run", header: headers("X-API-Key", w.a.Runtime.Key),
			body: []byte(`{"verb":"no:verb","args":{}}`),
		})
		require.Equal(t, "404 VERB_NOT_FOUND", outcome(a.Status, code(t, a)))
	})
	t.Run("body before unknown execution", func(t *testing.T) {
		t.Parallel()
		path := "/v1/executions/" + uuid.NewString() + "/resolve"
		a := w.call(t, request{method: http.MethodPost, path: path, header: bearer(w.a.token), body: []byte(`{"outcome":"maybe","reason":"r"}`)})
		require.Equal(t, badBody, outcome(a.Status, code(t, a)))
		a = w.call(t, request{method: http.MethodPost, path: path, header: bearer(w.a.token), body: []byte(`{"outcome":"failed","reason":"r"}`)})
		require.Equal(t, noExecution, outcome(a.Status, code(t, a)))
	})
	t.Run("a bad credential at an unknown id", func(t *testing.T) {
		t.Parallel()
		a := w.call(t, request{method: http.MethodGet, path: "/v1/credentials/" + someID, header: headers("X-API-Key", w.a.Runtime.Key)})
		require.Equal(t, "403 INSUFFICIENT_PERMISSIONS", outcome(a.Status, code(t, a)))
	})
}
