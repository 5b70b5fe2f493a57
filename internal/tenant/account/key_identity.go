package account

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/idempotency"
)

const (
	identitySecretPrefix = "idsec_"
	identitySecretBytes  = 32
)

// IdentityPlace is where the identity secret of a key is sealed.
func IdentityPlace(tenant, key uuid.UUID) datakey.Place {
	return datakey.Place{Tenant: tenant, Row: key, Field: datakey.KeyIdentity}
}

// newIdentitySecret returns an identity secret for a key, and how it is stored.
func (s *Service) newIdentitySecret(ctx context.Context, tenant, key uuid.UUID) (secret string, sealed *string, err error) {
	if s.d.DataKeys == nil {
		return "", nil, errors.New("account: no data keys to seal an identity secret")
	}
	k, err := s.d.DataKeys.Key(ctx, tenant)
	if err != nil {
		return "", nil, fmt.Errorf("account: seal an identity secret: %w", err)
	}
	raw := make([]byte, identitySecretBytes)
	_, _ = rand.Read(raw) // it never fails
	secret = identitySecretPrefix + base64.RawURLEncoding.EncodeToString(raw)
	stored := k.Seal(IdentityPlace(tenant, key), []byte(secret))
	return secret, &stored, nil
}

// RotateIdentitySecret gives a key another identity secret, which the result has this once. Hashes under
// the secret before it stay valid for the overlap, at most MaxOverlap. It refuses with
// API_KEY_NOT_FOUND, and CONFLICT where the key was created without identity_verification.
func (s *Service) RotateIdentitySecret(ctx context.Context, who actor.Actor, id string, overlap time.Duration) (Key, error) {
	return s.withKey(ctx, who, id, func(tx pgx.Tx, key *Key) error {
		if !key.IdentityVerification {
			return fault.New(fault.CodeConflict, "The key was created without identity_verification, so it has no identity secret.")
		}
		secret, sealed, err := s.newIdentitySecret(ctx, who.TenantID, key.ID)
		if err != nil {
			return err
		}
		key.IdentitySecret = secret
		until := s.now().Add(overlap)
		b := &db.Batch{}
		idempotency.Queue(ctx, b, key.ID.String())
		db.QueueExec(b, s.q.RotateIdentitySecret, dbsqlc.RotateIdentitySecretParams{TenantID: who.TenantID, ID: key.ID, IdentitySecret: *sealed, PreviousUntil: until})
		audit.Queue(b, audit.Change(who, audit.APIKeyIdentityRotated, audit.SubjectAPIKey, id).With(map[string]any{"previous_until": until}))
		return b.SendIn(ctx, tx)
	})
}
