package quota

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// Room checks one quota where creations are many and the rows that count are many too. A tenant far
// below its limit does not have all of them counted at each creation, and its creations do not take
// turns. Near a small limit, Room counts as Limits.Queue does. So a tenant passes the limit at most
// by what it creates within roomLasts.
type Room struct {
	limits   Limits
	resource Resource
	now      func() time.Time

	mu   sync.Mutex
	left map[uuid.UUID]left
}

// left is how many a tenant may create without a count, and until when.
type left struct {
	n     int64
	until time.Time
}

const (
	// roomLasts is how long a count is good for.
	roomLasts = time.Second
	// roomPart is the part of what a tenant may still create that one process lets it create after
	// one count. Sixteen processes that have counted at the same moment do not pass the limit.
	roomPart = 16
	// roomStep is the part of the limit itself that one process lets it create near the limit, so that
	// a tenant that stays there is not counted whole at each creation: 5 of 10,000. Below 2,000 a
	// limit is exact. Sixteen processes pass it by a hundredth at most.
	roomStep = 2000
	// roomTenants is how many tenants' counts a process keeps.
	roomTenants = 10_000
)

// Room returns the check of one resource for this process.
func (l Limits) Room(r Resource, now func() time.Time) *Room {
	return &Room{limits: l, resource: r, now: now, left: map[uuid.UUID]left{}}
}

// Queue makes the batch fail with QUOTA_EXCEEDED where the tenant then has more of the resource than
// it may; see Limits.Queue. The caller calls counted once the batch was committed.
func (m *Room) Queue(b *db.Batch, tenant uuid.UUID) (counted func()) {
	if m.Take(tenant) {
		return func() {}
	}
	c := m.limits.counting(tenant, m.resource)
	db.QueueExec(b, takeTurn, c)
	found := db.Queue(b, countFound, c)
	return func() { m.keep(tenant, share(c.most, found.Value)) }
}

// Take reports whether the tenant may create one more without a count, and counts it then.
func (m *Room) Take(tenant uuid.UUID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.left[tenant]
	if l.n < 1 || m.now().After(l.until) {
		delete(m.left, tenant)
		return false
	}
	l.n--
	m.left[tenant] = l
	return true
}

// share returns how many a tenant that has so many may create without a count.
func share(most, found int64) int64 {
	left := most - found
	return max(left/roomPart, min(left, most/roomStep))
}

// keep notes a count.
func (m *Room) keep(tenant uuid.UUID, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.left) >= roomTenants {
		clear(m.left) // they are counted again
	}
	m.left[tenant] = left{n, m.now().Add(roomLasts)}
}

// countFound is count, and returns how many there are.
func countFound(ctx context.Context, tx dbsqlc.DBTX, c counting) (n int64, err error) {
	var exceeded *bool
	row := tx.QueryRow(ctx, "SELECT c.n, CASE WHEN c.n > $2::bigint THEN quota_exceeded($3) END FROM ("+c.number()+") AS c (n)",
		c.tenant, c.most, c.message())
	if err := row.Scan(&n, &exceeded); err != nil {
		return 0, fmt.Errorf("quota: count: %w", err)
	}
	return n, nil
}
