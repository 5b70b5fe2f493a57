package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/verb"
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

// Replace stores a provider with exactly these verbs, whatever was under its slug before,
// in one transaction. Every tenant that has enabled the provider has the new verbs at once.
// It returns the provider as stored.
func (s *Platform) Replace(ctx context.Context, p Provider, verbs []verb.Definition) (Provider, error) {
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
	if err != nil {
		return Provider{}, platformError("store a provider", err)
	}
	return p, nil
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
	if err := s.q.DeletePlatformCounts(ctx, tx, slug); err != nil {
		return err
	}
	return s.q.CountPlatformVerbs(ctx, tx, slug)
}

// Delete removes a provider of the platform and its verbs, for all tenants. A tenant that
// had enabled it has it again once it is stored again. PROVIDER_NOT_FOUND.
func (s *Platform) Delete(ctx context.Context, slug string) error {
	err := s.db.InTenant(ctx, uuid.Nil, func(tx pgx.Tx) error {
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
	if err == nil || fault.As(err) != nil {
		return err
	}
	return fmt.Errorf("catalog: %s of the platform: %w", doing, err)
}
