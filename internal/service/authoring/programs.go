package authoring

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/bytelru"
	"agentruntime/internal/kernel/stepmachine"
	"agentruntime/internal/maps/definition"
	"agentruntime/internal/maps/execution"
)

// Programs makes the versions of Maps ready for the step machine, and keeps those that were used
// last.
type Programs struct {
	maps *definition.Service
	kept *bytelru.Cache[programKey, *stepmachine.Program]
}

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
	return &Programs{maps: maps, kept: kept}, nil
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
	key := programKey{id, v.Number}
	if kept, ok := p.kept.Get(key); ok {
		out.Program = kept
		return out, nil
	}
	if out.Program, err = stepmachine.Compile(v.Definition); err != nil {
		return out, fmt.Errorf("authoring: %w", err)
	}
	p.kept.Add(key, out.Program, v.Definition.Size(), nil)
	return out, nil
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
