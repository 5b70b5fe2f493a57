package account

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/rate"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/idempotency"
)

// MaxOverlap is the longest that the secret before a rotation stays valid: a week, in which
// every deployment of the software that uses it can be changed.
const MaxOverlap = 7 * 24 * time.Hour

// KeyChange is what a key is changed to. A nil field stays as it is.
type KeyChange struct {
	Name           *string
	Permissions    []string
	AllowedOrigins []string
	AllowedIPs     []string
	// Limits replaces all limits that the key has of its own.
	Limits *rate.Own
	// ExpiresAt ends the key at another time, and never where it points to nil.
	ExpiresAt **time.Time
	// Expect is asked about the key before the change.
	Expect fault.Expect[Key]
}

// ChangeKey changes a key that is not revoked, for the requests that begin after it. It
// refuses with API_KEY_NOT_FOUND and VALIDATION_ERROR, the latter also where the key would
// become a Runtime key or no longer be one.
func (s *Service) ChangeKey(ctx context.Context, who actor.Actor, id string, c KeyChange) (Key, error) {
	// What is wrong for every key is refused before the key is looked for.
	if _, err := c.apply(&Key{Permissions: c.Permissions}, s.cfg.Permissions, s.now()); err != nil {
		return Key{}, err
	}
	return s.withKey(ctx, who, id, func(tx pgx.Tx, key *Key) error {
		if err := c.Expect.Check(*key); err != nil {
			return err
		}
		changed, err := c.apply(key, s.cfg.Permissions, s.now())
		if err != nil || len(changed) == 0 {
			return err
		}
		b := &db.Batch{}
		db.QueueExec(b, s.q.UpdateAPIKey, dbsqlc.UpdateAPIKeyParams{
			TenantID: who.TenantID, ID: key.ID, Name: key.Name, Permissions: key.Permissions,
			AllowedOrigins: key.AllowedOrigins, AllowedIps: key.AllowedIPs, ExpiresAt: key.ExpiresAt,
			RequestsPerMinute: key.Limits.Minute, RequestsPerHour: key.Limits.Hour, RequestsPerDay: key.Limits.Day,
		})
		audit.Queue(b, audit.Change(who, audit.APIKeyUpdated, audit.SubjectAPIKey, id).With(changed))
		return b.SendIn(ctx, tx)
	})
}

// apply changes the key, and returns the changed fields with their new values.
func (c KeyChange) apply(key *Key, known []string, now time.Time) (map[string]any, error) {
	changed := map[string]any{}
	if c.Name != nil {
		if err := checkName(*c.Name); err != nil {
			return nil, err
		}
		if *c.Name != key.Name {
			key.Name, changed["name"] = *c.Name, *c.Name
		}
	}
	if c.Permissions != nil {
		given, err := permissions(c.Permissions, known)
		if err != nil {
			return nil, err
		}
		if isRuntime(given) != isRuntime(key.Permissions) {
			return nil, fault.Invalid("/permissions", "kind", "A Runtime key keeps an actions permission, and another key takes none. Create a key of the other kind.")
		}
		if !slices.Equal(given, key.Permissions) {
			key.Permissions, changed["permissions"] = given, given
		}
	}
	if err := c.restrict(key, changed); err != nil {
		return nil, err
	}
	if c.ExpiresAt != nil {
		if err := checkExpiry(*c.ExpiresAt, now); err != nil {
			return nil, err
		}
		key.ExpiresAt, changed["expires_at"] = *c.ExpiresAt, *c.ExpiresAt
	}
	return changed, nil
}

// restrict changes from where the key may be used, and how often.
func (c KeyChange) restrict(key *Key, changed map[string]any) (err error) {
	if c.AllowedOrigins != nil {
		if key.AllowedOrigins, err = origins(c.AllowedOrigins); err != nil {
			return err
		}
		changed["allowed_origins"] = key.AllowedOrigins
	}
	if c.AllowedIPs != nil {
		if key.AllowedIPs, err = networks(c.AllowedIPs); err != nil {
			return err
		}
		changed["allowed_ips"] = key.AllowedIPs
	}
	if c.Limits != nil {
		key.Limits, changed["limits"] = *c.Limits, c.Limits.Fields()
	}
	return nil
}

// RotateKey gives a key that is not revoked another secret, which the result has this once.
// The secret before it stays valid for the overlap, at most MaxOverlap, and the one before
// that no longer. Requests under way go on. It refuses with API_KEY_NOT_FOUND.
func (s *Service) RotateKey(ctx context.Context, who actor.Actor, id string, overlap time.Duration) (Key, error) {
	secret, preview, hash := s.d.Secrets.NewKey()
	return s.withKey(ctx, who, id, func(tx pgx.Tx, key *Key) error {
		now := s.now()
		until := now.Add(overlap)
		key.Secret, key.Preview, key.RotatedAt, key.PreviousUntil = secret, preview, &now, nil
		if overlap > 0 {
			key.PreviousUntil = &until
		}
		b := &db.Batch{}
		idempotency.Queue(ctx, b, key.ID.String())
		db.QueueExec(b, s.q.RotateAPIKey, dbsqlc.RotateAPIKeyParams{
			TenantID: who.TenantID, ID: key.ID, KeyHash: hash, Preview: preview, PreviousUntil: until, Now: now,
		})
		s.queueToOwners(b, who, MailKeyRotated, *key)
		audit.Queue(b, audit.Change(who, audit.APIKeyRotated, audit.SubjectAPIKey, id).With(map[string]any{"previous_until": until}))
		return b.SendIn(ctx, tx)
	})
}

// withKey runs change in a transaction in which nothing else changes the key, and returns the
// key as change leaves it.
func (s *Service) withKey(ctx context.Context, who actor.Actor, id string, change func(pgx.Tx, *Key) error) (key Key, err error) {
	parsed, err := parseKeyID(id)
	if err != nil {
		return Key{}, err
	}
	err = s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		key, err = s.lockKey(ctx, tx, who.TenantID, parsed)
		if err != nil {
			return err
		}
		if err := change(tx, &key); err != nil {
			return fmt.Errorf("account: change key: %w", err)
		}
		return nil
	})
	if err != nil {
		return Key{}, err
	}
	return key, nil
}

func (s *Service) lockKey(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID) (Key, error) {
	row, err := s.q.LockAPIKey(ctx, tx, dbsqlc.LockAPIKeyParams{TenantID: tenant, ID: id})
	switch {
	case db.IsNoRows(err):
		return Key{}, fault.New(fault.CodeAPIKeyNotFound, "")
	case err != nil:
		return Key{}, fmt.Errorf("account: lock key: %w", err)
	}
	return s.shownKey(dbsqlc.GetAPIKeyRow(row)), nil
}
