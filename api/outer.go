package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"agentruntime/internal/kernel/fault"
)

type callKey struct{}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// maxRequestID is the most characters of an inbound X-Request-Id that is kept.
const maxRequestID = 128

// outermost gives each request its id, its log line and its safety net, and
// answers preflights, which carry no key.
func (s *Server) outermost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := s.Now()
		id := r.Header.Get("X-Request-Id")
		if !wellFormedID(id, maxRequestID) {
			id = "req_" + uuid.Must(uuid.NewV7()).String()
		}
		c := &call{w: w, r: r, requestID: id, log: s.Log.With("request_id", id)}
		h := w.Header()
		h.Set("X-Request-Id", id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Add("Vary", "Origin")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			preflight(w, r)
			return
		}
		rec := &recorder{ResponseWriter: w}
		ctx := context.WithValue(r.Context(), callKey{}, c)
		r = r.WithContext(ctx)
		defer func() {
			if p := recover(); p != nil {
				c.w, c.r = rec, r
				c.log.ErrorContext(ctx, "handler panicked", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
				if rec.status == 0 {
					s.fail(c, fault.New(fault.CodeInternal, ""))
				}
			}
			c.log.InfoContext(ctx, "request", slog.String("method", r.Method), slog.String("path", r.URL.Path),
				slog.Int("status", rec.status), slog.Duration("took", s.Now().Sub(began)))
		}()
		next.ServeHTTP(rec, r)
	})
}

// recorder remembers the status for the log.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// wellFormedID reports whether s is 1 to most visible ASCII characters.
func wellFormedID(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x21 || r > 0x7e })
}

// preflight answers any origin: the key that says which origins may call comes
// with the call itself, and guarded enforces it there.
func preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, If-Match, Prefer, X-API-Key, X-Request-Id")
	h.Set("Access-Control-Max-Age", "600") // seconds
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	w.WriteHeader(http.StatusNoContent)
}

// allowOrigin lets the page read the answer, a refusal too, where its origin is one
// of the key's.
func allowOrigin(c *call) {
	origin := c.r.Header.Get("Origin")
	if origin == "" || !slices.Contains(c.who.AllowedOrigins, origin) {
		return
	}
	c.w.Header().Set("Access-Control-Allow-Origin", origin)
	c.w.Header().Set("Access-Control-Expose-Headers", "X-Request-Id, ETag, Location, Retry-After")
}

func notFound(context.Context, *call) (reply, error) {
	return reply{}, fault.New(fault.CodeNotFound, "")
}

func (s *Server) methodNotAllowed(_ context.Context, c *call) (reply, error) {
	var allowed []string
	if routes, is := s.mux(c.r); is {
		for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if routes.Match(chi.NewRouteContext(), m, c.r.URL.EscapedPath()) {
				allowed = append(allowed, m)
			}
		}
	}
	slices.Sort(allowed)
	c.w.Header().Set("Allow", strings.Join(allowed, ", "))
	return reply{}, fault.New(fault.CodeMethodNotAllowed, "")
}

func (s *Server) mux(r *http.Request) (chi.Routes, bool) {
	rctx := chi.RouteContext(r.Context())
	if rctx == nil || rctx.Routes == nil {
		return nil, false
	}
	return rctx.Routes, true
}

func (s *Server) healthz(context.Context, *call) (reply, error) {
	return ok(map[string]string{"status": "ok"}), nil
}

func (s *Server) readyz(ctx context.Context, _ *call) (reply, error) {
	if err := s.Ready(ctx); err != nil {
		return reply{}, fault.New(fault.CodeServiceUnavailable, "").Because(err)
	}
	return ok(map[string]string{"status": "ready"}), nil
}

// unescape decodes a path parameter.
func unescape(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}
