package api

import (
	"context"

	"agentruntime/api/wire"
	"agentruntime/internal/kernel/fault"
)

// healthz reports that the process runs.
func healthz(context.Context, *wire.Call) (wire.Reply, error) {
	return wire.OK(map[string]string{"status": "ok"}), nil
}

// readyz reports whether the process can serve calls.
func (s *Server) readyz(ctx context.Context, _ *wire.Call) (wire.Reply, error) {
	if err := s.deps.Ready(ctx); err != nil {
		return wire.Reply{}, fault.New(fault.CodeServiceUnavailable, "").Because(err)
	}
	return wire.OK(map[string]string{"status": "ready"}), nil
}
