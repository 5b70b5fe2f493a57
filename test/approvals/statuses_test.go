package approvals

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// heldCall makes a call that is held and returns its approval.
func (w *world) heldCall(verb string) approval {
	w.t.Helper()
	c := w.newCall(verb, 1, false)
	w.run(c)
	return w.waitingFor(c.id)
}

// waitingFor returns what the execution waits for.
func (w *world) waitingFor(execution string) (found approval) {
	w.t.Helper()
	rig.Until(w.t, settleLimit, execution+" waits for an approval", func() bool {
		list := w.pending()
		i := slices.IndexFunc(list, func(a approval) bool { return a.ExecutionID == execution })
		if i >= 0 {
			found = list[i]
		}
		return i >= 0
	})
	return found
}

func (w *world) awaitStatus(id, status string) {
	w.t.Helper()
	rig.Until(w.t, settleLimit, id+" is "+status, func() bool { return w.approval(id).Status == status })
}

// everyStatus brings approvals to each status there is, and to each by every way.
func (w *world) everyStatus() {
	w.t.Helper()
	long := policy{action: "require_approval", required: 2, timeout: 3600, onTimeout: "reject", approvers: roles("owner", "admin", "approver")}
	long.verb = verbChange
	id := w.addPolicy(long)
	require.True(w.t, done(w.decide(w.owner, w.heldCall(verbChange).ID, "approve", nil)))
	twice := w.heldCall(verbChange)
	require.Equal(w.t, http.StatusConflict, w.secondApproval(twice).Status, "nobody's approval counts twice")
	require.True(w.t, done(w.decide(w.owner, twice.ID, "reject", nil)), "and it can be taken back by a rejection")
	w.awaitStatus(twice.ID, "rejected")
	approved := w.heldCall(verbChange)
	for _, p := range w.people[:2] {
		require.True(w.t, done(w.decide(p, approved.ID, "approve", nil)))
	}
	w.awaitStatus(approved.ID, "approved")
	cancelled := w.heldCall(verbChange)
	require.True(w.t, done(w.owner.client.Do(http.MethodPost, "/v1/executions/"+cancelled.ExecutionID+"/cancel", nil)))
	w.cancelled = append(w.cancelled, cancelled.ExecutionID)
	w.awaitStatus(cancelled.ID, "cancelled")
	terminated := w.heldCall(verbChange)
	require.NoError(w.t, w.temporal.TerminateWorkflow(w.t.Context(), terminated.WorkflowID, "", "by the test"))
	superseded := w.heldCall(verbChange)
	long.timeout = 1800
	require.True(w.t, done(w.change(func() rig.Answer {
		return w.owner.client.ReplacePolicy(id, long.body("longer"))
	}, policyOf(id), long.holds())))
	w.awaitStatus(superseded.ID, "superseded")
	require.NotEqual(w.t, superseded.ID, w.waitingFor(superseded.ExecutionID).ID, "it is asked again")
	w.awaitStatus(terminated.ID, "cancelled")
	brief := long
	brief.verb, brief.timeout = verbRefund, 1
	require.NotEmpty(w.t, w.addPolicy(brief))
	w.awaitStatus(w.heldCall(verbRefund).ID, "expired")
	w.run(w.newCall(verbWipe, 1, false)) // blocked: nothing opens it
}

// secondApproval has the owner approve twice.
func (w *world) secondApproval(a approval) rig.Answer {
	w.t.Helper()
	require.True(w.t, done(w.decide(w.owner, a.ID, "approve", nil)))
	return w.decide(w.owner, a.ID, "approve", nil)
}

// putOff lets the provider delay an approved call, and removes its approver meanwhile.
// The call must not be sent by an approval that no longer counts.
func (w *world) putOff() {
	w.t.Helper()
	c := w.newCall(verbRefund, 1, false)
	w.desk.refuseOnce(c.id)
	p := w.invite("approver")
	hold := policy{verb: verbRefund, action: "require_approval", required: 1, timeout: 3600, onTimeout: "reject", approvers: roles("approver")}
	require.NotEmpty(w.t, w.addPolicy(hold))
	w.run(c)
	require.True(w.t, done(w.decide(p, w.waitingFor(c.id).ID, "approve", nil)))
	rig.Until(w.t, settleLimit, "the provider has put it off", func() bool { return w.desk.refused(c.id) })
	require.True(w.t, done(w.change(func() rig.Answer {
		return w.owner.client.Do(http.MethodDelete, "/v1/users/"+p.id, nil)
	}, roleOf(p.id), "")))
	w.people = slices.DeleteFunc(w.people, func(q *person) bool { return q == p })
	w.waitingFor(c.id)
}

// TestApprovalEachStatusIsReachedShownAndLeft goes through the statuses one by one. Random
// sequences come to each only now and then.
func TestApprovalEachStatusIsReachedShownAndLeft(t *testing.T) { //nolint:paralleltest // others kill what it stands on
	w := newWorld(t)
	w.everyStatus()
	w.settle()
	shown := w.check(true)
	for _, status := range []string{"pending", "approved", "rejected", "expired", "cancelled", "superseded", "blocked"} {
		require.Positive(t, shown[status], status)
	}
	w.finish()
	require.Zero(t, w.check(false)["pending"])
}

// TestApprovedCallDelayedByProviderIsCheckedAgain is about what was approved before a pause.
func TestApprovedCallDelayedByProviderIsCheckedAgain(t *testing.T) { //nolint:paralleltest // others kill what it stands on
	w := newWorld(t)
	w.putOff()
	w.finish()
	w.check(false)
}

// TestHeldRunWorkerKilledStillRuns measures how long a held run takes to its end when the
// worker was killed and is back, and then is approved.
func TestHeldRunWorkerKilledStillRuns(t *testing.T) { //nolint:paralleltest // it kills what the others would stand on
	w := newWorld(t)
	require.NotEmpty(t, w.addPolicy(policy{
		verb: verbChange, action: "require_approval", required: 1, timeout: 3600, onTimeout: "reject", approvers: roles("owner"),
	}))
	a := w.heldCall(verbChange)
	w.kill("worker")
	answer := make(chan rig.Answer, 1)
	patient := *w.owner.client
	h := rig.NewHTTP()
	patient.HTTP = h
	go func() { answer <- patient.Decide(a.ID, "approve", nil) }()
	began := time.Now()
	w.restart()
	rig.Until(t, settleLimit, "the call is made", func() bool { return len(w.desk.of(a.ExecutionID)) == 1 })
	t.Logf("sent %.2fs after the worker was started again", time.Since(began).Seconds())
	got := <-answer
	require.Equal(t, http.StatusOK, got.Status, "%s", got.Body)
	w.finish()
	w.check(false)
}
