package catalog

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/verb"
)

// Seen is a verb as one sees it who plans calls of it.
type Seen struct {
	Meta
	// Security is what a call presents. Connected says that it presents nothing, or that the
	// tenant's credential has what it needs.
	Security  verb.Security
	Connected bool
}

// QueueMany adds the question for many verbs to a batch of the tenant. Once the batch was sent,
// the function returned reads the answer. It has no entry for a name that the tenant has no verb
// of.
func QueueMany(b *db.Batch, tenant uuid.UUID, names []verb.Name) func() map[verb.Name]Seen {
	arg := dbsqlc.GetVerbMetasParams{TenantID: tenant}
	arg.Providers, arg.Names = columns(names)
	answer := db.Queue(b, dbsqlc.New().GetVerbMetas, arg)
	return func() map[verb.Name]Seen {
		found, known := make(map[verb.Name]Seen, len(answer.Value)), securities{}
		for _, r := range answer.Value {
			m := metaOf(dbsqlc.GetVerbMetaRow{
				Shared: r.Shared, Provider: r.Provider, Name: r.Name, Domain: r.Domain, RiskLevel: r.RiskLevel, OperationType: r.OperationType,
				Idempotency: r.Idempotency, SchemaHash: r.SchemaHash, PlanHash: r.PlanHash, BaseUrl: r.BaseUrl, Auth: r.Auth, UpdatedAt: r.UpdatedAt, Quarantine: r.Quarantine,
			})
			security := known.of(r.Security)
			found[m.Name] = Seen{Meta: m, Security: security, Connected: serves(keyring(r.Kind, r.Schemes), security)}
		}
		return found
	}
}

// Missing returns those of the names that the tenant has no verb of, in their order. It costs one
// round trip.
func (c *Catalog) Missing(ctx context.Context, tenant uuid.UUID, names []verb.Name) (missing []verb.Name, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	b := &db.Batch{}
	found := QueueMany(b, tenant, names)
	if err := c.db.Send(ctx, tenant, b); err != nil {
		return nil, fmt.Errorf("catalog: look for verbs: %w", err)
	}
	known := found()
	for _, name := range names {
		if _, has := known[name]; !has {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

func columns(names []verb.Name) (providers, verbs []string) {
	providers, verbs = make([]string, len(names)), make([]string, len(names))
	for i, n := range names {
		providers[i], verbs[i] = n.Provider, n.Verb
	}
	return providers, verbs
}

// Schemas returns the schemas of the arguments of these verbs by their hashes, in one round
// trip. A verb that was replaced meanwhile is there with the hash that it has now.
func (c *Catalog) Schemas(ctx context.Context, tenant uuid.UUID, verbs []Meta) (map[Hash]json.RawMessage, error) {
	var own, shared []verb.Name
	for _, m := range verbs {
		if m.Shared {
			shared = append(shared, m.Name)
		} else {
			own = append(own, m.Name)
		}
	}
	b := &db.Batch{}
	var owned *db.Answer[[]dbsqlc.GetVerbSchemasRow]
	var platform *db.Answer[[]dbsqlc.GetPlatformVerbSchemasRow]
	if len(own) > 0 {
		arg := dbsqlc.GetVerbSchemasParams{TenantID: tenant}
		arg.Providers, arg.Names = columns(own)
		owned = db.Queue(b, c.q.GetVerbSchemas, arg)
	}
	if len(shared) > 0 {
		var arg dbsqlc.GetPlatformVerbSchemasParams
		arg.Providers, arg.Names = columns(shared)
		platform = db.Queue(b, c.q.GetPlatformVerbSchemas, arg)
	}
	found := map[Hash]json.RawMessage{}
	if b.Len() == 0 {
		return found, nil
	}
	if err := c.db.Send(ctx, tenant, b); err != nil {
		return nil, fmt.Errorf("catalog: read schemas: %w", err)
	}
	if owned != nil {
		for _, r := range owned.Value {
			found[storedHash(r.SchemaHash)] = json.RawMessage(r.Schema)
		}
	}
	if platform != nil {
		for _, r := range platform.Value {
			found[storedHash(r.SchemaHash)] = json.RawMessage(r.Schema)
		}
	}
	return found, nil
}
