package app

import (
	"context"
	"encoding/json"
	"fmt"

	"agentruntime/internal/edge/egress"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/connectors"
)

// providers joins the reader of documents to the catalog, which do not know each
// other.
type providers struct {
	*catalog.Catalog
	egress egress.Config
	// turn lets one import run at a time: a large document takes hundreds of
	// megabytes while it is read.
	turn chan struct{}
}

func newProviders(c *catalog.Catalog, e egress.Config) providers {
	return providers{Catalog: c, egress: e, turn: make(chan struct{}, 1)}
}

// Import implements api.Providers.
func (p providers) Import(ctx context.Context, who actor.Actor, in connectors.ImportInput) (catalog.Provider, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return catalog.Provider{}, context.Cause(ctx)
	}
	read, err := connectors.Import(ctx, in)
	if err != nil {
		return catalog.Provider{}, err
	}
	for _, server := range read.Servers {
		if err := p.egress.CheckURL(server); err != nil {
			if f := fault.As(err); f != nil {
				return catalog.Provider{}, fault.Newf(f.Code, "The server %s may not be called. %s", server, f.Message)
			}
			return catalog.Provider{}, err
		}
	}
	authentication, err := json.Marshal(read.Auth)
	if err != nil {
		return catalog.Provider{}, fmt.Errorf("app: encode the provider's auth: %w", err)
	}
	return p.Replace(ctx, who, catalog.Provider{
		Slug: read.Slug, Name: read.Name, Domain: read.Domain, BaseURL: read.BaseURL, AuthType: string(read.Auth.Type), Auth: authentication,
		DocumentHash: catalog.HashOf(in.Document), Degraded: reports(read.Degraded), Rejected: reports(read.Rejected),
	}, newVerbs(read.Verbs))
}

func newVerbs(read []connectors.Verb) []catalog.NewVerb {
	verbs := make([]catalog.NewVerb, len(read))
	for i, v := range read {
		verbs[i] = catalog.NewVerb{
			Name: v.Name, Domain: v.Domain, Description: v.Description, Risk: v.Risk, Operation: v.Operation,
			Idempotency: v.Idempotency, Schema: v.Schema, Plan: v.Plan,
		}
	}
	return verbs
}

func reports(read []connectors.Report) []catalog.Report {
	out := make([]catalog.Report, len(read))
	for i, r := range read {
		out[i] = catalog.Report(r)
	}
	return out
}
