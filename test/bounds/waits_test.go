package bounds

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// One tenant has an eighth of a process's connections wait. Its further calls get what there is, and other
// tenants wait as before.
func TestCallsOfATenantThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	const most = 8 // of 64 connections
	stack := rig.Dev(shared, "LOG_LEVEL=warn", "MAX_CONNECTIONS=64").For(t)
	waiting := func() (tenant *rig.Tenant, trigger string) {
		tenant = stack.NewTenant(rig.Address())
		var made struct{ ID string }
		tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", waitingMap()).Data(t, &made)
		return tenant, "/v1/maps/" + made.ID + "/trigger"
	}
	tenant, trigger := waiting()
	path := tenant.Runtime.Do(http.MethodPost, trigger, m{}, "Prefer: wait=0").Header.Get("Location")
	var all sync.WaitGroup
	held := make(chan rig.Answer, most)
	hold := func() {
		all.Go(func() { held <- tenant.Runtime.Do(http.MethodGet, path, nil, "Prefer: wait=60") })
	}
	for range most {
		hold()
	}
	within := func(a func() rig.Answer) (rig.Answer, bool) {
		began := time.Now()
		got := a()
		return got, time.Since(began) < 4*time.Second
	}
	require.Eventually(t, func() bool {
		got, soon := within(func() rig.Answer { return tenant.Runtime.Do(http.MethodGet, path, nil, "Prefer: wait=5") })
		if got.Status == http.StatusOK && soon {
			return true
		}
		select {
		case <-held: // this look had its place
			hold()
		default:
		}
		return false
	}, time.Minute, time.Millisecond, "the places are taken")
	got, soon := within(func() rig.Answer { return tenant.Runtime.Do(http.MethodPost, trigger, m{}) })
	require.Equal(t, http.StatusAccepted, got.Status, "%s", got.Body)
	require.True(t, soon, "a trigger that waits by default is bounded too")
	other, its := waiting()
	_, soon = within(func() rig.Answer { return other.Runtime.Do(http.MethodPost, its, m{}, "Prefer: wait=5") })
	require.False(t, soon, "another tenant waits")
	require.Empty(t, held, "those with a place still wait")
	status(t, tenant.Runtime.Do(http.MethodPost, path+"/cancel", nil), http.StatusOK)
	all.Wait()
}
