package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// SchemaVersion is the version of all schemas of this package. A member that is added does not
// change it.
const SchemaVersion = "1"

// MostBytes is the most bytes that a body may have. Receivers of webhooks take that much.
const MostBytes = 64 << 10

// head are the members that every event begins with.
type head struct {
	Event         Type      `json:"event" about:"The type of the event."`
	EventID       string    `json:"event_id" about:"The id of the event. It is the same in all deliveries."`
	Timestamp     time.Time `json:"timestamp" about:"When the event was made, in UTC."`
	SchemaVersion string    `json:"schema_version" about:"The version of the schema." enum:"1"`
	About
	Causes    []Cause `json:"causes" about:"What led to the event, the nearest first."`
	Truncated bool    `json:"truncated,omitempty" about:"True where arguments, a result, an output or data were left out, because the event would have more than 64 KiB."`
}

// large is a body with parts that are left out where they are too large.
type large interface {
	Body
	// weight returns the bytes of these parts.
	weight() int
	// small returns the body without them.
	small() Body
}

// encode returns the bytes of the event as all receivers get them.
func (e Event) encode(id uuid.UUID, now time.Time) []byte {
	h := head{
		Event: e.Body.Type(), EventID: PublicID(id), Timestamp: now.UTC().Truncate(time.Microsecond), SchemaVersion: SchemaVersion,
		About: e.About, Causes: e.Causes,
	}
	if h.Causes == nil {
		h.Causes = []Cause{}
	}
	body := e.Body
	l, may := body.(large)
	if may && l.weight() < MostBytes {
		if out := joined(h, body); len(out) <= MostBytes {
			return checked(h.Event, out)
		}
	}
	if may && l.weight() > 0 {
		h.Truncated, body = true, l.small()
	}
	return checked(h.Event, joined(h, body))
}

// joined returns one object with the members of both.
func joined(h head, body Body) []byte {
	out, more := encoded(h), encoded(body)
	if len(more) == len("{}") {
		return out
	}
	out[len(out)-1] = ','
	return append(out, more[1:]...)
}

// encoded returns the JSON of this package's own types. They always encode, except for a part
// that is no JSON, which is a bug of its producer. It escapes no more than JSON requires: an escape
// of each < would make a body six times as long.
func encoded(v any) []byte {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	if err := to.Encode(v); err != nil {
		panic(fmt.Sprintf("event: encode: %v", err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// check is called with every body where it is set. Tests set it, to compare all that they emit
// with the schemas.
var check func(Type, []byte) //nolint:gochecknoglobals // set before the tests of a binary begin

// Check makes f see every body from now on. Only test binaries call it, before their tests run.
func Check(f func(Type, []byte)) { check = f }

func checked(t Type, body []byte) []byte {
	if check != nil {
		check(t, body)
	}
	return body
}
