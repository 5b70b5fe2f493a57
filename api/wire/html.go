package wire

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"agentruntime/internal/base/fault"
)

// HTML is a page for people, as it is written.
type HTML struct {
	Status int
	Body   []byte
}

// RespondHTML returns an http.Handler that runs h and writes its page. It must run inside
// Middleware. The page is not stored, names no address to the pages it links to, and cannot be
// framed. policy is its Content-Security-Policy.
func RespondHTML(policy string, h func(context.Context, *Call) HTML) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		c.w, c.Request = w, r
		defer c.done()
		page := h(r.Context(), c)
		header := w.Header()
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Length", strconv.Itoa(len(page.Body)))
		header.Set("Cache-Control", "no-store")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Content-Security-Policy", policy)
		w.WriteHeader(page.Status)
		if r.Method != http.MethodHead {
			_, _ = w.Write(page.Body) // the reader has gone away
		}
	}
}

// ReadForm reads the fields of an HTML form of at most limit bytes. It fails as ReadBody does, and
// with VALIDATION_ERROR for what is no form.
func (c *Call) ReadForm(limit int64) (url.Values, error) {
	if err := c.readBody(limit, "application/x-www-form-urlencoded"); err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(c.body))
	if err != nil {
		return nil, fault.Invalid("", "format", "The body is no form.")
	}
	return form, nil
}
