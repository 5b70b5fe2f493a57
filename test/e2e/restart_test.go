package e2e

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// devMemory is what the development server may have resident, all processes together.
const devMemory = 700 << 20

// terminalLimit is within which every run has ended after a restart.
const terminalLimit = 60 * time.Second

// TestDevelopmentServerRestartedKeepsItsData stops and kills the whole tree and starts
// it again on the same data.
func TestDevelopmentServerRestartedKeepsItsData(t *testing.T) {
	t.Parallel()
	rig.Binary(t, rig.Build{Command: "agentruntime-dev"}) // compiled first: the start alone is timed
	started := time.Now()
	s := rig.Dev(t)
	t.Logf("ready at first start in %s", time.Since(started).Round(time.Millisecond))
	g, tenant := connected(t, s)
	runMany(t, tenant, 500)
	resident, proportional := s.Parts["dev"].TreeMemory(t)
	t.Logf("after 500 runs: %d MB resident (sum of VmRSS), %d MB proportional", resident>>20, proportional>>20)
	require.Less(t, proportional, int64(devMemory))
	id := ids(1)[0]
	requireRun(t, createNow(tenant.Runtime, id, ""))

	open := openGrant(t, s)
	s.Parts["dev"].Stop()
	restart(t, s, "an orderly end")
	checkGoesOn(t, s, g, tenant, id)
	checkGrantClosed(t, s, open)

	// Killed in the middle: one run at the provider, one waiting for its next attempt,
	// some anywhere.
	list := ids(12)
	held, later := list[0], list[1]
	go createNow(tenant.Runtime, held, modeHold)
	require.Equal(t, held, g.awaitArrival(t))
	go createNow(tenant.Runtime, later, modeLaterOnce)
	require.Equal(t, later, g.awaitArrival(t))
	awaitClaimedAgain(t, tenant, later)
	for _, id := range list[2:] {
		go createNow(tenant.Runtime, id, "")
	}
	s.Parts["dev"].KillTree(t)
	restart(t, s, "kill -9 of the whole tree")
	checkGoesOn(t, s, g, tenant, id)
	checkRecovered(t, g, tenant, list)
}

// openGrant gives the grant that an earlier release gave its demo Map: one without a Map.
func openGrant(t *testing.T, s *rig.Stack) (id string) {
	t.Helper()
	a := s.LogIn(s.Email, s.Password).Do(http.MethodPost, "/v1/grants", map[string]any{
		"verb": "shop:create_refund", "max_uses": 1000, "expires_at": time.Now().Add(time.Hour), "reason": "The demo Map asks a person before it refunds.",
		"conditions": []any{map[string]any{"field": "args.amount", "operator": "greater", "value": 10_000}},
	})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	var made struct{ ID string }
	a.Data(t, &made)
	return made.ID
}

// checkGrantClosed checks that a start has revoked the grant, and that a refund by the key waits for people.
func checkGrantClosed(t *testing.T, s *rig.Stack, id string) {
	t.Helper()
	var grant struct{ Status string }
	s.LogIn(s.Email, s.Password).Do(http.MethodGet, "/v1/grants/"+id, nil).Data(t, &grant)
	require.Equal(t, "revoked", grant.Status)
	c := &rig.Client{Base: s.APIURL, Key: s.RuntimeKey, HTTP: rig.NewHTTP()}
	requireCode(t, c.Run("shop:create_refund", map[string]any{"order_id": "ord_1004", "amount": 20_000}, ""), http.StatusForbidden, "GOVERNANCE_BLOCKED")
}

// runMany makes n runs, some at a time.
func runMany(t *testing.T, tenant *rig.Tenant, n int) {
	t.Helper()
	answers := make([]rig.Answer, n)
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, id := range ids(n) {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			answers[i] = createNow(tenant.Runtime, id, "")
		})
	}
	all.Wait()
	for _, a := range answers {
		requireRun(t, a)
	}
}

func restart(t *testing.T, s *rig.Stack, after string) {
	t.Helper()
	started := time.Now()
	s.Restart("dev")
	t.Logf("ready after %s in %s", after, time.Since(started).Round(time.Millisecond))
}

// checkGoesOn checks that keys, sessions, verbs, credentials and results are still there.
func checkGoesOn(t *testing.T, s *rig.Stack, g *gate, tenant *rig.Tenant, id string) {
	t.Helper()
	require.Equal(t, tenant.Runtime.Base, s.APIURL, "the API keeps its address")
	require.Equal(t, "cached", requireRun(t, createNow(tenant.Runtime, id, "")).FenceStatus)
	require.Len(t, g.of(id), 1)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodGet, "/v1/api-keys", nil).Status)
	fresh := ids(1)[0]
	require.Equal(t, "executed", requireRun(t, createNow(tenant.Runtime, fresh, "")).FenceStatus)
	require.Len(t, g.of(fresh), 1)
	seeded := &rig.Client{Base: s.APIURL, Key: s.RuntimeKey, HTTP: rig.NewHTTP()}
	requireRun(t, seeded.Run("shop:get_order", map[string]string{"order_id": "ord_1001"}, ""))
}

// checkRecovered repeats the ids that were under way until each has ended.
func checkRecovered(t *testing.T, g *gate, tenant *rig.Tenant, list []string) {
	t.Helper()
	g.open()
	ended := map[string]int{}
	for i, id := range list {
		mode := map[int]string{0: modeHold, 1: modeLaterOnce}[i]
		rig.Until(t, terminalLimit, "run "+strconv.Itoa(i)+" ends", func() bool {
			a := createNow(tenant.Runtime, id, mode)
			ended[a.Code(t)]++
			return a.Err == nil && a.Status != http.StatusAccepted && a.Status != http.StatusServiceUnavailable
		})
		e := executionOf(t, tenant.Runtime, id)
		switch i {
		case 0:
			require.Equal(t, "outcome_unknown", e.Status, "it was at the provider when the process died")
			require.Len(t, g.of(id), 1)
		case 1:
			require.Equal(t, "executed", e.Status)
			require.Len(t, g.of(id), 2, "refused once, and executed once")
		default:
			require.Contains(t, []string{"executed", "outcome_unknown"}, e.Status)
			require.LessOrEqual(t, len(g.of(id)), 1, "never two effects")
			require.True(t, e.Status != "executed" || len(g.of(id)) == 1)
		}
	}
	t.Logf("after the kill, answers by error code: %v", ended)
}
