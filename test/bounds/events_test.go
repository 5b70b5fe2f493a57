package bounds

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// Maps emit what their tenant has room for. The step beyond fails, and the Map goes on; what the tenant's own
// software sends, and other tenants, have room of their own.
func TestEventsThatMapsEmitAreBounded(t *testing.T) {
	t.Parallel()
	const most = 5 // as set for this suite
	emitting := func() (tenant *rig.Tenant, trigger string) {
		tenant = sharedDev().For(t).NewTenant(rig.Address())
		a := tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", m{"schema_version": "1", "name": "Flood", "steps": []m{
			{"id": "each", "type": "foreach", "items": "${trigger_data.items}", "on_item_error": "skip", "steps": []m{
				{"id": "e", "type": "emit", "event": "custom.flood", "data": m{"n": "${item}"}},
			}},
		}})
		status(t, a, http.StatusCreated)
		return tenant, "/v1/maps/" + idOf(t, a) + "/trigger"
	}
	// emits returns the execution, which has ended well.
	emits := func(tenant *rig.Tenant, trigger string, n int) string {
		items := make([]int, n)
		a := tenant.Runtime.Do(http.MethodPost, trigger, m{"payload": m{"items": items}}, "Prefer: wait=60")
		status(t, a, http.StatusOK)
		var made struct {
			ExecutionID string `json:"execution_id"`
		}
		a.Data(t, &made)
		return string(tenant.User.Do(http.MethodGet, "/v1/executions/"+made.ExecutionID, nil).Body)
	}
	emitted := func(tenant *rig.Tenant) int {
		var events []m
		tenant.User.Do(http.MethodGet, "/v1/events?type=custom.flood&limit=100", nil).Data(t, &events)
		return len(events)
	}
	tenant, trigger := emitting()
	require.NotContains(t, emits(tenant, trigger, 2), "QUOTA_EXCEEDED")
	full := emits(tenant, trigger, 6)
	require.Contains(t, full, "QUOTA_EXCEEDED")
	require.Contains(t, full, "emitted_events: at most 5")
	require.Equal(t, most, emitted(tenant))
	emits(tenant, trigger, 1)
	require.Equal(t, most, emitted(tenant))

	sender := tenant.Runtime.With(tenant.User.NewKey(t, "events:send").Key, "")
	a := sender.Do(http.MethodPost, "/v1/events", m{"id": "own", "type": "custom.own", "data": m{}})
	require.Less(t, a.Status, 300, "%s", a.Body)
	other, its := emitting()
	emits(other, its, 1)
	require.Equal(t, 1, emitted(other))
}
