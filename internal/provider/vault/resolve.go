package vault

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/credential"
)

// Sealed is a credential as it was read for a call: still encrypted, and useless
// to any tenant but its own.
type Sealed struct {
	ID         uuid.UUID
	Provider   string
	Type       credential.Kind
	Label      string
	CustomerID string
	Version    int
	// Schemes has the kind of each secret by its scheme; nil for a credential of one secret.
	Schemes map[string]credential.Kind
	// UpdatedAt is when the credential was last changed.
	UpdatedAt time.Time
	reach     reach
	envelope  envelope
}

// Keyring returns what the credential has, without its secrets.
func (s Sealed) Keyring() credential.Keyring {
	return credential.Keyring{Kind: s.Type, Schemes: s.Schemes}
}

// MaySend refuses a request to which the credential may not be added, with URL_NOT_ALLOWED.
// The credential goes to the origin that it is bound to, or to its allowed hosts. Where the
// provider is now does not count: an import may have moved it.
func (s Sealed) MaySend(target *url.URL) error {
	if s.reach.maySend(target) {
		return nil
	}
	if s.reach.origin == "" {
		return fault.Newf(fault.CodeURLNotAllowed, "The credential %s is not bound to an origin yet, because it was stored before its provider. "+
			"An owner or an admin sets it: PATCH /v1/credentials/%[1]s with origin.", s.ID)
	}
	return fault.Newf(fault.CodeURLNotAllowed, "The credential %s may not be sent to %s. It is bound to %s. "+
		"An owner or an admin changes that: PATCH /v1/credentials/%[1]s with origin or allowed_hosts.", s.ID, credential.OriginOf(target.String()), s.reach.origin)
}

// QueueNewest adds the question for the credential of a call to a batch of the tenant.
// That is the customer's newest active credential, otherwise the tenant's; customerID ""
// asks for the tenant's only. With only it is that one, where it is one of these. Once the batch
// was sent, the function returned reads the answer: PROVIDER_NOT_CONNECTED where there is none, with
// only CREDENTIAL_NOT_FOUND, and CREDENTIAL_EXPIRED where all have expired.
func QueueNewest(b *db.Batch, tenant uuid.UUID, provider, customerID string, only *uuid.UUID) func() (Sealed, error) {
	answer := db.QueueOptional(b, dbsqlc.New().NewestCredential, dbsqlc.NewestCredentialParams{
		TenantID: tenant, Provider: provider, CustomerID: db.Optional(customerID), Only: only,
	})
	return func() (Sealed, error) { return sealed(answer.Value, only) }
}

// ReadNewest reads the part "credential" of what the SQL function call_target returned. Its
// refusals are those of QueueNewest. Any other error says that the part cannot be read.
func ReadNewest(part json.RawMessage, only *uuid.UUID) (Sealed, error) {
	var r *struct {
		ID           uuid.UUID `json:"id"`
		Provider     string    `json:"provider"`
		Type         string    `json:"type"`
		Label        string    `json:"label"`
		CustomerID   *string   `json:"customer_id"`
		Origin       *string   `json:"origin"`
		AllowedHosts []string  `json:"allowed_hosts"`
		Status       string    `json:"status"`
		Version      int32     `json:"version"`
		KekID        string    `json:"kek_id"`
		WrappedKey   []byte    `json:"wrapped_key"`
		Ciphertext   []byte    `json:"ciphertext"`
		UpdatedAt    time.Time `json:"updated_at"`
		Schemes      []byte    `json:"schemes"`
	}
	if err := json.Unmarshal(part, &r); err != nil {
		return Sealed{}, fmt.Errorf("vault: read a credential: %w", err)
	}
	return sealed((*dbsqlc.NewestCredentialRow)(r), only)
}

func sealed(row *dbsqlc.NewestCredentialRow, only *uuid.UUID) (Sealed, error) {
	switch {
	case row == nil && only != nil:
		return Sealed{}, fault.Newf(fault.CodeCredentialNotFound, "The credential %s is not one of this provider that this call may use, or it was revoked.", only)
	case row == nil:
		return Sealed{}, fault.New(fault.CodeProviderNotConnected, "")
	case Status(row.Status) == StatusExpired:
		return Sealed{}, fault.New(fault.CodeCredentialExpired, "")
	}
	return Sealed{
		ID: row.ID, Provider: row.Provider, Type: credential.Kind(row.Type), Label: row.Label, CustomerID: db.Text(row.CustomerID), Version: int(row.Version), UpdatedAt: row.UpdatedAt, Schemes: storedSchemes(row.Schemes),
		reach:    reach{origin: db.Text(row.Origin), hosts: row.AllowedHosts},
		envelope: envelope{kekID: row.KekID, wrappedKey: row.WrappedKey, ciphertext: row.Ciphertext},
	}, nil
}

// Resolve opens a credential for the tenant in whose call it is used. A row of
// another tenant does not open, wherever it was read. The error is SERVICE_UNAVAILABLE where
// the KMS cannot be reached. A credential that does not open is ours to repair, and no fault.
func (v *Vault) Resolve(ctx context.Context, tenant uuid.UUID, s Sealed) (credential.Secret, error) {
	b := binding{tenant: tenant, credential: s.ID, field: fieldData, version: int32(s.Version)}
	plaintext, err := open(ctx, v.kms, b, s.envelope)
	if err != nil {
		return credential.Secret{}, fmt.Errorf("vault: credential %s: %w", s.ID, err)
	}
	defer clear(plaintext)
	c, err := credential.ParseSecret(plaintext, s.Type)
	if err != nil {
		return credential.Secret{}, fmt.Errorf("vault: credential %s: %w", s.ID, err)
	}
	return c, nil
}

// MarkUsed notes that a credential was sent, at most once a minute and process, so
// that a busy credential costs no write per call.
func (v *Vault) MarkUsed(ctx context.Context, tenant, id uuid.UUID) error {
	now := v.now()
	if !v.used.due(id, now) {
		return nil
	}
	err := v.q.MarkCredentialUsed(ctx, v.db.Tenant(tenant), dbsqlc.MarkCredentialUsedParams{
		TenantID: tenant, ID: id, Now: now, UnlessSince: now.Add(-usedEvery),
	})
	if err != nil {
		return fmt.Errorf("vault: note the use of a credential: %w", err)
	}
	return nil
}

// usedEvery is how exact last_used_at is.
const usedEvery = time.Minute

// maxUsed bounds the memory of usedLately; beyond it all is forgotten, which
// costs one write more per credential.
const maxUsed = 10_000

// usedLately remembers when each credential's use was written last.
type usedLately struct {
	mu sync.Mutex
	at map[uuid.UUID]time.Time
}

// due reports whether a use at now is to be written, and if so remembers it.
func (u *usedLately) due(id uuid.UUID, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, ok := u.at[id]; ok && now.Sub(last) < usedEvery {
		return false
	}
	if u.at == nil || len(u.at) >= maxUsed {
		u.at = map[uuid.UUID]time.Time{}
	}
	u.at[id] = now
	return true
}

func sealedRow(r dbsqlc.Credential) Sealed {
	return Sealed{
		ID: r.ID, Provider: r.Provider, Type: credential.Kind(r.Type), Label: r.Label, CustomerID: db.Text(r.CustomerID), Version: int(r.Version), Schemes: storedSchemes(r.Schemes),
		reach:    reach{origin: db.Text(r.Origin), hosts: r.AllowedHosts},
		envelope: envelope{kekID: r.KekID, wrappedKey: r.WrappedKey, ciphertext: r.Ciphertext},
	}
}
