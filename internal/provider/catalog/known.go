package catalog

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/idempotency"
)

// beginImport remembers the import for repeats of the call, and waits like lockImport.
func (c *Catalog) beginImport(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, slug string) error {
	if err := idempotency.Write(ctx, tx, slug); err != nil {
		return err
	}
	return c.lockImport(ctx, tx, tenant, slug)
}

// lockImport waits for other imports and deletions of the provider, until the transaction ends.
func (c *Catalog) lockImport(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, slug string) error {
	if err := c.q.LockImport(ctx, tx, "import:"+tenant.String()+":"+slug); err != nil {
		return fmt.Errorf("catalog: wait for other imports: %w", err)
	}
	return nil
}

// known reads what a provider of the tenant is, or was when it was removed.
func (c *Catalog) known(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, slug string) (known, error) {
	var was known
	providers, err := c.q.LastProvider(ctx, tx, dbsqlc.LastProviderParams{TenantID: tenant, Slug: slug})
	if err != nil {
		return known{}, fmt.Errorf("catalog: read the provider before: %w", err)
	}
	if len(providers) == 0 || providers[0].Removed { // its own does not hide the platform's now
		if was.platform, err = c.q.MeansPlatformProvider(ctx, tx, dbsqlc.MeansPlatformProviderParams{TenantID: tenant, Slug: slug}); err != nil {
			return known{}, fmt.Errorf("catalog: read the platform's provider: %w", err)
		}
		if was.offered, err = c.offered(ctx, tx, slug); err != nil {
			return known{}, err
		}
	}
	if len(providers) > 0 {
		p := providers[0]
		was.exists, was.baseURL, was.auth, was.domain = true, p.BaseUrl, p.Auth, p.Domain
		was.keeps = p.DocumentSize != nil
		was.document = storedHash(p.DocumentHash)
		if was.corrections, err = readCorrections(p.ImportSettings); err != nil {
			return known{}, fmt.Errorf("catalog: read the corrections before: %w", err)
		}
	}
	if was.verbs, err = c.presentVerbs(ctx, tx, tenant, slug); err != nil {
		return known{}, err
	}
	forms, err := c.q.AcceptedVerbs(ctx, tx, dbsqlc.AcceptedVerbsParams{TenantID: tenant, Provider: slug})
	if err != nil {
		return known{}, fmt.Errorf("catalog: read the accepted verbs: %w", err)
	}
	was.accepted = make(map[string]accepted, len(forms))
	for _, f := range forms {
		was.accepted[f.Name] = accepted{verb.Risk(f.RiskLevel), json.RawMessage(f.Schema)}
	}
	removed, err := c.q.RemovedVerbs(ctx, tx, dbsqlc.RemovedVerbsParams{TenantID: tenant, Provider: slug})
	if err != nil {
		return known{}, fmt.Errorf("catalog: read the removed verbs: %w", err)
	}
	for _, r := range removed {
		was.verbs = append(was.verbs, knownVerb{
			name: r.Name, route: route(r.Route), domain: r.Domain, risk: verb.Risk(r.RiskLevel), operation: verb.Operation(r.OperationType),
			idempotency: verb.Idempotency(r.Idempotency), form: r.Form, removed: true,
		})
	}
	return was, nil
}

// offered reads the verbs that the platform offers under a slug, in the form that they have now.
func (c *Catalog) offered(ctx context.Context, tx pgx.Tx, slug string) (map[string]accepted, error) {
	rows, err := c.q.KnownPlatformVerbs(ctx, tx, slug)
	if err != nil {
		return nil, fmt.Errorf("catalog: read the platform's verbs: %w", err)
	}
	forms := make(map[string]accepted, len(rows))
	for _, r := range rows {
		forms[r.Name] = accepted{verb.Risk(r.RiskLevel), json.RawMessage(r.Schema)}
	}
	return forms, nil
}

// presentVerbs reads the verbs that a provider has.
func (c *Catalog) presentVerbs(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, slug string) ([]knownVerb, error) {
	rows, err := c.q.KnownVerbs(ctx, tx, dbsqlc.KnownVerbsParams{TenantID: tenant, Provider: slug})
	if err != nil {
		return nil, fmt.Errorf("catalog: read the verbs before: %w", err)
	}
	list := make([]knownVerb, len(rows))
	for i, r := range rows {
		list[i] = knownOf(r)
	}
	return list, nil
}

// knownOf reads the row of a verb.
func knownOf(r dbsqlc.KnownVerbsRow) knownVerb {
	schema, plan := json.RawMessage(r.Schema), json.RawMessage(r.Plan)
	return knownVerb{
		name: r.Name, route: routeOf(r.Name, plan), domain: r.Domain, risk: verb.Risk(r.RiskLevel), riskBy: verb.RiskBy(r.RiskBy),
		operation: verb.Operation(r.OperationType), idempotency: verb.Idempotency(r.Idempotency), readBack: readBackOf(plan), normalized: headOf(plan).Normalized, errorWhen: headOf(plan).ErrorWhen,
		places: placesOf(plan, argsOf(schema)), schema: schema, form: formOf(schema, plan), description: r.Description, plan: storedHash(r.PlanHash),
		security: securityOf(plan), quarantine: markOf(r.Quarantine),
	}
}

// remember keeps all that is removed of a provider whose verbs are these from now on.
func (c *Catalog) remember(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, slug string, was []knownVerb, now []verb.Definition) error {
	has := map[string]bool{}
	forget := dbsqlc.ForgetRemovedVerbsParams{TenantID: tenant, Provider: slug, Names: []string{}, Routes: []string{}}
	for _, d := range now {
		r := routeOf(d.Name, d.Plan)
		has[d.Name+" "+string(r)] = true
		forget.Names, forget.Routes = append(forget.Names, d.Name), append(forget.Routes, string(r))
	}
	arg := dbsqlc.RememberVerbsParams{TenantID: tenant, Provider: slug, Now: c.now()}
	removed, again := false, false
	for _, k := range was {
		id := k.name + " " + string(k.route)
		again = again || k.removed && has[id]
		if k.removed || has[id] {
			continue
		}
		has[id], removed = true, true // two paths that differ in a parameter's name are one route
		arg.Routes, arg.Names = append(arg.Routes, string(k.route)), append(arg.Names, k.name)
		arg.Domains, arg.RiskLevels = append(arg.Domains, k.domain), append(arg.RiskLevels, string(k.risk))
		arg.OperationTypes, arg.Idempotencies = append(arg.OperationTypes, string(k.operation)), append(arg.Idempotencies, string(k.idempotency))
		arg.Forms = append(arg.Forms, k.form)
	}
	if removed {
		if err := c.q.RememberVerbs(ctx, tx, arg); err != nil {
			return fmt.Errorf("catalog: remember removed verbs: %w", err)
		}
	}
	if removed || again {
		if err := c.q.ForgetRemovedVerbs(ctx, tx, forget); err != nil {
			return fmt.Errorf("catalog: forget removed verbs: %w", err)
		}
	}
	return nil
}
