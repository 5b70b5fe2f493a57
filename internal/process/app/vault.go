package app

import (
	"context"

	"agentruntime/db"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/process/config"
	"agentruntime/internal/provider/vault"
	"agentruntime/internal/record/quota"
)

func openVault(cfg config.Config, pool *db.Pool, quotas quota.Limits) (*vault.Vault, error) {
	kms, err := vault.NewLocalKMS(cfg.VaultKeys)
	if err != nil {
		return nil, err
	}
	return vault.Open(vault.Deps{
		DB: pool, KMS: kms, CheckURL: egress.Config{AllowLoopback: cfg.AllowLoopback}.CheckURL, Quotas: quotas,
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
	v, err := openVault(cfg, pool, quota.Limits{})
	if err != nil {
		return vault.Rewrapped{}, err
	}
	return v.Rewrap(ctx)
}
