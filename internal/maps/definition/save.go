package definition

import (
	"bytes"
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/quota"
)

// Create stores a Map with its first version, and publishes that where publish is set. It
// refuses with INVALID_MAP for what the Maps that it starts forbid, and with QUOTA_EXCEEDED.
func (s *Service) Create(ctx context.Context, who actor.Actor, d Draft, publish bool) (rec Record, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Record{}, fmt.Errorf("definition: make an id: %w", err)
	}
	err = s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := idempotency.Write(ctx, tx, id.String()); err != nil {
			return err
		}
		if err := s.lock(ctx, tx, who.TenantID); err != nil {
			return err
		}
		err := s.q.InsertMap(ctx, tx, dbsqlc.InsertMapParams{
			ID: id, TenantID: who.TenantID, Name: d.Definition.Name, Description: d.Definition.Description, Bytes: int64(len(d.Source)),
			ChangedBy: who.String(), ChangedAt: s.d.Now(),
		})
		if err != nil {
			return fmt.Errorf("definition: insert: %w", err)
		}
		c := change{s, tx, who, id}
		if err := c.insert(ctx, d, 1); err != nil {
			return err
		}
		for _, r := range []quota.Resource{quota.Maps, quota.MapBytes} {
			if err := s.d.Quotas.Require(ctx, tx, who.TenantID, r); err != nil {
				return err
			}
		}
		if err := c.record(ctx, audit.MapCreated, 1, d.Definition.Name); err != nil {
			return err
		}
		if publish {
			if err := c.publish(ctx, d, 1); err != nil {
				return err
			}
		}
		rec, err = c.read(ctx)
		return err
	})
	if err != nil {
		return Record{}, err
	}
	return rec, nil
}

// Replace adds a version to a Map, and publishes it where publish is set. A definition that the
// newest version has already adds none. expect is asked about the Map's revision. It refuses
// with MAP_NOT_FOUND and as Create does.
func (s *Service) Replace(ctx context.Context, who actor.Actor, id uuid.UUID, d Draft, publish bool, expect fault.Expect[int32]) (rec Record, err error) {
	err = s.change(ctx, who, id, expect, func(c change, m dbsqlc.Map) error {
		newest, err := s.q.GetMapVersion(ctx, c.tx, dbsqlc.GetMapVersionParams{TenantID: who.TenantID, MapID: id})
		if err != nil {
			return readError(err)
		}
		if !bytes.Equal(newest.MapVersion.Digest, d.digest()) {
			if m, err = c.add(ctx, d); err != nil {
				return err
			}
		}
		if publish && (m.PublishedVersion == nil || *m.PublishedVersion != m.LatestVersion) {
			if err := c.publish(ctx, d, m.LatestVersion); err != nil {
				return err
			}
		}
		rec, err = c.read(ctx)
		return err
	})
	return rec, err
}

// lock makes changes of the tenant's Maps wait for each other.
func (s *Service) lock(ctx context.Context, tx pgx.Tx, tenant uuid.UUID) error {
	if err := s.q.LockMaps(ctx, tx, tenant.String()); err != nil {
		return fmt.Errorf("definition: take turns: %w", err)
	}
	return nil
}

// change is a transaction that changes one Map.
type change struct {
	s   *Service
	tx  pgx.Tx
	who actor.Actor
	id  uuid.UUID
}

// change runs fn while no other change of the tenant's Maps runs, after it has checked that the
// Map is as the caller expects.
func (s *Service) change(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[int32], fn func(change, dbsqlc.Map) error) error {
	return s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := s.lock(ctx, tx, who.TenantID); err != nil {
			return err
		}
		row, err := s.q.GetMap(ctx, tx, dbsqlc.GetMapParams{TenantID: who.TenantID, ID: id})
		if err != nil {
			return readError(err)
		}
		if err := expect.Check(row.Revision); err != nil {
			return err
		}
		return fn(change{s, tx, who, id}, row)
	})
}

// check is Service.Check within the change.
func (c change) check(ctx context.Context, d Draft) (Finding, error) {
	return c.s.check(c.who.TenantID, c.id, d.Definition, func(b *db.Batch) error { return b.SendIn(ctx, c.tx) })
}

// insert stores a version, after it has checked what it names of the tenant's.
func (c change) insert(ctx context.Context, d Draft, number int32) error {
	found, err := c.check(ctx, d)
	if err != nil {
		return err
	}
	if len(found.Errors) > 0 {
		return Invalid(found.Errors)
	}
	ids, versions := distinct(startsOf(d.Definition))
	err = c.s.q.InsertMapVersion(ctx, c.tx, dbsqlc.InsertMapVersionParams{
		TenantID: c.who.TenantID, MapID: c.id, Version: number, Name: d.Definition.Name, Definition: d.Source, Size: int32(len(d.Source)),
		Digest: d.digest(), Cognitive: d.Definition.HasModel(), Starts: ids, StartVersions: versions, Verbs: d.Definition.Verbs(), CreatedBy: c.who.String(), CreatedAt: c.s.d.Now(),
	})
	if err != nil {
		return fmt.Errorf("definition: insert a version: %w", err)
	}
	return nil
}

// add makes the draft the newest version, and returns the Map with it.
func (c change) add(ctx context.Context, d Draft) (dbsqlc.Map, error) {
	m, err := c.s.q.AddMapVersion(ctx, c.tx, dbsqlc.AddMapVersionParams{
		TenantID: c.who.TenantID, ID: c.id, Name: d.Definition.Name, Description: d.Definition.Description, Size: int64(len(d.Source)),
		ChangedBy: c.who.String(), ChangedAt: c.s.d.Now(),
	})
	if err != nil {
		return m, fmt.Errorf("definition: add a version: %w", err)
	}
	if most := c.s.d.Quotas.Most(quota.MapVersions); int64(m.LatestVersion) > most {
		return m, fault.Newf(fault.CodeQuotaExceeded, "The Map has reached the quota map_versions: at most %d versions of one Map. Make another Map of its definition.", most)
	}
	if err := c.insert(ctx, d, m.LatestVersion); err != nil {
		return m, err
	}
	if err := c.s.d.Quotas.Require(ctx, c.tx, c.who.TenantID, quota.MapBytes); err != nil {
		return m, err
	}
	return m, c.record(ctx, audit.MapVersionAdded, m.LatestVersion, m.Name)
}

// record writes who made the change.
func (c change) record(ctx context.Context, action audit.Action, version int32, name string) error {
	rec := audit.Change(c.who, action, audit.SubjectMap, c.id.String())
	return audit.Append(ctx, c.tx, rec.With(map[string]any{"version": version, "name": name}))
}

// read returns the Map as the transaction has made it.
func (c change) read(ctx context.Context) (Record, error) {
	m, err := c.s.q.GetMap(ctx, c.tx, dbsqlc.GetMapParams{TenantID: c.who.TenantID, ID: c.id})
	if err != nil {
		return Record{}, readError(err)
	}
	v, err := c.s.q.GetMapVersion(ctx, c.tx, dbsqlc.GetMapVersionParams{TenantID: c.who.TenantID, MapID: c.id})
	if err != nil {
		return Record{}, readError(err)
	}
	rec := Record{Map: mapOf(m), Version: storedOf(v.MapVersion, v.PublishedVersion)}
	kind, err := c.s.typeOf(ctx, c.tx, c.who.TenantID, v.MapVersion)
	rec.MapType, rec.Version.MapType = kind, kind
	return rec, err
}
