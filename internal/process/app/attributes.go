package app

import (
	"context"

	"agentruntime/internal/edge/engine"
	"agentruntime/internal/process/config"
)

// RegisterAttributes registers the search attributes that the Temporal namespace lacks, and
// returns their names. It waits for Temporal until ctx ends.
func RegisterAttributes(ctx context.Context, cfg config.Config) (added []string, err error) {
	return engine.Register(ctx, cfg.TemporalAddress, cfg.TemporalNamespace)
}
