package approvals

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"agentruntime/test/oracle"
	"agentruntime/test/rig"
)

type ctx = context.Context

const (
	// settleLimit is how long after the last restart everything must be in order. It
	// covers the time of an approval, twice, the workflow task that died with its worker,
	// and two sweeps for approvals without a workflow.
	settleLimit = 90 * time.Second
	// expireSoon is above the times of the test's policies.
	expireSoon  = 8 * time.Second
	maxPolicies = 6
)

// bounded1 makes one request to Temporal.
func (w *world) bounded1(do func(c ctx) error) error {
	c, cancel := context.WithTimeout(w.t.Context(), callLimit)
	defer cancel()
	return do(c)
}

// disorder lists where rows and workflows disagree, and what is overdue.
func (w *world) disorder() []string {
	w.t.Helper()
	f := w.read()
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	waiting := map[string]bool{}
	for _, r := range f.Runs {
		pending := slices.IndexFunc(f.Approvals, func(a oracle.Approval) bool { return a.RunID == r.ID && a.Status == "pending" })
		switch {
		case r.State == "claimed" || r.State == "sending":
			report("%s is %s", r.ExecutionID, r.State)
		case r.State == "pending_approval" && pending < 0:
			report("%s waits for no approval", r.ExecutionID)
		case pending >= 0:
			a := f.Approvals[pending]
			id := r.WorkflowID
			waiting[id] = true
			if r.State != "pending_approval" && r.State != "intercepted" || r.ApprovalID == nil || *r.ApprovalID != a.ID {
				report("%s is pending, and its run %s is %s", a.ID, r.ExecutionID, r.State)
			}
			if time.Now().After(*a.ExpiresAt) {
				report("%s is overdue", a.ID)
			}
			if !w.open(id) {
				report("%s is pending, and no workflow of %s is open", a.ID, r.ExecutionID)
			}
		}
	}
	for _, a := range f.Approvals {
		if a.Recheck && a.Status == "pending" {
			report("%s is %s, and its workflow has not been told", a.ID, a.Status)
		}
	}
	for _, r := range f.Runs {
		// Not by Temporal's list, which lags behind.
		if id := r.WorkflowID; !waiting[id] && w.open(id) {
			report("the workflow of %s is open and waits for nobody: the run is %s", r.ExecutionID, r.State)
		}
	}
	return found
}

// open reports whether the workflow is.
func (w *world) open(id string) (is bool) {
	err := w.bounded1(func(c ctx) error {
		d, err := w.temporal.DescribeWorkflowExecution(c, id, "")
		is = err == nil && d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		return err
	})
	return err == nil && is
}

// settle waits until everything is in order, and returns how long that took.
func (w *world) settle() time.Duration {
	w.t.Helper()
	began := time.Now()
	c, cancel := context.WithTimeout(w.t.Context(), settleLimit)
	defer cancel()
	for {
		found := w.disorder()
		if len(found) == 0 {
			return time.Since(began)
		}
		select {
		case <-c.Done():
			require.Empty(w.t, found, "not in order %s after the last restart", settleLimit)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// finish ends each pending approval, each in another way: so every workflow must listen.
func (w *world) finish() {
	w.t.Helper()
	for i, a := range w.pending() {
		switch i % 3 {
		case 0:
			w.decide(w.owner, a.ID, "approve", nil)
		case 1:
			w.decide(w.owner, a.ID, "reject", nil)
		}
		if w.approval(a.ID).Status != "pending" {
			continue
		}
		answer := w.owner.client.Do(http.MethodPost, "/v1/executions/"+a.ExecutionID+"/cancel", nil)
		w.say("cancel %s at the end: %s", a.ExecutionID, w.outcome(answer))
		if done(answer) {
			w.cancelled = append(w.cancelled, a.ExecutionID)
		}
	}
	rig.Until(w.t, settleLimit, "nothing is pending", func() bool {
		f := w.read()
		return !slices.ContainsFunc(f.Approvals, func(a oracle.Approval) bool { return a.Status == "pending" })
	})
	w.settle()
}

// check checks everything that is known against the promises. It returns the number of
// approvals of each status.
func (w *world) check(midway bool) map[string]int {
	w.t.Helper()
	e := evidence{
		Facts: w.read(), past: &w.past, effects: w.desk.of, acked: w.acked, cancelled: w.cancelled, broken: w.broken, midway: midway,
	}
	require.Empty(w.t, e.violations())
	statuses := map[string]int{}
	for _, a := range e.Approvals {
		statuses[a.Status]++
	}
	w.checkShown(e.Facts, statuses)
	return statuses
}

// checkShown compares what the API shows, by status and page after page, with the rows.
func (w *world) checkShown(f oracle.Facts, statuses map[string]int) {
	w.t.Helper()
	var counts map[string]int
	w.owner.client.Do(http.MethodGet, "/v1/approvals/counts", nil).Data(w.t, &counts)
	require.Equal(w.t, len(f.Approvals), counts["total"])
	for status := range counts {
		if status == "total" {
			continue
		}
		require.Equal(w.t, statuses[status], counts[status], status)
		var want []string
		for _, a := range slices.Backward(f.Approvals) {
			if a.Status == status {
				want = append(want, a.ID)
			}
		}
		require.Equal(w.t, want, w.listed(status), status)
	}
}

// listed pages through the approvals of a status, three at a time.
func (w *world) listed(status string) (ids []string) {
	w.t.Helper()
	cursor := ""
	for {
		a := w.owner.client.Do(http.MethodGet, "/v1/approvals?limit=3&status="+status+cursor, nil)
		var page []approval
		a.Data(w.t, &page)
		for _, one := range page {
			ids = append(ids, one.ID)
		}
		var next struct {
			Cursor *string `json:"next_cursor"`
		}
		decode(w.t, a.Envelope(w.t).Pagination, &next)
		if next.Cursor == nil || *next.Cursor == "" {
			return ids
		}
		cursor = "&cursor=" + url.QueryEscape(*next.Cursor)
	}
}
