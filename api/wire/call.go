// Package wire has what all handlers of the HTTP API share: the call with its body, parameters
// and caller, checks of the form of a request, the envelope, pages and cursors,
// middleware and streams. The handlers of package api use it, and so does every later
// package of handlers. It never imports a domain package, and it decides nothing about
// what a caller may do: the route table of package api does.
package wire

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/rate"
)

// Call is one request on its way through a handler.
type Call struct {
	// Actor is the caller. Before authentication, and at public endpoints, it is the
	// system. The request id and the caller's address are always set.
	Actor actor.Actor
	// SessionID is the login session of a user; uuid.Nil for all other callers.
	SessionID uuid.UUID
	// ReadsCatalog: the caller may list the verbs of the tenant.
	ReadsCatalog bool
	// ManagesMaps: the caller may write Maps, and so run versions that are not published.
	ManagesMaps bool
	// ManagesCustomers: the caller may write what policies read of customers.
	ManagesCustomers bool
	// AgentID is the agent that the key is for, "" for any; IdentityMode what it does with the identity
	// in messages.
	AgentID, IdentityMode string
	// IdentitySecrets are the key's, sealed; none where it takes customers on the caller's word.
	IdentitySecrets []string
	// Origins are the browser origins that may read the response.
	Origins []string
	// Log adds the request id to every line.
	Log *slog.Logger
	// Request is read for headers. Its body is read by ReadBody only.
	Request *http.Request

	conditions conditions
	// rate is what an authenticated request has found; nil before.
	rate *rate.State

	w        http.ResponseWriter
	body     []byte
	bodySize int // of the body that was read, also when it was dropped
	// params are path parameters that SetParam has set.
	params map[string]string
	// streamed is set once the handler writes the response itself; see Stream.
	streamed bool
	// after is done when the answer was written.
	after []func()
}

// Handler answers a call. An error that is a fault becomes its status and code; every
// other error becomes INTERNAL_ERROR.
type Handler func(context.Context, *Call) (Reply, error)

type callKey struct{}

func callOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

// After has f called when the answer was written, or could not be.
func (c *Call) After(f func()) { c.after = append(c.after, f) }

func (c *Call) done() {
	for _, f := range c.after {
		f()
	}
}

// ResponseHeader returns the header of the response, for a handler that streams.
// Other handlers set Reply.Header.
func (c *Call) ResponseHeader() http.Header { return c.w.Header() }

// Param returns a path parameter, decoded. Postgres can store it; see StorablePath. chi
// matches the escaped path where the caller escaped more than necessary, and the
// decoded path otherwise.
func (c *Call) Param(name string) string {
	if s, set := c.params[name]; set {
		return s
	}
	s := chi.URLParam(c.Request, name)
	if c.Request.URL.RawPath != "" {
		if decoded, err := url.PathUnescape(s); err == nil {
			s = decoded
		}
	}
	return s
}

// SetParam sets a path parameter, for a handler that is called for another route's call.
func (c *Call) SetParam(name, value string) {
	if c.params == nil {
		c.params = map[string]string{}
	}
	c.params[name] = value
}

// ID returns the path parameter {id}; see IDOf.
func (c *Call) ID() uuid.UUID { return IDOf(c.Param("id")) }

// IDOf parses an id. A text that is no UUID becomes uuid.Nil, which no row has. The
// domain then answers as for any unknown id, in the same time.
func IDOf(text string) uuid.UUID {
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil
	}
	return id
}

// storable replaces what a text in Postgres cannot contain, NUL and bad UTF-8, by
// U+FFFD. No id, slug or verb contains U+FFFD, so the result is unknown to every query.
func storable(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

// VisibleASCII reports whether s is 1 to most visible ASCII characters, the form of ids
// that callers choose.
func VisibleASCII(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x21 || r > 0x7e })
}
