package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/tenant/auth"
)

// takes says which credentials a route accepts.
type takes int

const (
	takesNothing  takes = iota // public
	takesKey                   // X-API-Key only; a JWT is 401
	takesUser                  // JWT only; an API key is 403 INSUFFICIENT_PERMISSIONS (nothing a key can hold opens it)
	takesKeyOrJWT              // the key counts where both are sent
)

// route is one row of the table in routes.go.
type route struct {
	method, path string
	takes        takes
	// roles: a user needs one of these. Empty: no user may, whatever his role.
	roles []string
	// perms: a key needs one of these. Empty: any active key.
	perms []string
	// body is the most bytes the body may have; 0 means the route reads none.
	body   int64
	handle func(context.Context, *call) (reply, error)
}

// Body limits in bytes (docs/api.md, sizes).
const (
	bodyManagement = 64 << 10
	bodyRun        = 1 << 20
	bodyUpload     = 25 << 20
)

// reply is what a handler answers with.
type reply struct {
	status int // 0 means 200
	data   any
	// page is set by lists of our own that put the array in data.
	page   *pagination
	header http.Header
}

// pagination stands beside data in cursor lists.
type pagination struct {
	Limit      int     `json:"limit"`
	HasMore    bool    `json:"has_more"`
	NextCursor *string `json:"next_cursor"`
}

func ok(data any) reply { return reply{data: data} }

func created(location string, data any) reply {
	return reply{status: http.StatusCreated, data: data, header: http.Header{"Location": {location}}}
}

// guarded wraps a route in its order of refusals: 401, permission 403, origin 403,
// then the body's size and form; the handler does the rest.
func (s *Server) guarded(rt route) http.Handler {
	return s.plain(func(ctx context.Context, c *call) (reply, error) {
		if rt.takes != takesNothing {
			who, err := s.authenticate(ctx, rt, c.r)
			if err != nil {
				return reply{}, err
			}
			c.who = who
			c.log = c.log.With("tenant_id", who.TenantID)
			if err := authorise(rt, who); err != nil {
				return reply{}, err
			}
			if err := s.checkOrigin(c); err != nil {
				return reply{}, err
			}
			if who.Kind == auth.KindKey {
				bound, stop := s.Revocations.Bind(ctx, who)
				defer stop()
				ctx = bound
			}
		}
		ctx = audit.WithActor(ctx, c.auditActor())
		if rt.body > 0 {
			if err := c.readBody(rt.body); err != nil {
				return reply{}, err
			}
		}
		rep, err := rt.handle(ctx, c)
		if cause := fault.As(context.Cause(ctx)); cause != nil && cause.Code == fault.CodeAPIKeyRevoked {
			return reply{}, cause
		}
		return rep, err
	})
}

// auditActor is the caller as audit records name him; at public endpoints nobody.
func (c *call) auditActor() audit.Actor {
	a := audit.Actor{Type: audit.ActorSystem, RequestID: c.requestID, SourceAddr: sourceAddr(c.r)}
	switch c.who.Kind {
	case auth.KindUser:
		a.Type, a.ID = audit.ActorUser, c.who.UserID.String()
	case auth.KindKey:
		a.Type, a.ID = audit.ActorKey, c.who.KeyID.String()
	}
	return a
}

func (s *Server) authenticate(ctx context.Context, rt route, r *http.Request) (auth.Principal, error) {
	key := r.Header.Get("X-API-Key")
	token, bearer := bearerToken(r)
	switch {
	case key != "" && (rt.takes == takesKey || rt.takes == takesKeyOrJWT):
		return s.Auth.Key(ctx, key)
	case bearer && (rt.takes == takesUser || rt.takes == takesKeyOrJWT):
		return s.Auth.Token(ctx, token)
	case key != "" && rt.takes == takesUser:
		// A genuine key gets 403 and the name of what is missing, a false one 401.
		if _, err := s.Auth.Key(ctx, key); err != nil {
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

// authorise asks a user for his role and a key for a permission.
func authorise(rt route, who auth.Principal) error {
	if who.Kind == auth.KindUser {
		if slices.Contains(rt.roles, who.Role) {
			return nil
		}
		return fault.New(fault.CodeInsufficientPermissions,
			fmt.Sprintf("This takes the role %s.", strings.Join(rt.roles, " or ")))
	}
	if len(rt.perms) == 0 {
		return nil
	}
	if slices.ContainsFunc(rt.perms, who.Has) {
		return nil
	}
	return fault.New(fault.CodeInsufficientPermissions,
		fmt.Sprintf("The API key lacks the permission %s.", strings.Join(rt.perms, " or ")))
}

// checkOrigin enforces allowed_origins on the call itself: a browser page that is
// not on the key's list is refused, and a call without Origin is server to server.
func (s *Server) checkOrigin(c *call) error {
	origin := c.r.Header.Get("Origin")
	if origin == "" || c.who.Kind != auth.KindKey {
		return nil
	}
	if !slices.Contains(c.who.AllowedOrigins, origin) {
		return fault.New(fault.CodeOriginNotAllowed, "")
	}
	return nil
}
