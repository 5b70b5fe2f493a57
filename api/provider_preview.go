package api

import (
	"context"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/vault"
)

// importPreview is what an import would do.
type importPreview struct {
	providerReport
	Preview      bool               `json:"preview"`
	Verbs        verbDifference     `json:"verbs"`
	Changes      []importChange     `json:"changes"`
	ChangesTotal int                `json:"changes_total"`
	Credentials  []credentialToOpen `json:"credentials"`
}

type verbDifference struct {
	Added   []string `json:"added"`
	Changed []string `json:"changed"`
	Removed []string `json:"removed"`
}

type importChange struct {
	What      string `json:"what"`
	Verb      string `json:"verb,omitempty"`
	Operation string `json:"operation,omitempty"`
	Before    string `json:"before"`
	After     string `json:"after"`
	Message   string `json:"message"`
	NeedsUser bool   `json:"needs_user"`
}

// credentialToOpen is a credential that may not be sent to all servers of its provider.
type credentialToOpen struct {
	ID         uuid.UUID `json:"id"`
	Label      string    `json:"label"`
	CustomerID *string   `json:"customer_id"`
	Origins    []string  `json:"origins"`
}

// unlessPreview returns the handler of a route that creates, and only answers what it would do
// where the query says preview.
func unlessPreview(preview, create wire.Handler) wire.Handler {
	return func(ctx context.Context, c *wire.Call) (wire.Reply, error) {
		only, err := c.QueryBool("preview")
		if err != nil {
			return wire.Reply{}, err
		}
		if only == nil || !*only {
			return create(ctx, c)
		}
		// Nothing is created, so the key stays unused. Its form is checked as for the real call.
		if _, _, err := c.IdempotencyKey(); err != nil {
			return wire.Reply{}, err
		}
		return preview(ctx, c)
	}
}

func (s *Server) previewImport(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	in, err := importInput(c)
	if err != nil {
		return wire.Reply{}, err
	}
	p, err := s.deps.Importer.Preview(ctx, c.Actor, in)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(viewPreview(p.Preview, p.Credentials)), nil
}

func viewPreview(p catalog.Preview, credentials []vault.Unreached) importPreview {
	v := importPreview{
		providerReport: reportProvider(p.Provider), Preview: true, ChangesTotal: p.ChangesTotal,
		Verbs:   verbDifference{Added: wire.Array(p.Added), Changed: wire.Array(p.Changed), Removed: wire.Array(p.Removed)},
		Changes: make([]importChange, len(p.Changes)), Credentials: viewUnreached(credentials),
	}
	for i, c := range p.Changes {
		v.Changes[i] = importChange(c)
	}
	return v
}
