package event

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
)

// Recoverable is how long events are remembered for a webhook that the service has disabled: a
// week is time to repair a receiver. They can be delivered when it is enabled again.
const Recoverable = 7 * 24 * time.Hour

// All is what a webhook names that wants events of every type.
const All = "*"

// Wantable reports whether a webhook may name it: All, a type of the table or a family of such
// types, or a type or family of custom events.
func Wantable(name string) bool {
	family, isFamily := strings.CutSuffix(name, "*")
	for _, s := range Types() {
		if string(s.Type) == name || isFamily && strings.HasSuffix(family, ".") && strings.HasPrefix(string(s.Type), family) {
			return true
		}
	}
	custom := strings.TrimSuffix(name, ".*")
	return name == All || name == customPrefix+All || Type(custom).ValidCustom()
}

// QueueTest adds to a batch of the tenant's transaction an event of the type webhook.test, which
// one webhook is told of and no other. It returns the id of the event.
func QueueTest(b *db.Batch, tenant, webhook uuid.UUID) uuid.UUID {
	now := time.Now()
	p := params(Event{TenantID: tenant, Body: Test{WebhookID: webhook.String()}}, now)
	db.QueueExec(b, dbsqlc.New().InsertTestEvent, dbsqlc.InsertTestEventParams{
		ID: p.ID, TenantID: tenant, Type: p.Type, Body: p.Body, WebhookID: webhook, Now: now,
	})
	return p.ID
}

// Open returns the bytes of a stored body. The error is that of the key.
func Open(key *datakey.Key, tenant, id uuid.UUID, stored string) ([]byte, error) {
	body, err := key.Open(place(tenant, id), stored)
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	return body, nil
}

// ParseID reverses PublicID.
func ParseID(public string) (id uuid.UUID, ok bool) {
	text, ours := strings.CutPrefix(public, idPrefix)
	id, err := uuid.Parse(text)
	return id, ours && err == nil && id.String() == text
}

// Test is the body of webhook.test.
type Test struct {
	WebhookID string `json:"webhook_id" about:"The webhook that is tested."`
}

// Type implements Body.
func (Test) Type() Type { return WebhookTest }

// Disabled is the body of webhook.disabled.
type Disabled struct {
	WebhookID string `json:"webhook_id" about:"The webhook that was disabled."`
	Reason    string `json:"reason" about:"Why: its receiver answered 410, or every attempt of a delivery failed and no delivery succeeded meanwhile." enum:"gone,failing"`
}

// Type implements Body.
func (Disabled) Type() Type { return WebhookDisabled }

// Names returns the names of the types that the service itself emits.
func Names() []string {
	var names []string
	for _, s := range Types() {
		names = append(names, string(s.Type))
	}
	return names
}
