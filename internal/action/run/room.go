package run

import (
	"context"
	"fmt"
	"math"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
)

// smallRun is the most bytes of a run's texts, as they are stored, that are read without
// asking for room.
const smallRun = 64 << 10

// Room takes memory for a run with texts of so many bytes, before they are read. The error
// refuses the call that would read them. Room knows when the call has ended.
type Room func(ctx context.Context, executionID string, bytes int) error

type roomKey struct{}

// WithRoom returns a context in which Do, Get, Cancel and Resolve ask room before they read a
// large run. Without it there is always room: a worker has its own bounds.
func WithRoom(ctx context.Context, room Room) context.Context {
	return context.WithValue(ctx, roomKey{}, room)
}

// large reads the run of the keys where its texts are too large for a first read. The error
// is that of Room. There are no rows where the keys name no run.
func (s *Service) large(ctx context.Context, tenant uuid.UUID, keys []string) ([]dbsqlc.Run, error) {
	if room, ok := ctx.Value(roomKey{}).(Room); ok {
		sizes, err := s.q.RunSize(ctx, s.d.DB.Tenant(tenant), dbsqlc.RunSizeParams{TenantID: tenant, Keys: keys})
		if err != nil {
			return nil, fmt.Errorf("run: size: %w", err)
		}
		if len(sizes) == 0 {
			return nil, nil
		}
		if err := room(ctx, sizes[0].ExecutionID, int(sizes[0].Size)); err != nil {
			return nil, err
		}
	}
	rows, err := s.q.RunByKeys(ctx, s.d.DB.Tenant(tenant), dbsqlc.RunByKeysParams{TenantID: tenant, Keys: keys, Most: math.MaxInt64})
	if err != nil {
		return nil, fmt.Errorf("run: read: %w", err)
	}
	return rows, nil
}
