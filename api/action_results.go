package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"agentruntime/api/wire"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
)

// Bounds of a page of a result, in bytes of JSON. One item can be larger.
const (
	resultPageMost  = 256 << 10
	resultPageLeast = 1 << 10
)

// maxResultPath is how many bytes the path into a result may have.
const maxResultPath = 1024

// resultPage is a part of a result: items of an array, or a piece of the JSON text of another value.
type resultPage struct {
	ExecutionID string `json:"execution_id"`
	Path        string `json:"path"`
	// Bytes is how many bytes the value at Path has.
	Bytes int `json:"bytes"`
	// Offset is how many items, or bytes of the text, are before the page.
	Offset int               `json:"offset"`
	Items  []json.RawMessage `json:"items,omitzero"`
	Text   *string           `json:"text,omitempty"`
}

// resultQuery says which part of a result a caller wants.
type resultQuery struct {
	path            string
	text            bool // as text, whatever it is
	limit, maxBytes int
	offset          int
}

// resultPath returns where the result of an execution is read.
func resultPath(ref string) string { return "/v1/results/" + url.PathEscape(ref) }

func (h *actionHandlers) getResult(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	q, err := readResultQuery(c)
	if err != nil {
		return wire.Reply{}, err
	}
	id := c.Param("id")
	room := &answerRoom{answers: h.answers, c: c}
	stored, err := h.runs.Result(run.WithRoom(ctx, room.take), c.Actor, id)
	if err != nil {
		return wire.Reply{}, err
	}
	if err := room.take(ctx, id, len(stored)); err != nil {
		return wire.Reply{}, err
	}
	value, err := valueAt(compacted(stored), q.path)
	if err != nil {
		return wire.Reply{}, err
	}
	if q.offset > len(value) {
		return wire.Reply{}, fault.Invalid("query.cursor", "format", "cursor is the next_cursor of an earlier answer.")
	}
	page := resultPage{ExecutionID: id, Path: q.path, Bytes: len(value), Offset: q.offset}
	var next int
	if value[0] == '[' && !q.text {
		page.Items, next = itemsOf(value, q)
	} else {
		var text string
		text, next = textOf(value, q)
		page.Text = &text
	}
	return wire.Reply{Data: page, Page: wire.PageAfter(q.limit, next > 0, strconv.Itoa(next))}, nil
}

func readResultQuery(c *wire.Call) (q resultQuery, err error) {
	if q.limit, err = c.Limit(); err != nil {
		return q, err
	}
	q.offset, _, err = wire.QueryCursor(c, func(s string) (int, bool) {
		n, err := strconv.Atoi(s)
		return n, err == nil && n > 0
	})
	if err != nil {
		return q, err
	}
	var v wire.Validation
	q.path, _ = c.Query("path")
	if q.path != "" && q.path[0] != '/' || len(q.path) > maxResultPath {
		v.Add("query.path", "format", "path is a JSON Pointer of at most 1024 bytes, such as /items.")
	}
	q.text = wire.QueryOneOf(&v, c, "format", "text") != ""
	q.maxBytes = resultPageMost
	if raw, given := c.Query("max_bytes"); given {
		if q.maxBytes, err = strconv.Atoi(raw); err != nil || q.maxBytes < resultPageLeast || q.maxBytes > resultPageMost {
			v.Add("query.max_bytes", "range", "max_bytes is a whole number from 1024 to 262144.")
		}
	}
	return q, v.Err()
}

// compacted returns JSON without the white space that a provider may have sent.
func compacted(raw json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	out.Grow(len(raw))
	if json.Compact(&out, raw) != nil {
		return raw // it was checked when it was stored
	}
	return out.Bytes()
}

// valueAt returns the value at a JSON Pointer (RFC 6901). The error is a refusal where there is
// none, or null.
func valueAt(value json.RawMessage, pointer string) (json.RawMessage, error) {
	nothing := fault.Invalid("query.path", "missing", "There is nothing at this path in the result, or null.")
	if pointer == "" {
		return value, nil
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = fault.PointerName(token)
		var step any = token
		if value[0] == '[' {
			at, err := strconv.Atoi(token)
			if err != nil || at < 0 || strconv.Itoa(at) != token {
				return nil, nothing
			}
			step = at
		}
		found, ok := exactjson.Lookup(value, []any{step})
		if !ok || string(found) == "null" {
			return nil, nothing
		}
		value = found
	}
	return value, nil
}

// itemsOf returns the items of a page, at least one where any is left, and the offset of the next
// page, 0 where there is none.
func itemsOf(array json.RawMessage, q resultQuery) (items []json.RawMessage, next int) {
	items = []json.RawMessage{}
	at, size := 0, 0
	for item := range exactjson.Items(array) {
		if at++; at <= q.offset {
			continue
		}
		size += len(item) + 1
		if len(items) == q.limit || size > q.maxBytes && len(items) > 0 {
			return items, at - 1
		}
		items = append(items, item)
	}
	return items, 0
}

// textOf returns the piece of a text that is a page, and the offset of the next page, 0 where there
// is none. It divides no character.
func textOf(value json.RawMessage, q resultQuery) (text string, next int) {
	end := min(len(value), q.offset+q.maxBytes)
	for end < len(value) && !utf8.RuneStart(value[end]) {
		end--
	}
	if end == len(value) {
		return string(value[q.offset:]), 0
	}
	return string(value[q.offset:end]), end
}
