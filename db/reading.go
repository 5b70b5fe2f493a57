package db

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
)

// The bounds of one statement that reads. Postgres cancels it then, and the caller gets
// SERVICE_UNAVAILABLE.
const (
	// ListLimit is for lists, searches and counts that a person waits for.
	ListLimit = 5 * time.Second
	// ScanLimit is for statements that read a whole period or trail, in pieces where they can.
	ScanLimit = 20 * time.Second
	// statementLimit is the outer bound of any other statement. The longest store a large
	// import, or wait for the lock of one.
	statementLimit = 60 * time.Second
	// idleLimit is how long a transaction may wait for its next statement. Nothing of the service
	// waits for anything else while it has one open.
	idleLimit = time.Minute
)

// turnWait is how long a statement waits for its turn among those that read.
const turnWait = 5 * time.Second

// Reading is Tenant for statements whose work grows with what the tenant has: lists,
// searches, counts, exports. Postgres cancels each after limit. All of them together take
// at most half of the connections, and those of one tenant half of that. So runs always
// find a connection. The error is the fault SERVICE_UNAVAILABLE where the limit is reached
// or no turn comes.
func (p *Pool) Reading(id uuid.UUID, limit time.Duration) dbsqlc.DBTX {
	return oneShot{pool: p.fair, setting: SettingTenant, value: id.String(), reads: &reading{turns: p.turns, tenant: id, limit: limit}}
}

// SendReading is Send for a batch that reads; see Reading. Its statements contain only the
// filters that were asked for, so their plans are kept.
func (p *Pool) SendReading(ctx context.Context, tenant uuid.UUID, limit time.Duration, b *Batch) error {
	r := &reading{turns: p.turns, tenant: tenant, limit: limit}
	free, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer free()
	return p.send(ctx, tenant.String(), b, func(all *pgx.Batch) { r.queueSettings(all, planKept) })
}

// reading is a statement that reads, or a batch of them.
type reading struct {
	turns  *turns
	tenant uuid.UUID
	limit  time.Duration
}

// queueSettings sets the tenant and the limit for the transaction.
func (r *reading) queueSettings(b *pgx.Batch, planned planning) {
	b.Queue("select set_config($1, $2, true), set_config('statement_timeout', $3, true), set_config('plan_cache_mode', $4, true)",
		string(SettingTenant), r.tenant.String(), strconv.FormatInt(r.limit.Milliseconds(), 10), string(planned))
}

// planning says whether a plan may be kept for other parameters.
type planning string

const (
	planKept planning = "auto"
	// planEach is for statements in which NULL switches a filter off: a plan for any
	// parameters would not use the index of a filter.
	planEach planning = "force_custom_plan"
)

// begin waits for a turn. free must be called once.
func (r *reading) begin(ctx context.Context) (free func(), err error) {
	wait, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	if free, err = r.turns.take(wait, r.tenant); err == nil {
		return free, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	f := fault.New(fault.CodeServiceUnavailable, "Too many lists and searches are under way. Try again in a second.").Because(err)
	f.Retryable, f.RetryAfter = true, time.Second
	return nil, f
}

// turns bounds how many statements read at once: in all, and for each tenant.
type turns struct {
	all  chan struct{}
	each int

	mu      sync.Mutex
	tenants map[uuid.UUID]*share
}

// share is a tenant's part of the turns, kept while it is used.
type share struct {
	slots chan struct{}
	users int
}

func newTurns(conns int32) *turns {
	all := max(1, int(conns)/2)
	return &turns{all: make(chan struct{}, all), each: max(1, all/2), tenants: map[uuid.UUID]*share{}}
}

// take waits for a turn of the tenant, then for one of all: so a tenant that has too many
// under way takes no turn from others.
func (t *turns) take(ctx context.Context, tenant uuid.UUID) (free func(), err error) {
	s := t.enter(tenant)
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		t.leave(tenant, s)
		return nil, ctx.Err()
	}
	select {
	case t.all <- struct{}{}:
	case <-ctx.Done():
		<-s.slots
		t.leave(tenant, s)
		return nil, ctx.Err()
	}
	return func() {
		<-t.all
		<-s.slots
		t.leave(tenant, s)
	}, nil
}

func (t *turns) enter(tenant uuid.UUID) *share {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.tenants[tenant]
	if s == nil {
		s = &share{slots: make(chan struct{}, t.each)}
		t.tenants[tenant] = s
	}
	s.users++
	return s
}

func (t *turns) leave(tenant uuid.UUID, s *share) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(t.tenants, tenant)
	}
}
