package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/verb"
)

// Bounds of Near. An answer with more names is a list that nobody reads. The other two keep the
// statement to a few blocks of two indexes; most providers have fewer verbs than that.
const (
	nearMost  = 3
	nearVerbs = 30 // before the name and after it, in the order of names
	nearSlugs = 10 // the same for providers
	// mostSlugs is how many slugs are compared with one, more than the quota of providers.
	mostSlugs = 1_000
)

// Meant is what a name that the catalog does not have may mean.
type Meant struct {
	// Verbs are at most three whose names are like it, the nearest first.
	Verbs []verb.Name
	// Unknown is the provider of the name where the tenant can call none of this slug, and Provider the
	// slug of one that may be meant; "" otherwise.
	Unknown, Provider string
}

// KnownProvider reports whether the tenant can call a provider of this slug. Where it cannot, meant is the slug
// of one that may be meant, or "".
func (c *Catalog) KnownProvider(ctx context.Context, tenant uuid.UUID, slug string) (known bool, meant string, err error) {
	slugs, err := c.q.ProviderSlugs(ctx, c.db.Tenant(tenant), dbsqlc.ProviderSlugsParams{TenantID: tenant, Most: mostSlugs})
	if err != nil {
		return false, "", fmt.Errorf("catalog: near providers: %w", err)
	}
	if slices.Contains(slugs, slug) {
		return true, "", nil
	}
	return false, near.Name(slug, slugs), nil
}

// Near returns what a name that the tenant's catalog does not have may mean. It looks at verbs next to
// the name in its provider, and at the verb of that name in providers with a slug like it.
func (c *Catalog) Near(ctx context.Context, tenant uuid.UUID, name verb.Name) (m Meant, err error) {
	known, provider, err := c.KnownProvider(ctx, tenant, name.Provider)
	if err != nil {
		return m, err
	}
	if !known {
		m.Unknown, m.Provider = name.Provider, provider
	}
	if m.Verbs, err = c.nearVerbs(ctx, tenant, name); err != nil || len(m.Verbs) > 0 || m.Provider == "" {
		return m, err
	}
	// The slug is less like than the sweep of slugs beside it allows.
	same := verb.Name{Provider: m.Provider, Verb: name.Verb}
	missing, err := c.Missing(ctx, tenant, []verb.Name{same})
	switch {
	case err != nil:
		return m, err
	case len(missing) == 0:
		m.Verbs = []verb.Name{same}
	default:
		m.Verbs, err = c.nearVerbs(ctx, tenant, same)
	}
	return m, err
}

func (c *Catalog) nearVerbs(ctx context.Context, tenant uuid.UUID, name verb.Name) ([]verb.Name, error) {
	rows, err := c.q.NearVerbs(ctx, c.db.Tenant(tenant), dbsqlc.NearVerbsParams{
		TenantID: tenant, Provider: name.Provider, Name: name.Verb, Slugs: nearSlugs, Most: nearVerbs,
	})
	if err != nil {
		return nil, fmt.Errorf("catalog: near verbs: %w", err)
	}
	type candidate struct {
		name     verb.Name
		distance int
	}
	var found []candidate
	for _, r := range rows {
		other := candidate{name: verb.Name{Provider: r.Provider, Verb: r.Name}}
		slug, named := near.Distance(name.Provider, r.Provider), verb.NameDistance(name.Verb, r.Name)
		if near.Alike(slug, name.Provider, r.Provider) && near.Alike(named, name.Verb, r.Name) {
			other.distance = slug + named
			found = append(found, other)
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name.String(), b.name.String()))
	})
	var out []verb.Name
	for _, f := range found[:min(nearMost, len(found))] {
		out = append(out, f.name)
	}
	return out, nil
}

// Text returns the sentences of a refusal that say it. They begin with a space, and there are none where
// there is nothing to say.
func (m Meant) Text() (text string) {
	if m.Unknown != "" {
		text = " There is no provider " + m.Unknown + " in it."
	}
	names := make([]string, len(m.Verbs))
	for i, n := range m.Verbs {
		names[i] = n.String()
	}
	switch {
	case len(names) > 0:
		text += " Did you mean " + strings.Join(names, " or ") + "?"
	case m.Provider != "":
		text += " Did you mean the provider " + m.Provider + "?"
	}
	return text
}
