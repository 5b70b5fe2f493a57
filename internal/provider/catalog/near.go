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
	nearMost    = 3
	nearVerbs   = 30 // before the name and after it, in the order of names
	nearSlugs   = 10 // the same for providers
	nearPercent = 35 // of the longer name may differ
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
		slug, named := distance(name.Provider, r.Provider), nameDistance(name.Verb, r.Name)
		if alike(slug, name.Provider, r.Provider) && alike(named, name.Verb, r.Name) {
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

// alike reports whether two names with this distance may be meant for each other.
func alike(distance int, a, b string) bool {
	return distance*100 <= nearPercent*max(len(a), len(b))
}

// nameDistance is distance, where the words of a verb may also be in another order.
func nameDistance(a, b string) int {
	return min(distance(a, b), 1+distance(words(a), words(b)))
}

func words(name string) string {
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	slices.Sort(parts)
	return strings.Join(parts, "_")
}

// distance returns the number of bytes to insert, delete or replace that turn a into b
// (Levenshtein). Names are ASCII and have at most 64 characters.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
