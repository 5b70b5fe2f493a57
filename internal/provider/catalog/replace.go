package catalog

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/quota"
)

// insertRows is how many verbs go in one statement, so that a very large document
// does not become one very large message.
const insertRows = 1000

// anyKey stands for "any" in verb_counts, so it is no verb's domain.
const anyKey = "*"

// Replace stores a provider with exactly these verbs, whatever was under its slug
// before, in one transaction: a reader sees the old catalog or the new one. Imports
// of one slug take their turn. It returns the provider as stored; CreatedAt is that
// of the first import. It refuses with QUOTA_EXCEEDED, and with INSUFFICIENT_PERMISSIONS an
// import by which no user but a key would change what governs calls; see compare.
func (c *Catalog) Replace(ctx context.Context, who actor.Actor, p Provider, verbs []verb.Definition) (Provider, error) {
	if err := p.check(verbs); err != nil {
		return Provider{}, err
	}
	p.Imported = len(verbs)
	arg, err := p.row(who.TenantID, c.now())
	if err != nil {
		return Provider{}, err
	}
	arg.VerbBytes = bytesOf(verbs)
	err = c.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := c.lockImport(ctx, tx, who.TenantID, p.Slug); err != nil {
			return err
		}
		was, err := c.known(ctx, tx, who.TenantID, p.Slug)
		if err != nil {
			return err
		}
		changes := compare(was, p, verbs)
		if who.Kind != actor.User {
			if err := refused(changes); err != nil {
				return err
			}
		}
		stored, err := c.q.UpsertProvider(ctx, tx, arg)
		if err != nil {
			return fmt.Errorf("catalog: store a provider: %w", err)
		}
		p.CreatedAt, p.UpdatedAt, p.Connected = stored.CreatedAt.UTC(), stored.UpdatedAt.UTC(), stored.Connected
		if err := c.replaceVerbs(ctx, tx, who.TenantID, p.Slug, verbs); err != nil {
			return err
		}
		if err := c.remember(ctx, tx, who.TenantID, p.Slug, was.verbs, verbs); err != nil {
			return err
		}
		if err := c.q.ForgetRemovedProvider(ctx, tx, dbsqlc.ForgetRemovedProviderParams{TenantID: who.TenantID, Slug: p.Slug}); err != nil {
			return fmt.Errorf("catalog: forget a removed provider: %w", err)
		}
		for _, r := range []quota.Resource{quota.Providers, quota.Verbs, quota.Catalog, quota.VerbBytes} {
			if err := c.quotas.Require(ctx, tx, who.TenantID, r); err != nil {
				return err
			}
		}
		return audit.Append(ctx, tx, changed(who, audit.ProviderImported, p.Slug).With(map[string]any{
			"imported": p.Imported, "degraded": len(p.Degraded), "rejected": len(p.Rejected), "document_hash": hex.EncodeToString(p.DocumentHash[:]),
			"base_url": p.BaseURL, "base_url_before": was.baseURL, "changes": append([]change{}, changes[:min(len(changes), maxChangesTold)]...), "changes_total": len(changes),
		}))
	})
	if err != nil {
		return Provider{}, err
	}
	return p, nil
}

// check refuses what no provider can have.
func (p Provider) check(verbs []verb.Definition) error {
	if !verb.ValidSlug(p.Slug) {
		return fault.Invalid("/slug", "pattern", "slug is 1 to 40 lower-case letters, digits, hyphens and single underscores, and not \"tool\".")
	}
	if slices.ContainsFunc(verbs, func(v verb.Definition) bool { return v.Domain == anyKey }) {
		return fault.Invalid("/openapi", "domain", "A verb's domain cannot be \"*\".")
	}
	return nil
}

func (c *Catalog) replaceVerbs(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, slug string, verbs []verb.Definition) error {
	if err := c.q.DeleteVerbs(ctx, tx, dbsqlc.DeleteVerbsParams{TenantID: tenant, Provider: slug}); err != nil {
		return fmt.Errorf("catalog: remove the old verbs: %w", err)
	}
	for rows := range slices.Chunk(inPageOrder(verbs), insertRows) {
		if err := c.q.InsertVerbs(ctx, tx, insertParams(tenant, slug, rows)); err != nil {
			return fmt.Errorf("catalog: store verbs: %w", err)
		}
	}
	if err := c.q.CountVerbs(ctx, tx, dbsqlc.CountVerbsParams{TenantID: tenant, Provider: slug}); err != nil {
		return fmt.Errorf("catalog: count verbs: %w", err)
	}
	return nil
}

// inPageOrder sorts verbs so that a page reads neighbouring rows.
func inPageOrder(verbs []verb.Definition) []verb.Definition {
	return slices.SortedFunc(slices.Values(verbs), func(a, b verb.Definition) int { return strings.Compare(a.Name, b.Name) })
}

// DeleteProvider removes a tenant's own provider and its verbs; its credentials stay. A
// provider of the platform that it hid is visible again. What it was stays known to compare
// imports by keys with. PROVIDER_NOT_FOUND.
func (c *Catalog) DeleteProvider(ctx context.Context, who actor.Actor, slug string) error {
	if !verb.ValidSlug(slug) {
		return fault.New(fault.CodeProviderNotFound, "")
	}
	return c.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := c.lockImport(ctx, tx, who.TenantID, slug); err != nil {
			return err
		}
		verbs, err := c.presentVerbs(ctx, tx, who.TenantID, slug)
		if err != nil {
			return err
		}
		if err := c.q.RememberProvider(ctx, tx, dbsqlc.RememberProviderParams{Now: c.now(), TenantID: who.TenantID, Slug: slug}); err != nil {
			return fmt.Errorf("catalog: remember a provider: %w", err)
		}
		if err := c.remember(ctx, tx, who.TenantID, slug, verbs, nil); err != nil {
			return err
		}
		n, err := c.q.DeleteProvider(ctx, tx, dbsqlc.DeleteProviderParams{TenantID: who.TenantID, Slug: slug})
		switch {
		case err != nil:
			return fmt.Errorf("catalog: delete a provider: %w", err)
		case n == 0:
			return fault.New(fault.CodeProviderNotFound, "")
		}
		if err := c.q.CountVerbs(ctx, tx, dbsqlc.CountVerbsParams{TenantID: who.TenantID, Provider: slug}); err != nil {
			return fmt.Errorf("catalog: count verbs: %w", err)
		}
		return audit.Append(ctx, tx, changed(who, audit.ProviderDeleted, slug))
	})
}

// changed is the record of a change of a provider.
func changed(who actor.Actor, action audit.Action, slug string) audit.Record {
	r := audit.Change(who, action, audit.SubjectProvider, slug)
	r.Provider = slug
	return r
}

func (p Provider) row(tenant uuid.UUID, now time.Time) (dbsqlc.UpsertProviderParams, error) {
	degraded, err := json.Marshal(orNone(p.Degraded))
	if err != nil {
		return dbsqlc.UpsertProviderParams{}, fmt.Errorf("catalog: encode the report: %w", err)
	}
	rejected, err := json.Marshal(orNone(p.Rejected))
	if err != nil {
		return dbsqlc.UpsertProviderParams{}, fmt.Errorf("catalog: encode the report: %w", err)
	}
	return dbsqlc.UpsertProviderParams{
		TenantID: tenant, Slug: p.Slug, Name: p.Name, Domain: p.Domain, BaseUrl: p.BaseURL, AuthType: string(p.AuthType), Auth: p.Auth,
		DocumentHash: p.DocumentHash[:], Imported: int32(p.Imported), Degraded: degraded, Rejected: rejected, Now: now,
	}, nil
}

// bytesOf returns how many bytes the schemas and plans of the verbs take.
func bytesOf(verbs []verb.Definition) int64 {
	n := 0
	for _, v := range verbs {
		n += len(v.Schema) + len(v.Plan)
	}
	return int64(n)
}

func insertParams(tenant uuid.UUID, slug string, verbs []verb.Definition) dbsqlc.InsertVerbsParams {
	arg := dbsqlc.InsertVerbsParams{TenantID: tenant, Provider: slug}
	for _, v := range verbs {
		schema, plan := HashOf(v.Schema), HashOf(v.Plan)
		arg.Names = append(arg.Names, v.Name)
		arg.Domains = append(arg.Domains, v.Domain)
		arg.Descriptions = append(arg.Descriptions, v.Description)
		arg.RiskLevels = append(arg.RiskLevels, string(v.Risk))
		arg.OperationTypes = append(arg.OperationTypes, string(v.Operation))
		arg.Idempotencies = append(arg.Idempotencies, string(v.Idempotency))
		arg.SchemaHashes = append(arg.SchemaHashes, schema[:])
		arg.PlanHashes = append(arg.PlanHashes, plan[:])
		arg.Searches = append(arg.Searches, strings.ToLower(slug+":"+v.Name+" "+v.Description))
		arg.Schemas = append(arg.Schemas, string(v.Schema))
		arg.Plans = append(arg.Plans, string(v.Plan))
	}
	return arg
}

// orNone keeps an empty report from being stored as null.
func orNone(r []verb.Report) []verb.Report {
	if r == nil {
		return []verb.Report{}
	}
	return r
}
