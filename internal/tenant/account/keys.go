package account

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/rate"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/quota"
)

// The states of an API key.
const (
	KeyActive  = "active"
	KeyExpired = "expired" // its time is over; a later ExpiresAt makes it active again
	KeyRevoked = "revoked"
)

// Key is an API key as it is shown: Secret is the whole of it at creation and rotation, and
// empty otherwise.
type Key struct {
	ID           uuid.UUID
	Secret       string
	Preview      string
	Name         string
	Status       string
	Permissions  []string
	AgentID      *string
	IdentityMode *string // nil for Runtime keys
	// IdentityVerification: messages name customers only with a hash under the identity secret.
	// IdentitySecret is that, at creation and rotation; "" otherwise.
	IdentityVerification bool
	IdentitySecret       string
	AllowedOrigins       []string
	AllowedIPs           []string // networks in CIDR form; empty means everywhere
	Limits               rate.Own // beside the tenant's
	CreatedBy            string   // "user:<id>"
	CreatedAt            time.Time
	LastUsedAt           *time.Time // to the minute
	ExpiresAt            *time.Time // nil: never
	RotatedAt            *time.Time
	PreviousUntil        *time.Time // how long the secret before the last rotation is valid; nil where it is not
	RevokedAt            *time.Time
}

// KeyInput is what a key is created with. A nil field was not given.
type KeyInput struct {
	Name         string
	Permissions  []string
	AgentID      *string
	IdentityMode *string
	// IdentityVerification makes an identity secret for the key.
	IdentityVerification bool
	AllowedOrigins       []string
	AllowedIPs           []string
	Limits               rate.Own
	ExpiresAt            *time.Time
}

// CreateKey makes a key of the tenant, on behalf of a user. It refuses with VALIDATION_ERROR
// and QUOTA_EXCEEDED.
func (s *Service) CreateKey(ctx context.Context, who actor.Actor, in KeyInput) (Key, error) {
	key, err := newKey(in, s.cfg.Permissions, s.now())
	if err != nil {
		return Key{}, err
	}
	if err := s.checkAgent(ctx, who.TenantID, key.AgentID); err != nil {
		return Key{}, err
	}
	secret, preview, hash := s.d.Secrets.NewKey()
	key.ID, key.Secret, key.Preview, key.CreatedAt, key.CreatedBy = newID(), secret, preview, s.now(), who.String()
	var sealed *string
	if key.IdentityVerification {
		if key.IdentitySecret, sealed, err = s.newIdentitySecret(ctx, who.TenantID, key.ID); err != nil {
			return Key{}, err
		}
	}
	b := &db.Batch{}
	idempotency.Queue(ctx, b, key.ID.String())
	db.QueueExec(b, s.q.InsertAPIKey, dbsqlc.InsertAPIKeyParams{
		ID: key.ID, TenantID: who.TenantID, KeyHash: hash, Preview: preview, Name: key.Name, Permissions: key.Permissions,
		AgentID: key.AgentID, IdentityMode: key.IdentityMode, AllowedOrigins: key.AllowedOrigins, AllowedIps: key.AllowedIPs,
		RequestsPerMinute: key.Limits.Minute, RequestsPerHour: key.Limits.Hour, RequestsPerDay: key.Limits.Day,
		ExpiresAt: key.ExpiresAt, CreatedBy: who.ID, CreatedAt: key.CreatedAt, IdentitySecret: sealed,
	})
	s.queueToOwners(b, who, MailKeyCreated, key)
	s.cfg.Quotas.Queue(b, who.TenantID, quota.Keys)
	s.cfg.Quotas.Queue(b, who.TenantID, quota.RevokedKeys)
	audit.Queue(b, audit.Change(who, audit.APIKeyCreated, audit.SubjectAPIKey, key.ID.String()).
		With(map[string]any{"name": key.Name, "permissions": key.Permissions, "agent_id": key.AgentID, "expires_at": key.ExpiresAt, "limits": key.Limits.Fields(), "identity_verification": key.IdentityVerification}))
	if err := s.d.DB.Send(ctx, who.TenantID, b); err != nil {
		return Key{}, fmt.Errorf("account: insert key: %w", err)
	}
	return key, nil
}

// checkAgent refuses a lock to an agent that the tenant does not have: such a key could never be
// used, because the service chooses the ids of agents.
func (s *Service) checkAgent(ctx context.Context, tenant uuid.UUID, agent *string) error {
	if agent == nil {
		return nil
	}
	id, err := uuid.Parse(*agent)
	if err == nil {
		_, err = s.q.GetAgent(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetAgentParams{TenantID: tenant, ID: id})
		if err != nil && !db.IsNoRows(err) {
			return fmt.Errorf("account: look for the agent: %w", err)
		}
	}
	if err != nil {
		return fault.Invalid("/agent_id", "unknown_agent", "agent_id is the id of an agent of the tenant.")
	}
	return nil
}

// listedKeys is how many active keys a list shows at most, and how many revoked ones: the
// specification shows an array without pages. The default quota of active keys is half of it.
const listedKeys = 1000

// ListKeys returns the tenant's keys, the newest first: at most 1,000 that are active, and
// with "all" as many that are revoked. status is "active", which "" means too, or "all".
func (s *Service) ListKeys(ctx context.Context, tenant uuid.UUID, status string) ([]Key, error) {
	status = strings.ToLower(status)
	if status != "" && status != KeyActive && status != "all" {
		return nil, fault.Invalid("query.status", "enum", near.Enum("status", status, KeyActive, "all"))
	}
	revoked := int32(0)
	if status == "all" {
		revoked = listedKeys
	}
	rows, err := s.q.ListAPIKeys(ctx, s.d.DB.Reading(tenant, db.ListLimit), dbsqlc.ListAPIKeysParams{
		TenantID: tenant, Active: listedKeys, Revoked: revoked,
	})
	if err != nil {
		return nil, fmt.Errorf("account: list keys: %w", err)
	}
	keys := make([]Key, len(rows))
	for i, row := range rows {
		keys[i] = s.shownKey(dbsqlc.GetAPIKeyRow(row))
	}
	return keys, nil
}

// GetKey returns a key of the tenant, a revoked one too, or API_KEY_NOT_FOUND.
func (s *Service) GetKey(ctx context.Context, tenant uuid.UUID, id string) (Key, error) {
	parsed, err := parseKeyID(id)
	if err != nil {
		return Key{}, err
	}
	row, err := s.q.GetAPIKey(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetAPIKeyParams{TenantID: tenant, ID: parsed})
	switch {
	case db.IsNoRows(err):
		return Key{}, fault.New(fault.CodeAPIKeyNotFound, "")
	case err != nil:
		return Key{}, fmt.Errorf("account: read key: %w", err)
	}
	return s.shownKey(row), nil
}

func (s *Service) shownKey(row dbsqlc.GetAPIKeyRow) Key {
	key := Key{
		ID: row.ID, Preview: row.Preview, Name: row.Name, Status: KeyActive, Permissions: row.Permissions,
		AgentID: row.AgentID, IdentityMode: row.IdentityMode, IdentityVerification: row.IdentityVerification, AllowedOrigins: row.AllowedOrigins, AllowedIPs: row.AllowedIps,
		Limits:    rate.Own{Minute: row.RequestsPerMinute, Hour: row.RequestsPerHour, Day: row.RequestsPerDay},
		CreatedBy: actor.Actor{Kind: actor.User, ID: row.CreatedBy}.String(), CreatedAt: row.CreatedAt.UTC(), LastUsedAt: db.UTC(row.LastUsedAt),
		ExpiresAt: db.UTC(row.ExpiresAt), RotatedAt: db.UTC(row.RotatedAt), RevokedAt: db.UTC(row.RevokedAt),
	}
	now := s.now()
	if row.PreviousUntil != nil && row.PreviousUntil.After(now) {
		key.PreviousUntil = db.UTC(row.PreviousUntil)
	}
	switch {
	case row.RevokedAt != nil:
		key.Status = KeyRevoked
	case row.ExpiresAt != nil && !row.ExpiresAt.After(now):
		key.Status = KeyExpired
	}
	return key
}

// parseKeyID reads an id as it is written. Every other text is an unknown key.
func parseKeyID(id string) (uuid.UUID, error) {
	parsed, err := uuid.Parse(id)
	if err != nil || parsed.String() != id {
		return uuid.Nil, fault.New(fault.CodeAPIKeyNotFound, "")
	}
	return parsed, nil
}

// RevokeKey ends a key for good. When it returns, the key is refused everywhere,
// and every process has been told to cancel its requests. An unknown id, another
// tenant's and a key that is revoked already are API_KEY_NOT_FOUND. expect is asked about the key
// before.
func (s *Service) RevokeKey(ctx context.Context, who actor.Actor, id string, expect fault.Expect[Key]) error {
	parsed, err := parseKeyID(id)
	if err != nil {
		return err
	}
	return s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if expect != nil {
			key, err := s.lockKey(ctx, tx, who.TenantID, parsed)
			if err == nil {
				err = expect.Check(key)
			}
			if err != nil {
				return err
			}
		}
		n, err := s.q.RevokeAPIKey(ctx, tx, dbsqlc.RevokeAPIKeyParams{ID: parsed, TenantID: who.TenantID, Now: s.now()})
		switch {
		case err != nil:
			return fmt.Errorf("account: revoke key: %w", err)
		case n == 0:
			return fault.New(fault.CodeAPIKeyNotFound, "")
		}
		b := &db.Batch{}
		audit.Queue(b, audit.Change(who, audit.APIKeyRevoked, audit.SubjectAPIKey, id))
		event.Queue(b, event.Event{TenantID: who.TenantID, Body: event.Revoked{APIKeyID: id, RevokedBy: who.String()}})
		return b.SendIn(ctx, tx)
	})
}
