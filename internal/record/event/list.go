package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/quota"
)

// Keys finds the data key of a tenant. It caches keys, so nearly every call is free.
type Keys interface {
	Key(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error)
}

// Deps are what Events works with.
type Deps struct {
	DB   *db.Pool
	Keys Keys
	Log  *slog.Logger
	// Quotas bound what a tenant sends, and its streams.
	Quotas quota.Limits
}

// Events reads the events of tenants.
type Events struct {
	d       Deps
	q       *dbsqlc.Queries
	streams *streams
}

// New checks the collaborators.
func New(d Deps) (*Events, error) {
	if d.DB == nil || d.Keys == nil || d.Log == nil {
		return nil, errors.New("event: database, keys and log are required")
	}
	return &Events{d: d, q: dbsqlc.New(), streams: newStreams()}, nil
}

// Place is where an event stands among those of its tenant. No event appears later at a place
// that a reader has passed. The zero Place is before all events.
type Place struct {
	// Xid is the transaction that wrote the event.
	Xid uint64
	ID  uuid.UUID
}

// placeBytes is the length of Place.String.
const placeBytes = 8 + 16

// String returns the place in a form whose order is that of places.
func (p Place) String() string {
	out := make([]byte, 0, placeBytes)
	for shift := 56; shift >= 0; shift -= 8 {
		out = append(out, byte(p.Xid>>shift))
	}
	return string(append(out, p.ID[:]...))
}

// ParsePlace reverses Place.String.
func ParsePlace(s string) (p Place, ok bool) {
	if len(s) != placeBytes {
		return Place{}, false
	}
	for i := range 8 {
		p.Xid = p.Xid<<8 | uint64(s[i])
	}
	copy(p.ID[:], s[8:])
	return p, true
}

func (p Place) xid() string { return strconv.FormatUint(p.Xid, 10) }

// Stored is an event as it was queued.
type Stored struct {
	Place
	Type Type
	// Body is the JSON that all receivers get; nil where it does not open under the tenant's key.
	Body json.RawMessage
}

// Filter narrows a list or a stream. A field with its zero value does not narrow it.
type Filter struct {
	// Type is a type, or a family of types as "action.*".
	Type        string
	ExecutionID string
	SessionID   string
	CustomerID  string
	From, To    *time.Time // from this time on, before that one
}

// split returns the type, or what the types of the family begin with.
func (f Filter) split() (typ, family *string) {
	if start, is := strings.CutSuffix(f.Type, "*"); is {
		return nil, db.Optional(start)
	}
	return db.Optional(f.Type), nil
}

// period returns the ids of the period. The ids are made with the timestamps, by one clock.
func (f Filter) period() (low, high *uuid.UUID) {
	first := func(t *time.Time) *uuid.UUID {
		if t == nil {
			return nil
		}
		id := db.FirstID(*t)
		return &id
	}
	return first(f.From), first(f.To)
}

// pageBytes bounds the bodies of a page. A page ends after the event that passes it.
const pageBytes = 4 << 20

// Before returns the newest events first, at most limit of those before the place, and whether
// there are more. nil begins with the newest event.
func (s *Events) Before(ctx context.Context, tenant uuid.UUID, f Filter, at *Place, limit int) (page []Stored, more bool, err error) {
	p := dbsqlc.EventsBeforeParams{TenantID: tenant, ExecutionID: db.Optional(f.ExecutionID), SessionID: db.Optional(f.SessionID), CustomerID: db.Optional(f.CustomerID), Most: int32(limit + 1), Bytes: pageBytes}
	p.Type, p.Family = f.split()
	p.Low, p.High = f.period()
	if at != nil {
		xid := at.xid()
		p.Xid, p.ID = &xid, at.ID
	}
	rows, err := s.q.EventsBefore(ctx, s.d.DB.Reading(tenant, db.ListLimit), p)
	if err != nil {
		return nil, false, fmt.Errorf("event: list: %w", err)
	}
	return pageOf(ctx, s, tenant, limit, rows, func(r dbsqlc.EventsBeforeRow) dbsqlc.EventsAfterRow { return dbsqlc.EventsAfterRow(r) })
}

// After returns the oldest events first, at most limit of those after the place, and whether
// there are more now. More may follow later; none of them is before the last of the page.
func (s *Events) After(ctx context.Context, tenant uuid.UUID, f Filter, at Place, limit int) (page []Stored, more bool, err error) {
	return s.after(ctx, tenant, f, at, limit, pageBytes)
}

// after is After for a page of so many bytes.
func (s *Events) after(ctx context.Context, tenant uuid.UUID, f Filter, at Place, limit int, most int64) (page []Stored, more bool, err error) {
	p := dbsqlc.EventsAfterParams{TenantID: tenant, Xid: at.xid(), ID: at.ID, ExecutionID: db.Optional(f.ExecutionID), SessionID: db.Optional(f.SessionID), CustomerID: db.Optional(f.CustomerID), Most: int32(limit + 1), Bytes: most}
	p.Type, p.Family = f.split()
	p.Low, p.High = f.period()
	rows, err := s.q.EventsAfter(ctx, s.d.DB.Reading(tenant, db.ListLimit), p)
	if err != nil {
		return nil, false, fmt.Errorf("event: list: %w", err)
	}
	return pageOf(ctx, s, tenant, limit, rows, func(r dbsqlc.EventsAfterRow) dbsqlc.EventsAfterRow { return r })
}

// pageOf opens the rows of a page. The query reads one row more than the limit where there is one.
func pageOf[R any](ctx context.Context, s *Events, tenant uuid.UUID, limit int, rows []R, as func(R) dbsqlc.EventsAfterRow) (page []Stored, more bool, err error) {
	found := 0
	for _, row := range rows {
		r := as(row)
		found = int(r.Found)
		if len(page) == limit {
			break
		}
		e, err := s.open(ctx, tenant, r.ID, r.Xid, r.Type, r.Body)
		if err != nil {
			return nil, false, err
		}
		page = append(page, e)
	}
	return page, found > len(page), nil
}

// open returns a row as it was queued. A body that does not open is left out: the others of the
// page can still be read. The error is SERVICE_UNAVAILABLE where the key cannot be read now.
func (s *Events) open(ctx context.Context, tenant, id uuid.UUID, xid, typ, body string) (Stored, error) {
	e := Stored{Place: Place{ID: id}, Type: Type(typ)}
	var err error
	if e.Xid, err = strconv.ParseUint(xid, 10, 64); err != nil {
		return Stored{}, fmt.Errorf("event: transaction of an event: %w", err)
	}
	if !datakey.Sealed(body) {
		e.Body = json.RawMessage(body)
		return e, nil
	}
	key, err := s.d.Keys.Key(ctx, tenant)
	switch {
	case ctx.Err() != nil, fault.HasCode(err, fault.CodeServiceUnavailable):
		return Stored{}, fmt.Errorf("event: %w", err)
	case err == nil:
		e.Body, err = key.Open(place(tenant, id), body)
	}
	if err != nil {
		s.d.Log.ErrorContext(ctx, "an event does not open", "tenant_id", tenant, "event_id", PublicID(id), "error", err)
		e.Body = nil
	}
	return e, nil
}

// Get returns an event by its public id, or by the id that the sender of a custom event, or the step of
// a Map, gave it. The error is EVENT_NOT_FOUND where the tenant has none.
func (s *Events) Get(ctx context.Context, tenant uuid.UUID, id string) (Stored, error) {
	text, ours := strings.CutPrefix(id, idPrefix)
	if !ours {
		return s.bySource(ctx, tenant, id)
	}
	parsed, err := uuid.Parse(text)
	if err != nil {
		return Stored{}, fault.New(fault.CodeEventNotFound, "")
	}
	row, err := s.q.GetEvent(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetEventParams{TenantID: tenant, ID: parsed})
	switch {
	case db.IsNoRows(err):
		return s.bySource(ctx, tenant, id) // the ids that steps of Maps give begin so too
	case err != nil:
		return Stored{}, fmt.Errorf("event: get: %w", err)
	}
	return s.open(ctx, tenant, row.ID, row.Xid, row.Type, row.Body)
}
