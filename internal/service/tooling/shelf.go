package tooling

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/google/uuid"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/wordrank"
	"agentruntime/internal/provider/catalog"
)

// mostVerbs is how many verbs of a tenant an agent may have to choose from. Those of connected
// providers come first.
const mostVerbs = 20_000

// shelfKey names a state of a tenant's catalog and what of it an agent may call.
type shelfKey struct {
	tenant uuid.UUID
	state  [sha256.Size]byte
}

// shelf has the verbs that an agent may call while all of its procedures fit. It is immutable.
type shelf struct {
	verbs []item // by name
	index *wordrank.Index
	// connected and others have the places of the verbs that no procedure keeps to itself.
	connected, others []int32
	// of has the places of the verbs of each procedure.
	of map[string][]int32
	// providers has the slugs of the verbs' providers.
	providers []string
	bytes     int
}

type item struct {
	catalog.ToolVerb
	// always: the agent may call it whatever procedures fit. Otherwise only with one of procedures.
	always     bool
	procedures []string
}

// shelf returns the verbs that an agent may choose from, built or as they were built before. It costs
// one round trip, and up to two more to build it.
func (b *Toolbox) shelf(ctx context.Context, o Offer) (*shelf, error) {
	providers, err := b.d.Catalog.ToolProviders(ctx, o.Tenant)
	if err != nil {
		return nil, err
	}
	providers = slices.DeleteFunc(slices.Clone(providers), func(p catalog.ToolProvider) bool { return !o.mayNeed(p.Slug) })
	key := shelfKey{tenant: o.Tenant, state: stateOf(o, providers)}
	if s, known := b.shelves.Get(key); known {
		return s, nil
	}
	// Building is costly for large catalogs, so tenants take turns.
	free, err := b.d.Tools.turn(ctx, o.Tenant)
	if err != nil {
		return nil, err
	}
	defer free()
	if s, known := b.shelves.Get(key); known {
		return s, nil // built while this one waited
	}
	verbs, err := b.d.Catalog.ToolVerbs(ctx, o.Tenant, providers, mostVerbs)
	if err != nil {
		return nil, err
	}
	s := build(o, verbs)
	b.shelves.Add(key, s, s.bytes, nil)
	return s, nil
}

// mayNeed reports whether a pattern of the agent may have a verb of the provider.
func (o Offer) mayNeed(slug string) bool {
	needs := func(pattern string) bool { return ofProvider(pattern, slug) }
	return slices.ContainsFunc(o.Tools.Allow, needs) || slices.ContainsFunc(o.SOPs, func(s agentdef.SOP) bool { return s.Enabled && slices.ContainsFunc(s.Tools, needs) })
}

// ofProvider reports whether a pattern may have a verb of the provider.
func ofProvider(pattern, slug string) bool {
	provider, _, _ := strings.Cut(pattern, ":")
	return agentdef.Matches([]string{provider + ":*"}, slug+":")
}

// of returns the offer with only those patterns that may have a verb of the provider.
func (o Offer) of(slug string) Offer {
	few := func(patterns []string) (list []string) {
		for _, pattern := range patterns {
			if ofProvider(pattern, slug) {
				list = append(list, pattern)
			}
		}
		return list
	}
	o.Tools.Allow, o.Tools.Deny = few(o.Tools.Allow), few(o.Tools.Deny)
	o.SOPs = slices.Clone(o.SOPs)
	for i, s := range o.SOPs {
		o.SOPs[i].Tools = few(s.Tools)
	}
	return o
}

// stateOf returns a hash of all that a shelf is made of.
func stateOf(o Offer, providers []catalog.ToolProvider) (sum [sha256.Size]byte) {
	h := sha256.New()
	write(h, o.Tools.Allow...)
	write(h, o.Tools.Deny...)
	for _, s := range o.SOPs {
		if s.Enabled && len(s.Tools) > 0 {
			write(h, append([]string{s.Slug}, s.Tools...)...)
		}
	}
	for _, p := range providers {
		write(h, p.Slug, fmt.Sprint(p.Shared, p.Connected, p.Credential, p.UpdatedAt.UnixNano()))
	}
	h.Sum(sum[:0])
	return sum
}

// write adds a list of texts as one JSON array, so that no two lists are written alike.
func write(h hash.Hash, texts ...string) {
	raw, err := json.Marshal(texts)
	if err == nil { // of texts
		h.Write(raw)
	}
}

// allowed says whether the agent may call what has the name: always, or while one of these procedures
// fits. Neither where it may not.
func (o Offer) allowed(name string) (always bool, procedures []string) {
	if agentdef.Matches(o.Tools.Deny, name) {
		return false, nil
	}
	for _, p := range o.SOPs {
		if p.Enabled && agentdef.Matches(p.Tools, name) {
			procedures = append(procedures, p.Slug)
		}
	}
	return len(procedures) == 0 && agentdef.Matches(o.Tools.Allow, name), procedures
}

// build makes a shelf.
func build(o Offer, verbs []catalog.ToolVerb) *shelf {
	s := &shelf{of: map[string][]int32{}}
	provider, of := "", o
	for _, v := range verbs {
		if v.Name.Provider != provider {
			provider, of = v.Name.Provider, o.of(v.Name.Provider)
		}
		if always, procedures := of.allowed(v.Name.String()); always || len(procedures) > 0 {
			s.verbs = append(s.verbs, item{v, always, procedures})
		}
	}
	slices.SortFunc(s.verbs, func(a, b item) int { return compare(a, b.Name.String()) })
	docs := make([]wordrank.Doc, len(s.verbs))
	for i, it := range s.verbs {
		place := int32(i)
		switch {
		case !it.always:
			for _, slug := range it.procedures {
				s.of[slug] = append(s.of[slug], place)
			}
		case it.Connected:
			s.connected = append(s.connected, place)
		default:
			s.others = append(s.others, place)
		}
		if n := len(s.providers); n == 0 || s.providers[n-1] != it.Name.Provider {
			s.providers = append(s.providers, it.Name.Provider)
		}
		docs[i] = wordrank.Doc{Name: it.Name.String(), Text: it.Description}
		s.bytes += itemBytes + len(it.Name.Verb) + len(it.Description)
	}
	slices.Sort(s.providers)
	s.providers = slices.Compact(s.providers)
	s.index = wordrank.New(docs)
	s.bytes += s.index.Bytes()
	return s
}

// itemBytes is about what an item takes beside its texts.
const itemBytes = 220

func compare(it item, name string) int { return cmp.Compare(it.Name.String(), name) }

// offered returns the places of the verbs that are offered while these procedures fit: verbs of
// connected providers first, those of procedures last, so that the others are always the same.
func (s *shelf) offered(matched []string) []int32 {
	list := slices.Concat(s.connected, s.others)
	seen := map[int32]bool{}
	for _, slug := range matched {
		for _, place := range s.of[slug] {
			if !seen[place] {
				seen[place] = true
				list = append(list, place)
			}
		}
	}
	return list
}

// has reports whether a verb is offered while these procedures fit.
func (s *shelf) has(place int32, matched []string) bool {
	it := s.verbs[place]
	return it.always || anyOf(it.procedures, matched)
}

func anyOf(procedures, matched []string) bool {
	return slices.ContainsFunc(procedures, func(slug string) bool { return slices.Contains(matched, slug) })
}

// find returns the place of a verb by its name, or by its name as a tool; -1 where it is not offered.
func (s *shelf) find(name string, matched []string) int32 {
	if provider, rest, is := strings.Cut(name, "__"); is && !strings.Contains(provider, ":") {
		name = provider + ":" + rest
	}
	at, found := slices.BinarySearchFunc(s.verbs, name, compare)
	if place := int32(at); found && s.has(place, matched) {
		return place
	}
	return -1
}

// rank returns the places of at most n offered verbs by the words of a text, the best first. Of verbs
// with about the same words, those of connected providers come first.
func (s *shelf) rank(text string, n int, matched []string) []int32 {
	var list []int32
	for asked := 4 * n; ; asked *= 8 {
		list = list[:0]
		hits := s.index.Rank(text, asked)
		for i := range hits {
			if !s.verbs[hits[i].Doc].Connected {
				hits[i].Score *= unconnected
			}
		}
		slices.SortStableFunc(hits, func(a, b wordrank.Hit) int { return cmp.Compare(b.Score, a.Score) })
		for _, h := range hits {
			if place := int32(h.Doc); len(list) < n && s.has(place, matched) {
				list = append(list, place)
			}
		}
		if len(list) == n || len(hits) < asked {
			return list
		}
	}
}

// unconnected is what the score of a verb counts that no credential of the tenant can call.
const unconnected = 0.7
