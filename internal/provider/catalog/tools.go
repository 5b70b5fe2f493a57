package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
)

// ToolProvider is a provider whose verbs a tenant's agents may call. All providers of a tenant
// together say which state its catalog is in.
type ToolProvider struct {
	Slug      string
	Shared    bool // the platform's, enabled by the tenant
	Connected bool
	// Credential is what the calls of its verbs would use, the zero Keyring where there is none.
	Credential credential.Keyring
	UpdatedAt  time.Time
}

// ToolProviders returns the providers that a tenant has, by their slugs.
func (c *Catalog) ToolProviders(ctx context.Context, tenant uuid.UUID) ([]ToolProvider, error) {
	rows, err := c.q.ToolProviders(ctx, c.db.Tenant(tenant), tenant)
	if err != nil {
		return nil, fmt.Errorf("catalog: read the providers of tools: %w", err)
	}
	list := make([]ToolProvider, len(rows))
	for i, r := range rows {
		list[i] = ToolProvider{Slug: r.Slug, Shared: r.Shared, Connected: r.Connected, Credential: keyring(r.Kind, r.Schemes), UpdatedAt: r.UpdatedAt.UTC()}
	}
	return list, nil
}

// ToolVerb is a verb without its schema.
type ToolVerb struct {
	Name verb.Name
	// Description is its beginning.
	Description string
	Risk        verb.Risk
	Operation   verb.Operation
	Idempotency verb.Idempotency
	SchemaHash  Hash
	Shared      bool
	Connected   bool // as of a Verb
}

// toolDescription is how many characters of a description a ToolVerb has.
const toolDescription = 400

// ToolVerbs returns at most so many verbs of the providers, those of connected providers first, by
// provider and name.
func (c *Catalog) ToolVerbs(ctx context.Context, tenant uuid.UUID, providers []ToolProvider, most int) ([]ToolVerb, error) {
	var list []ToolVerb
	for _, connected := range []bool{true, false} {
		more, err := c.toolVerbs(ctx, tenant, providers, connected, most-len(list))
		if err != nil {
			return nil, fmt.Errorf("catalog: read the verbs of tools: %w", err)
		}
		list = append(list, more...)
	}
	return list, nil
}

func (c *Catalog) toolVerbs(ctx context.Context, tenant uuid.UUID, providers []ToolProvider, connected bool, most int) (list []ToolVerb, err error) {
	var own, shared []string
	slugs, rings, known := map[string]string{}, map[string]credential.Keyring{}, securities{}
	for _, p := range providers {
		if p.Connected != connected {
			continue
		}
		slugs[p.Slug], rings[p.Slug] = p.Slug, p.Credential
		if p.Shared {
			shared = append(shared, p.Slug)
		} else {
			own = append(own, p.Slug)
		}
	}
	if len(slugs) == 0 || most <= 0 {
		return nil, nil
	}
	limit := int32(most)
	b := &db.Batch{}
	owned := db.Queue(b, c.q.ToolVerbs, dbsqlc.ToolVerbsParams{TenantID: tenant, Providers: own, Begin: toolDescription, Most: limit})
	platform := db.Queue(b, c.q.ToolPlatformVerbs, dbsqlc.ToolPlatformVerbsParams{Providers: shared, Begin: toolDescription, Most: limit})
	if err := c.db.SendReading(ctx, tenant, db.ListLimit, b); err != nil {
		return nil, err
	}
	add := func(r dbsqlc.ToolVerbsRow, shared bool) {
		if len(list) < most {
			list = append(list, ToolVerb{
				Name: verb.Name{Provider: slugs[r.Provider], Verb: r.Name}, Description: r.Description, Risk: riskOf(r.RiskLevel), Operation: operationOf(r.OperationType),
				Idempotency: verb.Idempotency(r.Idempotency), SchemaHash: storedHash(r.SchemaHash), Shared: shared, Connected: serves(rings[r.Provider], known.of(r.Security)),
			})
		}
	}
	for _, r := range owned.Value {
		add(r, false)
	}
	for _, r := range platform.Value {
		add(dbsqlc.ToolVerbsRow(r), true)
	}
	return list, nil
}

// riskOf and operationOf return the constant, so that a long list keeps no text of its own for each.
func riskOf(text string) verb.Risk {
	for _, r := range []verb.Risk{verb.RiskLow, verb.RiskMedium, verb.RiskHigh} {
		if string(r) == text {
			return r
		}
	}
	return verb.Risk(text)
}

func operationOf(text string) verb.Operation {
	if text == string(verb.Read) {
		return verb.Read
	}
	return verb.Write
}
