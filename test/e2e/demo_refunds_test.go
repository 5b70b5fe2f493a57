package e2e

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// The grant of the demo is for its Map, which asks a person itself. No amount gets a refund by the key past
// a person.
func TestDemoRefundByKeyIsNeverExecutedWithoutAPerson(t *testing.T) {
	t.Parallel()
	s := sharedDev().For(t)
	c := &rig.Client{Base: s.APIURL, Key: s.RuntimeKey, HTTP: rig.NewHTTP()}
	const blocked, misfit = "GOVERNANCE_BLOCKED", "INVALID_ARGS"
	for name, of := range map[string]struct{ args, code string }{
		"49.99": {`"amount":4999`, blocked}, "200.00": {`"amount":20000`, blocked}, "0.01": {`"amount":1`, blocked}, "a million": {`"amount":100000000`, blocked}, "all of it": {``, blocked},
		"49.99 as written": {`"amount":49.99`, misfit}, "200.00 as written": {`"amount":200.00`, blocked}, "0.01 as written": {`"amount":0.01`, misfit}, "1e6": {`"amount":1e6`, blocked},
		"nothing": {`"amount":0`, misfit}, "less than nothing": {`"amount":-20000`, misfit},
	} {
		args := of.args
		for about, metadata := range map[string]string{
			"": `{}`, "of the agent": `{"agent_id":"` + s.AgentID + `"}`, "of the Map": `{"map_id":"` + s.MapID + `"}`,
			"of both": `{"map_id":"` + s.MapID + `","agent_id":"` + s.AgentID + `","step":"refund"}`,
		} {
			body := `{"verb":"shop:create_refund","args":{"order_id":"ord_1004"`
			if args != "" {
				body += "," + args
			}
			a := c.Do(http.MethodPost, "/v1/runtime/actions/run", []byte(body+`},"metadata":`+metadata+`,"execution_id":"`+uuid.NewString()+`"}`))
			// Governance judges before the arguments are checked, where it need not know them.
			require.Contains(t, []string{blocked, of.code}, a.Envelope(t).Error.Code, "%s %s: %s", name, about, a.Body)
		}
	}
	var refunds struct {
		Result struct{ Data []json.RawMessage }
	}
	c.Run("shop:list_refunds", map[string]any{"order_id": "ord_1004"}, "").Data(t, &refunds)
	require.Empty(t, refunds.Result.Data, "the shop has a refund")

	owner := s.LogIn(s.Email, s.Password)
	var maps []struct{ ID, Name string }
	owner.Do(http.MethodGet, "/v1/maps?search=Refund+an+order", nil).Data(t, &maps)
	require.Len(t, maps, 1)
	var e struct {
		Status     string `json:"status"`
		ApprovalID string `json:"approval_id"`
		ID         string `json:"execution_id"`
	}
	a := c.Do(http.MethodPost, "/v1/maps/"+maps[0].ID+"/trigger", map[string]any{"payload": map[string]any{"order_id": "ord_1002"}}, "Prefer: wait=20")
	a.Data(t, &e)
	require.Equal(t, "pending_approval", e.Status, "%s", a.Body)
	require.Equal(t, http.StatusOK, owner.Decide(e.ApprovalID, "approve", nil).Status)
	a = c.Do(http.MethodGet, "/v1/executions/"+e.ID, nil, "Prefer: wait=30")
	a.Data(t, &e)
	require.Equal(t, "completed", e.Status, "the grant covers the refund of the Map: %s", a.Body)
}
