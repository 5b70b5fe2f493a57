package event

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// Awaitable reports whether events of the type can be: the names of all types have a dot.
func (t Type) Awaitable() bool { return strings.Contains(string(t), ".") }

// Wait is which events something waits for.
type Wait struct {
	Type Type
	// Correlate is that of custom events; "" for any.
	Correlate string
	After     Place
}

// Awaited are the next events of a wait, the oldest first.
type Awaited struct {
	Events []Stored
	// Place is up to where the events were looked for. None appears before it later.
	Place Place
	// More: there are more complete events than were asked for.
	More bool
}

// Awaited returns the next complete events of each wait, at most so many, in one round trip.
func (s *Events) Awaited(ctx context.Context, tenant uuid.UUID, waits []Wait, most int) ([]Awaited, error) {
	b := &db.Batch{}
	// Before the events are read: all that is before it is found.
	frontier := db.Queue(b, func(ctx context.Context, tx dbsqlc.DBTX, _ struct{}) (int64, error) {
		return s.q.EventFrontier(ctx, tx)
	}, struct{}{})
	found := make([]func() []dbsqlc.EventsAwaitedRow, len(waits))
	for i, w := range waits {
		found[i] = s.queueAwaited(b, tenant, w, most+1)
	}
	if err := s.d.DB.SendReading(ctx, tenant, db.ListLimit, b); err != nil {
		return nil, fmt.Errorf("event: look for awaited ones: %w", err)
	}
	out := make([]Awaited, len(waits))
	for i, w := range waits {
		a, err := s.awaited(ctx, tenant, w, found[i](), most)
		if err != nil {
			return nil, err
		}
		if reached := (Place{Xid: uint64(frontier.Value) - 1, ID: uuid.Max}); !a.More && a.Place.Xid < reached.Xid {
			a.Place = reached
		}
		out[i] = a
	}
	return out, nil
}

func (s *Events) queueAwaited(b *db.Batch, tenant uuid.UUID, w Wait, most int) func() []dbsqlc.EventsAwaitedRow {
	if w.Type == ActionExecuted {
		rows := db.Queue(b, s.q.ExecutedAwaited, dbsqlc.ExecutedAwaitedParams{TenantID: tenant, Xid: w.After.xid(), ID: w.After.ID, Most: int32(most)})
		return func() (out []dbsqlc.EventsAwaitedRow) {
			for _, r := range rows.Value {
				out = append(out, dbsqlc.EventsAwaitedRow(r))
			}
			return out
		}
	}
	rows := db.Queue(b, s.q.EventsAwaited, dbsqlc.EventsAwaitedParams{
		TenantID: tenant, Type: string(w.Type), Correlate: db.Optional(w.Correlate), Xid: w.After.xid(), ID: w.After.ID, Most: int32(most),
	})
	return func() []dbsqlc.EventsAwaitedRow { return rows.Value }
}

func (s *Events) awaited(ctx context.Context, tenant uuid.UUID, w Wait, rows []dbsqlc.EventsAwaitedRow, most int) (Awaited, error) {
	a := Awaited{Place: w.After}
	rows, a.More = db.Page(rows, most)
	for _, r := range rows {
		e, err := s.open(ctx, tenant, r.ID, r.Xid, string(w.Type), r.Body)
		if err != nil {
			return Awaited{}, err
		}
		a.Place = e.Place
		a.Events = append(a.Events, e)
	}
	return a, nil
}

// Text returns the place as readable text; ParseText reverses it.
func (p Place) Text() string { return p.xid() + ":" + p.ID.String() }

// ParseText reverses Place.Text.
func ParseText(text string) (p Place, err error) {
	xid, id, _ := strings.Cut(text, ":")
	if p.Xid, err = strconv.ParseUint(xid, 10, 64); err != nil {
		return p, fmt.Errorf("event: a place: %w", err)
	}
	if p.ID, err = uuid.Parse(id); err != nil {
		return p, fmt.Errorf("event: a place: %w", err)
	}
	return p, nil
}

// AsWritten returns the event as the steps of Maps read it: what all receivers get, and its id,
// type and time by the names that signals have too. It is nil where the body does not open.
func (e Stored) AsWritten() json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(e.Body, &members) != nil || members == nil {
		return nil
	}
	for name, as := range map[string]string{"id": "event_id", "type": "event", "time": "timestamp"} {
		if _, has := members[name]; !has {
			members[name] = members[as]
		}
	}
	return encoded(members)
}
