// Package mail queues mail into the transaction of the change that it tells of, so that both exist
// or neither does. internal/tenant/account queues and writes the texts, and
// internal/service/mailing takes the rows and sends them. A row contains no token and no secret.
package mail

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// Kind says what a mail tells.
type Kind string

// Mail is one mail that has not been queued yet.
type Mail struct {
	// ID names the mail, and its token is made of it.
	ID uuid.UUID
	// TenantID and UserID are nil where a stranger asks by the address alone.
	TenantID, UserID *uuid.UUID
	Kind             Kind
	// Address gets the mail.
	Address string
	// Data is what the text names besides.
	Data Data
	// Bounds count the mail. Beyond one of them it is not sent, and the caller is not told.
	Bounds []Bound
}

// Data are the facts that a text names. They are no secrets.
type Data struct {
	// By is the id of the user who acted.
	By string `json:"by,omitempty"`
	// Name and Preview are those of an API key.
	Name    string `json:"name,omitempty"`
	Preview string `json:"preview,omitempty"`
	// To is the email address that a user changes to.
	To string `json:"to,omitempty"`
}

func (d Data) encoded() string {
	raw, err := json.Marshal(d)
	if err != nil {
		panic(fmt.Sprintf("mail: encode: %v", err)) // strings always encode
	}
	return string(raw)
}

// Window is how long a mail counts in its bounds.
const Window = time.Hour

// Bound is the most mails of one subject within Window.
type Bound struct {
	// Subject is a keyed hash of what is counted, of 32 bytes.
	Subject []byte
	Most    int
}

// Queue adds the mail to a batch of its transaction. That is the tenant's, or, without a tenant,
// one that presents the address.
func Queue(b *db.Batch, m Mail, now time.Time) {
	p := dbsqlc.QueueMailParams{
		ID: m.ID, TenantID: m.TenantID, UserID: m.UserID, Kind: string(m.Kind), Address: m.Address, Data: m.Data.encoded(),
		Now: now, WindowEndsAt: now.Add(Window),
	}
	for _, bound := range m.Bounds {
		p.Subjects, p.Most = append(p.Subjects, bound.Subject), append(p.Most, int32(bound.Most))
	}
	db.QueueExec(b, dbsqlc.New().QueueMail, p)
}

// ToOwners adds one mail to each of the tenant's owners, at most ten. It reads them in the batch.
func ToOwners(b *db.Batch, tenant uuid.UUID, kind Kind, data Data, bound Bound, now time.Time) {
	db.QueueExec(b, dbsqlc.New().QueueMailToOwners, dbsqlc.QueueMailToOwnersParams{
		Subject: bound.Subject, Most: int32(bound.Most), WindowEndsAt: now.Add(Window), Now: now, Kind: string(kind), Data: data.encoded(), TenantID: tenant,
	})
}
