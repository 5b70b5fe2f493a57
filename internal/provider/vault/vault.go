package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/quota"
)

// Deps are the collaborators of a Vault.
type Deps struct {
	DB  *db.Pool
	KMS KMS
	// CheckURL refuses an address that no call can reach, with URL_NOT_ALLOWED.
	CheckURL func(url string) error
	// ModelURL returns the base URL of the model provider that a credential's provider names; is is
	// false where that is a provider of verbs.
	ModelURL func(ctx context.Context, tenant uuid.UUID, provider string) (base string, is bool, err error)
	Now      func() time.Time // nil is time.Now
	// Quotas bound how many credentials a tenant has.
	Quotas quota.Limits
}

// Vault stores and opens credentials. It is safe for concurrent use.
type Vault struct {
	db       *db.Pool
	kms      KMS
	checkURL func(url string) error
	modelURL func(ctx context.Context, tenant uuid.UUID, provider string) (string, bool, error)
	now      func() time.Time
	q        *dbsqlc.Queries
	quotas   quota.Limits
	used     usedLately
	// tenantKeys are the opened data keys of tenants.
	tenantKeys *lru.Cache[uuid.UUID, *datakey.Key]
}

// Open builds a Vault; database, KMS and the check of addresses are required.
func Open(d Deps) (*Vault, error) {
	if d.DB == nil || d.KMS == nil || d.CheckURL == nil {
		return nil, errors.New("vault: database, KMS and a check of addresses are required")
	}
	if d.ModelURL == nil {
		d.ModelURL = func(context.Context, uuid.UUID, string) (string, bool, error) { return "", false, nil }
	}
	return &Vault{
		db: d.DB, kms: remote{d.KMS}, checkURL: d.CheckURL, modelURL: d.ModelURL, now: db.Clock(d.Now), q: dbsqlc.New(), quotas: d.Quotas, tenantKeys: newTenantKeys(),
	}, nil
}

// changed is the record of a change of a credential, without anything of its data.
func changed(who actor.Actor, action audit.Action, c Credential) audit.Record {
	r := audit.Change(who, action, audit.SubjectCredential, c.ID.String())
	r.Provider = c.Provider
	return r
}

func notFound() error { return fault.New(fault.CodeCredentialNotFound, "") }

// Create seals and stores a credential, bound to the origin of its provider. What is wrong
// with the input is VALIDATION_ERROR, a host that no call can reach URL_NOT_ALLOWED, and no
// message repeats a part of the data. Only a user may name another origin or more hosts:
// INSUFFICIENT_PERMISSIONS. It also refuses with QUOTA_EXCEEDED.
func (v *Vault) Create(ctx context.Context, who actor.Actor, n New) (Credential, error) {
	p, err := n.parse()
	if err != nil {
		return Credential{}, err
	}
	if err := checkExpiry(n.ExpiresAt, v.now()); err != nil {
		return Credential{}, err
	}
	to, err := v.newReach(ctx, who, n, p.hosts)
	if err != nil {
		return Credential{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Credential{}, fmt.Errorf("vault: make an id: %w", err)
	}
	c := Credential{
		ID: id, Provider: n.Provider, Type: p.secret.Kind(), Schemes: kindsOf(p.secret), Label: n.Label, CustomerID: n.CustomerID,
		Origin: to.origin, AllowedHosts: to.hosts, Status: StatusActive, Version: 1, CreatedBy: who.String(),
		CreatedAt: v.now(), ExpiresAt: n.ExpiresAt,
	}
	c.UpdatedAt = c.CreatedAt
	e, err := v.sealSecret(ctx, who.TenantID, id, 1, p.secret)
	if err != nil {
		return Credential{}, err
	}
	schemes, err := schemesOf(p.secret)
	if err != nil {
		return Credential{}, err
	}
	b := &db.Batch{}
	idempotency.Queue(ctx, b, id.String())
	db.QueueExec(b, v.q.InsertCredential, dbsqlc.InsertCredentialParams{
		ID: id, TenantID: who.TenantID, Provider: c.Provider, Type: string(c.Type), Label: c.Label, CustomerID: db.Optional(c.CustomerID),
		Origin: db.Optional(c.Origin), AllowedHosts: c.AllowedHosts, Version: int32(c.Version), KekID: e.kekID, WrappedKey: e.wrappedKey, Ciphertext: e.ciphertext,
		Schemes: schemes, CreatedBy: c.CreatedBy, CreatedAt: c.CreatedAt, ExpiresAt: c.ExpiresAt, NoticeAt: nextNotice(c.ExpiresAt, c.CreatedAt),
	})
	if err := v.queueDigests(ctx, b, who.TenantID, id, p.secret); err != nil {
		return Credential{}, err
	}
	v.quotas.Queue(b, who.TenantID, quota.Credentials)
	audit.Queue(b, changed(who, audit.CredentialCreated, c).With(map[string]any{
		"type": c.Type, "customer_id": c.CustomerID, "origin": c.Origin, "allowed_hosts": c.AllowedHosts,
	}))
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
			ID: r.ID, Provider: r.Provider, Type: credential.Kind(r.Type), Schemes: storedSchemes(r.Schemes), Label: r.Label, CustomerID: db.Text(r.CustomerID),
			Origin: db.Text(r.Origin), AllowedHosts: r.AllowedHosts, Status: Status(r.Status), Version: int(r.Version), CreatedBy: r.CreatedBy,
			CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), LastUsedAt: db.UTC(r.LastUsedAt), RotatedAt: db.UTC(r.RotatedAt), ExpiresAt: db.UTC(r.ExpiresAt),
		}
	}
	return page, more, nil
}

// newReach returns where a new credential may be sent.
func (v *Vault) newReach(ctx context.Context, who actor.Actor, n New, hosts []string) (reach, error) {
	to := reach{hosts: hosts}
	base, err := v.baseURL(ctx, who.TenantID, n.Provider)
	if err != nil {
		return reach{}, err
	}
	to.origin = credential.OriginOf(base)
	if n.Origin != "" {
		named, err := v.parseOrigin(n.Origin)
		if err == nil && named != to.origin {
			err = needsUser(who, "The origin is not that of the provider's base URL.")
		}
		if err != nil {
			return reach{}, err
		}
		to.origin = named
	}
	if err := v.checkHosts(hosts); err != nil {
		return reach{}, err
	}
	if !(reach{origin: to.origin}).covers(hosts) {
		return to, needsUser(who, "The allowed hosts are more than the origin of the provider's base URL.")
	}
	return to, nil
}

// baseURL returns where a provider of verbs or of models is; "" where there is none.
func (v *Vault) baseURL(ctx context.Context, tenant uuid.UUID, provider string) (string, error) {
	if base, is, err := v.modelURL(ctx, tenant, provider); is || err != nil {
		return base, err
	}
	bases, err := v.q.ProviderBaseURL(ctx, v.db.Tenant(tenant), dbsqlc.ProviderBaseURLParams{TenantID: tenant, Provider: provider})
	if err != nil {
		return "", fmt.Errorf("vault: read the provider: %w", err)
	}
	return strings.Join(bases[:min(len(bases), 1)], ""), nil
}

// Bind gives the credentials of a provider that were stored before it the origin of its base
// URL. The caller does so in the transaction of an import by a user, who thereby says where the
// provider is.
func (v *Vault) Bind(ctx context.Context, tx pgx.Tx, who actor.Actor, provider, baseURL string) error {
	origin := credential.OriginOf(baseURL)
	ids, err := v.q.BindCredentials(ctx, tx, dbsqlc.BindCredentialsParams{
		Origin: db.Optional(origin), Now: v.now(), TenantID: who.TenantID, Provider: provider,
	})
	if err != nil {
		return fmt.Errorf("vault: bind credentials: %w", err)
	}
	for _, id := range ids {
		rec := changed(who, audit.CredentialUpdated, Credential{ID: id, Provider: provider})
		if err := audit.Append(ctx, tx, rec.With(map[string]any{"fields": []string{"origin"}, "origin_before": "", "origin": origin})); err != nil {
			return err
		}
	}
	return nil
}

// Update changes label, origin, allowed hosts or status. CREDENTIAL_NOT_FOUND. Only a user may
// change the origin or add hosts: INSUFFICIENT_PERMISSIONS. A host that no call can reach is
// URL_NOT_ALLOWED.
func (v *Vault) Update(ctx context.Context, who actor.Actor, id uuid.UUID, p Patch) (Credential, error) {
	arg := dbsqlc.PatchCredentialParams{TenantID: who.TenantID, ID: id, Label: p.Label, Now: v.now()}
	if p.Label != nil {
		if err := checkLabel(*p.Label); err != nil {
			return Credential{}, err
		}
	}
	if p.Origin != nil {
		origin, err := v.parseOrigin(*p.Origin)
		if err != nil {
			return Credential{}, err
		}
		arg.Origin = &origin
	}
	if p.AllowedHosts != nil {
		hosts, err := parseHosts(*p.AllowedHosts)
		if err == nil {
			err = v.checkHosts(hosts)
		}
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
	if err := p.end(&arg); err != nil {
		return Credential{}, err
	}
	var c Credential
	err := v.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		old, err := v.q.LockCredential(ctx, tx, dbsqlc.LockCredentialParams{TenantID: who.TenantID, ID: id})
		if err == nil {
			err = p.Expect.Check(shown(old))
		}
		if err == nil {
			err = cmp.Or(checkRevived(old, arg), widens(who, old, arg))
		}
		var row dbsqlc.Credential
		if err == nil {
			row, err = v.q.PatchCredential(ctx, tx, arg)
		}
		switch {
		case db.IsNoRows(err):
			return notFound()
		case fault.As(err) != nil:
			return err
		case err != nil:
			return fmt.Errorf("vault: change a credential: %w", err)
		}
		c = shown(row)
		return audit.Append(ctx, tx, changed(who, audit.CredentialUpdated, c).With(p.details(shown(old), c)))
	})
	if err != nil {
		return Credential{}, err
	}
	return c, nil
}

// widens refuses a change by which the credential could be sent to where it could not before,
// except by a user.
func widens(who actor.Actor, old dbsqlc.Credential, arg dbsqlc.PatchCredentialParams) error {
	if arg.Origin != nil && *arg.Origin != db.Text(old.Origin) {
		if err := needsUser(who, "The origin of the credential would change."); err != nil {
			return err
		}
	}
	if arg.AllowedHosts != nil && !(reach{origin: db.Text(old.Origin), hosts: old.AllowedHosts}).covers(arg.AllowedHosts) {
		return needsUser(who, "The credential could be sent to more hosts.")
	}
	return nil
}

// details names what a patch changed, with where the credential could be sent before and can
// be sent now, and tells a new status.
func (p Patch) details(old, c Credential) map[string]any {
	fields := []string{}
	out := map[string]any{}
	if p.Label != nil {
		fields = append(fields, "label")
	}
	if p.Origin != nil {
		fields = append(fields, "origin")
		out["origin_before"], out["origin"] = old.Origin, c.Origin
	}
	if p.AllowedHosts != nil {
		fields = append(fields, "allowed_hosts")
		out["allowed_hosts_before"], out["allowed_hosts"] = old.AllowedHosts, c.AllowedHosts
	}
	if p.ExpiresAt != nil {
		fields = append(fields, "expires_at")
		out["expires_at"] = c.ExpiresAt
	}
	if p.Status != nil {
		fields = append(fields, "status")
		out["status"] = c.Status
	}
	out["fields"] = fields
	return out
}

// Rotate replaces the secret by data of the same type and counts the version up.
// The old secret is gone, and the origin stays; expires is the new end, nil for none. Of two
// rotations at once, one is CONFLICT.
func (v *Vault) Rotate(ctx context.Context, who actor.Actor, id uuid.UUID, data json.RawMessage, expires *time.Time) (Credential, error) {
	if err := checkExpiry(expires, v.now()); err != nil {
		return Credential{}, err
	}
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
	digests, err := v.digests(ctx, who.TenantID, c)
	if err != nil {
		return Credential{}, err
	}
	schemes, err := schemesOf(c)
	if err != nil {
		return Credential{}, err
	}
	var rotated Credential
	err = v.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := idempotency.Write(ctx, tx, id.String()); err != nil {
			return err
		}
		row, err := v.q.RotateCredential(ctx, tx, dbsqlc.RotateCredentialParams{
			ExpiresAt: expires, NoticeAt: nextNotice(expires, now),
			TenantID: who.TenantID, ID: id, Version: old.Version, KekID: e.kekID, WrappedKey: e.wrappedKey, Ciphertext: e.ciphertext, Schemes: schemes, Now: &now,
		})
		switch {
		case db.IsNoRows(err):
			return fault.New(fault.CodeConflict, "The credential was rotated or deleted at the same moment.")
		case err != nil:
			return fmt.Errorf("vault: rotate a credential: %w", err)
		}
		rotated = shown(row)
		if err := v.replaceDigests(ctx, tx, who.TenantID, id, digests); err != nil {
			return err
		}
		return audit.Append(ctx, tx, changed(who, audit.CredentialRotated, rotated).With(map[string]any{"version": rotated.Version}))
	})
	if err != nil {
		return Credential{}, err
	}
	return rotated, nil
}

// Delete removes the row and with it the ciphertext; a second time is
// CREDENTIAL_NOT_FOUND. expect is asked about the credential before.
func (v *Vault) Delete(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[Credential]) error {
	return v.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		old, err := v.q.LockCredential(ctx, tx, dbsqlc.LockCredentialParams{TenantID: who.TenantID, ID: id})
		switch {
		case db.IsNoRows(err):
			return notFound()
		case err != nil:
			return fmt.Errorf("vault: read a credential: %w", err)
		}
		if err := expect.Check(shown(old)); err != nil {
			return err
		}
		if _, err := v.q.DeleteCredential(ctx, tx, dbsqlc.DeleteCredentialParams{TenantID: who.TenantID, ID: id}); err != nil {
			return fmt.Errorf("vault: delete a credential: %w", err)
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
		ID: r.ID, Provider: r.Provider, Type: credential.Kind(r.Type), Schemes: storedSchemes(r.Schemes), Label: r.Label, CustomerID: db.Text(r.CustomerID),
		Origin: db.Text(r.Origin), AllowedHosts: r.AllowedHosts, Status: Status(r.Status), Version: int(r.Version), CreatedBy: r.CreatedBy,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), LastUsedAt: db.UTC(r.LastUsedAt), RotatedAt: db.UTC(r.RotatedAt), ExpiresAt: db.UTC(r.ExpiresAt),
	}
}
