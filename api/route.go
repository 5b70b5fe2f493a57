package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/tenant/auth"
)

// takes says which credentials a route accepts.
type takes int

const (
	takesNothing        takes = iota // public
	takesKey                         // X-API-Key only; a JWT is 401
	takesUser                        // JWT only; an API key is 403 INSUFFICIENT_PERMISSIONS, since no permission opens it
	takesKeyOrJWT                    // the key counts where both are sent
	takesTrigger                     // a key that may trigger Maps, or a JWT; see mayTrigger
	takesServerKeyOrJWT              // as takesKeyOrJWT, but no key for one agent, and none for browsers
)

// route is one row of the table in routes.go.
type route struct {
	method, path string
	takes        takes
	// roles: a user needs one of these. Empty: no user may call, whatever their role.
	roles []actor.Role
	// body is the most bytes that the body may have; 0 means the route reads none.
	body   int64
	handle wire.Handler
	// permission is what a key needs. Empty: any active key may call.
	permission string
}

// takesKeys reports whether the route accepts an API key.
func (rt route) takesKeys() bool {
	return rt.takes == takesKey || rt.takes == takesKeyOrJWT || rt.takes == takesServerKeyOrJWT || rt.takes == takesTrigger
}

// Body limits in bytes (docs/reference/api.md, sizes).
const (
	bodyManagement = 64 << 10
	bodyDefinition = 256 << 10 // a definition, as JSON or YAML
	bodyRun        = 1 << 20
	bodyUpload     = 25 << 20
)

// guarded returns the route's handler behind its checks, in this order: repeated headers 400,
// credential 401, rate limits 429, address 403, permission or role 403, origin 403, size and form of the body, query
// parameters that the route does not take. The route's handler does the rest.
func (s *Server) guarded(rt route) http.Handler {
	known := s.parameters[rt.method+" "+rt.path]
	return wire.Respond(func(ctx context.Context, c *wire.Call) (wire.Reply, error) {
		if err := c.CheckHeaders(); err != nil {
			return wire.Reply{}, err
		}
		ctx, stop, err := s.gate.admit(ctx, rt, c)
		defer stop()
		if err != nil {
			return wire.Reply{}, err
		}
		leave, err := s.takeBody(ctx, rt, c)
		defer leave()
		if err != nil {
			return wire.Reply{}, err
		}
		if err := c.CheckQuery(known); err != nil {
			return wire.Reply{}, err
		}
		defer s.boundWait(rt, c)()
		if rt.method != http.MethodPost {
			if err := c.ReadConditions(); err != nil {
				return wire.Reply{}, err
			}
		}
		rep, err := rt.handle(ctx, c)
		if cause := fault.As(context.Cause(ctx)); cause != nil && cause.Code == fault.CodeAPIKeyRevoked {
			return wire.Reply{}, cause
		}
		return rep, s.suggestions.suggestOfPath(ctx, c, err)
	})
}

// gate finds out who calls, and refuses who may not.
type gate struct {
	auth        Authenticator
	revocations Revocations
	runs        Runs
	rateLimits  RateLimits
}

// admit finds out who calls, and refuses who may not. The context that it returns ends with the
// caller's key; stop releases it, also after an error.
func (g *gate) admit(ctx context.Context, rt route, c *wire.Call) (bound context.Context, stop func(), err error) {
	stop = func() {}
	if rt.takes == takesNothing {
		return ctx, stop, nil
	}
	who, err := g.authenticate(ctx, rt, c)
	if len(who.Rate.Windows) > 0 {
		c.SetRate(who.Rate)
	}
	if err != nil {
		g.noteLimited(ctx, c, who)
		return ctx, stop, err
	}
	identify(c, who)
	if err := cmp.Or(checkAddress(c, who), authorise(rt, who), checkOrigin(c, who)); err != nil {
		return ctx, stop, cmp.Or(g.noteRefused(ctx, rt, c, err), err)
	}
	if who.Kind == actor.Key {
		bound, stop := g.revocations.Bind(ctx, who)
		return bound, stop, nil
	}
	return ctx, stop, nil
}

// takeBody reads the body when there is room for it. leave gives the room back, also after an
// error.
func (s *Server) takeBody(ctx context.Context, rt route, c *wire.Call) (leave func(), err error) {
	leave = func() {}
	switch rt.body {
	case 0:
		return leave, nil
	case bodyUpload:
		leave, err = s.uploads.enter(ctx, c)
	case bodyRun, bodyDefinition:
		leave, err = s.roomFor(ctx, c, rt.body)
	}
	if err != nil {
		return func() {}, err
	}
	switch {
	case rt.body == bodyUpload:
		if err := c.ReadBody(rt.body, append(yamlTypes(), multipartType)...); err != nil {
			return leave, err
		}
		return s.uploads.sparing(c, leave), nil
	case rt.body == bodyDefinition && strings.HasPrefix(rt.path, "/v1/maps"):
		return leave, c.ReadBody(rt.body, yamlTypes()...)
	}
	return leave, c.ReadBody(rt.body)
}

// noteRefused records that a governed call was refused for its key or its origin. Refusals
// by other routes leave no record.
func (g *gate) noteRefused(ctx context.Context, rt route, c *wire.Call, refusal error) error {
	f := fault.As(refusal)
	if rt.path != runPath || f == nil {
		return nil
	}
	return g.runs.Refused(ctx, c.Actor, f)
}

// noteLimited has the tenant told that one of its windows is full. The refusal stands where that
// fails.
func (g *gate) noteLimited(ctx context.Context, c *wire.Call, who auth.Principal) {
	if !who.Rate.Refused {
		return
	}
	if err := g.rateLimits.Exceeded(ctx, who.TenantID, who.Rate); err != nil {
		c.Log.WarnContext(ctx, "a full window was not told", "tenant_id", who.TenantID, "error", err)
	}
}

// identify notes in the call who makes it.
func identify(c *wire.Call, who auth.Principal) {
	c.Actor = who.Actor(c.Actor.RequestID, c.Actor.SourceAddr)
	c.SessionID = who.SessionID
	c.Origins = who.AllowedOrigins
	c.ManagesMaps = who.Kind == actor.User && slices.Contains(admins(), who.Role) || who.Kind == actor.Key && who.Has(auth.PermMapsManage)
	c.ManagesCustomers = who.Kind == actor.User && slices.Contains(admins(), who.Role) || who.Kind == actor.Key && who.Has(auth.PermCustomersManage)
	c.AgentID, c.IdentityMode, c.IdentitySecrets = who.AgentID, who.IdentityMode, who.IdentitySecrets
	c.ReadsCatalog = who.Kind == actor.User || who.Has(auth.PermActionsCatalog)
	c.Log = c.Log.With("tenant_id", who.TenantID)
}

// authenticate returns who calls. An authenticated caller is returned with a refusal too.
func (g *gate) authenticate(ctx context.Context, rt route, c *wire.Call) (auth.Principal, error) {
	key := c.Request.Header.Get("X-API-Key")
	token, bearer := bearerToken(c.Request)
	if bearer && strings.HasPrefix(token, auth.KeyPrefix) {
		if key != "" && key != token {
			return auth.Principal{}, fault.New(fault.CodeUnauthenticated, "The headers X-API-Key and Authorization have two different API keys. Send one of them.")
		}
		key, bearer = token, false
	}
	switch {
	case key != "" && rt.takesKeys():
		return g.auth.Key(ctx, key)
	case bearer && (rt.takes == takesUser || rt.takesKeys() && rt.takes != takesKey):
		return g.auth.Token(ctx, token)
	case key != "" && rt.takes == takesUser:
		// A genuine key gets 403 and the name of what is missing, a false one 401.
		who, err := g.auth.Key(ctx, key)
		if err != nil {
			return who, err
		}
		if err := checkAddress(c, who); err != nil {
			return who, err
		}
		return who, fault.New(fault.CodeInsufficientPermissions, "An API key cannot do this. Use a JWT from POST /v1/auth/login.")
	case rt.takes == takesKey:
		return auth.Principal{}, fault.New(fault.CodeUnauthenticated, "This endpoint needs an API key: in the header X-API-Key, or as Authorization: Bearer ark_….")
	case rt.takes == takesUser:
		return auth.Principal{}, fault.New(fault.CodeUnauthenticated, "This endpoint needs a JWT in the Authorization header: Bearer <token>.")
	default:
		return auth.Principal{}, fault.New(fault.CodeUnauthenticated, "This endpoint needs an API key in X-API-Key or a JWT in Authorization.")
	}
}

func bearerToken(r *http.Request) (string, bool) {
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// authorise checks the role of a user and the permission of a key.
func authorise(rt route, who auth.Principal) error {
	if who.Kind == actor.User {
		return requireRole(rt.roles, who.Role)
	}
	if rt.permission != "" && !who.Has(rt.permission) {
		return fault.Newf(fault.CodeInsufficientPermissions, "The API key lacks the permission %s. Make a key that has it with POST /v1/api-keys.", rt.permission)
	}
	if rt.takes == takesTrigger && !mayTrigger(who) {
		return fault.New(fault.CodeInsufficientPermissions, "A key that triggers Maps needs maps:trigger, actions:run or agents:message; with agent_id or allowed_origins it needs maps:trigger.")
	}
	if rt.takes == takesServerKeyOrJWT && who.Visited() {
		return fault.New(fault.CodeInsufficientPermissions, "A key with agent_id or allowed_origins cannot do this. Use another key, from a server.")
	}
	return nil
}

func requireRole(roles []actor.Role, has actor.Role) error {
	if slices.Contains(roles, has) {
		return nil
	}
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return fault.Newf(fault.CodeInsufficientPermissions, "This takes the role %s.", strings.Join(names, " or "))
}

// checkAddress enforces a key's allowed_ips. It comes before the permissions: elsewhere a
// stolen key tells nothing about itself.
func checkAddress(c *wire.Call, who auth.Principal) error {
	if who.MayCallFrom(c.Actor.SourceAddr) {
		return nil
	}
	return fault.New(fault.CodeIPNotAllowed, "")
}

// checkOrigin enforces a key's allowed_origins on the call itself. A browser page that is
// not on the list is refused; a call without Origin comes from a server.
func checkOrigin(c *wire.Call, who auth.Principal) error {
	origin := c.Request.Header.Get("Origin")
	if origin == "" || who.Kind != actor.Key {
		return nil
	}
	if !slices.Contains(who.AllowedOrigins, origin) {
		return fault.New(fault.CodeOriginNotAllowed, "")
	}
	return nil
}

// mayTrigger reports whether the caller may trigger Maps: a user, and a key with one of the
// permissions that lead to calls. A key for one agent or for browsers needs the one for Maps.
func mayTrigger(who auth.Principal) bool {
	if who.Kind != actor.Key || who.Has(auth.PermMapsTrigger) {
		return true
	}
	return !who.Visited() && (who.Has(auth.PermActionsRun) || who.Has(auth.PermAgentsMessage))
}
