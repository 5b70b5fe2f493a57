package app

import (
	"context"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/models/modelprovider"
	"agentruntime/internal/process/config"
	"agentruntime/internal/provider/vault"
	"agentruntime/internal/record/quota"
)

// openVault opens the vault. models are asked where a credential for a model may go; nil where none is
// stored.
func openVault(cfg config.Config, pool *db.Pool, quotas quota.Limits, models *modelprovider.Service) (*vault.Vault, error) {
	kms, err := vault.NewLocalKMS(cfg.VaultKeys)
	if err != nil {
		return nil, err
	}
	return vault.Open(vault.Deps{
		DB: pool, KMS: kms, CheckURL: egress.Config{AllowLoopback: cfg.AllowLoopback}.CheckURL, Quotas: quotas,
		ModelURL: func(ctx context.Context, tenant uuid.UUID, provider string) (string, bool, error) {
			slug, is := modelprovider.SlugOf(provider)
			if !is || models == nil {
				return "", is, nil
			}
			base, err := models.BaseURL(ctx, tenant, slug)
			return base, true, err
		},
	})
}

// rewrapConns is how many connections Rewrap uses. It works on one row after the other.
const rewrapConns = 2

// Rewrap wraps the data keys of all tenants under the first key of VAULT_KEYS; see vault.Rewrap.
func Rewrap(ctx context.Context, cfg config.Config) (vault.Rewrapped, error) {
	pool, err := db.Open(ctx, db.Config{URL: cfg.DatabaseURL, MaxConns: rewrapConns})
	if err != nil {
		return vault.Rewrapped{}, err
	}
	defer pool.Close()
	v, err := openVault(cfg, pool, quota.Limits{}, nil)
	if err != nil {
		return vault.Rewrapped{}, err
	}
	return v.Rewrap(ctx)
}
