package wire

import (
	"encoding/base64"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/verb"
)

// Pagination stands beside data in lists with cursors.
type Pagination struct {
	Limit      int     `json:"limit"`
	HasMore    bool    `json:"has_more"`
	NextCursor *string `json:"next_cursor"`
}

// PageAfter describes a page. last is the id of its last item, from which the next page
// continues.
func PageAfter(limit int, more bool, last string) *Pagination {
	p := &Pagination{Limit: limit, HasMore: more}
	if more {
		next := base64.RawURLEncoding.EncodeToString([]byte(last))
		p.NextCursor = &next
	}
	return p
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
	last, err := base64.RawURLEncoding.DecodeString(raw)
	if err != nil || !valid(string(last)) {
		return "", fault.Invalid("query.cursor", "format", "cursor is the next_cursor of an earlier answer.")
	}
	return string(last), nil
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

// CursorSlug reads the cursor of a list in the order of slugs; "" where it is absent.
func (c *Call) CursorSlug() (string, error) { return c.cursor(verb.ValidSlug) }
