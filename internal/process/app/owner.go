package app

import (
	"context"

	"agentruntime/db"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/process/config"
	"agentruntime/internal/tenant/account"
	"agentruntime/internal/tenant/auth"
)

// ownerConns is how many connections CreateOwner uses.
const ownerConns = 2

// CreateOwner makes a tenant and its owner for the operator; see account.CreateOwner.
func CreateOwner(ctx context.Context, cfg config.Config, in account.OwnerInput) (account.Owner, error) {
	pool, err := db.Open(ctx, db.Config{URL: cfg.DatabaseURL, MaxConns: ownerConns})
	if err != nil {
		return account.Owner{}, err
	}
	defer pool.Close()
	if err := pool.CheckSchema(ctx); err != nil {
		return account.Owner{}, err
	}
	secrets, tokens, err := buildAuth(cfg)
	if err != nil {
		return account.Owner{}, err
	}
	first, err := policy.First()
	if err != nil {
		return account.Owner{}, err
	}
	accounts, err := account.New(account.Config{Permissions: auth.Permissions()}, account.Deps{DB: pool, Secrets: secrets, Tokens: tokens, FirstPolicy: first})
	if err != nil {
		return account.Owner{}, err
	}
	return accounts.CreateOwner(ctx, actor.Actor{Kind: actor.Operator}, in)
}
