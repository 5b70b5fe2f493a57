package definition

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/record/audit"
)

// Publish makes a version of a Map the one that triggers run. d is that version. Where triggers
// run it already, nothing changes. It refuses with MAP_NOT_FOUND, and with INVALID_MAP where a
// Map that it starts was never published, or where a Map that starts it would be nested too deep.
func (s *Service) Publish(ctx context.Context, who actor.Actor, id uuid.UUID, number int32, d Draft) (rec Record, err error) {
	err = s.change(ctx, who, id, nil, func(c change, m dbsqlc.Map) error {
		if m.PublishedVersion == nil || *m.PublishedVersion != number {
			if err := c.publish(ctx, d, number); err != nil {
				return err
			}
		}
		rec, err = c.read(ctx)
		return err
	})
	return rec, err
}

// publish makes the version current. What is only a warning about a draft, a started Map that
// was never published, refuses it.
func (c change) publish(ctx context.Context, d Draft, number int32) error {
	found, err := c.check(ctx, d)
	if err != nil {
		return err
	}
	if faults := slices.Concat(found.Errors, found.Warnings); len(faults) > 0 {
		return Invalid(faults)
	}
	by, at := c.who.String(), c.s.d.Now()
	m, err := c.s.q.PublishMap(ctx, c.tx, dbsqlc.PublishMapParams{TenantID: c.who.TenantID, ID: c.id, Version: number, ChangedBy: by, ChangedAt: at})
	if err != nil {
		return fmt.Errorf("definition: publish: %w", err)
	}
	err = c.s.q.MarkMapVersionPublished(ctx, c.tx, dbsqlc.MarkMapVersionPublishedParams{
		TenantID: c.who.TenantID, MapID: c.id, Version: number, ChangedBy: by, ChangedAt: at,
	})
	if err != nil {
		return fmt.Errorf("definition: note the publication: %w", err)
	}
	if err := c.above(ctx, d); err != nil {
		return err
	}
	return c.record(ctx, audit.MapPublished, number, m.Name)
}

// above checks the Maps that start the one that was published: they nest as deep as it does, and
// deeper. A Map that starts none makes no other deeper.
func (c change) above(ctx context.Context, d Draft) error {
	if len(startsOf(d.Definition)) == 0 {
		return nil
	}
	ids, err := c.s.q.StartingMaps(ctx, c.tx, c.who.TenantID)
	if err != nil {
		return fmt.Errorf("definition: the Maps that start others: %w", err)
	}
	rows, err := c.s.q.MapGraph(ctx, c.tx, dbsqlc.MapGraphParams{TenantID: c.who.TenantID, Maps: ids, Versions: make([]int32, len(ids))})
	if err != nil {
		return fmt.Errorf("definition: which Maps start which: %w", err)
	}
	g := graphOf(rows)
	for _, id := range ids {
		node, found := g.find(reference{id: id})
		if found && g.of(reference{id: id}).maps > mapdef.MaxMapDepth {
			return Invalid([]mapdef.Fault{{Path: "", Rule: ruleDepth, Message: "The Map " + strconv.Quote(node.Name) + " (" + id.String() +
				") starts this one, and would then lead to more than " + strconv.Itoa(mapdef.MaxMapDepth) + " Maps in a row."}})
		}
	}
	return nil
}

// Delete ends a Map. Executions that began before go on with the versions that they pinned.
// expect is asked about the Map's revision. It refuses with MAP_NOT_FOUND, and with CONFLICT
// where the published version of another Map starts this one.
func (s *Service) Delete(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[int32]) error {
	return s.change(ctx, who, id, expect, func(c change, _ dbsqlc.Map) error {
		starting, err := s.q.MapStarting(ctx, c.tx, dbsqlc.MapStartingParams{TenantID: who.TenantID, Started: id})
		if err != nil {
			return fmt.Errorf("definition: the Maps that start this one: %w", err)
		}
		if len(starting) > 0 {
			return fault.Newf(fault.CodeConflict, "The published version of the Map %q (%s) starts this one. Publish one that does not, or delete that Map first.",
				starting[0].Name, starting[0].ID)
		}
		row, err := s.q.DeleteMap(ctx, c.tx, dbsqlc.DeleteMapParams{TenantID: who.TenantID, ID: id, ChangedBy: who.String(), ChangedAt: s.d.Now()})
		if err != nil {
			return fmt.Errorf("definition: delete: %w", err)
		}
		return c.record(ctx, audit.MapDeleted, row.LatestVersion, row.Name)
	})
}

// Filter narrows a list. A field with its zero value does not narrow it.
type Filter struct {
	// Search selects Maps whose name contains it, in any case.
	Search string
	// Published selects those that have a published version, or those that have none.
	Published *bool
	Before    *uuid.UUID
	Limit     int
}

// List returns the newest Maps first, and whether there are more.
func (s *Service) List(ctx context.Context, tenant uuid.UUID, f Filter) (page []Map, more bool, err error) {
	rows, err := s.q.ListMaps(ctx, s.d.DB.Reading(tenant, db.ListLimit), dbsqlc.ListMapsParams{
		TenantID: tenant, Before: f.Before, Search: db.Optional(f.Search), Published: f.Published, Most: int32(f.Limit + 1),
	})
	if err != nil {
		return nil, false, fmt.Errorf("definition: list: %w", err)
	}
	rows, more = db.Page(rows, f.Limit)
	page = make([]Map, len(rows))
	for i, row := range rows {
		page[i] = mapOf(row)
	}
	return page, more, s.typesOf(ctx, tenant, page)
}

// Versions returns the versions of a Map without their definitions, the newest first, and
// whether there are more. before continues after that number; 0 begins. MAP_NOT_FOUND.
func (s *Service) Versions(ctx context.Context, tenant, id uuid.UUID, before int32, limit int) (page []Stored, more bool, err error) {
	b := &db.Batch{}
	m := db.Queue(b, s.q.GetMap, dbsqlc.GetMapParams{TenantID: tenant, ID: id})
	arg := dbsqlc.ListMapVersionsParams{TenantID: tenant, MapID: id, Most: int32(limit + 1)}
	if before > 0 {
		arg.Before = &before
	}
	list := db.Queue(b, s.q.ListMapVersions, arg)
	if err := s.d.DB.SendReading(ctx, tenant, db.ListLimit, b); err != nil {
		return nil, false, readError(err)
	}
	rows, more := db.Page(list.Value, limit)
	page = make([]Stored, len(rows))
	for i, r := range rows {
		page[i] = Stored{
			MapID: id, Number: r.Version, Name: r.Name, Size: r.Size, Digest: r.Digest, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(),
			PublishedBy: r.PublishedBy, PublishedAt: db.UTC(r.PublishedAt), Current: m.Value.PublishedVersion != nil && *m.Value.PublishedVersion == r.Version,
		}
	}
	return page, more, nil
}
