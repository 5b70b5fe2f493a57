package api

import (
	"context"

	"agentruntime/api/wire"
)

// healthz reports that the process runs.
func healthz(context.Context, *wire.Call) (wire.Reply, error) {
	return wire.OK(map[string]string{"status": "ok"}), nil
}

// readiness is the answer of a process that can serve calls.
type readiness struct {
	Status string `json:"status"`
	// Warnings say what operators should do, though calls are served.
	Warnings []string `json:"warnings,omitempty"`
}

// readyz reports whether the process can serve calls. A refusal names the parts that are away.
func (s *Server) readyz(ctx context.Context, _ *wire.Call) (wire.Reply, error) {
	warnings, err := s.ready(ctx)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(readiness{Status: "ready", Warnings: warnings}), nil
}
