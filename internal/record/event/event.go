// Package event queues events: what webhooks, streams and triggers are told of a change. An
// event is queued into the transaction of its change, so that both exist or neither does. The
// package also has the table of types, and lists, streams and forgets the events. Domain
// packages call it; it calls none of them.
package event

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
)

// Event is one event that has not been queued yet.
type Event struct {
	// ID is set where a repeat of the transaction must not emit the event again. It has the form of
	// those that are made where it is not.
	ID       uuid.UUID
	TenantID uuid.UUID
	About
	// Causes are what led to it, the nearest first.
	Causes []Cause
	// Body has the members of the event's type. It contains no secret: what callers and
	// providers wrote is masked before it gets here.
	Body Body
	// Key seals the body in the database. It is required where the body has arguments or
	// results; nil leaves the body readable.
	Key *datakey.Key
}

// About are the things that an event is about, by the names that callers know. An event is
// found by the first three. A field is "" where the event is about no such thing.
type About struct {
	ExecutionID string `json:"execution_id,omitempty" about:"The execution that the event is about, or that it belongs to."`
	SessionID   string `json:"session_id,omitempty" about:"The session that the call named."`
	CustomerID  string `json:"customer_id,omitempty" about:"The customer that the call is for."`
	AgentID     string `json:"agent_id,omitempty" about:"The agent that acts."`
}

// Cause is one thing that led to an event.
type Cause struct {
	Type CauseType `json:"type" about:"What kind of thing the id names." enum:"execution,approval,grant,event"`
	ID   string    `json:"id" about:"The id of the execution, approval, grant or event."`
}

// CauseType says what kind of thing led to an event.
type CauseType string

// The kinds of causes.
const (
	CauseExecution CauseType = "execution"
	CauseApproval  CauseType = "approval"
	CauseGrant     CauseType = "grant"
	CauseEvent     CauseType = "event"
)

// Queue adds the event to a batch of the tenant's transaction. Its body is final here.
func Queue(b *db.Batch, e Event) { db.QueueExec(b, dbsqlc.New().InsertEvent, params(e, time.Now())) }

func params(e Event, now time.Time) dbsqlc.InsertEventParams {
	id := e.ID
	if id == uuid.Nil {
		id = uuid.Must(uuid.NewV7())
	}
	body := e.encode(id, now)
	return dbsqlc.InsertEventParams{
		ID: id, TenantID: e.TenantID, Type: string(e.Body.Type()),
		ExecutionID: db.Optional(e.ExecutionID), SessionID: db.Optional(e.SessionID), CustomerID: db.Optional(findable(e.CustomerID)),
		Body: seal(e.Key, e.TenantID, id, body),
	}
}

// mostFindable is the longest id of a customer, in bytes, by which events are found. It fits into
// an index of Postgres. Nothing limits what a call names its customer but the size of its metadata.
const mostFindable = 1024

func findable(id string) string {
	if len(id) > mostFindable {
		return ""
	}
	return id
}

// seal returns a body as the database stores it.
func seal(key *datakey.Key, tenant, id uuid.UUID, body []byte) string {
	if key == nil {
		return string(body)
	}
	return key.Seal(place(tenant, id), body)
}

func place(tenant, id uuid.UUID) datakey.Place {
	return datakey.Place{Tenant: tenant, Row: id, Field: datakey.EventBody}
}

// idPrefix begins the public id of an event, which is also the id of its webhook.
const idPrefix = "evt_"

// Reserved reports whether a sender may not use the id: it looks like one of the service.
func Reserved(id string) bool { return strings.HasPrefix(id, idPrefix) }

// PublicID returns the id of an event as callers know it.
func PublicID(id uuid.UUID) string { return idPrefix + id.String() }
