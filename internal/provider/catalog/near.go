package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/verb"
)

// Bounds of Near. An answer with more names is a list that nobody reads. The other two keep the
// statement to a few blocks of two indexes; most providers have fewer verbs than that.
const (
	nearMost  = 3
	nearVerbs = 30 // before the name and after it, in the order of names
	nearSlugs = 10 // the same for providers
)

// Near returns at most three verbs of the tenant's catalog whose names are like one that it does
// not have, the nearest first. It looks at verbs next to the name in its provider, and at the
// verb of that name in providers with a slug like it.
func (c *Catalog) Near(ctx context.Context, tenant uuid.UUID, name verb.Name) ([]verb.Name, error) {
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
		near := candidate{name: verb.Name{Provider: r.Provider, Verb: r.Name}}
		slug, named := verb.Distance(name.Provider, r.Provider), verb.NameDistance(name.Verb, r.Name)
		if verb.Alike(slug, name.Provider, r.Provider) && verb.Alike(named, name.Verb, r.Name) {
			near.distance = slug + named
			found = append(found, near)
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

// NearText is the sentence of a refusal that names what Near returned. It begins with a space, and
// is empty where there are no names.
func NearText(near []verb.Name) string {
	if len(near) == 0 {
		return ""
	}
	names := make([]string, len(near))
	for i, n := range near {
		names[i] = n.String()
	}
	return " Near names: " + strings.Join(names, ", ") + "."
}
