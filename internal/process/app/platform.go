package app

import (
	"context"

	"agentruntime/db"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/process/config"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/service/importing"
)

// Platform is what the operator's commands do with the providers of the platform.
type Platform struct {
	*catalog.Platform
	Importer *importing.Platform

	pool *db.Pool
}

// platformConns is how many connections a command uses. It does one thing after the other.
const platformConns = 2

// OpenPlatform connects as the role that owns the tables: the service's role cannot write the
// platform's rows.
func OpenPlatform(ctx context.Context, cfg config.Config) (*Platform, error) {
	pool, err := db.Open(ctx, db.Config{URL: cfg.MigrateURL, MaxConns: platformConns})
	if err != nil {
		return nil, err
	}
	p := &Platform{pool: pool}
	if p.Platform, err = catalog.NewPlatform(catalog.Deps{DB: pool}); err == nil {
		p.Importer, err = importing.NewPlatform(egress.Config{AllowLoopback: cfg.AllowLoopback}, p.Platform)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return p, nil
}

// Close gives the connections back.
func (p *Platform) Close() { p.pool.Close() }
