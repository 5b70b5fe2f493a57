package authoring

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"agentruntime/internal/base/bytelru"
	"agentruntime/internal/maps/definition"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
)

// Programs makes the versions of Maps ready for the step machine, and keeps those that were used
// last.
type Programs struct {
	maps *definition.Service
	kept *bytelru.Cache[programKey, *stepmachine.Program]
	// published has what was read last as the published version of a Map.
	published *lru.Cache[mapKey, execution.Version]
}

type mapKey struct{ tenant, id uuid.UUID }

// mostPublished is of how many Maps a process remembers the published version.
const mostPublished = 4096

type programKey struct {
	id     uuid.UUID
	number int32
}

// programsBytes is how much memory the programs take that a process keeps. A usual one takes some
// 100 KB, and the largest 40 MB.
const programsBytes = 64 << 20

// NewPrograms checks the collaborator.
func NewPrograms(maps *definition.Service) (*Programs, error) {
	if maps == nil {
		return nil, errors.New("authoring: the Maps are required")
	}
	kept, err := bytelru.New[programKey, *stepmachine.Program](programsBytes)
	if err != nil {
		return nil, fmt.Errorf("authoring: %w", err)
	}
	published, err := lru.New[mapKey, execution.Version](mostPublished)
	if err != nil {
		return nil, fmt.Errorf("authoring: %w", err)
	}
	return &Programs{maps: maps, kept: kept, published: published}, nil
}

// LastPublished implements execution.Definitions.
func (p *Programs) LastPublished(tenant, id uuid.UUID) (execution.Version, bool) {
	return p.published.Get(mapKey{tenant, id})
}

// Version implements execution.Definitions.
func (p *Programs) Version(ctx context.Context, tenant, id uuid.UUID, number int32) (execution.Version, error) {
	find := func() (definition.Version, error) { return p.maps.ByVersion(ctx, tenant, id, number) }
	if number == 0 {
		find = func() (definition.Version, error) { return p.maps.Published(ctx, tenant, id) }
	}
	v, err := find()
	if err != nil {
		return execution.Version{}, err
	}
	out := execution.Version{MapID: id, Number: v.Number, MapType: v.MapType}
	if out.Program, err = p.program(v); err != nil {
		return out, err
	}
	switch {
	case number != 0:
	case v.Alone:
		p.published.Add(mapKey{tenant, id}, out)
	default:
		p.published.Remove(mapKey{tenant, id})
	}
	return out, nil
}

// program compiles a version that this process does not keep.
func (p *Programs) program(v definition.Version) (*stepmachine.Program, error) {
	key := programKey{v.MapID, v.Number}
	if kept, ok := p.kept.Get(key); ok {
		return kept, nil
	}
	made, err := stepmachine.Compile(v.Definition)
	if err != nil {
		return nil, fmt.Errorf("authoring: %w", err)
	}
	p.kept.Add(key, made, v.Definition.Size(), nil)
	return made, nil
}

// Named implements execution.Definitions.
func (p *Programs) Named(ctx context.Context, tenant, id uuid.UUID, number int32) (execution.Version, error) {
	stored, err := p.maps.Version(ctx, tenant, id, number)
	if err != nil {
		return execution.Version{}, err
	}
	out, err := p.Version(ctx, tenant, id, number)
	out.MapType = stored.MapType
	return out, err
}
