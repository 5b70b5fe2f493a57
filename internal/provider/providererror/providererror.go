// Package providererror says what a provider answered where it did not do what was asked: its
// status, the code and the message that it wrote, and the beginning of its answer. The run
// domain stores it with the failure of a run, so that a caller, or an agent, can correct the call. The
// package does no I/O. It never returns a text that its Masker has not seen.
package providererror

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/base/redact"
)

// MaxBytes is the most bytes of an Error as JSON.
const MaxBytes = 4 << 10

// Bounds of the parts, in bytes. A message of an error is read by people and models: what a
// provider has to say fits into a few lines.
const (
	maxMessage = 600
	maxCode    = 120
	maxID      = 128
	// maxJSON is the largest JSON answer that is looked at. No API says more about an error, and
	// masking takes time in proportion.
	maxJSON = 256 << 10
	// maxText is how much of any other answer is looked at.
	maxText = 32 << 10
)

// Error is what a provider answered.
type Error struct {
	// Status is the HTTP status.
	Status int `json:"status"`
	// Code and Message are what the provider's answer has in their places; "" where it has
	// none. Message is one line.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Body is the answer: JSON where it was JSON and fits, otherwise a text; null where there was
	// none, or none that can be shown.
	Body json.RawMessage `json:"body"`
	// Truncated: a part of the answer is not in Body.
	Truncated bool `json:"truncated,omitempty"`
	// RetryAfterMS is how many milliseconds the provider asked to wait; 0 where it did not.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`
	// RequestID is how the provider names the request; "" where it does not.
	RequestID string `json:"request_id,omitempty"`
}

// Answer is an answer of a provider, without the credential of the call.
type Answer struct {
	Status int
	// Media is the Content-Type as the provider sent it.
	Media string
	Body  []byte
	// Whole: the body arrived to its end.
	Whole      bool
	RetryAfter time.Duration
	RequestID  string
}

// Masker hides what others than the caller may not see.
type Masker interface {
	// MaskResult masks an answer in the form that the result of a run has: an object.
	MaskResult(result json.RawMessage) json.RawMessage
	// MaskText masks a text without structure.
	MaskText(text string) string
}

// Of returns what the answer says, in at most MaxBytes of JSON.
func Of(a Answer, m Masker) *Error {
	e := &Error{Status: a.Status, Body: null(), RetryAfterMS: max(a.RetryAfter, 0).Milliseconds(), RequestID: idOf(a.RequestID)}
	body := bytes.TrimSpace(bytes.TrimPrefix(a.Body, []byte("\xef\xbb\xbf")))
	switch {
	case len(body) == 0:
		e.Truncated = !a.Whole
	case len(body) > maxJSON && body[0] != '<':
		e.Truncated = true
	case !utf8.Valid(body) && a.Whole:
		e.Truncated = true // it is no text
	case isJSON(body):
		e.takeJSON(body, m)
	case !a.Whole || httpfield.IsJSON(httpfield.MediaType(a.Media)) || body[0] == '{' || body[0] == '[':
		// Nothing knows where in half a document a secret begins.
		e.Truncated = true
	default:
		e.takeText(httpfield.MediaType(a.Media), body, m)
	}
	return e
}

// Line returns the text of a message that says what the provider wrote, in one line of at most
// that many bytes; "" where it wrote nothing.
func (e *Error) Line(most int) string {
	if e == nil {
		return ""
	}
	if e.Message != "" {
		return line(e.Message, most)
	}
	return line(e.Code, most)
}

// maxBrief is the largest body of a Brief, in bytes.
const maxBrief = 1 << 10

// Brief returns the error as JSON for places that keep many of them, as histories and the context of a
// model do: a body of more than 1 KiB is left out. It returns nil for nil.
func (e *Error) Brief() json.RawMessage {
	if e == nil {
		return nil
	}
	c := *e
	if len(c.Body) > maxBrief {
		c.Body, c.Truncated = null(), true
	}
	return encode(c)
}

func null() json.RawMessage { return json.RawMessage("null") }

func isJSON(body []byte) bool {
	if !json.Valid(body) {
		return false
	}
	depth, _ := exactjson.Shape(body)
	return depth <= exactjson.MaxDepth
}

// takeJSON takes the parts of a JSON answer. It is masked as a result is: a value that is no object
// is the member data of one.
func (e *Error) takeJSON(body []byte, m Masker) {
	whole := body[0] == '{'
	if !whole {
		body = bytes.Join([][]byte{[]byte(`{"data":`), body, []byte(`}`)}, nil)
	}
	masked := m.MaskResult(body)
	if !whole {
		if inner, ok := exactjson.Lookup(masked, []any{"data"}); ok {
			masked = inner
		}
	}
	e.Code, e.Message = pick(masked, m)
	e.fit(encode(masked), m)
}

// fit takes the body as it is where there is room for it, otherwise its beginning as a text.
func (e *Error) fit(body json.RawMessage, m Masker) {
	if len(body) <= MaxBytes { // a larger one is masked as one text
		body = encode(redact.Replace(body, m.MaskText))
	}
	if room := e.room(); len(body) <= room {
		e.Body = body
		return
	}
	e.cut(string(body[:min(len(body), maxText)]), m)
}

// cut takes the beginning of a text as the body.
func (e *Error) cut(text string, m Masker) {
	text = m.MaskText(strings.ToValidUTF8(text, ""))
	e.Truncated = true
	e.Body = quoted(text, e.room())
}

// room returns how many bytes the body may have, with the note that it was cut.
func (e *Error) room() int {
	c := *e
	c.Body, c.Truncated = json.RawMessage(`""`), true
	return MaxBytes - len(encode(c)) + len(c.Body)
}

// quoted returns the longest beginning of a text that has at most that many bytes as JSON, cut
// between two characters.
func quoted(text string, most int) json.RawMessage {
	low, high := 0, min(len(text), most)
	for low < high {
		mid := (low + high + 1) / 2
		if len(encode(text[:mid])) <= most {
			low = mid
		} else {
			high = mid - 1
		}
	}
	for low > 0 && low < len(text) && !utf8.RuneStart(text[low]) {
		low--
	}
	return encode(text[:low])
}

// encode returns a value as the API writes it: the size counts there.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil { // texts, numbers and JSON that was checked always marshal
		return null()
	}
	return raw
}

// line returns a text as one line of at most that many bytes. Characters that steer a terminal, or
// turn the direction of what follows, become spaces.
func line(text string, most int) string {
	var out strings.Builder
	for word := range strings.FieldsFuncSeq(text, steers) {
		if out.Len() > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(word)
		if out.Len() > most {
			break
		}
	}
	if out.Len() <= most {
		return out.String()
	}
	short := out.String()[:max(most-len("…"), 0)]
	for len(short) > 0 && !utf8.ValidString(short) {
		short = short[:len(short)-1]
	}
	return strings.TrimRight(short, " ") + "…"
}

func steers(r rune) bool {
	return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || r == utf8.RuneError
}

// idOf returns the id of a request where it is one: short, and visible ASCII.
func idOf(id string) string {
	if len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return id
}
