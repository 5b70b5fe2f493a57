package api

import (
	"context"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/service/importing"
)

// importPreview is what an import would do.
type importPreview struct {
	providerReport
	Preview     bool               `json:"preview"`
	Credentials []credentialToOpen `json:"credentials"`
}

type verbDifference struct {
	Added        []string `json:"added"`
	AddedTotal   int      `json:"added_total"`
	Changed      []string `json:"changed"`
	ChangedTotal int      `json:"changed_total"`
	Removed      []string `json:"removed"`
	RemovedTotal int      `json:"removed_total"`
}

func viewDifference(n catalog.Notes) verbDifference {
	return verbDifference{
		Added: wire.Array(n.Added.List), AddedTotal: n.Added.Total, Changed: wire.Array(n.Changed.List), ChangedTotal: n.Changed.Total,
		Removed: wire.Array(n.Removed.List), RemovedTotal: n.Removed.Total,
	}
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

func (h *providerHandlers) previewImport(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	in, err := h.importInput(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	p, err := h.importer.Preview(ctx, c.Actor, in)
	return wire.Answer(viewPreview, p, err)
}

func viewPreview(p importing.Preview) importPreview {
	return importPreview{providerReport: reportProvider(p.Provider), Preview: true, Credentials: viewUnreached(p.Credentials)}
}
