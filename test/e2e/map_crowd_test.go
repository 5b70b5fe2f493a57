package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// Maps of many tenants wait for their event, and each ends once it is there. CI has a tenth of what
// `make chaos` has.
func TestMapsOfManyTenantsWait(t *testing.T) {
	t.Parallel()
	const tenants, each = 10, 100
	c := newCrowd(t, stack(t, split), tenants)
	c.trigger(each)
	c.requireWaiting(each)
	c.requireEnd(each)
}

// crowd is tenants with a Map each that waits for an event.
type crowd struct {
	t        *testing.T
	stack    *rig.Stack
	tenants  []*rig.Tenant
	ids      []string // of the tenants
	triggers []string
}

// crowdLimit is how long 10,000 Maps may take.
const crowdLimit = 20 * time.Minute

func newCrowd(t *testing.T, s *rig.Stack, tenants int) *crowd {
	t.Helper()
	c := &crowd{t: t, stack: s}
	for range tenants {
		tenant := newTenant(s)
		c.tenants, c.ids = append(c.tenants, tenant), append(c.ids, tenant.ID)
		c.triggers = append(c.triggers, publish(t, tenant, "Waits", `[{"id":"w","type":"wait","event":{"type":"custom.go"}},{"id":"v","type":"set","assign":{"n":"${trigger_data.n}"}}]`))
	}
	return c
}

// trigger starts n Maps of each tenant.
func (c *crowd) trigger(n int) {
	c.t.Helper()
	var all sync.WaitGroup
	next := make(chan int)
	for range 16 {
		all.Go(func() {
			for i := range next {
				who := i % len(c.tenants)
				a := c.tenants[who].Runtime.Do(http.MethodPost, c.triggers[who], map[string]any{"payload": map[string]int{"n": i}}, "Prefer: wait=0")
				if a.Status != http.StatusAccepted {
					c.t.Errorf("a trigger is answered %d %v: %s", a.Status, a.Err, a.Body)
				}
			}
		})
	}
	for i := range n * len(c.tenants) {
		next <- i
	}
	close(next)
	all.Wait()
}

// count returns how many rows of the tenants a table has that meet the condition.
func (c *crowd) count(table, where string) (n int) {
	c.t.Helper()
	query(c.t, c.stack, &n, "SELECT count(*) FROM "+table+" WHERE tenant_id = ANY($1) AND "+where, c.ids)
	return n
}

// requireWaiting waits until n Maps of each tenant wait.
func (c *crowd) requireWaiting(n int) {
	c.t.Helper()
	rig.Until(c.t, crowdLimit, fmt.Sprintf("%d Maps of each tenant wait", n), func() bool {
		return c.count("map_waits", "true") == n*len(c.tenants)
	})
}

// requireEnd sends each tenant the event, and waits until the n Maps of each have completed.
func (c *crowd) requireEnd(n int) {
	c.t.Helper()
	for _, tenant := range c.tenants {
		send(c.t, tenant, "custom.go", "", map[string]any{})
	}
	rig.Until(c.t, crowdLimit, "all Maps have ended", func() bool {
		return c.count("map_executions", "finished_at IS NULL") == 0
	})
	require.Equal(c.t, n*len(c.tenants), c.count("map_executions", "status = 'completed'"))
	var list []json.RawMessage
	c.tenants[0].User.Do(http.MethodGet, "/v1/executions?kind=map&status=completed&limit=500", nil).Data(c.t, &list)
	require.Len(c.t, list, n)
}
