package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/credential"
	"agentruntime/internal/kernel/datakey"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/quota"
)

// Deps are the collaborators of a Vault.
type Deps struct {
	DB  *db.Pool
	KMS KMS
	Now func() time.Time // nil is time.Now
	// Quotas bound how many credentials a tenant has.
	Quotas quota.Limits
}

// Vault stores and opens credentials. It is safe for concurrent use.
type Vault struct {
	db     *db.Pool
	kms    KMS
	now    func() time.Time
	q      *dbsqlc.Queries
	quotas quota.Limits
	used   usedLately
	// tenantKeys are the opened data keys of tenants.
	tenantKeys *lru.Cache[uuid.UUID, *datakey.Key]
}

// Open builds a Vault; database and KMS are required.
func Open(d Deps) (*Vault, error) {
	if d.DB == nil || d.KMS == nil {
		return nil, errors.New("vault: database and KMS are required")
	}
	return &Vault{db: d.DB, kms: d.KMS, now: db.Clock(d.Now), q: dbsqlc.New(), tenantKeys: newTenantKeys(), quotas: d.Quotas}, nil
}

// changed is the record of a change of a credential, without anything of its data.
func changed(who actor.Actor, action audit.Action, c Credential) audit.Record {
	r := audit.Change(who, action, audit.SubjectCredential, c.ID.String())
	r.Provider = c.Provider
	return r
}

func notFound() error { return fault.New(fault.CodeCredentialNotFound, "") }

// Create seals and stores a credential. What is wrong with the input is
// VALIDATION_ERROR, and no message repeats a part of the data. It also refuses with
// QUOTA_EXCEEDED.
func (v *Vault) Create(ctx context.Context, who actor.Actor, n New) (Credential, error) {
	p, err := n.parse()
	if err != nil {
		return Credential{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Credential{}, fmt.Errorf("vault: make an id: %w", err)
	}
	c := Credential{
		ID: id, Provider: n.Provider, Type: p.secret.Kind(), Label: n.Label, CustomerID: n.CustomerID,
		AllowedHosts: p.hosts, Status: StatusActive, Version: 1, CreatedBy: who.String(),
		CreatedAt: v.now(),
	}
	c.UpdatedAt = c.CreatedAt
	e, err := v.sealSecret(ctx, who.TenantID, id, 1, p.secret)
	if err != nil {
		return Credential{}, err
	}
	b := &db.Batch{}
	db.QueueExec(b, v.q.InsertCredential, dbsqlc.InsertCredentialParams{
		ID: id, TenantID: who.TenantID, Provider: c.Provider, Type: string(c.Type), Label: c.Label, CustomerID: db.Optional(c.CustomerID),
		AllowedHosts: c.AllowedHosts, Version: int32(c.Version), KekID: e.kekID, WrappedKey: e.wrappedKey, Ciphertext: e.ciphertext,
		CreatedBy: c.CreatedBy, CreatedAt: c.CreatedAt,
	})
	v.quotas.Queue(b, who.TenantID, quota.Credentials)
	audit.Queue(b, changed(who, audit.CredentialCreated, c).With(map[string]any{"type": c.Type, "customer_id": c.CustomerID}))
	if err := v.db.Send(ctx, who.TenantID, b); err != nil {
		return Credential{}, fmt.Errorf("vault: store a credential: %w", err)
	}
	return c, nil
}

// Get returns a credential without its secret, or CREDENTIAL_NOT_FOUND.
func (v *Vault) Get(ctx context.Context, tenant, id uuid.UUID) (Credential, error) {
	row, err := v.get(ctx, tenant, id)
	if err != nil {
		return Credential{}, err
	}
	return shown(row), nil
}

// List returns credentials of the tenant, newest first, and whether there are
// more after the last.
func (v *Vault) List(ctx context.Context, tenant uuid.UUID, f Filter) (page []Credential, more bool, err error) {
	if err := f.check(); err != nil {
		return nil, false, err
	}
	arg := dbsqlc.ListCredentialsParams{
		TenantID: tenant, Provider: db.Optional(f.Provider), CustomerID: db.Optional(f.CustomerID), N: int32(f.Limit + 1),
	}
	if f.Status != "" {
		s, err := parseStatus("query.status", f.Status, StatusActive, StatusRevoked, StatusExpired)
		if err != nil {
			return nil, false, err
		}
		arg.Status = db.Optional(string(s))
	}
	if f.Before != uuid.Nil {
		arg.Before = &f.Before
	}
	rows, err := v.q.ListCredentials(ctx, v.db.Reading(tenant, db.ListLimit), arg)
	if err != nil {
		return nil, false, fmt.Errorf("vault: list credentials: %w", err)
	}
	rows, more = db.Page(rows, f.Limit)
	page = make([]Credential, len(rows))
	for i, r := range rows {
		page[i] = Credential{
			ID: r.ID, Provider: r.Provider, Type: credential.Kind(r.Type), Label: r.Label, CustomerID: db.Text(r.CustomerID),
			AllowedHosts: r.AllowedHosts, Status: Status(r.Status), Version: int(r.Version), CreatedBy: r.CreatedBy,
			CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), LastUsedAt: db.UTC(r.LastUsedAt), RotatedAt: db.UTC(r.RotatedAt),
		}
	}
	return page, more, nil
}

// Update changes label, allowed hosts or status; CREDENTIAL_NOT_FOUND.
func (v *Vault) Update(ctx context.Context, who actor.Actor, id uuid.UUID, p Patch) (Credential, error) {
	arg := dbsqlc.PatchCredentialParams{TenantID: who.TenantID, ID: id, Label: p.Label, Now: v.now()}
	if p.Label != nil {
		if err := checkLabel(*p.Label); err != nil {
			return Credential{}, err
		}
	}
	if p.AllowedHosts != nil {
		hosts, err := parseHosts(*p.AllowedHosts)
		if err != nil {
			return Credential{}, err
		}
		arg.AllowedHosts = hosts
	}
	if p.Status != nil {
		s, err := parseStatus("/status", *p.Status, StatusActive, StatusRevoked)
		if err != nil {
			return Credential{}, err
		}
		arg.Status = db.Optional(string(s))
	}
	var c Credential
	err := v.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		row, err := v.q.PatchCredential(ctx, tx, arg)
		switch {
		case db.IsNoRows(err):
			return notFound()
		case err != nil:
			return fmt.Errorf("vault: change a credential: %w", err)
		}
		c = shown(row)
		return audit.Append(ctx, tx, changed(who, audit.CredentialUpdated, c).With(p.details(c)))
	})
	if err != nil {
		return Credential{}, err
	}
	return c, nil
}

// details names what a patch changed and tells a new status.
func (p Patch) details(c Credential) map[string]any {
	fields := []string{}
	if p.Label != nil {
		fields = append(fields, "label")
	}
	if p.AllowedHosts != nil {
		fields = append(fields, "allowed_hosts")
	}
	out := map[string]any{}
	if p.Status != nil {
		fields = append(fields, "status")
		out["status"] = c.Status
	}
	out["fields"] = fields
	return out
}

// Rotate replaces the secret by data of the same type and counts the version up.
// The old secret is gone. Of two rotations at once, one is CONFLICT.
func (v *Vault) Rotate(ctx context.Context, who actor.Actor, id uuid.UUID, data json.RawMessage) (Credential, error) {
	old, err := v.get(ctx, who.TenantID, id)
	if err != nil {
		return Credential{}, err
	}
	c, err := parseData(credential.Kind(old.Type), data)
	if err != nil {
		return Credential{}, err
	}
	e, err := v.sealSecret(ctx, who.TenantID, id, old.Version+1, c)
	if err != nil {
		return Credential{}, err
	}
	now := v.now()
	var rotated Credential
	err = v.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		row, err := v.q.RotateCredential(ctx, tx, dbsqlc.RotateCredentialParams{
			TenantID: who.TenantID, ID: id, Version: old.Version, KekID: e.kekID, WrappedKey: e.wrappedKey, Ciphertext: e.ciphertext, Now: &now,
		})
		switch {
		case db.IsNoRows(err):
			return fault.New(fault.CodeConflict, "The credential was rotated or deleted at the same moment.")
		case err != nil:
			return fmt.Errorf("vault: rotate a credential: %w", err)
		}
		rotated = shown(row)
		return audit.Append(ctx, tx, changed(who, audit.CredentialRotated, rotated).With(map[string]any{"version": rotated.Version}))
	})
	if err != nil {
		return Credential{}, err
	}
	return rotated, nil
}

// Delete removes the row and with it the ciphertext; a second time is
// CREDENTIAL_NOT_FOUND.
func (v *Vault) Delete(ctx context.Context, who actor.Actor, id uuid.UUID) error {
	return v.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		n, err := v.q.DeleteCredential(ctx, tx, dbsqlc.DeleteCredentialParams{TenantID: who.TenantID, ID: id})
		switch {
		case err != nil:
			return fmt.Errorf("vault: delete a credential: %w", err)
		case n == 0:
			return notFound()
		}
		return audit.Append(ctx, tx, changed(who, audit.CredentialDeleted, Credential{ID: id}))
	})
}

// Validate opens the credential and reports whether it can be used as it is
// stored: it decrypts and its status is active. It does not call the provider,
// so a key that the provider has withdrawn still counts as valid here.
func (v *Vault) Validate(ctx context.Context, tenant, id uuid.UUID) (Credential, bool, error) {
	row, err := v.get(ctx, tenant, id)
	if err != nil {
		return Credential{}, false, err
	}
	if _, err := v.Resolve(ctx, tenant, sealedRow(row)); err != nil {
		return Credential{}, false, err
	}
	return shown(row), Status(row.Status) == StatusActive, nil
}

func (v *Vault) get(ctx context.Context, tenant, id uuid.UUID) (dbsqlc.Credential, error) {
	row, err := v.q.GetCredential(ctx, v.db.Tenant(tenant), dbsqlc.GetCredentialParams{TenantID: tenant, ID: id})
	switch {
	case db.IsNoRows(err):
		return dbsqlc.Credential{}, notFound()
	case err != nil:
		return dbsqlc.Credential{}, fmt.Errorf("vault: read a credential: %w", err)
	}
	return row, nil
}

func (v *Vault) sealSecret(ctx context.Context, tenant, id uuid.UUID, version int32, s credential.Secret) (envelope, error) {
	plaintext, err := s.Plaintext()
	if err != nil {
		return envelope{}, fmt.Errorf("vault: %w", err)
	}
	defer clear(plaintext)
	return seal(ctx, v.kms, binding{tenant: tenant, credential: id, field: fieldData, version: version}, plaintext)
}

func shown(r dbsqlc.Credential) Credential {
	return Credential{
		ID: r.ID, Provider: r.Provider, Type: credential.Kind(r.Type), Label: r.Label, CustomerID: db.Text(r.CustomerID),
		AllowedHosts: r.AllowedHosts, Status: Status(r.Status), Version: int(r.Version), CreatedBy: r.CreatedBy,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), LastUsedAt: db.UTC(r.LastUsedAt), RotatedAt: db.UTC(r.RotatedAt),
	}
}
