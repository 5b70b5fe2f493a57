package api

import (
	"encoding/base64"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/fault"
)

// cursor reads ?cursor=, which continues a list after the item it was made of.
func (c *call) cursor() (*uuid.UUID, error) {
	raw, given := c.query("cursor")
	if !given {
		return nil, nil //nolint:nilnil // no cursor is not an error
	}
	bytes, err := base64.RawURLEncoding.DecodeString(raw)
	if err == nil {
		var id uuid.UUID
		if id, err = uuid.FromBytes(bytes); err == nil {
			return &id, nil
		}
	}
	return nil, notACursor()
}

// textCursor is cursor for lists whose ids are texts; "" where none is given.
func (c *call) textCursor() (string, error) {
	raw, given := c.query("cursor")
	if !given {
		return "", nil
	}
	id, err := base64.RawURLEncoding.DecodeString(raw)
	if err != nil || !wellFormedID(string(id), 255) {
		return "", notACursor()
	}
	return string(id), nil
}

func notACursor() error {
	return fault.Invalid("query.cursor", "format", "cursor is the next_cursor of an earlier answer.")
}

// pageOf describes a page whose last item has the id last.
func pageOf(limit int, more bool, last uuid.UUID) *pagination {
	return pageAfter(limit, more, last[:])
}

// pageAfter is pageOf for ids of any form.
func pageAfter(limit int, more bool, last []byte) *pagination {
	p := &pagination{Limit: limit, HasMore: more}
	if more {
		next := base64.RawURLEncoding.EncodeToString(last)
		p.NextCursor = &next
	}
	return p
}
