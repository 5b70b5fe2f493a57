package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"agentruntime/test/oracle"
	"agentruntime/test/rig"
)

// Fates of a held run.
const (
	fateAsked      = "asked"      // the kill falls while the run becomes held
	fateApproved   = "approved"   // while an approval is counted, or after
	fateRejected   = "rejected"   // while a rejection is counted
	fateEdited     = "edited"     // while its arguments are replaced
	fateExpired    = "expired"    // while its time ends
	fateSuperseded = "superseded" // while what it was bound to changes
)

// fates are the ways of held runs, with the points where each is stopped.
func fates() []struct {
	fate   string
	points []string
} {
	counting := []string{"before_count", "in_count", "after_count"}
	return []struct {
		fate   string
		points []string
	}{
		{fateSuperseded, []string{"before_supersede", "after_supersede"}},
		{fateExpired, []string{"before_close", "after_close"}},
		{fateAsked, []string{"before_hold", "after_hold"}},
		{fateApproved, append(slices.Clone(counting), "before_sending")},
		{fateRejected, counting},
		{fateEdited, counting},
	}
}

// heldRun is what was seen of one held run.
type heldRun struct {
	id, fate, point, victims string
	// status at the end, and how long after the restart it was reached.
	status string
	took   time.Duration
	// again is the status that a call with the id of a rejected or expired run is told.
	again   string
	effects int
	// judged is what test/oracle found of its decisions and approvals.
	judged  []string
	pending int
	open    bool
}

func (h heldRun) String() string {
	return fmt.Sprintf("%s: kill of %s at %s, %s", h.id, h.victims, h.point, h.fate)
}

// violations lists what is wrong with the run.
func (h heldRun) violations() []string {
	var broken []string
	report := func(format string, args ...any) {
		broken = append(broken, h.String()+": "+fmt.Sprintf(format, args...))
	}
	want, effects := statusExecuted, 1
	switch h.fate {
	case fateRejected, fateExpired:
		want, effects = h.fate, 0
	}
	// The kill can fall behind the commit of sending where the worker lives on a while.
	unknown := h.status == statusUnknown && strings.Contains(h.victims, victimWorker) && effects == 1
	switch {
	case h.status != want && !unknown:
		report("ended as %q instead of %s", h.status, want)
	case h.took > terminalLimit:
		report("only %s after the restart", h.took)
	case h.effects != effects && (!unknown || h.effects > 1):
		report("%d effects instead of %d", h.effects, effects)
	case effects == 0 && h.again != want:
		report("it is final, and a call with its id is told %q", h.again)
	}
	if h.pending > 0 || h.open {
		report("%d approvals pending, workflow open: %v", h.pending, h.open)
	}
	for _, found := range h.judged {
		report("%s", found)
	}
	return broken
}

// court runs the service for held runs.
type court struct {
	*crew
	second   *rig.Client // another user who may approve
	temporal client.Client
	all      []heldRun
}

// convene adds to a crew what held runs need: policies that match the id of the call.
func convene(t *testing.T) *court {
	t.Helper()
	c := &court{crew: muster(t, "chaos")}
	temporal, err := client.Dial(client.Options{HostPort: c.stack.TemporalAddress, Logger: quiet{}})
	require.NoError(t, err)
	t.Cleanup(temporal.Close)
	c.temporal = temporal
	c.tenant.User.HTTP.Timeout = callLimit
	c.second, _ = c.tenant.User.NewUser(t, "second@example.com", "approver")
	c.hold("held-", 3600)
	c.hold("brief-", 2)
	return c
}

// quiet drops what the SDK says.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

func holding(prefix string, seconds int) map[string]any {
	return rig.Policy(fmt.Sprintf("%s for %d s", prefix, seconds), "require_approval", verbWrite, map[string]any{
		"conditions": []any{map[string]any{"field": "args.id", "operator": "starts_with", "value": prefix}},
		"approval":   map[string]any{"timeout": seconds, "on_timeout": "reject"},
	})
}

// hold makes a policy that holds the calls whose id has the prefix, and returns its id.
func (c *court) hold(prefix string, seconds int) string {
	c.t.Helper()
	return c.tenant.User.NewPolicy(c.t, holding(prefix, seconds))
}

// try stops runs of every fate at every point, kills the victims, restarts them, and
// returns what was seen of the runs.
func (c *court) try(victims ...string) []heldRun {
	c.t.Helper()
	names := strings.Join(victims, "+")
	var runs []*heldRun
	began := time.Now()
	for _, f := range fates() {
		for _, point := range f.points {
			h := &heldRun{fate: f.fate, point: point, victims: names}
			c.stage(h)
			runs = append(runs, h)
		}
	}
	staged := time.Since(began)
	for _, victim := range victims {
		c.kill(victim)
	}
	c.gate.open()
	pause(c.t.Context(), moment)
	restarted := time.Now()
	for _, victim := range victims {
		c.restart(victim)
	}
	until := time.Now().Add(patience)
	var all sync.WaitGroup
	for _, h := range runs {
		all.Go(func() {
			c.seeThrough(until, h)
			h.took = time.Since(restarted)
		})
	}
	all.Wait()
	c.stack.AwaitAPI()
	c.requireAlive()
	var out []heldRun
	for _, h := range runs {
		c.inspectHeld(h)
		out = append(out, *h)
	}
	c.t.Logf("%s: %d held runs staged in %.1fs, ended %.1fs after the restart", names, len(runs), staged.Seconds(), slices.MaxFunc(out, func(a, b heldRun) int {
		return int(a.took - b.took)
	}).took.Seconds())
	c.all = append(c.all, out...)
	return out
}

// stage brings the run to its point and stops it there.
func (c *court) stage(h *heldRun) {
	c.t.Helper()
	c.serial++
	prefix := map[string]string{fateExpired: "brief-", fateSuperseded: fmt.Sprintf("drift-%d-", c.serial)}[h.fate]
	if prefix == "" {
		prefix = "held-"
	}
	h.id = fmt.Sprintf("%s%d-%s-%s", prefix, c.serial, h.fate, h.point)
	policy := ""
	if h.fate == fateSuperseded {
		policy = c.hold(prefix, 3600)
	}
	if h.fate == fateAsked || h.fate == fateExpired {
		c.gate.arm(h.point, h.id)
		go c.callHeld(h.id)
		c.gate.await(c.t, h.point, h.id)
		return
	}
	c.callHeld(h.id)
	approval := c.waitsFor(h.id)
	require.NotEmpty(c.t, approval, "%s is held", h.id)
	c.gate.arm(h.point, h.id)
	if policy != "" {
		a := c.tenant.User.ReplacePolicy(policy, holding(prefix, 1800))
		require.Equal(c.t, http.StatusOK, a.Status, "%s", a.Body)
	} else {
		go c.decide(h, approval)
	}
	c.gate.await(c.t, h.point, h.id)
}

func (c *court) callHeld(id string) rig.Answer {
	return c.tenant.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run",
		map[string]any{"verb": verbWrite, "args": arguments(verbWrite, id), "execution_id": id}, "Prefer: wait=5")
}

// waitsFor returns the approval that the run waits for, or "" if there is none or no
// answer.
func (c *court) waitsFor(id string) string {
	a := c.tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending&execution_id="+id, nil)
	var e struct{ Data []struct{ ID string } }
	if a.Err != nil || json.Unmarshal(a.Body, &e) != nil || len(e.Data) == 0 {
		return ""
	}
	return e.Data[0].ID
}

// decide says of the approval what the run's fate wants.
func (c *court) decide(h *heldRun, approval string) {
	switch h.fate {
	case fateRejected:
		c.tenant.User.Decide(approval, "reject", map[string]string{"reason": "no"})
	case fateEdited:
		c.tenant.User.Decide(approval, "approve", map[string]any{"edited_args": map[string]string{"id": h.id, "filler": "edited"}})
	default:
		c.tenant.User.Decide(approval, "approve", nil)
	}
}

// seeThrough does what a patient caller and patient approvers do, until the run ends.
func (c *court) seeThrough(until time.Time, h *heldRun) {
	for time.Now().Before(until) {
		switch status := c.statusOf(h.id); status {
		case "", "running":
		case "unclaimed":
			c.callHeld(h.id)
		case "pending_approval":
			c.goOn(h)
		default:
			h.status = status
			if status == fateRejected || status == fateExpired {
				c.callAgain(until, h)
			}
			return
		}
		pause(c.t.Context(), callPause)
	}
}

// goOn decides what the run waits for. If it was edited, another user approves the
// edited call.
func (c *court) goOn(h *heldRun) {
	approval := c.waitsFor(h.id)
	switch {
	case approval == "" || h.fate == fateExpired:
	case h.fate == fateEdited && c.wasEdited(approval):
		c.second.Decide(approval, "approve", nil)
	default:
		c.decide(h, approval)
	}
}

func (c *court) wasEdited(approval string) bool {
	a := c.tenant.User.Do(http.MethodGet, "/v1/approvals/"+approval, nil)
	var e struct {
		Data struct {
			EditedFrom *string `json:"edited_from"`
		}
	}
	return a.Err == nil && json.Unmarshal(a.Body, &e) == nil && e.Data.EditedFrom != nil
}

// statusOf returns "" without an answer, and "unclaimed" if the call never arrived.
func (c *court) statusOf(id string) string {
	a := c.tenant.User.Do(http.MethodGet, "/v1/executions/"+id, nil)
	var e struct{ Data struct{ Status string } }
	switch {
	case a.Err != nil || a.Status >= 500:
		return ""
	case a.Status == http.StatusNotFound:
		return "unclaimed"
	case json.Unmarshal(a.Body, &e) != nil:
		return ""
	}
	return e.Data.Status
}

// callAgain calls with the id of a run that ended without being sent, until it is told what
// became of the run.
func (c *court) callAgain(until time.Time, h *heldRun) {
	for time.Now().Before(until) {
		if a := c.callHeld(h.id); a.Err == nil && a.Status < 500 {
			if e := a.Envelope(c.t); e.Error != nil {
				h.again = e.Error.Status
			}
			return
		}
		pause(c.t.Context(), callPause)
	}
}

// inspectHeld reads what the run has left behind.
func (c *court) inspectHeld(h *heldRun) {
	c.t.Helper()
	_, h.effects = c.provider.counts(h.id)
	ctx := c.t.Context()
	f, err := oracle.Read(ctx, oracle.Database{URL: c.stack.DatabaseURL, VaultKeys: c.stack.VaultKeys()}, c.tenant.ID)
	require.NoError(c.t, err)
	f = f.Of(h.id)
	require.Len(c.t, f.Runs, 1, h.id)
	for _, a := range f.Approvals {
		if a.Status == "pending" {
			h.pending++
		}
	}
	var effects []oracle.Effect
	for range h.effects {
		effects = append(effects, oracle.Effect{ExecutionID: h.id, Verb: f.Runs[0].Verb, Args: f.Runs[0].Sends()})
	}
	needs := func(string) bool { return true } // a policy holds all of them
	h.judged = slices.Concat(oracle.OneEffect(h.id, h.status, true, h.effects), oracle.Approved(f, effects, needs, nil),
		oracle.DecidedOnce(f), oracle.RejectionsFinal(f), oracle.ApprovalsRecorded(f))
	var e struct {
		WorkflowID string `json:"workflow_id"`
	}
	c.tenant.User.Do(http.MethodGet, "/v1/executions/"+h.id, nil).Data(c.t, &e)
	h.open = true
	rig.Until(c.t, terminalLimit, "the workflow of "+h.id+" closes", func() bool {
		d, err := c.temporal.DescribeWorkflowExecution(ctx, e.WorkflowID, "")
		h.open = err != nil || d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		return !h.open
	})
}

func heldViolations(seen []heldRun) []string {
	var broken []string
	for _, h := range seen {
		broken = append(broken, h.violations()...)
	}
	return broken
}

// reportHeld prints how long what took.
func (c *court) reportHeld() {
	worst := map[string]heldRun{}
	for _, h := range c.all {
		for _, of := range []string{h.victims + " at " + h.point, h.victims + " at any point"} {
			if h.took > worst[of].took {
				worst[of] = h
			}
		}
	}
	var lines []string
	for of, h := range worst {
		lines = append(lines, fmt.Sprintf("%-40s %5.1fs  %s, %s", of, h.took.Seconds(), h.fate, h.status))
	}
	slices.Sort(lines)
	c.t.Log("the longest from the restart to the end:\n" + strings.Join(lines, "\n"))
}

// The worker is killed under held runs, and then all parts that could know of a decision.
func TestHeldRunsPartsKilledKeepPromises(t *testing.T) {
	t.Parallel()
	c := convene(t)
	defer c.reportHeld()
	require.Empty(t, heldViolations(c.try(victimWorker)))
	require.Empty(t, heldViolations(c.try(victimTemporal, victimWorker, victimAPI)))
}

func TestHeldRunOneFaultIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run  heldRun
		want string
	}{
		"approved":                  {heldRun{fate: fateApproved, status: statusExecuted, effects: 1}, ""},
		"approved and not sent":     {heldRun{fate: fateApproved, status: "running"}, "ended as"},
		"approved and sent twice":   {heldRun{fate: fateApproved, status: statusExecuted, effects: 2}, "2 effects"},
		"rejected":                  {heldRun{fate: fateRejected, status: "rejected", again: "rejected"}, ""},
		"rejected and sent":         {heldRun{fate: fateRejected, status: "rejected", effects: 1, again: "rejected"}, "1 effects"},
		"rejected, and asked again": {heldRun{fate: fateRejected, status: "rejected", again: "pending_approval"}, "it is final"},
		"expired as rejected":       {heldRun{fate: fateExpired, status: "rejected", again: "rejected"}, "ended as"},
		"late":                      {heldRun{fate: fateAsked, status: statusExecuted, effects: 1, took: 2 * terminalLimit}, "after the restart"},
		"judged unsound":            {heldRun{fate: fateAsked, status: statusExecuted, effects: 1, judged: []string{"counted 2 times"}}, "counted 2 times"},
		"left pending":              {heldRun{fate: fateAsked, status: statusExecuted, effects: 1, pending: 1}, "1 approvals pending"},
		"left open":                 {heldRun{fate: fateAsked, status: statusExecuted, effects: 1, open: true}, "workflow open: true"},
		"unknown, worker killed":    {heldRun{fate: fateApproved, victims: victimWorker, status: statusUnknown, effects: 1}, ""},
		"unknown, worker alive":     {heldRun{fate: fateApproved, victims: victimAPI, status: statusUnknown, effects: 1}, "ended as"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(c.run.violations(), "\n")
			if c.want == "" {
				require.Empty(t, got)
				return
			}
			require.Contains(t, got, c.want)
		})
	}
}
