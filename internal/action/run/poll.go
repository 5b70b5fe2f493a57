package run

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"agentruntime/db/dbsqlc"
)

// A run that waits is read again and again, until it ends. One round trip reads the row and what
// masking its texts takes. Which values of the arguments may be secrets of the tenant is known
// only once the row is read. So the first look asks about them apart, and remembers their digests
// for the next one.

// polled are the digests of the arguments of runs that were read while they waited.
type polled = lru.Cache[polledRun, [][]byte]

type polledRun struct {
	tenant uuid.UUID
	key    string
}

// polledMost runs are remembered, with up to polledDigests digests of 32 bytes each.
const (
	polledMost    = 4096
	polledDigests = 32
)

func newPolled() *polled {
	cache, err := lru.New[polledRun, [][]byte](polledMost)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return cache
}

// toShow returns the run that the key names, with what masking its texts takes where one round
// trip has read that too. A large run is read as its caller has room.
func (s *Service) toShow(ctx context.Context, tenant uuid.UUID, key string) (r Run, found bool, err error) {
	asked, _ := s.polled.Get(polledRun{tenant, key})
	rows, err := s.q.RunToShow(ctx, s.d.DB.Tenant(tenant), dbsqlc.RunToShowParams{Digests: asked, TenantID: tenant, Key: key, Most: smallRun})
	if err != nil {
		return Run{}, false, fmt.Errorf("run: get: %w", err)
	}
	if len(rows) == 0 {
		large, err := s.large(ctx, tenant, []string{key})
		if err != nil || len(large) == 0 {
			return Run{}, false, err
		}
		r, err = s.fromRow(ctx, large[0])
		return r, true, err
	}
	if r, err = s.fromRow(ctx, rows[0].Run); err != nil {
		return Run{}, false, err
	}
	if r.key == nil || len(r.Effective()) == 0 {
		return r, true, nil
	}
	digests := s.d.Targets.Digests(r.key, r.Effective())
	if asked == nil || slices.EqualFunc(digests, asked, bytes.Equal) {
		r.masking = rows[0].Target
	}
	if !r.State.Ended() && len(digests) <= polledDigests {
		s.polled.Add(polledRun{tenant, key}, digests)
	} else {
		s.polled.Remove(polledRun{tenant, key})
	}
	return r, true, nil
}
