package wire

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/google/uuid"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
)

// Pagination stands beside data in lists with cursors.
type Pagination struct {
	Limit      int     `json:"limit"`
	HasMore    bool    `json:"has_more"`
	NextCursor *string `json:"next_cursor"`
}

// PageAfter describes a page. last is the id of its last item, from which the next page
// continues. It becomes a cursor when the answer is written.
func PageAfter(limit int, more bool, last string) *Pagination {
	p := &Pagination{Limit: limit, HasMore: more}
	if more {
		p.NextCursor = &last
	}
	return p
}

// PageUpTo is PageAfter for a list that grows at its end: a later call continues from there, so
// the last page has a cursor too. last is where an empty page begins.
func PageUpTo(limit int, more bool, last string) *Pagination {
	return &Pagination{Limit: limit, HasMore: more, NextCursor: &last}
}

// sealed returns the page with its cursor: the filters of the call, and the last item.
func (p *Pagination) sealed(c *Call) *Pagination {
	if p == nil || p.NextCursor == nil {
		return p
	}
	next := base64.RawURLEncoding.EncodeToString([]byte(c.filters() + *p.NextCursor))
	return &Pagination{Limit: p.Limit, HasMore: p.HasMore, NextCursor: &next}
}

// filtersBytes is the length of filters: enough to notice a mistake.
const filtersBytes = 6

// filters returns a hash of the list and of the query parameters that select from it.
func (c *Call) filters() string {
	query := c.Request.URL.Query()
	for name, values := range query {
		if name == "cursor" || name == "limit" || values[0] == "" {
			query.Del(name)
		}
	}
	sum := sha256.Sum256([]byte(c.Request.URL.Path + "?" + query.Encode()))
	return string(sum[:filtersBytes])
}

// PageAfterID is PageAfter for lists whose ids are UUIDs.
func PageAfterID(limit int, more bool, last uuid.UUID) *Pagination {
	return PageAfter(limit, more, string(last[:]))
}

// cursor reads ?cursor=, the last item of an earlier page; "" where it is absent. valid
// says whether the decoded text can be the id of an item.
func (c *Call) cursor(valid func(string) bool) (string, error) {
	raw, given := c.Query("cursor")
	if !given {
		return "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(raw)
	if err != nil || len(text) < filtersBytes || !valid(string(text[filtersBytes:])) {
		return "", fault.Invalid("query.cursor", "format", "cursor is the next_cursor of an earlier answer.")
	}
	if string(text[:filtersBytes]) != c.filters() {
		return "", fault.Invalid("query.cursor", "filters", "cursor is from an answer with other filters. Keep the filters, or begin without a cursor.")
	}
	return string(text[filtersBytes:]), nil
}

// CursorID reads the cursor of a list whose ids are UUIDs; nil where it is absent.
func (c *Call) CursorID() (*uuid.UUID, error) {
	var id uuid.UUID
	last, err := c.cursor(func(s string) bool { return len(s) == len(id) })
	if err != nil || last == "" {
		return nil, err
	}
	copy(id[:], last)
	return &id, nil
}

// CursorText reads the cursor of a list whose ids are texts of visible ASCII; "" where it
// is absent.
func (c *Call) CursorText() (string, error) {
	return c.cursor(func(s string) bool { return VisibleASCII(s, 255) })
}

// QueryCursor reads the cursor of a list whose places are of type T; given is false where it is
// absent.
func QueryCursor[T any](c *Call, parse func(string) (T, bool)) (place T, given bool, err error) {
	last, err := c.cursor(func(s string) bool {
		_, ok := parse(s)
		return ok
	})
	if err != nil || last == "" {
		return place, false, err
	}
	place, _ = parse(last)
	return place, true, nil
}

// CursorSlug reads the cursor of a list in the order of slugs; "" where it is absent.
func (c *Call) CursorSlug() (string, error) { return c.cursor(verb.ValidSlug) }
