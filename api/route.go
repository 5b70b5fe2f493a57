package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"agentruntime/api/wire"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/tenant/auth"
)

// takes says which credentials a route accepts.
type takes int

const (
	takesNothing  takes = iota // public
	takesKey                   // X-API-Key only; a JWT is 401
	takesUser                  // JWT only; an API key is 403 INSUFFICIENT_PERMISSIONS, since no permission opens it
	takesKeyOrJWT              // the key counts where both are sent
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

// Body limits in bytes (docs/api.md, sizes).
const (
	bodyManagement = 64 << 10
	bodyRun        = 1 << 20
	bodyUpload     = 25 << 20
)

// guarded returns the route's handler behind its checks, in this order: repeated headers 400,
// credential 401, permission or role 403, origin 403, size and form of the body. The route's
// handler does the rest.
func (s *Server) guarded(rt route) http.Handler {
	return wire.Respond(func(ctx context.Context, c *wire.Call) (wire.Reply, error) {
		if err := c.CheckHeaders(); err != nil {
			return wire.Reply{}, err
		}
		if rt.takes != takesNothing {
			who, err := s.authenticate(ctx, rt, c.Request)
			if err != nil {
				return wire.Reply{}, err
			}
			identify(c, who)
			if err := cmp.Or(authorise(rt, who), checkOrigin(c, who)); err != nil {
				return wire.Reply{}, cmp.Or(s.noteRefused(ctx, rt, c, err), err)
			}
			if who.Kind == actor.Key {
				bound, stop := s.deps.Revocations.Bind(ctx, who)
				defer stop()
				ctx = bound
			}
		}
		leave, err := s.takeBody(ctx, rt, c)
		defer leave()
		if err != nil {
			return wire.Reply{}, err
		}
		rep, err := rt.handle(ctx, c)
		if cause := fault.As(context.Cause(ctx)); cause != nil && cause.Code == fault.CodeAPIKeyRevoked {
			return wire.Reply{}, cause
		}
		return rep, err
	})
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
	case bodyRun:
		leave, err = s.roomFor(ctx, c, rt.body)
	}
	if err != nil {
		return func() {}, err
	}
	return leave, c.ReadBody(rt.body)
}

// noteRefused records that a governed call was refused for its key or its origin. Refusals
// by other routes leave no record.
func (s *Server) noteRefused(ctx context.Context, rt route, c *wire.Call, refusal error) error {
	f := fault.As(refusal)
	if rt.path != runPath || f == nil {
		return nil
	}
	return s.deps.Runs.Refused(ctx, c.Actor, f)
}

// identify notes in the call who makes it.
func identify(c *wire.Call, who auth.Principal) {
	c.Actor = who.Actor(c.Actor.RequestID, c.Actor.SourceAddr)
	c.SessionID = who.SessionID
	c.Origins = who.AllowedOrigins
	c.Log = c.Log.With("tenant_id", who.TenantID)
}

func (s *Server) authenticate(ctx context.Context, rt route, r *http.Request) (auth.Principal, error) {
	key := r.Header.Get("X-API-Key")
	token, bearer := bearerToken(r)
	switch {
	case key != "" && (rt.takes == takesKey || rt.takes == takesKeyOrJWT):
		return s.deps.Auth.Key(ctx, key)
	case bearer && (rt.takes == takesUser || rt.takes == takesKeyOrJWT):
		return s.deps.Auth.Token(ctx, token)
	case key != "" && rt.takes == takesUser:
		// A genuine key gets 403 and the name of what is missing, a false one 401.
		if _, err := s.deps.Auth.Key(ctx, key); err != nil {
			return auth.Principal{}, err
		}
		return auth.Principal{}, fault.New(fault.CodeInsufficientPermissions, "An API key cannot do this. Use a JWT from POST /v1/auth/login.")
	case rt.takes == takesKey:
		return auth.Principal{}, fault.New(fault.CodeUnauthenticated, "This endpoint needs an API key in the X-API-Key header.")
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
	if rt.permission == "" || who.Has(rt.permission) {
		return nil
	}
	return fault.Newf(fault.CodeInsufficientPermissions, "The API key lacks the permission %s.", rt.permission)
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
