//go:build chaos

package e2e

import (
	"testing"

	"agentruntime/test/rig"
)

func TestChaosMapLoopsOverTenThousandItems(t *testing.T) { //nolint:paralleltest // one size at a time
	loopsOver(t, manyItems)
}

func TestChaosThousandTriggersOfAHundredSessions(t *testing.T) { //nolint:paralleltest // one size at a time
	meets(t, 100, 10)
}

// Two hundred Maps of each of fifty tenants wait. It says what they take.
func TestChaosMapsOfManyTenantsWait(t *testing.T) { //nolint:paralleltest // what others take would be counted
	const tenants, each = 50, 200
	s := rig.Split(t, rig.SplitOptions{})
	c := newCrowd(t, s, tenants)
	c.trigger(1) // what a first Map leaves behind is not that of a waiting one
	c.requireWaiting(1)
	before := takenBy(t, s)
	c.trigger(each - 1)
	c.requireWaiting(each)
	after := takenBy(t, s)
	for part, taken := range after {
		t.Logf("%s: %.1f KB for each of %d Maps that wait", part, float64(taken-before[part])/1024/((each-1)*tenants), each*tenants)
	}
	c.requireEnd(each)
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
		var size int64
		query(t, s, &size, "SELECT pg_total_relation_size($1::text::regclass)", table)
		taken["table "+table] = size
	}
	return taken
}
