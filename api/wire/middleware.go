package wire

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// maxRequestID is the most characters of an inbound X-Request-Id that is kept.
const maxRequestID = 128

// Middleware wraps all routes. It creates the Call with its request id, sets the headers
// that every response has, logs the request, turns a panic into INTERNAL_ERROR, and
// answers CORS preflights, which carry no key.
//
// The Call has the address that proxies tells of the caller. Where that address has made too many
// requests without a valid credential, the answer is RATE_LIMITED, whatever the request.
func Middleware(log *slog.Logger, now func() time.Time, proxies Proxies, addresses Addresses, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := now()
		c := newCall(log, proxies, r)
		h := w.Header()
		h.Set("X-Request-Id", c.Actor.RequestID)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Add("Vary", "Origin")
		preflights := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
		limits := &limits{addresses: addresses, address: c.Actor.Network(), now: now, call: c, free: preflights || probe(r)}
		rec := &recorder{ResponseWriter: w, limits: limits}
		if preflights {
			preflight(rec, r)
			return
		}
		ctx := context.WithValue(r.Context(), callKey{}, c)
		r = r.WithContext(ctx)
		defer func() {
			if p := recover(); p != nil {
				c.w, c.Request = rec, r
				c.Log.ErrorContext(ctx, "handler panicked", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
				if rec.status == 0 {
					c.fail(fault.New(fault.CodeInternal, ""))
				}
			}
			c.Log.InfoContext(ctx, "request", slog.String("method", r.Method), slog.String("path", r.URL.Path),
				slog.String("source_addr", c.Actor.SourceAddr), slog.Int("status", rec.status), slog.Duration("took", now().Sub(began)))
		}()
		if err := limits.refuse(); err != nil {
			c.w, c.Request = rec, r
			c.fail(err)
			return
		}
		next.ServeHTTP(rec, r)
	})
}

// newCall keeps the caller's X-Request-Id where it is well formed.
func newCall(log *slog.Logger, proxies Proxies, r *http.Request) *Call {
	id := r.Header.Get("X-Request-Id")
	if !VisibleASCII(id, maxRequestID) {
		id = "req_" + uuid.Must(uuid.NewV7()).String()
	}
	return &Call{
		Actor:   actor.Actor{Kind: actor.System, RequestID: id, SourceAddr: proxies.CallerOf(r)},
		Log:     log.With("request_id", id),
		Request: r,
	}
}

// recorder remembers the status for the log, and has the rate limits written into the headers
// of every response.
type recorder struct {
	http.ResponseWriter
	limits *limits
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
		r.limits.head(status, r.Header())
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// preflight allows any origin. Only the key, which comes with the call itself, says which
// origins may call; the route's checks enforce it there.
func preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Prefer, X-API-Key, X-Request-Id")
	h.Set("Access-Control-Max-Age", "600") // seconds
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	w.WriteHeader(http.StatusNoContent)
}

// allowOrigin lets a browser page read the response, a refusal too, where the page's
// origin is one of the key's.
func (c *Call) allowOrigin() {
	origin := c.Request.Header.Get("Origin")
	if origin == "" || !slices.Contains(c.Origins, origin) {
		return
	}
	c.w.Header().Set("Access-Control-Allow-Origin", origin)
	c.w.Header().Set("Access-Control-Expose-Headers", "X-Request-Id, ETag, Location, Retry-After, RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset")
}

// NotFound answers a path that no route has.
func NotFound(context.Context, *Call) (Reply, error) {
	return Reply{}, fault.New(fault.CodeNotFound, "")
}

// StorablePath makes the path of a call a text that Postgres can store; see storable. So handlers may compare
// and store the path and its parameters.
func StorablePath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := storable(r.URL.Path); path != r.URL.Path {
			at, of := *r.URL, *r
			at.Path, at.RawPath = path, ""
			of.URL = &at
			r = &of
		}
		next.ServeHTTP(w, r)
	})
}

// MethodNotAllowed answers a method that the path does not take, and names those that it
// takes in Allow.
func MethodNotAllowed(ctx context.Context, c *Call) (Reply, error) {
	var allowed []string
	if rctx := chi.RouteContext(ctx); rctx != nil && rctx.Routes != nil {
		for _, m := range []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut} {
			if rctx.Routes.Match(chi.NewRouteContext(), m, c.Request.URL.EscapedPath()) {
				allowed = append(allowed, m)
			}
		}
	}
	c.w.Header().Set("Allow", strings.Join(allowed, ", "))
	return Reply{}, fault.Newf(fault.CodeMethodNotAllowed, "The path does not take this method. It takes %s.", strings.Join(allowed, ", "))
}
