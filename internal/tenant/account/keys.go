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
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/quota"
)

// The states of an API key.
const (
	KeyActive  = "active"
	KeyRevoked = "revoked"
)

// Key is an API key as it is shown: Secret is the whole of it at creation and
// empty ever after.
type Key struct {
	ID             uuid.UUID
	Secret         string
	Preview        string
	Name           string
	Status         string
	Permissions    []string
	AgentID        *string
	IdentityMode   *string // nil for Runtime keys
	AllowedOrigins []string
	CreatedAt      time.Time
	LastUsedAt     *time.Time // to the minute
	RevokedAt      *time.Time
}

// KeyInput is what a key is created with. A nil field was not given.
type KeyInput struct {
	Name           string
	Permissions    []string
	AgentID        *string
	IdentityMode   *string
	AllowedOrigins []string
}

// CreateKey makes a key of the tenant, on behalf of a user. It refuses with VALIDATION_ERROR
// and QUOTA_EXCEEDED.
func (s *Service) CreateKey(ctx context.Context, who actor.Actor, in KeyInput) (Key, error) {
	key, err := newKey(in, s.cfg.Permissions)
	if err != nil {
		return Key{}, err
	}
	secret, preview, hash := s.d.Secrets.NewKey()
	key.ID, key.Secret, key.Preview, key.CreatedAt = newID(), secret, preview, s.now()
	b := &db.Batch{}
	db.QueueExec(b, s.q.InsertAPIKey, dbsqlc.InsertAPIKeyParams{
		ID: key.ID, TenantID: who.TenantID, KeyHash: hash, Preview: preview, Name: key.Name, Permissions: key.Permissions,
		AgentID: key.AgentID, IdentityMode: key.IdentityMode, AllowedOrigins: key.AllowedOrigins, CreatedBy: who.ID, CreatedAt: key.CreatedAt,
	})
	s.cfg.Quotas.Queue(b, who.TenantID, quota.Keys)
	audit.Queue(b, audit.Change(who, audit.APIKeyCreated, audit.SubjectAPIKey, key.ID.String()).
		With(map[string]any{"name": key.Name, "permissions": key.Permissions, "agent_id": key.AgentID}))
	if err := s.d.DB.Send(ctx, who.TenantID, b); err != nil {
		return Key{}, fmt.Errorf("account: insert key: %w", err)
	}
	return key, nil
}

// listedKeys is how many active keys a list shows at most, and how many revoked ones: the
// specification shows an array without pages. The default quota of active keys is half of it.
const listedKeys = 1000

// ListKeys returns the tenant's keys, the newest first: at most 1,000 that are active, and
// with "all" as many that are revoked. status is "active", which "" means too, or "all".
func (s *Service) ListKeys(ctx context.Context, tenant uuid.UUID, status string) ([]Key, error) {
	status = strings.ToLower(status)
	if status != "" && status != KeyActive && status != "all" {
		return nil, fault.Invalid("query.status", "enum", "status is active or all.")
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
	keys := make([]Key, 0, len(rows))
	for _, row := range rows {
		key := Key{
			ID: row.ID, Preview: row.Preview, Name: row.Name, Status: KeyActive, Permissions: row.Permissions,
			AgentID: row.AgentID, IdentityMode: row.IdentityMode, AllowedOrigins: row.AllowedOrigins,
			CreatedAt: row.CreatedAt.UTC(), LastUsedAt: db.UTC(row.LastUsedAt), RevokedAt: db.UTC(row.RevokedAt),
		}
		if row.RevokedAt != nil {
			key.Status = KeyRevoked
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// RevokeKey ends a key for good. When it returns, the key is refused everywhere,
// and every process has been told to cancel its requests. An unknown id, another
// tenant's and a key that is revoked already are API_KEY_NOT_FOUND.
func (s *Service) RevokeKey(ctx context.Context, who actor.Actor, id string) error {
	parsed, err := uuid.Parse(id)
	if err != nil || parsed.String() != id {
		return fault.New(fault.CodeAPIKeyNotFound, "")
	}
	return s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		n, err := s.q.RevokeAPIKey(ctx, tx, dbsqlc.RevokeAPIKeyParams{ID: parsed, TenantID: who.TenantID, Now: s.now()})
		switch {
		case err != nil:
			return fmt.Errorf("account: revoke key: %w", err)
		case n == 0:
			return fault.New(fault.CodeAPIKeyNotFound, "")
		}
		return audit.Append(ctx, tx, audit.Change(who, audit.APIKeyRevoked, audit.SubjectAPIKey, id))
	})
}
