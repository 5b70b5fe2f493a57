package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
)

// trusted is what a tenant says of the verbs of a provider, as far as it still counts.
type trusted struct {
	provider verb.Trust
	verbs    map[string]trustedVerb
}

type trustedVerb struct {
	trust     verb.Trust
	taint     []string
	inherited bool
	egress    bool
}

// of returns what is said of a verb. One that nothing is said of is external.
func (t trusted) of(name string) trustedVerb {
	v := t.verbs[name]
	if v.trust == "" {
		v.trust, v.inherited = verb.External, true
	}
	return v
}

// trusted reads what is said of a provider, with the name "", or of a verb; nil of all of them.
func (c *Catalog) trusted(ctx context.Context, on dbsqlc.DBTX, tenant uuid.UUID, slug string, name *string) (trusted, error) {
	t := trusted{provider: verb.External, verbs: map[string]trustedVerb{}}
	rows, err := c.q.TrustOf(ctx, on, dbsqlc.TrustOfParams{TenantID: tenant, Provider: slug, Name: name})
	if err != nil {
		return t, fmt.Errorf("catalog: read what is trusted: %w", err)
	}
	for _, r := range rows {
		v := trustedVerb{trust: verb.External, taint: taintOf(r.Taint), inherited: r.Inherited, egress: r.Egress}
		if r.Counts {
			v.trust = verb.Trust(r.Trust)
		}
		if r.Name == "" {
			t.provider = v.trust
			continue
		}
		t.verbs[r.Name] = v
	}
	return t, nil
}

// taintOf reads stored places.
func taintOf(raw []byte) (places []string) {
	_ = json.Unmarshal(raw, &places) // ours
	return places
}

// notTrusting refuses a key that would have more results count as the tenant's own words.
func notTrusting(who actor.Actor, loosens bool) error {
	if loosens && who.Kind != actor.User {
		return fault.New(fault.CodeInsufficientPermissions, "Only a person says that a source can be trusted, or that a verb reaches no address of a caller's choice: use a JWT of an owner or an admin.")
	}
	return nil
}

// Trust says whose words the results of a provider are. With Own it counts for the verbs that the
// provider has now, at the address that it has now, but for those of which it was said that they are
// external. PROVIDER_NOT_FOUND; INSUFFICIENT_PERMISSIONS for a key that says Own; what expect returns.
func (c *Catalog) Trust(ctx context.Context, who actor.Actor, slug string, trust verb.Trust, expect fault.Expect[Provider]) (p Provider, err error) {
	if !verb.ValidSlug(slug) {
		return Provider{}, fault.New(fault.CodeProviderNotFound, "")
	}
	err = c.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := c.lockImport(ctx, tx, who.TenantID, slug); err != nil {
			return err
		}
		was, err := c.provider(ctx, tx, who.TenantID, slug)
		if err != nil {
			return err
		}
		if err := expect.Check(was); err != nil {
			return err
		}
		if err := notTrusting(who, trust == verb.Own); err != nil {
			return err
		}
		if !was.Enabled {
			return fault.New(fault.CodeConflict, "Enable the provider before you say whose words its results are.")
		}
		if trust == verb.Own {
			err = c.q.TrustProvider(ctx, tx, dbsqlc.TrustProviderParams{TenantID: who.TenantID, Provider: slug})
		} else {
			err = c.q.DistrustProvider(ctx, tx, dbsqlc.DistrustProviderParams{TenantID: who.TenantID, Provider: slug})
		}
		if err == nil {
			_, err = c.q.BumpPolicySet(ctx, tx, who.TenantID) // calls that were judged before are judged again
		}
		if err != nil {
			return fmt.Errorf("catalog: trust a provider: %w", err)
		}
		if p, err = c.provider(ctx, tx, who.TenantID, slug); err != nil {
			return err
		}
		return audit.Append(ctx, tx, changed(who, audit.ProviderUpdated, slug).With(map[string]any{"fields": []string{"trust"}, "trust": p.Trust, "trust_before": was.Trust}))
	})
	return p, err
}

// Said is what a tenant says of a verb. What is nil stays as it is.
type Said struct {
	// Trust says whose words its results are, and Places which of them are another's all the same.
	Trust  *verb.Trust
	Places []string
	// Egress: the verb reaches an address of the caller's choice.
	Egress *bool
}

// on returns what is said of a verb then.
func (s Said) on(v trustedVerb) trustedVerb {
	if s.Trust != nil {
		v.trust, v.inherited = *s.Trust, false
	}
	if s.Places != nil {
		v.taint = s.Places
	}
	if s.Egress != nil {
		v.egress = *s.Egress
	}
	return v
}

// TrustVerb changes what the tenant says of a verb. PROVIDER_NOT_FOUND, VERB_NOT_FOUND;
// INSUFFICIENT_PERMISSIONS for a key by which fewer results would taint, or that ends a mark of egress.
func (c *Catalog) TrustVerb(ctx context.Context, who actor.Actor, name verb.Name, is Said) (v Verb, err error) {
	if !verb.ValidSlug(name.Provider) {
		return Verb{}, fault.New(fault.CodeProviderNotFound, "")
	}
	err = c.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := c.lockImport(ctx, tx, who.TenantID, name.Provider); err != nil {
			return err
		}
		was, err := c.verbOfProvider(ctx, tx, who.TenantID, name)
		if err != nil {
			return err
		}
		said, err := c.trusted(ctx, tx, who.TenantID, name.Provider, &name.Verb)
		if err != nil {
			return err
		}
		now := is.on(said.of(name.Verb))
		fewer := slices.ContainsFunc(was.Taint, func(place string) bool { return !slices.Contains(now.taint, place) })
		if err := notTrusting(who, now.trust == verb.Own && (was.Trust != verb.Own || fewer) || was.Egress && !now.egress); err != nil {
			return err
		}
		text, err := json.Marshal(orNone(now.taint))
		if err != nil {
			return fmt.Errorf("catalog: %w", err)
		}
		_, err = c.q.TrustVerb(ctx, tx, dbsqlc.TrustVerbParams{
			TenantID: who.TenantID, Provider: name.Provider, Name: name.Verb, Trust: string(now.trust), Taint: text, Inherited: now.inherited, Egress: now.egress,
		})
		if err == nil {
			_, err = c.q.BumpPolicySet(ctx, tx, who.TenantID)
		}
		if err != nil {
			return fmt.Errorf("catalog: trust a verb: %w", err)
		}
		if v, err = c.verb(ctx, tx, who.TenantID, name); err != nil {
			return err
		}
		record := changed(who, audit.ProviderUpdated, name.Provider)
		record.Verb = name.Verb
		return audit.Append(ctx, tx, record.With(map[string]any{
			"fields": []string{"trust", "taint", "egress"}, "trust": v.Trust, "trust_before": was.Trust, "taint": orNone(v.Taint), "taint_before": orNone(was.Taint),
			"egress": v.Egress, "egress_before": was.Egress,
		}))
	})
	return v, err
}

// TrustedVerbs returns the verbs whose answers the tenant trusts as a whole.
func (c *Catalog) TrustedVerbs(ctx context.Context, tenant uuid.UUID) (map[verb.Name]bool, error) {
	rows, err := c.q.TrustedVerbs(ctx, c.db.Tenant(tenant), tenant)
	if err != nil {
		return nil, fmt.Errorf("catalog: read the trusted verbs: %w", err)
	}
	trusted := make(map[verb.Name]bool, len(rows))
	for _, r := range rows {
		trusted[verb.Name{Provider: r.Provider, Verb: r.Name}] = true
	}
	return trusted, nil
}

// verbOfProvider reads a verb. PROVIDER_NOT_FOUND where the tenant has no such provider, else VERB_NOT_FOUND.
func (c *Catalog) verbOfProvider(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, name verb.Name) (Verb, error) {
	v, err := c.verb(ctx, tx, tenant, name)
	if fault.HasCode(err, fault.CodeVerbNotFound) {
		if _, err := c.provider(ctx, tx, tenant, name.Provider); err != nil {
			return Verb{}, err
		}
	}
	return v, err
}

// forgetTrust ends the trust of verbs whose answers an import has changed: what is said of their places
// is about other answers. Trust of a verb with another schema, plan or address ends by itself.
func (c *Catalog) forgetTrust(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, slug string, verbs []verb.Definition) error {
	said, err := c.trusted(ctx, tx, tenant, slug, nil)
	if err != nil || len(said.verbs) == 0 {
		return err
	}
	rows, err := c.q.AnswersOfProvider(ctx, tx, dbsqlc.AnswersOfProviderParams{TenantID: tenant, Provider: slug})
	if err != nil {
		return fmt.Errorf("catalog: read the answers before: %w", err)
	}
	before := make(map[string]string, len(rows))
	for _, r := range rows {
		before[r.Name] = r.Answer
	}
	gone := make([]string, 0, len(said.verbs))
	for name := range said.verbs {
		i := slices.IndexFunc(verbs, func(d verb.Definition) bool { return d.Name == name })
		if i < 0 || !bytes.Equal(verbs[i].Answer, []byte(before[name])) {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	if err := c.q.ForgetAnswers(ctx, tx, dbsqlc.ForgetAnswersParams{TenantID: tenant, Provider: slug, Names: gone}); err != nil {
		return fmt.Errorf("catalog: forget what was trusted: %w", err)
	}
	return nil
}
