package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
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

// Nobody else could ever decide. A Map that is published goes on as it is when the user is removed.
func TestApproverOfAMapThatIsNoUserOfTheTenantIsRefused(t *testing.T) {
	t.Parallel()
	s := sharedDev().For(t)
	tenant := newTenant(s)
	_, stranger := newTenant(s).User.NewUser(t, rig.Address(), "approver")
	_, approver := tenant.User.NewUser(t, rig.Address(), "approver")
	ask := func(user string) string {
		return `{"id":"ask","type":"approval","title":"Go?","approvers":[{"type":"role","value":"owner"},{"type":"user","value":"` + user + `"}]}`
	}
	asks := func(steps string) json.RawMessage {
		return json.RawMessage(`{"schema_version":"1","name":"Asks one","steps":[` + steps + `]}`)
	}
	want := func(a rig.Answer, path string) {
		t.Helper()
		require.Contains(t, string(a.Body), `{"path":"`+path+`","rule":"unknown_user","message":"must be the id of a user of the tenant"}`)
	}
	a := tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", asks(ask(approver)))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	path := a.Header.Get("Location")
	loop := `{"id":"each","type":"foreach","items":[1],"steps":[`
	for _, user := range []string{stranger, uuid.NewString()} {
		valid := tenant.User.Do(http.MethodPost, "/v1/maps/validate", asks(loop+ask(user)+`]}`))
		require.Equal(t, http.StatusOK, valid.Status, "%s", valid.Body)
		want(valid, "/steps/0/steps/0/approvers/1/value")
		for method, to := range map[string]string{http.MethodPost: "/v1/maps", http.MethodPut: path} {
			refused := tenant.User.Do(method, to, asks(ask(user)))
			requireCode(t, refused, http.StatusUnprocessableEntity, "INVALID_MAP")
			want(refused, "/steps/0/approvers/1/value")
		}
	}
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPut, path+"?publish=true", asks(`{"id":"n","type":"transform","expr":1}`)).Status)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, path+"/publish", map[string]any{"version": 1}).Status)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/users/"+approver, nil).Status)
	mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, path+"/trigger", map[string]any{}, "Prefer: wait=0"), http.StatusAccepted)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, path+"/publish", map[string]any{"version": 2}).Status)
	refused := tenant.User.Do(http.MethodPost, path+"/publish", map[string]any{"version": 1})
	requireCode(t, refused, http.StatusUnprocessableEntity, "INVALID_MAP")
	want(refused, "/steps/0/approvers/1/value")
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
