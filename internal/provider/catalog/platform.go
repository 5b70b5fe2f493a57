package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/argdiff"
	"agentruntime/internal/provider/credential"
)

// Platform stores the providers that the platform offers to every tenant, each once. It is
// for commands of the operator; no part of the running service builds one. Its database is
// a pool of the role that owns the tables: the service's role may read the platform's rows
// and never write them.
type Platform struct {
	db  *db.Pool
	now func() time.Time
	q   *dbsqlc.Queries
}

// NewPlatform builds a Platform; the database is required.
func NewPlatform(d Deps) (*Platform, error) {
	c, err := New(d)
	if err != nil {
		return nil, err
	}
	return &Platform{db: c.db, now: c.now, q: c.q}, nil
}

// Import stores a provider with exactly these verbs, whatever was under its slug before, in one
// transaction. Every tenant that has enabled the provider has the new verbs at once. It returns
// the provider as stored, with its notes.
//
// Where the import changes what governs calls, and accept is false, nothing is stored: the error is
// CONFLICT, and the provider is what it would be. The Notes name these changes as those that need a
// user. The platform keeps no corrections: what the import does not say no longer counts.
func (s *Platform) Import(ctx context.Context, in Import, accept bool) (Provider, error) {
	return s.store(ctx, in, func(needed int) error {
		if needed == 0 || accept {
			return nil
		}
		return fault.Newf(fault.CodeConflict, "The import has %d changes of what governs calls of all tenants. Nothing was stored. Look at them, and accept them.", needed)
	})
}

// Preview returns the provider as Import would leave it, and stores nothing.
func (s *Platform) Preview(ctx context.Context, in Import) (Provider, error) {
	p, err := s.store(ctx, in, func(int) error { return errPreviewed })
	if errors.Is(err, errPreviewed) {
		err = nil
	}
	return p, err
}

// store stores an import, unless judge refuses it for the number of its changes that have to be accepted.
func (s *Platform) store(ctx context.Context, in Import, judge func(needed int) error) (Provider, error) {
	p, verbs := in.Provider, in.Verbs
	if err := p.check(verbs); err != nil {
		return Provider{}, err
	}
	p.Imported, p.Shared = len(verbs), true
	arg, err := p.row(uuid.Nil, s.now())
	if err != nil {
		return Provider{}, err
	}
	asks, err := askedOf(verbs, p.Auth)
	if err != nil {
		return Provider{}, err
	}
	err = s.db.InTenant(ctx, uuid.Nil, func(tx pgx.Tx) error {
		if err := s.q.LockImport(ctx, tx, "import:platform:"+p.Slug); err != nil {
			return err
		}
		was, err := s.known(ctx, tx, p)
		if err != nil {
			return err
		}
		compared := compare(was, p, verbs)
		needed := compared.toAccept()
		refused := judge(needed)
		p.Notes = in.Provider.Notes.complete(was, verbs, compared.found, tense(refused == nil), maxNotesShown)
		if refused != nil {
			return refused
		}
		stored, err := s.q.UpsertPlatformProvider(ctx, tx, dbsqlc.UpsertPlatformProviderParams{
			Slug: arg.Slug, Name: arg.Name, Domain: arg.Domain, BaseUrl: arg.BaseUrl, AuthType: arg.AuthType, Auth: arg.Auth,
			DocumentHash: arg.DocumentHash, Imported: arg.Imported, Degraded: arg.Degraded, Rejected: arg.Rejected, Servers: arg.Servers, Securities: asks.distinct, Now: arg.Now,
		})
		if err != nil {
			return err
		}
		p.CreatedAt, p.UpdatedAt = stored.CreatedAt.UTC(), stored.UpdatedAt.UTC()
		return s.replaceVerbs(ctx, tx, p.Slug, verbs, asks)
	})
	return p, platformError("store a provider", err)
}

// known reads what a provider of the platform is. The platform keeps no corrections, so those of
// the import p are no change by themselves: what they do shows in the verbs.
func (s *Platform) known(ctx context.Context, tx pgx.Tx, p Provider) (known, error) {
	was := known{corrections: p.Corrections}
	found, err := s.q.GetPlatformProvider(ctx, tx, p.Slug)
	if err != nil || len(found) == 0 {
		return was, err
	}
	was.exists, was.baseURL, was.auth, was.domain = true, found[0].BaseUrl, found[0].Auth, found[0].Domain
	rows, err := s.q.KnownPlatformVerbs(ctx, tx, p.Slug)
	if err != nil {
		return was, err
	}
	for _, r := range rows {
		was.verbs = append(was.verbs, knownOf(dbsqlc.KnownVerbsRow{
			Name: r.Name, Domain: r.Domain, Description: r.Description, RiskLevel: r.RiskLevel, OperationType: r.OperationType,
			Idempotency: r.Idempotency, PlanHash: r.PlanHash, Schema: r.Schema, Plan: r.Plan,
		}))
	}
	return was, nil
}

// toAccept marks the changes that a change of the platform's provider must not make by itself, and
// returns their number: those for which a tenant's own provider needs a user, and those that
// quarantine a verb which something names. The latter goes for every verb here, because what
// tenants name is theirs: no command of the operator reads it. A provider that is new has none.
func (c *comparison) toAccept() (needed int) {
	for i := range c.found {
		f := &c.found[i]
		f.needsUser = c.was.exists && (f.needsUser || argdiff.Kind(f.What).Breaks() || f.What == whatSchema ||
			f.What == "risk_level" && verb.Risk(f.Before).Below(verb.Risk(f.After)))
		if f.needsUser {
			needed++
		}
	}
	c.order()
	return needed
}

// Offered returns up to limit providers of the platform with slugs after the given one, in the
// order of their slugs and without their reports.
func (s *Platform) Offered(ctx context.Context, after string, limit int32) ([]Provider, error) {
	rows, err := s.q.ListPlatformProviders(ctx, s.db.Tenant(uuid.Nil), dbsqlc.ListPlatformProvidersParams{After: after, N: limit})
	if err != nil {
		return nil, platformError("list providers", err)
	}
	list := make([]Provider, len(rows))
	for i, r := range rows {
		list[i] = Provider{
			Slug: r.Slug, Name: r.Name, Domain: r.Domain, BaseURL: r.BaseUrl, AuthType: credential.Kind(r.AuthType), Imported: int(r.Imported),
			Shared: true, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
		}
	}
	return list, nil
}

func (s *Platform) replaceVerbs(ctx context.Context, tx pgx.Tx, slug string, verbs []verb.Definition, asks asked) error {
	if err := s.q.DeletePlatformVerbs(ctx, tx, slug); err != nil {
		return err
	}
	for rows := range slices.Chunk(inPageOrder(verbs), insertRows) {
		arg := insertParams(uuid.Nil, slug, rows, asks)
		err := s.q.InsertPlatformVerbs(ctx, tx, dbsqlc.InsertPlatformVerbsParams{
			Provider: arg.Provider, Names: arg.Names, Domains: arg.Domains, Descriptions: arg.Descriptions, RiskLevels: arg.RiskLevels,
			OperationTypes: arg.OperationTypes, Idempotencies: arg.Idempotencies, SchemaHashes: arg.SchemaHashes, PlanHashes: arg.PlanHashes,
			Searches: arg.Searches, Schemas: arg.Schemas, Plans: arg.Plans, Securities: arg.Securities,
		})
		if err != nil {
			return err
		}
	}
	if err := s.replaceAnswers(ctx, tx, slug, verbs); err != nil {
		return err
	}
	if err := s.q.DeletePlatformCounts(ctx, tx, slug); err != nil {
		return err
	}
	return s.q.CountPlatformVerbs(ctx, tx, slug)
}

// Delete removes a provider of the platform and its verbs, for all tenants. A tenant that
// had enabled it has it again once it is stored again. PROVIDER_NOT_FOUND.
func (s *Platform) Delete(ctx context.Context, slug string) error {
	if !verb.ValidSlug(slug) {
		return fault.New(fault.CodeProviderNotFound, "")
	}
	err := s.db.InTenant(ctx, uuid.Nil, func(tx pgx.Tx) error {
		if err := s.q.LockImport(ctx, tx, "import:platform:"+slug); err != nil {
			return err
		}
		n, err := s.q.DeletePlatformProvider(ctx, tx, slug)
		if err == nil && n == 0 {
			err = fault.New(fault.CodeProviderNotFound, "")
		}
		if err != nil {
			return err
		}
		return s.q.DeletePlatformCounts(ctx, tx, slug)
	})
	return platformError("delete a provider", err)
}

func platformError(doing string, err error) error {
	if err == nil || fault.As(err) != nil || errors.Is(err, errPreviewed) {
		return err
	}
	return fmt.Errorf("catalog: %s of the platform: %w", doing, err)
}
