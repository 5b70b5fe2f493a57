package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/strictjson"
	"agentruntime/internal/tenant/auth"
)

// call is one request on its way through a handler.
type call struct {
	w         http.ResponseWriter
	r         *http.Request
	who       auth.Principal
	requestID string
	log       *slog.Logger
	body      []byte
	// streamed is set once the handler writes the answer itself, see stream.
	streamed bool
}

// param returns a path parameter. chi routes on the escaped path where the caller
// escaped more than he had to, and on the decoded one where he did not.
func (c *call) param(name string) string {
	s := chi.URLParam(c.r, name)
	if c.r.URL.RawPath != "" {
		s = unescape(s)
	}
	return storable(s)
}

// storable replaces what Postgres holds in no text, NUL and bad UTF-8, by U+FFFD.
// No id, slug or verb has that, so what comes of it is as unknown as it should be.
func storable(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

func (c *call) readBody(limit int64) error {
	if c.r.ContentLength > limit {
		return tooLarge(limit)
	}
	if ct := c.r.Header.Get("Content-Type"); ct != "" || c.r.ContentLength != 0 {
		media, params, err := mime.ParseMediaType(ct)
		charset := strings.ToLower(params["charset"])
		if err != nil || media != "application/json" || (charset != "" && charset != "utf-8") {
			return fault.New(fault.CodeUnsupportedMediaType, "")
		}
	}
	if enc := c.r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return fault.New(fault.CodeUnsupportedMediaType, "The request body must not be compressed.")
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge(limit)
	case err != nil:
		return fault.New(fault.CodeInvalidJSON, "The request body ended before it was complete.").Because(err)
	}
	c.body = body
	return nil
}

func tooLarge(limit int64) error {
	return fault.Newf(fault.CodePayloadTooLarge, "The request body may have at most %d bytes.", limit)
}

// decode reads the body into dst by the strict rules. free names the members
// ("/args") whose content is the caller's own and may differ in case only.
// Unknown members are ignored.
func (c *call) decode(dst any, free ...string) error {
	return strictjson.Decode(c.body, dst, strictjson.Options{Free: free, AllowUnknown: true})
}

// decodeExact is decode for calls where a misspelt member must not pass.
func (c *call) decodeExact(dst any, free ...string) error {
	return strictjson.Decode(c.body, dst, strictjson.Options{Free: free})
}

// Page sizes of lists: absent means defaultLimit, more than maxLimit is clamped
// and reported in pagination.limit.
const (
	defaultLimit = 100
	maxLimit     = 500
)

// limit reads ?limit=.
func (c *call) limit() (int, error) {
	raw, given := c.query("limit")
	if !given {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(raw)
	if err != nil && !errors.Is(err, strconv.ErrRange) || n < 1 {
		return 0, fault.Invalid("query.limit", "minimum", "limit is a whole number from 1 to 500.")
	}
	return min(n, maxLimit), nil
}

// query returns a query parameter that is given and not empty; the first where it
// is given more than once.
func (c *call) query(name string) (string, bool) {
	v := c.r.URL.Query().Get(name)
	return v, v != ""
}

// handlerFunc answers a call.
type handlerFunc func(context.Context, *call) (reply, error)
