package bench

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"agentruntime/db"
)

// countEvery is how often the open Maps are counted, because a count reads them all. Meanwhile each
// trigger counts as one.
const countEvery = time.Second

// inTurns lets one Map of each key run at a time, keys is how many keys there are.
const (
	inTurns = `"concurrency":{"key":"${trigger_data.key}","limit":1,"when_full":"queue"},`
	keys    = 10
)

// fillers is how many callers trigger the Maps that are to wait. One replaces those that end meanwhile.
const fillers = 48

// crowd is another tenant that triggers as many Maps as it needs to have so many open.
type crowd struct {
	caller

	trigger            string
	tenant             uuid.UUID
	pool               *db.Pool
	wanted, open, made atomic.Int64
	// failed is the error that ended tend.
	failed atomic.Pointer[error]
}

// gather starts a new service, with another tenant that has the same Map. What the other scenarios
// leave to do goes on for minutes.
func (b *benchmark) gather(ctx context.Context) (err error) {
	if err := b.begin(ctx, "crowd"); err != nil {
		return err
	}
	if b.trigger, err = b.owner.publish(ctx, b.mapOf("")); err != nil {
		return err
	}
	c := &crowd{}
	var owner caller
	if owner, c.tenant, err = b.newTenant(ctx); err != nil {
		return err
	}
	if c.caller, err = owner.newKey(ctx, "actions:run"); err != nil {
		return err
	}
	if c.trigger, err = owner.publish(ctx, c.mapOf(inTurns)); err != nil {
		return err
	}
	if c.pool, err = db.Open(ctx, db.Config{URL: b.service.DatabaseURL, MaxConns: 1}); err != nil {
		return err
	}
	b.later(c.pool.Close)
	b.crowd = c
	ctx, stop := context.WithCancel(ctx)
	var tending sync.WaitGroup
	tending.Go(func() {
		if err := c.tend(ctx); err != nil && ctx.Err() == nil {
			c.failed.Store(&err)
		}
	})
	b.later(func() { stop(); tending.Wait() })
	return nil
}

// newTenant signs a tenant up that has the sandbox as its provider, and returns its owner.
func (b *benchmark) newTenant(ctx context.Context) (owner caller, tenant uuid.UUID, err error) {
	email, password := "crowd@example.com", uuid.NewString()
	if err := b.with("", "").post(ctx, "/v1/auth/signup", map[string]string{"email": email, "password": password}, nil); err != nil {
		return owner, tenant, err
	}
	if owner, tenant, err = b.logIn(ctx, email, password); err != nil {
		return owner, tenant, err
	}
	err = owner.post(ctx, "/v1/providers", map[string]any{
		"slug": b.service.Provider, "name": "Shop", "domain": "commerce", "base_url": b.service.ProviderURL, "openapi": b.service.Document,
	}, nil)
	if err != nil {
		return owner, tenant, err
	}
	return owner, tenant, owner.post(ctx, "/v1/credentials", b.shopKey(), nil)
}

// tend replaces the Maps that have ended, until ctx ends.
func (c *crowd) tend(ctx context.Context) error {
	var counted time.Time
	for pause(ctx, time.Millisecond) == nil {
		if time.Since(counted) > countEvery {
			var open int64
			err := c.pool.Tenant(c.tenant).QueryRow(ctx, "SELECT count(*) FROM map_executions WHERE tenant_id = $1 AND finished_at IS NULL", c.tenant).Scan(&open)
			if err != nil {
				return err
			}
			c.open.Store(open)
			counted = time.Now()
		}
		if err := c.keep(ctx); err != nil {
			return err
		}
	}
	return nil
}

// keep triggers Maps until as many are open as are wanted, and does not wait for their ends.
func (c *crowd) keep(ctx context.Context) error {
	for c.open.Load() < c.wanted.Load() {
		body := fmt.Appendf(nil, `{"payload":{"order_id":"ord_1001","key":"k%d"}}`, c.made.Add(1)%keys)
		wait := map[string]string{"Prefer": "wait=0"}
		if _, err := c.call(ctx, http.MethodPost, c.trigger, body, wait, http.StatusOK, http.StatusAccepted, http.StatusForbidden); err != nil {
			return err
		}
		c.open.Add(1)
	}
	return nil
}

// queue has the other tenant trigger Maps until so many are open. Those that end are replaced from then
// on.
func (b *benchmark) queue(n int) step {
	return func(ctx context.Context) error {
		c := b.crowd
		c.wanted.Store(int64(n))
		filling, ctx := errgroup.WithContext(ctx)
		for range fillers {
			filling.Go(func() error { return c.keep(ctx) })
		}
		err := filling.Wait()
		if stopped := c.failed.Load(); stopped != nil {
			return fmt.Errorf("the other tenant stopped: %w", *stopped)
		}
		return err
	}
}
