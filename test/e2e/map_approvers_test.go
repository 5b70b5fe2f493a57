package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// A step that asks people takes the decision of those whom it names, and of its starter only where it
// says so.
func TestApprovalStepIsDecidedByThoseItNames(t *testing.T) {
	t.Parallel()
	tenant := newTenant(stack(t, split))
	admin, _ := tenant.User.NewUser(t, rig.Address(), "admin")
	approver, approverID := tenant.User.NewUser(t, rig.Address(), "approver")
	for name, c := range map[string]struct {
		more     string
		starter  *rig.Client
		refused  []*rig.Client
		accepted *rig.Client
	}{
		"another one than its starter":            {``, tenant.User, []*rig.Client{tenant.User}, approver},
		"its starter, where the step lets them":   {`,"self_approval":true`, tenant.User, nil, tenant.User},
		"the owner, where a key has started it":   {``, tenant.Runtime, nil, tenant.User},
		"a role":                                  {`,"approvers":[{"type":"role","value":"admin"}]`, tenant.Runtime, []*rig.Client{tenant.User, approver}, admin},
		"one user":                                {`,"approvers":[{"type":"user","value":"` + approverID + `"}]`, tenant.Runtime, []*rig.Client{tenant.User, admin}, approver},
		"a role that the starter has, not itself": {`,"approvers":[{"type":"role","value":"owner"},{"type":"role","value":"admin"}]`, tenant.User, []*rig.Client{tenant.User, approver}, admin},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trigger := publish(t, tenant, "Asks "+name, `[{"id":"ask","type":"approval","title":"Go?"`+c.more+`}]`)
			one := mapExecutionOf(t, c.starter.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=0"), http.StatusAccepted)
			path := "/v1/executions/" + one.ExecutionID
			id := awaitAsking(t, tenant, path)
			for _, user := range c.refused {
				requireCode(t, user.Decide(id, "approve", nil), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
			}
			require.Equal(t, "approved", decide(t, c.accepted, id, "approve", nil).Status)
			require.Equal(t, "completed", ended(t, tenant, path).Status)
		})
	}
}

// What people decide about can be large. They see what it is, and their decision is about all of it.
func TestApprovalStepAsksAboutALargeValue(t *testing.T) {
	t.Parallel()
	tenant := newTenant(stack(t, eager))
	text := strings.Repeat("x", 40<<10)
	path, id := asks(t, tenant, `[{"id":"ask","type":"approval","title":"Send ${trigger_data.n}?","payload":{"text":"${trigger_data.text}"}}]`, map[string]any{"n": 7, "text": text})
	var a decidedApproval
	tenant.User.Do(http.MethodGet, "/v1/approvals/"+id, nil).Data(t, &a)
	require.Equal(t, "Send 7?", a.Reason)
	var shown struct{ Text string }
	require.NoError(t, json.Unmarshal(a.Args, &shown))
	require.Equal(t, text, shown.Text)
	decide(t, tenant.User, id, "approve", nil)
	require.Equal(t, "completed", ended(t, tenant, path).Status)
}
