package definition

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/mapdef"
)

// Version is a version of a Map, ready to run.
type Version struct {
	MapID      uuid.UUID
	Number     int32
	Definition *mapdef.Definition
	// MapType is as of the read. ByVersion leaves it "": an execution has it in its row.
	MapType mapdef.MapType
	// PublishedBy is who published the version that triggers run, "user:<id>" or "key:<id>".
	// ByVersion leaves it "".
	PublishedBy string
	// Alone: it starts no other Map, so nothing of it ever changes. ByVersion leaves it false.
	Alone bool
}

// versionKey names a version. A version never changes, so nothing is ever invalidated.
type versionKey struct {
	tenant, id uuid.UUID
	number     int32
}

type compiled struct{ definition *mapdef.Definition }

// Published returns the version of a Map that triggers run. It costs one round trip; one more
// where the Map starts others, and one for the first time that this process needs the version.
// It refuses with MAP_NOT_FOUND, and with CONFLICT where no version is published.
func (s *Service) Published(ctx context.Context, tenant, id uuid.UUID) (Version, error) {
	on := s.d.DB.Tenant(tenant)
	head, err := s.q.GetMapHead(ctx, on, dbsqlc.GetMapHeadParams{TenantID: tenant, MapID: id})
	if err != nil {
		return Version{}, readError(err)
	}
	if head.Version == nil || head.Cognitive == nil {
		return Version{}, fault.New(fault.CodeConflict, "The Map has no published version. Publish one with POST /v1/maps/{id}/publish.")
	}
	v, err := s.ByVersion(ctx, tenant, id, *head.Version)
	if err != nil {
		return Version{}, err
	}
	v.PublishedBy, v.Alone = db.Text(head.PublishedBy), len(head.Starts) == 0
	v.MapType, err = s.typeOfStarts(ctx, on, tenant, *head.Cognitive, head.Starts, head.StartVersions)
	return v, err
}

// ByVersion returns a version by its number, also that of a deleted Map: from memory, otherwise
// with one round trip. MAP_NOT_FOUND.
func (s *Service) ByVersion(ctx context.Context, tenant, id uuid.UUID, number int32) (Version, error) {
	key := versionKey{tenant, id, number}
	if kept, ok := s.compiled.Get(key); ok {
		return Version{MapID: id, Number: number, Definition: kept.definition}, nil
	}
	source, err := s.q.GetMapDefinition(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetMapDefinitionParams{TenantID: tenant, MapID: id, Version: number})
	if err != nil {
		return Version{}, readError(err)
	}
	d := &mapdef.Definition{}
	if err := json.Unmarshal(source, d); err != nil {
		return Version{}, fmt.Errorf("definition: read version %d of %s: %w", number, id, err)
	}
	s.compiled.Add(key, compiled{d}, d.Size(), nil)
	return Version{MapID: id, Number: number, Definition: d}, nil
}

// PublishedOf returns the versions of Maps that triggers run, without their types, in the order of the
// ids. A Map that is deleted or has none is left out. It costs one round trip, and one more for each
// version that this process needs for the first time.
func (s *Service) PublishedOf(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) (list []Version, err error) {
	rows, err := s.q.PublishedMaps(ctx, s.d.DB.Tenant(tenant), dbsqlc.PublishedMapsParams{TenantID: tenant, Ids: ids})
	if err != nil {
		return nil, fmt.Errorf("definition: published Maps: %w", err)
	}
	for _, id := range ids {
		for _, row := range rows {
			if row.ID != id {
				continue
			}
			v, err := s.ByVersion(ctx, tenant, id, row.Version)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
	}
	return list, nil
}
