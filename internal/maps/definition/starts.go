package definition

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/maps/mapdef"
)

// The rules of Maps that start Maps, in faults and warnings.
const (
	ruleUnknownMap   = "unknown_map"
	ruleCycle        = "map_cycle"
	ruleDepth        = "map_depth"
	ruleNotPublished = "map_not_published"
)

// reference is one Map that a definition starts. Version 0 is the published one.
type reference struct {
	id      uuid.UUID
	version int32
}

// started is a reference with the step that has it.
type started struct {
	reference
	pointer string
}

// startsOf returns the Maps that a definition starts. An id that is no UUID is a fault of its form.
func startsOf(d *mapdef.Definition) (list []started) {
	see := func(s *mapdef.Step) {
		do, is := s.Do.(*mapdef.DoMap)
		if !is {
			return
		}
		if id, err := uuid.Parse(do.MapID); err == nil {
			list = append(list, started{reference{id, int32(do.Version)}, s.Pointer})
		}
	}
	mapdef.Walk(d.Steps, see)
	mapdef.Walk(d.OnFailure, see)
	return list
}

// distinct returns each reference once, as the columns of map_versions have them.
func distinct(list []started) (ids []uuid.UUID, versions []int32) {
	refs := make([]reference, len(list))
	for i, s := range list {
		refs[i] = s.reference
	}
	slices.SortFunc(refs, func(a, b reference) int {
		if c := bytes.Compare(a.id[:], b.id[:]); c != 0 {
			return c
		}
		return int(a.version) - int(b.version)
	})
	refs = slices.Compact(refs)
	ids, versions = make([]uuid.UUID, len(refs)), make([]int32, len(refs))
	for i, r := range refs {
		ids[i], versions[i] = r.id, r.version
	}
	return ids, versions
}

// graph is which versions start which.
type graph struct {
	nodes     map[reference]dbsqlc.MapGraphRow // no version is 0
	published map[uuid.UUID]int32
	seen      map[reference]height
}

// height is what a version leads to.
type height struct {
	maps      int // in its longest chain, itself included
	cognitive bool
}

func graphOf(rows []dbsqlc.MapGraphRow) *graph {
	g := &graph{nodes: map[reference]dbsqlc.MapGraphRow{}, published: map[uuid.UUID]int32{}, seen: map[reference]height{}}
	for _, r := range rows {
		g.nodes[reference{r.MapID, r.Version}] = r
		if r.Published {
			g.published[r.MapID] = r.Version
		}
	}
	return g
}

// find returns the version that a reference means; found is false where there is none.
func (g *graph) find(r reference) (node dbsqlc.MapGraphRow, found bool) {
	if r.version == 0 {
		r.version = g.published[r.id]
	}
	node, found = g.nodes[r]
	return node, found
}

// of returns the height of what a reference means. A Map that no longer exists counts as one
// that starts nothing. Versions that lead to themselves were never published together; the walk
// ends at them all the same.
func (g *graph) of(r reference) height {
	node, found := g.find(r)
	if !found {
		return height{maps: 1}
	}
	key := reference{node.MapID, node.Version}
	if h, done := g.seen[key]; done {
		return h
	}
	g.seen[key] = height{maps: 1, cognitive: node.Cognitive} // while it is looked at
	h := height{maps: 1, cognitive: node.Cognitive}
	for i, id := range node.Starts {
		below := g.of(reference{id, node.StartVersions[i]})
		h.maps = max(h.maps, below.maps+1)
		h.cognitive = h.cognitive || below.cognitive
	}
	g.seen[key] = h
	return h
}

// reaches reports whether a reference leads to any version of the Map.
func (g *graph) reaches(r reference, target uuid.UUID) bool {
	seen := map[reference]bool{}
	var look func(reference) bool
	look = func(r reference) bool {
		if r.id == target {
			return true
		}
		node, found := g.find(r)
		key := reference{node.MapID, node.Version}
		if !found || seen[key] {
			return false
		}
		seen[key] = true
		for i, id := range node.Starts {
			if look(reference{id, node.StartVersions[i]}) {
				return true
			}
		}
		return false
	}
	return look(r)
}

func typeOf(cognitive bool) mapdef.MapType {
	if cognitive {
		return mapdef.Cognitive
	}
	return mapdef.NonCognitive
}

// typeOf returns the type of a stored version, as the Maps that it starts are published now. It
// costs a round trip only where the version starts some and asks no model itself.
func (s *Service) typeOf(ctx context.Context, on dbsqlc.DBTX, tenant uuid.UUID, v dbsqlc.MapVersion) (mapdef.MapType, error) {
	return s.typeOfStarts(ctx, on, tenant, v.Cognitive, v.Starts, v.StartVersions)
}

func (s *Service) typeOfStarts(
	ctx context.Context, on dbsqlc.DBTX, tenant uuid.UUID, cognitive bool, ids []uuid.UUID, versions []int32,
) (mapdef.MapType, error) {
	if cognitive || len(ids) == 0 {
		return typeOf(cognitive), nil
	}
	rows, err := s.q.MapGraph(ctx, on, dbsqlc.MapGraphParams{TenantID: tenant, Maps: ids, Versions: versions})
	if err != nil {
		return "", fmt.Errorf("definition: which Maps start which: %w", err)
	}
	return typeOf(slices.ContainsFunc(rows, func(r dbsqlc.MapGraphRow) bool { return r.Cognitive })), nil
}

// queueStarts adds the question about the Maps that a definition starts. The function notes what they say
// about it.
func (s *Service) queueStarts(b *db.Batch, tenant, self uuid.UUID, d *mapdef.Definition, f *Finding) func() {
	list := startsOf(d)
	if len(list) == 0 {
		return func() {}
	}
	ids, versions := distinct(list)
	maps := db.Queue(b, s.q.KnownMaps, dbsqlc.KnownMapsParams{TenantID: tenant, Ids: ids})
	rows := db.Queue(b, s.q.MapGraph, dbsqlc.MapGraphParams{TenantID: tenant, Maps: ids, Versions: versions})
	return func() {
		g := graphOf(rows.Value)
		for _, one := range list {
			if !slices.Contains(maps.Value, one.id) {
				f.unknown(one.pointer+"/map_id", ruleUnknownMap, "a Map")
				continue
			}
			f.start(g, self, one)
		}
	}
}

// start judges one Map that is started and exists.
func (f *Finding) start(g *graph, self uuid.UUID, one started) {
	add := func(to *[]mapdef.Fault, member, rule, message string) {
		*to = append(*to, mapdef.Fault{Path: one.pointer + member, Rule: rule, Message: message})
	}
	if g.reaches(one.reference, self) {
		add(&f.Errors, "/map_id", ruleCycle, "must not lead back to this Map: a Map cannot start itself, directly or through others")
		return
	}
	if _, there := g.find(one.reference); !there {
		if one.version != 0 {
			add(&f.Errors, "/version", ruleUnknownMap, "must be a version of that Map, or absent for the published one")
			return
		}
		add(&f.Warnings, "/map_id", ruleNotPublished, "The Map has no published version. Publish it before this one.")
		return
	}
	h := g.of(one.reference)
	if h.maps+1 > mapdef.MaxMapDepth {
		add(&f.Errors, "/map_id", ruleDepth, "must not nest deeper: at most "+strconv.Itoa(mapdef.MaxMapDepth)+" Maps may start each other in a row, this one included")
	}
	if h.cognitive {
		f.MapType = mapdef.Cognitive
	}
}

// typesOf sets the types of the newest versions of a page of Maps. It costs no round trip where
// none of them starts others.
func (s *Service) typesOf(ctx context.Context, tenant uuid.UUID, page []Map) error {
	if len(page) == 0 {
		return nil
	}
	ids, versions := make([]uuid.UUID, len(page)), make([]int32, len(page))
	for i, m := range page {
		ids[i], versions[i] = m.ID, m.Newest
	}
	rows, err := s.q.MapGraph(ctx, s.d.DB.Reading(tenant, db.ListLimit), dbsqlc.MapGraphParams{TenantID: tenant, Maps: ids, Versions: versions})
	if err != nil {
		return fmt.Errorf("definition: which Maps start which: %w", err)
	}
	g := graphOf(rows)
	for i, m := range page {
		page[i].MapType = typeOf(g.of(reference{m.ID, m.Newest}).cognitive)
	}
	return nil
}
