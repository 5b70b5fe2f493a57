package event

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/record/quota"
)

// Custom is the body of a custom event, which a tenant's own software sends.
type Custom struct {
	kind Type

	ID        string          `json:"id" about:"The sender's id of the event. A second event with it is the same event."`
	SentBy    string          `json:"sent_by" about:"The key that sent it, as key:<id>."`
	Correlate string          `json:"correlate,omitempty" about:"What the event belongs to, in the sender's words. Waits compare it."`
	Data      json.RawMessage `json:"data" about:"What the sender says. Values whose names look secret are masked."`
}

// Type implements Body.
func (b Custom) Type() Type { return b.kind }

func (b Custom) weight() int { return len(b.Data) }

func (b Custom) small() Body {
	b.Data = json.RawMessage("{}")
	return b
}

// Sent is a custom event as its sender writes it. The caller has checked its form.
type Sent struct {
	ID        string
	Type      Type
	Correlate string
	Data      json.RawMessage // an object
}

// MostData is the most bytes of the data of a custom event. With the other members it fits into
// an event.
const MostData = 60 << 10

// Send queues a custom event, once for each id of the sender. fresh is false where the tenant has
// the event already. The error is IDEMPOTENCY_KEY_REUSED where it has another event under the id,
// QUOTA_EXCEEDED where it has sent too many, and VALIDATION_ERROR where the data is too long once it
// is masked: a mask may be longer than what it hides.
func (s *Events) Send(ctx context.Context, who actor.Actor, sent Sent) (out Stored, fresh bool, err error) {
	key, err := s.d.Keys.Key(ctx, who.TenantID)
	if err != nil {
		return Stored{}, false, fmt.Errorf("event: %w", err)
	}
	masked, _ := redact.NewMasker(nil).Mask(sent.Data)
	if len(masked) > MostData {
		return Stored{}, false, fault.Invalid("/data", "maxLength", "data has at most 60 KiB, with its secrets masked.")
	}
	e := Event{TenantID: who.TenantID, Key: key, Body: Custom{kind: sent.Type, ID: sent.ID, SentBy: who.String(), Correlate: sent.Correlate, Data: masked}}
	p := params(e, time.Now())
	b := &db.Batch{}
	row := db.QueueOptional(b, s.q.InsertCustomEvent, dbsqlc.InsertCustomEventParams{
		ID: p.ID, TenantID: p.TenantID, Type: p.Type, ExecutionID: p.ExecutionID, SessionID: p.SessionID, CustomerID: p.CustomerID,
		SourceID: sent.ID, Correlate: db.Optional(sent.Correlate), Body: p.Body,
	})
	s.d.Quotas.Queue(b, who.TenantID, quota.CustomEvents)
	if err := s.d.DB.Send(ctx, who.TenantID, b); err != nil {
		return Stored{}, false, fmt.Errorf("event: send: %w", err)
	}
	failpoint.Hit("event_sent", p.ID)
	if r := row.Value; r != nil {
		out, err = s.open(ctx, who.TenantID, r.ID, r.Xid, r.Type, r.Body)
		return out, true, err
	}
	if out, err = s.bySource(ctx, who.TenantID, sent.ID); err != nil {
		return Stored{}, false, err
	}
	if out.Type != sent.Type || !out.says(sent.Correlate, masked) {
		return Stored{}, false, fault.New(fault.CodeIdempotencyKeyReused, "An event with this id was sent before, with another type, data or correlate. Send another id.")
	}
	return out, false, nil
}

// says reports whether the stored custom event has this content.
func (e Stored) says(correlate string, data json.RawMessage) bool {
	var was struct {
		Correlate string
		Data      json.RawMessage
	}
	return json.Unmarshal(e.Body, &was) == nil && was.Correlate == correlate && bytes.Equal(encoded(was.Data), encoded(data))
}

func (s *Events) bySource(ctx context.Context, tenant uuid.UUID, id string) (Stored, error) {
	row, err := s.q.EventBySource(ctx, s.d.DB.Tenant(tenant), dbsqlc.EventBySourceParams{TenantID: tenant, SourceID: id})
	switch {
	case db.IsNoRows(err):
		return Stored{}, fault.New(fault.CodeEventNotFound, "")
	case err != nil:
		return Stored{}, fmt.Errorf("event: get: %w", err)
	}
	return s.open(ctx, tenant, row.ID, row.Xid, row.Type, row.Body)
}
