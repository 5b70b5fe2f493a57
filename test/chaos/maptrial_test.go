//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"agentruntime/test/rig"
)

// trial is one execution of the Map with what is to happen to it, and what was seen of it.
type trial struct {
	c       *mapCourt
	driver  *mapDriver
	session string
	at      boundary
	// failures is how often it fails in its ninth step before it goes well.
	failures int
	// attempt is that whose end is waited for.
	attempt int
	path    string
	// from has the from_step of each retry, "" for none.
	from []string

	mu sync.Mutex
	// withheld is the step whose event or decision does not come before the kill.
	withheld string
	// seen are the steps in which it was seen to wait; decided: a decision was taken for it.
	seen    map[string]bool
	decided bool
	// resolved: people have said in this attempt what came of a call.
	resolved bool
	end      *mapExecution
	endSeen  time.Time
	passedBy bool
	trace    mapTrace
	broken   []string
}

// mapExecution is what the tests read of an execution.
type mapExecution struct {
	ExecutionID string `json:"execution_id"`
	WorkflowID  string `json:"workflow_id"`
	SessionID   string `json:"session_id"`
	Status      string
	Attempt     int
	Output      json.RawMessage
	Error       *struct{ Code, Instance, Detail string }
	WaitingFor  *struct {
		For, Step  string
		ApprovalID string `json:"approval_id"`
	} `json:"waiting_for"`
	Steps []struct {
		Path, Type, Status string
		Attempts           int
		Output             json.RawMessage
		Error              *struct{ Code string }
		ExecutionID        string `json:"execution_id"`
	}
}

func (e mapExecution) ended() bool {
	return slices.Contains([]string{"completed", "failed", "cancelled"}, e.Status)
}

// far says how far the execution is.
func (e mapExecution) far() string {
	var far strings.Builder
	fmt.Fprint(&far, e.Status, e.Attempt)
	for _, step := range e.Steps {
		fmt.Fprint(&far, step.Path, step.Status, step.Attempts)
	}
	return far.String()
}

func (c *mapCourt) newTrial(d *mapDriver, at boundary) *trial {
	c.serial++
	tr := &trial{c: c, driver: d, attempt: 1, session: fmt.Sprintf("%s-%s-%d", d.story.name, d.name, c.serial)}
	tr.meet(at)
	return tr
}

// meet has a kill fall at the boundary. What the execution waits for there does not come before.
func (tr *trial) meet(at boundary) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.at, tr.seen, tr.withheld = at, map[string]bool{}, ""
	if at.point == waits {
		tr.withheld = strings.TrimPrefix(at.at, "|")
	}
}

// newFailing returns a trial that fails in its ninth step so many times.
func (c *mapCourt) newFailing(d *mapDriver, failures int) *trial {
	tr := c.newTrial(d, boundary{})
	tr.failures = failures
	c.effects.refuse(tr.session, true)
	return tr
}

// retry has the trial go on in its next attempt from the step, "" for the failed one. A kill is to fall
// at the boundary.
func (tr *trial) retry(from string, at boundary) {
	tr.attempt++
	tr.from = append(tr.from, from)
	tr.resolved = false
	tr.meet(at)
	if tr.attempt > tr.failures {
		tr.c.effects.refuse(tr.session, false)
	}
}

func (tr *trial) String() string {
	return fmt.Sprintf("%s (%s, attempt %d)", tr.session, tr.at, tr.attempt)
}

func (tr *trial) report(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.broken = append(tr.broken, tr.String()+": "+fmt.Sprintf(format, args...))
}

// follow does what patient callers and people do until the trials have ended, or nothing goes on.
func (c *mapCourt) follow(trials ...*trial) {
	ctx := c.t.Context()
	c.followed.Add(int32(len(trials)))
	c.mark()
	var all sync.WaitGroup
	for _, tr := range trials {
		all.Go(func() {
			defer c.followed.Add(-1)
			tr.follow(ctx)
		})
	}
	people, home := context.WithCancel(ctx)
	defer home()
	go c.approveCalls(people)
	all.Wait()
}

func (tr *trial) follow(ctx context.Context) {
	goesOn := func() bool { return ctx.Err() == nil && !tr.c.isStuck() }
	for goesOn() && !tr.begin() { //nolint:contextcheck // the client has a time limit of its own
		pause(ctx, callPause)
	}
	var last mapExecution
	for goesOn() {
		e, known := tr.look() //nolint:contextcheck // as above
		if known {
			if e.far() != last.far() {
				tr.c.mark()
			}
			last = e
		}
		if known && e.ended() && e.Attempt >= tr.attempt {
			tr.mu.Lock()
			tr.end, tr.endSeen = &e, time.Now()
			tr.mu.Unlock()
			return
		}
		if known && e.WaitingFor != nil {
			tr.attend(e) //nolint:contextcheck // as above
		}
		pause(ctx, tr.untilNextLook())
	}
	others := tr.driver.tenant.User.Do(http.MethodGet, "/v1/executions?kind=map&session_id="+tr.session, nil)                                                                         //nolint:contextcheck // as above
	tr.report("not terminal: %s in attempt %d, waits for %+v; steps %+v; %s; %s", last.Status, last.Attempt, last.WaitingFor, last.Steps, tr.c.workflowsOf(others.Body), others.Body) //nolint:contextcheck // the trial may be over, and its context with it
}

// untilNextLook is how long the follower waits. One that is to see a wait, which may last for a second,
// looks more often than the others.
func (tr *trial) untilNextLook() time.Duration {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.at.point == waits && !tr.seen[strings.TrimPrefix(tr.at.at, "|")] {
		return callPause
	}
	return tr.c.look()
}

// workflowsOf tells of the workflows of executions what is pending in each, and the last events of
// their histories.
func (c *mapCourt) workflowsOf(page []byte) string {
	var list struct {
		Data []struct {
			WorkflowID string `json:"workflow_id"`
		}
	}
	if err := json.Unmarshal(page, &list); err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	var told strings.Builder
	for _, e := range list.Data {
		d, err := c.temporal.DescribeWorkflowExecution(ctx, e.WorkflowID, "")
		if err != nil {
			fmt.Fprintf(&told, "%s: %v; ", e.WorkflowID, err)
			continue
		}
		fmt.Fprintf(&told, "%s: %s, task %v, activities %v: ", e.WorkflowID, d.GetWorkflowExecutionInfo().GetStatus(), d.GetPendingWorkflowTask(), d.GetPendingActivities())
		var events []string
		for it := c.temporal.GetWorkflowHistory(ctx, e.WorkflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
			event, err := it.Next()
			if err != nil {
				break
			}
			events = append(events, fmt.Sprintf("%d %s %s", event.GetEventId(), event.GetEventTime().AsTime().Format("15:04:05"), event.GetEventType()))
		}
		told.WriteString(strings.Join(events[max(0, len(events)-40):], ", ") + "; ")
	}
	return told.String()
}

// begin triggers the Map, or retries it. A call without an answer is repeated.
func (tr *trial) begin() bool {
	c, path, body, headers := tr.driver.tenant.Runtime, tr.driver.trigger, any(map[string]any{"session_id": tr.session, "payload": map[string]any{"id": tr.session}}), []string{"Prefer: wait=0"}
	if tr.attempt > 1 {
		c, path, body = tr.driver.tenant.User, tr.path+"/retry", nil
		if from := tr.from[tr.attempt-2]; from != "" {
			body = map[string]any{"from_step": from}
		}
		headers = append(headers, fmt.Sprintf("Idempotency-Key: retry-%d", tr.attempt))
	}
	a := c.Do(http.MethodPost, path, body, headers...)
	var e rig.Envelope
	if a.Err != nil || a.Status >= 500 || json.Unmarshal(a.Body, &e) != nil {
		return false
	}
	var done mapExecution
	switch {
	case e.Success && json.Unmarshal(e.Data, &done) == nil:
		tr.path = "/v1/executions/" + done.ExecutionID
	case e.Error.ExecutionID != "":
		tr.path = "/v1/executions/" + e.Error.ExecutionID
	}
	if a.Status == http.StatusConflict || tr.path == "" {
		tr.report("%s: %s", path, a.Body)
	}
	return true
}

func (tr *trial) look() (e mapExecution, known bool) {
	a := tr.driver.tenant.User.Do(http.MethodGet, tr.path, nil)
	var envelope struct{ Data mapExecution }
	if a.Err != nil || a.Status != http.StatusOK || json.Unmarshal(a.Body, &envelope) != nil {
		return e, false
	}
	return envelope.Data, true
}

// attend gives the execution what it waits for, unless that is withheld.
func (tr *trial) attend(e mapExecution) {
	w := e.WaitingFor
	tr.mu.Lock()
	tr.seen[w.Step] = true
	withheld := tr.withheld == w.Step
	tr.mu.Unlock()
	tr.resolve(e)
	switch {
	case withheld:
	case w.Step == tr.driver.story.cancelled:
		tr.driver.tenant.User.Do(http.MethodPost, tr.path+"/cancel", nil)
	case w.For == "event":
		tr.driver.events.Do(http.MethodPost, "/v1/events", map[string]any{
			"id": tr.eventOf(tr.attempt), "type": "custom.go", "correlate": tr.session, "data": map[string]any{"n": 7},
		})
	case w.For == "approval" && w.Step == "s10" && w.ApprovalID != "" && tr.attempt > tr.failures:
		a := tr.driver.tenant.User.Decide(w.ApprovalID, "approve", nil)
		tr.mu.Lock()
		tr.decided = tr.decided || a.Status == http.StatusOK
		tr.mu.Unlock()
	}
}

// eventOf is the id of the event that the execution gets in an attempt. The same one is taken once.
func (tr *trial) eventOf(attempt int) string { return fmt.Sprintf("go-%s-%d", tr.session, attempt) }

// resolve says what came of the call of the step that its provider refuses, where nobody knows: it was
// sent, and then refused when it was sent again.
func (tr *trial) resolve(e mapExecution) {
	outcome := "failed"
	if slices.Contains(tr.c.effects.of(tr.session), "9") {
		outcome = "executed"
	}
	for _, s := range e.Steps {
		if s.Path == tr.driver.story.failing && s.Status == "outcome_unknown" && s.ExecutionID != "" {
			tr.resolved = true
			tr.driver.tenant.User.Do(http.MethodPost, "/v1/executions/"+s.ExecutionID+"/resolve", map[string]any{"outcome": outcome, "reason": "the provider has been asked"})
		}
	}
}

// approveCalls releases all held calls, until ctx ends.
func (c *mapCourt) approveCalls(ctx context.Context) {
	var mu sync.Mutex
	deciding := map[string]bool{}
	for ctx.Err() == nil {
		for _, d := range c.drivers {
			if d.name != driverRun {
				continue
			}
			a := d.tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending&kind=hold&limit=100", nil) //nolint:contextcheck // the client has a time limit of its own
			var page struct{ Data []struct{ ID string } }
			if a.Err != nil || json.Unmarshal(a.Body, &page) != nil {
				continue
			}
			for _, asked := range page.Data {
				mu.Lock()
				busy := deciding[asked.ID]
				deciding[asked.ID] = true
				mu.Unlock()
				if busy {
					continue
				}
				go func() { //nolint:contextcheck // as above
					d.tenant.User.Decide(asked.ID, "approve", nil)
					mu.Lock()
					delete(deciding, asked.ID)
					mu.Unlock()
				}()
			}
		}
		pause(ctx, 2*callPause)
	}
}

// isStaged reports whether the trial is where the kill is to find it, or has ended before. What follows
// an end can be stopped when the end has been seen already.
func (tr *trial) isStaged() bool {
	if tr.at.point != waits && tr.c.gate.stops(tr.at.point, tr.session+tr.at.at) {
		return true
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.at.point == waits && tr.seen[strings.TrimPrefix(tr.at.at, "|")] {
		return true
	}
	if tr.end != nil && time.Since(tr.endSeen) > moment {
		tr.passedBy = true
	}
	return tr.passedBy
}

// inspectTrial judges an execution that has ended.
func (c *mapCourt) inspectTrial(tr *trial) {
	c.t.Helper()
	if tr.end == nil {
		return // it was reported
	}
	tr.readAgain()
	story := tr.driver.story
	want, writes := story.ends, story.made
	if tr.failures >= tr.attempt {
		want, writes = "failed", story.before
	}
	if tr.end.Status != want {
		tr.report("ended as %s: %v", tr.end.Status, tr.end.Error)
		return
	}
	if got := c.effects.of(tr.session); !slices.Equal(got, writes) {
		tr.report("has made %v instead of %v", got, writes)
	}
	if got := c.effects.inOrder(tr.session); want == story.ends && story.ordered != nil && !slices.Equal(got, story.ordered) {
		tr.report("has made %v in this order, instead of %v", got, story.ordered)
	}
	tr.trace = c.traceOf(tr)
	switch {
	case want == story.ends && tr.driver.plain != nil:
		tr.compare(tr.driver.plain)
	case want == "failed" && tr.driver.failed != nil:
		tr.compare(tr.driver.failed)
	}
	c.inspectRows(tr)
}

// compare reports where the trace is another one than that of an execution that nothing happened to.
// The retries of this one are accounted for. A cancel can be taken before a task that a kill has lost is
// repeated. Then it gives up the block that the lost task had ended, and no write in it.
func (tr *trial) compare(plain mapTrace) {
	for path, is := range tr.trace {
		givenUp := is.Status == "cancelled" && path == tr.driver.story.block
		if was := tr.retried(path, plain[path]); is != was && !givenUp {
			tr.report("%s is %+v instead of %+v", path, is, was)
		}
	}
	if len(tr.trace) != len(plain) {
		tr.report("has %d steps instead of %d", len(tr.trace), len(plain))
	}
}

// retried returns the trace of a step after the retries: each has made the step that failed again, and
// the steps that run again from where it began.
func (tr *trial) retried(path string, was stepTrace) stepTrace {
	if path == tr.driver.story.failing {
		was.Attempts += tr.attempt - 1
	}
	if was.Error != "" && tr.resolved {
		was.Error = "PROVIDER_ERROR" // the provider's answer is not known to have been the last one
	}
	for i, from := range tr.from {
		switch {
		case !slices.Contains(tr.driver.story.again[path], from):
		case was.Attempts > 0:
			was.Attempts++
		default: // a wait, which takes the event of the attempt
			event, others, _ := strings.Cut(was.Output, " ")
			was.Output = event[:strings.LastIndex(event, "-")+1] + strconv.Itoa(i+2) + " " + others
		}
	}
	return was
}

// readAgain reads the execution while all parts are there. Where the database was killed between the
// steps and what says which of their values are masked, the answer that told of the end has all masked.
// An end stays as it was told.
func (tr *trial) readAgain() {
	tr.c.t.Helper()
	told := tr.end.Status
	rig.Until(tr.c.t, stagingLimit, tr.String()+" can be read", func() bool {
		e, known := tr.look()
		if known {
			tr.end = &e
		}
		return known
	})
	if tr.end.Status != told {
		tr.report("ended as %s, and is %s later", told, tr.end.Status)
	}
}

// traceOf reads what the steps of an execution have done, and those of the Map that it started.
func (c *mapCourt) traceOf(tr *trial) mapTrace {
	trace := mapTrace{}
	add := func(prefix string, e mapExecution) {
		for _, s := range e.Steps {
			step := stepTrace{Status: s.Status, Attempts: s.Attempts, Output: strings.ReplaceAll(string(s.Output), tr.session, "<session>")}
			if s.Error != nil {
				step.Error = s.Error.Code
			}
			if s.Type == "wait" {
				step.Output = withoutTime(s.Output, tr.session)
			}
			trace[prefix+s.Path] = step
		}
	}
	add("", *tr.end)
	if tr.driver.story.inner == "" {
		return trace
	}
	a := tr.driver.tenant.User.Do(http.MethodGet, "/v1/executions?kind=map&parent_execution_id="+tr.end.ExecutionID, nil)
	var page struct{ Data []mapExecution }
	if a.Err != nil || json.Unmarshal(a.Body, &page) != nil || len(page.Data) != 1 {
		tr.report("has started %s", a.Body)
		return trace
	}
	other := &trial{driver: tr.driver, path: "/v1/executions/" + page.Data[0].ExecutionID}
	child, _ := other.look()
	if child.Status != "completed" {
		tr.report("the other Map is %q", child.Status)
	}
	add("sub:", child)
	return trace
}

// withoutTime returns the output of a wait without what differs from one execution to the next.
func withoutTime(output json.RawMessage, session string) string {
	var event struct {
		ID, Type, Correlate string
		Data                json.RawMessage
	}
	if json.Unmarshal(output, &event) != nil || event.ID == "" {
		return string(output)
	}
	return strings.ReplaceAll(fmt.Sprintf("%s %s %s %s", event.ID, event.Type, event.Correlate, event.Data), session, "<session>")
}

// inspectRows judges what the execution has left behind: its records, events, approvals and workflow.
func (c *mapCourt) inspectRows(tr *trial) {
	c.t.Helper()
	ctx := c.t.Context()
	completed, executions, reads := 0, 1, 0
	if tr.end.Status == "completed" {
		completed = 1
	}
	if tr.driver.story.inner != "" {
		executions++
	}
	for _, path := range tr.driver.story.reads {
		reads += tr.trace[path].Attempts
	}
	for what, want := range map[string]int{
		`SELECT count(*) FROM map_executions WHERE session_id = $1 AND tenant_id = $3 AND length($2) > 0`:                                                   executions,
		`SELECT count(*) FROM audit_records WHERE execution_id = $2 AND tenant_id = $3 AND action = 'map.ended' AND length($1) > 0`:                         tr.attempt,
		`SELECT count(*) FROM audit_records WHERE execution_id = $2 AND tenant_id = $3 AND action = 'approval.approved' AND length($1) > 0`:                 completed * tr.driver.story.approvals,
		`SELECT count(*) FROM events WHERE execution_id = $2 AND tenant_id = $3 AND type = 'map.completed' AND length($1) > 0`:                              completed,
		`SELECT count(*) FROM events WHERE execution_id = $2 AND tenant_id = $3 AND type = 'map.failed' AND length($1) > 0`:                                 tr.attempt - completed,
		`SELECT count(*) FROM approvals WHERE tenant_id = $3 AND execution_id = $2 AND status = 'pending' AND length($1) > 0`:                               0,
		`SELECT count(*) FROM map_executions WHERE session_id = $1 AND tenant_id = $3 AND finished_at IS NULL AND length($2) > 0`:                           0,
		`SELECT count(*) FROM runs r JOIN map_executions m ON m.execution_id = r.parent_id WHERE m.session_id = $1 AND m.tenant_id = $3 AND length($2) > 0`: len(c.effects.of(tr.session)) + min(tr.failures, tr.attempt) + reads,
	} {
		var got int
		require.NoError(c.t, c.db.QueryRow(ctx, what, tr.session, tr.end.ExecutionID, tr.driver.tenant.ID).Scan(&got))
		if got != want {
			tr.report("%d instead of %d: %s", got, want, what)
		}
	}
	rig.Until(c.t, stuckAfter, "the workflow of "+tr.session+" closes", func() bool {
		d, err := c.temporal.DescribeWorkflowExecution(ctx, tr.end.WorkflowID, "")
		return err == nil && d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	})
}
