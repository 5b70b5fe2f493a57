package e2e

import (
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
	for name, args := range map[string]string{
		"49.99": `"amount":4999`, "200.00": `"amount":20000`, "0.01": `"amount":1`, "a million": `"amount":100000000`, "all of it": ``,
		"49.99 as written": `"amount":49.99`, "200.00 as written": `"amount":200.00`, "0.01 as written": `"amount":0.01`, "1e6": `"amount":1e6`,
		"nothing": `"amount":0`, "less than nothing": `"amount":-20000`,
	} {
		for about, metadata := range map[string]string{"": `{}`, "of an agent": `{"agent_id":"a"}`, "of a Map": `{"map_id":"` + uuid.NewString() + `"}`} {
			body := `{"verb":"shop:create_refund","args":{"order_id":"ord_1004"`
			if args != "" {
				body += "," + args
			}
			a := c.Do(http.MethodPost, "/v1/runtime/actions/run", []byte(body+`},"metadata":`+metadata+`,"execution_id":"`+uuid.NewString()+`"}`))
			require.GreaterOrEqual(t, a.Status, http.StatusBadRequest, "%s %s: %s", name, about, a.Body)
			require.Less(t, a.Status, http.StatusInternalServerError, "%s %s: %s", name, about, a.Body)
		}
	}

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
