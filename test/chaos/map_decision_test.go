//go:build chaos

package chaos

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// asksBriefly asks people for two seconds, and then makes a thing.
const asksBriefly = `{"schema_version":"1","name":"Asks briefly","steps":[
	{"id":"ask","type":"approval","title":"Go?","timeout":"2s","on_timeout":"fail"},
	{"id":"made","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"1"}}]}`

// A decision came in time. The time ends while its transaction lasts. The end of the time waits for
// the decision, and then finds that it counts.
func TestChaosMapDecisionInItsTransactionCountsWhereItsTimeEnds(t *testing.T) { //nolint:paralleltest // a stack at a time, as the others
	c := newMapCourt(t)
	d := c.drivers[0]
	trigger := d.publish(t, asksBriefly)
	for action, want := range map[string]struct {
		status string
		made   []string
	}{"approve": {"completed", []string{"1"}}, "reject": {"failed", []string{}}} {
		session := "brief-" + action
		a := d.tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"session_id": session, "payload": map[string]any{"id": session}}, "Prefer: wait=0")
		require.Equal(t, http.StatusAccepted, a.Status, "%s", a.Body)
		c.gate.arm("in_map_count", session+"|")
		var asked struct {
			ID        string
			ExpiresAt time.Time `json:"expires_at"`
		}
		rig.Until(t, stagingLimit, "the execution asks", func() bool {
			var list []json.RawMessage
			d.tenant.User.Do(http.MethodGet, "/v1/approvals?kind=step&execution_id="+idOf(t, a), nil).Data(t, &list)
			return len(list) == 1 && json.Unmarshal(list[0], &asked) == nil
		})
		answered := make(chan rig.Answer, 1)
		go func() { answered <- d.tenant.User.Decide(asked.ID, action, nil) }()
		c.gate.await(t, "in_map_count", session+"|")
		require.True(t, time.Now().Before(asked.ExpiresAt), "the decision came too late")
		rig.Until(t, stagingLimit, "the end of the time waits for the decision", func() bool {
			var waiting int
			err := c.db.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`).Scan(&waiting)
			return err == nil && waiting > 0 && time.Now().After(asked.ExpiresAt)
		})
		c.gate.open()
		require.Equal(t, http.StatusOK, (<-answered).Status)
		var end struct{ Status string }
		rig.Until(t, stagingLimit, "the execution has ended", func() bool {
			d.tenant.User.Do(http.MethodGet, "/v1/executions/"+idOf(t, a), nil).Data(t, &end)
			return end.Status == "completed" || end.Status == "failed"
		})
		require.Equal(t, want.status, end.Status, action)
		require.Equal(t, want.made, c.effects.of(session), action)
		var records []json.RawMessage
		d.tenant.User.Do(http.MethodGet, "/v1/audit?action=approval.expired&execution_id="+idOf(t, a), nil).Data(t, &records)
		require.Empty(t, records)
	}
}

func idOf(t *testing.T, a rig.Answer) string {
	t.Helper()
	return strings.TrimPrefix(a.Header.Get("Location"), "/v1/executions/")
}
