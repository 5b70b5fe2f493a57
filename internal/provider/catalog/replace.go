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
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/quota"
)

// insertRows is how many verbs go in one statement, so that a very large document
// does not become one very large message.
const insertRows = 1000

// anyKey stands for "any" in verb_counts, so it is no verb's domain.
const anyKey = "*"

// Import is a provider to be stored with exactly these verbs.
type Import struct {
	Provider Provider
	Verbs    []verb.Definition
	// Source is what the provider was imported from; nil where it comes of no document.
	Source *Source
	// Kept are the corrections of the provider that is replaced, where any of Provider.Corrections
	// were read from there; nil otherwise. CONFLICT where it has others since.
	Kept *Corrections
	// Also is done in the transaction that stores the provider, after it; nil where nothing is.
	Also func(ctx context.Context, tx pgx.Tx) error
	// Update is set where the import reads the document again that the provider has.
	Update *Update
}

// Update is a change of the settings of an import.
type Update struct {
	// Of is the document as it was read. CONFLICT where the provider was changed since.
	Of Kept
	// Fields are the members that are changed, for the record.
	Fields []string
	Expect fault.Expect[Provider]
}

// Replace is Import for a provider that comes of no document.
func (c *Catalog) Replace(ctx context.Context, who actor.Actor, p Provider, verbs []verb.Definition) (Provider, error) {
	return c.Import(ctx, who, Import{Provider: p, Verbs: verbs})
}

// Import stores a provider with exactly these verbs and its document, whatever was under its
// slug before, in one transaction: a reader sees the old catalog or the new one. Imports
// of one slug take their turn. It returns the provider as stored; CreatedAt is that
// of the first import. It refuses with QUOTA_EXCEEDED, and with INSUFFICIENT_PERMISSIONS an
// import by which no user but a key would change what governs calls; see compare.
func (c *Catalog) Import(ctx context.Context, who actor.Actor, in Import) (Provider, error) {
	st, err := c.storing(who, in)
	if err != nil {
		return Provider{}, err
	}
	err = c.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		was, changes, err := c.replace(ctx, tx, who, st)
		if err != nil {
			return err
		}
		if err := c.tellQuarantine(ctx, tx, who, st, was); err != nil {
			return err
		}
		if in.Also != nil {
			if err := in.Also(ctx, tx); err != nil {
				return err
			}
		}
		action, details := audit.ProviderImported, map[string]any{
			"imported": st.Imported, "degraded": len(st.Degraded), "rejected": len(st.Rejected), "document_hash": hex.EncodeToString(st.DocumentHash[:]),
			"base_url": st.BaseURL, "base_url_before": was.baseURL, "changes": append([]change{}, changes[:min(len(changes), maxChangesTold)]...), "changes_total": len(changes),
		}
		if in.Update != nil {
			action, details["fields"] = audit.ProviderUpdated, in.Update.Fields
		}
		return audit.Append(ctx, tx, changed(who, action, st.Slug).With(details))
	})
	if err != nil {
		return Provider{}, err
	}
	return st.Provider, nil
}

// replace stores the import in the transaction if the actor may make it. It returns what the
// provider was, and what has changed.
func (c *Catalog) replace(ctx context.Context, tx pgx.Tx, who actor.Actor, st *storing) (was known, changes []change, err error) {
	if err := c.beginImport(ctx, tx, who.TenantID, st.Slug); err != nil {
		return known{}, nil, err
	}
	if err := c.stillKept(ctx, tx, st); err != nil {
		return known{}, nil, err
	}
	if was, err = c.known(ctx, tx, who.TenantID, st.Slug); err != nil {
		return known{}, nil, err
	}
	if err := st.stillCorrected(was); err != nil {
		return known{}, nil, err
	}
	st.keepRisks(was)
	compared := compare(was, st.Provider, st.verbs)
	changes = compared.found
	if who.Kind != actor.User {
		if err := refused(changes); err != nil {
			return known{}, nil, err
		}
	}
	if st.quarantine, err = c.quarantined(ctx, tx, who, st.Slug, &was, st.verbs, compared.diffs); err != nil {
		return known{}, nil, err
	}
	st.Notes = st.Notes.complete(was, st.verbs, changes, did, maxNotesStored)
	st.Notes.quarantined(st.quarantine.marks, maxNotesStored)
	if st.row.Report, err = json.Marshal(st.Notes); err != nil {
		return known{}, nil, fmt.Errorf("catalog: encode the report: %w", err)
	}
	return was, changes, c.store(ctx, tx, st, was)
}

// storing is an import on its way into the database.
type storing struct {
	Provider
	tenant uuid.UUID
	verbs  []verb.Definition
	row    dbsqlc.UpsertProviderParams
	asks   asked
	parts  [][]byte // of the document
	update *Update

	kept       *Corrections
	quarantine *quarantine
}

// storing checks and encodes all of an import before its transaction begins.
func (c *Catalog) storing(who actor.Actor, in Import) (*storing, error) {
	st := &storing{Provider: in.Provider, tenant: who.TenantID, verbs: slices.Clone(in.Verbs), update: in.Update, kept: in.Kept}
	if err := st.check(in.Verbs); err != nil {
		return nil, err
	}
	st.Imported, st.Enabled = len(in.Verbs), true
	var err error
	if st.row, err = st.Provider.row(who.TenantID, c.now()); err != nil {
		return nil, err
	}
	st.row.VerbBytes = bytesOf(in.Verbs)
	if st.asks, err = askedOf(in.Verbs, st.Auth); err != nil {
		return nil, err
	}
	st.row.Securities = st.asks.distinct
	st.parts, err = in.Source.row(&st.row)
	return st, err
}

// store writes the provider, its verbs and its document in place of what was there, and counts
// them. It sets what the database says of the provider.
func (c *Catalog) store(ctx context.Context, tx pgx.Tx, st *storing, was known) error {
	stored, err := c.q.UpsertProvider(ctx, tx, st.row)
	if err != nil {
		return fmt.Errorf("catalog: store a provider: %w", err)
	}
	st.CreatedAt, st.UpdatedAt, st.Connected = stored.CreatedAt.UTC(), stored.UpdatedAt.UTC(), stored.Connected
	if err := c.forgetTrust(ctx, tx, st.tenant, st.Slug, st.verbs); err != nil {
		return err
	}
	if err := c.replaceVerbs(ctx, tx, st.tenant, st.Slug, st.verbs, st.asks, st.quarantine.marks); err != nil {
		return err
	}
	if err := c.remember(ctx, tx, st.tenant, st.Slug, was.verbs, st.verbs); err != nil {
		return err
	}
	if err := c.q.ForgetRemovedProvider(ctx, tx, dbsqlc.ForgetRemovedProviderParams{TenantID: st.tenant, Slug: st.Slug}); err != nil {
		return fmt.Errorf("catalog: forget a removed provider: %w", err)
	}
	for _, r := range []quota.Resource{quota.Providers, quota.Verbs, quota.Catalog, quota.VerbBytes, quota.Documents} {
		if err := c.quotas.Require(ctx, tx, st.tenant, r); err != nil {
			return err
		}
	}
	if err := c.keepDocument(ctx, tx, st, was); err != nil {
		return err
	}
	said, err := c.trusted(ctx, tx, st.tenant, st.Slug, new(""))
	st.Trust = said.provider
	return err
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

func (c *Catalog) replaceVerbs(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, slug string, verbs []verb.Definition, asks asked, marks map[string]verb.Quarantine) error {
	if err := c.q.DeleteVerbs(ctx, tx, dbsqlc.DeleteVerbsParams{TenantID: tenant, Provider: slug}); err != nil {
		return fmt.Errorf("catalog: remove the old verbs: %w", err)
	}
	for rows := range slices.Chunk(inPageOrder(verbs), insertRows) {
		arg := insertParams(tenant, slug, rows, asks)
		for _, d := range rows {
			mark, err := storedMark(marks, d.Name)
			if err != nil {
				return err
			}
			arg.Quarantines = append(arg.Quarantines, mark)
		}
		if err := c.q.InsertVerbs(ctx, tx, arg); err != nil {
			return fmt.Errorf("catalog: store verbs: %w", err)
		}
	}
	if err := c.replaceAnswers(ctx, tx, tenant, slug, verbs); err != nil {
		return err
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
// imports by keys with. PROVIDER_NOT_FOUND; INSUFFICIENT_PERMISSIONS where it is the platform's.
// expect is asked about the provider before.
func (c *Catalog) DeleteProvider(ctx context.Context, who actor.Actor, slug string, expect fault.Expect[Provider]) error {
	if !verb.ValidSlug(slug) {
		return fault.New(fault.CodeProviderNotFound, "")
	}
	return c.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := c.lockImport(ctx, tx, who.TenantID, slug); err != nil {
			return err
		}
		if err := c.expect(ctx, tx, who.TenantID, slug, expect); err != nil {
			return err
		}
		was, err := c.known(ctx, tx, who.TenantID, slug)
		if err != nil {
			return err
		}
		if _, err := c.quarantined(ctx, tx, who, slug, &was, nil, nil); err != nil {
			return err
		}
		if err := c.q.RememberProvider(ctx, tx, dbsqlc.RememberProviderParams{Now: c.now(), TenantID: who.TenantID, Slug: slug}); err != nil {
			return fmt.Errorf("catalog: remember a provider: %w", err)
		}
		if err := c.remember(ctx, tx, who.TenantID, slug, was.verbs, nil); err != nil {
			return err
		}
		n, err := c.q.DeleteProvider(ctx, tx, dbsqlc.DeleteProviderParams{TenantID: who.TenantID, Slug: slug})
		switch {
		case err != nil:
			return fmt.Errorf("catalog: delete a provider: %w", err)
		case n == 0:
			return c.platforms(ctx, tx, who.TenantID, slug)
		}
		if err := c.q.CountVerbs(ctx, tx, dbsqlc.CountVerbsParams{TenantID: who.TenantID, Provider: slug}); err != nil {
			return fmt.Errorf("catalog: count verbs: %w", err)
		}
		if err := c.q.ForgetTrust(ctx, tx, dbsqlc.ForgetTrustParams{TenantID: who.TenantID, Provider: slug}); err != nil {
			return fmt.Errorf("catalog: forget what was trusted: %w", err)
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
	servers, err := json.Marshal(orNone(p.Servers))
	if err != nil {
		return dbsqlc.UpsertProviderParams{}, fmt.Errorf("catalog: encode the report: %w", err)
	}
	return dbsqlc.UpsertProviderParams{
		TenantID: tenant, Slug: p.Slug, Name: p.Name, Domain: p.Domain, BaseUrl: p.BaseURL, AuthType: string(p.AuthType), Auth: p.Auth,
		DocumentHash: p.DocumentHash[:], Imported: int32(p.Imported), Degraded: degraded, Rejected: rejected, Servers: servers, Now: now,
	}, nil
}

// bytesOf returns how many bytes the schemas, plans and answers of the verbs take.
func bytesOf(verbs []verb.Definition) int64 {
	n := 0
	for _, v := range verbs {
		n += len(v.Schema) + len(v.Plan) + len(v.Answer)
	}
	return int64(n)
}

func insertParams(tenant uuid.UUID, slug string, verbs []verb.Definition, asks asked) dbsqlc.InsertVerbsParams {
	arg := dbsqlc.InsertVerbsParams{TenantID: tenant, Provider: slug}
	for _, v := range verbs {
		schema, plan := HashOf(v.Schema), HashOf(v.Plan)
		arg.Names = append(arg.Names, v.Name)
		arg.Domains = append(arg.Domains, v.Domain)
		arg.Descriptions = append(arg.Descriptions, v.Description)
		arg.RiskLevels = append(arg.RiskLevels, string(v.Risk))
		arg.RiskBys = append(arg.RiskBys, string(v.RiskBy))
		arg.OperationTypes = append(arg.OperationTypes, string(v.Operation))
		arg.Idempotencies = append(arg.Idempotencies, string(v.Idempotency))
		arg.SchemaHashes = append(arg.SchemaHashes, schema[:])
		arg.PlanHashes = append(arg.PlanHashes, plan[:])
		arg.Searches = append(arg.Searches, strings.ToLower(slug+":"+v.Name+" "+v.Description))
		arg.Schemas = append(arg.Schemas, string(v.Schema))
		arg.Plans = append(arg.Plans, string(v.Plan))
		arg.Securities = append(arg.Securities, asks.of[v.Name])
	}
	return arg
}

// orNone keeps an empty report from being stored as null.
func orNone[T any](r []T) []T {
	if r == nil {
		return []T{}
	}
	return r
}
