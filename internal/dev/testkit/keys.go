package testkit

import (
	"context"
	"crypto/sha256"

	"github.com/google/uuid"

	"agentruntime/internal/base/datakey"
)

// Keys gives each tenant a data key that is made of its id, without a vault.
type Keys struct{}

// Key implements run.Keys and policy.Keys.
func (Keys) Key(_ context.Context, tenant uuid.UUID) (*datakey.Key, error) {
	secret := sha256.Sum256(tenant[:])
	return datakey.New(secret[:])
}
