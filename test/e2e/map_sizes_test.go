//go:build chaos

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

func TestChaosMapLoopsOverTenThousandItems(t *testing.T) { //nolint:paralleltest // one size at a time
	loopsOver(t, 10_000)
}

func TestChaosThousandTriggersOfAHundredSessions(t *testing.T) { //nolint:paralleltest // one size at a time
	meets(t, 100, 10)
}

// Two hundred Maps of each of fifty tenants wait. It says what they take, and each ends once its event
// is there.
func TestChaosMapsOfManyTenantsWait(t *testing.T) { //nolint:paralleltest // what others take would be counted
	const tenants, each = 50, 200
	s := rig.Split(t, rig.SplitOptions{})
	crowd, triggers := make([]*rig.Tenant, tenants), make([]string, tenants)
	for i := range crowd {
		crowd[i] = newTenant(s)
		triggers[i] = publish(t, crowd[i], "Waits", `[{"id":"w","type":"wait","event":{"type":"custom.go"}},{"id":"v","type":"set","assign":{"n":"${trigger_data.n}"}}]`)
	}
	ofAll := func(n int) { // n Maps of each tenant
		var all sync.WaitGroup
		next := make(chan int)
		for range 16 {
			all.Go(func() {
				for i := range next {
					a := crowd[i%tenants].Runtime.Do(http.MethodPost, triggers[i%tenants], map[string]any{"payload": map[string]int{"n": i}}, "Prefer: wait=0")
					if a.Status != http.StatusAccepted {
						t.Errorf("a trigger is answered %d %v: %s", a.Status, a.Err, a.Body)
					}
				}
			})
		}
		for i := range n * tenants {
			next <- i
		}
		close(next)
		all.Wait()
	}
	waiting := func(n int) {
		rig.Until(t, 20*time.Minute, fmt.Sprintf("%d Maps of each tenant wait", n), func() bool {
			return count(t, s, "SELECT count(*) FROM map_waits") == n*tenants
		})
	}
	ofAll(1) // what a first Map leaves behind is not that of a waiting one
	waiting(1)
	before := takenBy(t, s)
	ofAll(each - 1)
	waiting(each)
	after := takenBy(t, s)
	for part, taken := range after {
		t.Logf("%s: %.1f KB for each of %d Maps that wait", part, float64(taken-before[part])/1024/((each-1)*tenants), each*tenants)
	}
	for _, tenant := range crowd {
		send(t, tenant, "custom.go", "", map[string]any{})
	}
	rig.Until(t, 20*time.Minute, "all Maps have ended", func() bool {
		return count(t, s, "SELECT count(*) FROM map_executions WHERE finished_at IS NULL") == 0
	})
	require.Equal(t, each*tenants, count(t, s, "SELECT count(*) FROM map_executions WHERE status = 'completed'"))
	var list []json.RawMessage
	crowd[0].User.Do(http.MethodGet, "/v1/executions?kind=map&status=completed&limit=500", nil).Data(t, &list)
	require.Len(t, list, each)
}

// takenBy returns the bytes that each part has in memory, with what processes share counted once, and
// those of the tables that an execution of a Map writes.
func takenBy(t *testing.T, s *rig.Stack) map[string]int64 {
	t.Helper()
	taken := map[string]int64{}
	for _, part := range []string{"worker", "api", "temporal"} {
		_, taken[part] = s.Parts[part].TreeMemory(t)
	}
	for _, table := range []string{"map_executions", "map_steps", "map_waits", "map_values", "audit_records", "events"} {
		taken["table "+table] = int64(count(t, s, "SELECT pg_total_relation_size('"+table+"')"))
	}
	return taken
}

// count returns a number from the database.
func count(t *testing.T, s *rig.Stack, query string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&n))
	return n
}
