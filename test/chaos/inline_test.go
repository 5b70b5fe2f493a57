package chaos

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/edge/engine"
	"agentruntime/test/oracle"
)

// A workflow that drives its steps as runs of its own makes three calls: a write that may
// not be repeated, a keyed one, and one that waits for approval.

// inlineInput is the input of the workflow InlineSteps, which exists in the builds of the
// rig only; see internal/base/flow/for_tests.go.
type inlineInput struct {
	TenantID string       `json:"tenant_id"`
	KeyID    string       `json:"key_id"`
	Calls    []inlineCall `json:"calls"`
}

type inlineCall struct {
	Verb string            `json:"verb"`
	Args map[string]string `json:"args"`
}

// Steps of the workflow, by the call that comes first and meets the kill.
const (
	inlineWrite = "write"
	inlineKeyed = "keyed"
	inlineHeld  = "held"
)

// inlinePoints are where each step is stopped: every failpoint of a call, and for the one
// that waits for approval also those of asking, handing over and counting.
func inlinePoints() map[string][]string {
	sent := []string{"after_claim", "before_sending", "after_sending", "after_response", "before_record", "after_record"}
	return map[string][]string{
		inlineWrite: sent,
		inlineKeyed: sent,
		inlineHeld: append(slices.Clone(sent),
			"before_hold", "after_hold", "before_hand_over", "after_hand_over", "before_count", "in_count", "after_count"),
	}
}

// inlineRun is one workflow with what was seen of it.
type inlineRun struct {
	workflow, step, point string
	// ids are the calls in the order of the steps.
	ids    []string
	states []flow.State
	took   time.Duration
}

func (r *inlineRun) String() string { return fmt.Sprintf("%s, killed at %s", r.workflow, r.point) }

// inlineCourt runs the service for such workflows.
type inlineCourt struct {
	*court
	own client.Client // with the service's codec
}

func newInlineCourt(t *testing.T) *inlineCourt {
	t.Helper()
	c := &inlineCourt{court: convene(t)}
	c.gate.keeps = true
	converter, err := engine.Converter(c.stack.CodecKey())
	require.NoError(t, err)
	c.own, err = client.Dial(client.Options{HostPort: c.stack.TemporalAddress, Logger: quiet{}, DataConverter: converter})
	require.NoError(t, err)
	t.Cleanup(c.own.Close)
	return c
}

// prepare says which calls the workflow makes, that which is to meet the kill first.
func (c *inlineCourt) prepare(step, point string) (*inlineRun, inlineInput) {
	c.serial++
	r := &inlineRun{workflow: fmt.Sprintf("inline-%d-%s-%s", c.serial, step, point), step: step, point: point}
	verbs := map[string]string{inlineWrite: verbWrite, inlineKeyed: verbKeyed, inlineHeld: verbWrite}
	in := inlineInput{TenantID: c.tenant.ID, KeyID: c.tenant.RuntimeKeyID}
	order := []string{inlineWrite, inlineKeyed, inlineHeld}
	slices.SortStableFunc(order, func(a, b string) int {
		switch {
		case a == step:
			return -1
		case b == step:
			return 1
		default:
			return 0
		}
	})
	for _, kind := range order {
		id := fmt.Sprintf("free-%s-%s", kind, r.workflow)
		if kind == inlineHeld {
			id = "held-" + r.workflow
		}
		r.ids = append(r.ids, id)
		in.Calls = append(in.Calls, inlineCall{Verb: verbs[kind], Args: map[string]string{"id": id, "filler": "x"}})
	}
	return r, in
}

// stageInline brings the workflow to its point and has it held there.
func (c *inlineCourt) stageInline(step, point string) *inlineRun {
	c.t.Helper()
	late := step == inlineHeld && !slices.Contains([]string{"after_claim", "before_hold", "after_hold", "before_hand_over", "after_hand_over"}, point)
	r, in := c.prepare(step, point)
	if !late {
		c.gate.arm(point, r.workflow)
	}
	_, err := c.own.ExecuteWorkflow(c.t.Context(), client.StartWorkflowOptions{ID: r.workflow, TaskQueue: flow.QueueActions}, "InlineSteps", in)
	require.NoError(c.t, err)
	if late {
		approval := ""
		require.Eventually(c.t, func() bool { approval = c.pendingOf(r); return approval != "" }, stagingLimit, callPause, "%s is held", r)
		c.gate.arm(point, r.workflow)
		go c.tenant.User.Decide(approval, "approve", nil)
	}
	c.gate.await(c.t, point, r.workflow)
	return r
}

// pendingOf returns the approval that one of the workflow's steps waits for, once it was
// handed over; "" for none.
func (c *inlineCourt) pendingOf(r *inlineRun) string {
	f, err := oracle.Read(c.t.Context(), oracle.Database{URL: c.stack.DatabaseURL, VaultKeys: c.stack.VaultKeys()}, c.tenant.ID)
	if err != nil {
		return ""
	}
	for _, run := range f.Runs {
		if !strings.Contains(run.Args, `"held-`+r.workflow+`"`) || run.Driver != string(flow.DriverRun) {
			continue
		}
		for _, a := range f.Approvals {
			if a.RunID == run.ID && a.Status == "pending" {
				return a.ID
			}
		}
	}
	return ""
}

// seeInlineThrough approves what the workflow waits for until it ends.
func (c *inlineCourt) seeInlineThrough(r *inlineRun) error {
	done := make(chan error, 1)
	go func() { done <- c.own.GetWorkflow(c.t.Context(), r.workflow, "").Get(c.t.Context(), &r.states) }()
	giveUp := time.NewTimer(patience)
	defer giveUp.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-giveUp.C:
			return fmt.Errorf("%s has not ended", r)
		case <-time.After(callPause):
			if approval := c.pendingOf(r); approval != "" {
				c.tenant.User.Decide(approval, "approve", nil)
			}
		}
	}
}

// inlineViolations says what is wrong with the workflow's runs; nothing for sound ones.
func (c *inlineCourt) inlineViolations(r *inlineRun, f oracle.Facts) []string {
	var broken []string
	report := func(format string, args ...any) {
		broken = append(broken, r.String()+": "+fmt.Sprintf(format, args...))
	}
	if len(r.states) != len(r.ids) {
		report("ended with %v", r.states)
		return broken
	}
	inFlight := slices.Contains([]string{"after_sending", "after_response", "before_record"}, r.point)
	for i, id := range r.ids {
		_, effects := c.provider.counts(id)
		// Only the first step met the kill, and only a write that may not be repeated is
		// left unknown by it.
		unknown := i == 0 && r.step != inlineKeyed && inFlight && r.states[i] == flow.StateOutcomeUnknown
		switch {
		case r.states[i] != flow.StateExecuted && !unknown:
			report("%s ended as %s with %d effects", id, r.states[i], effects)
		case effects != 1 && (!unknown || effects > 1):
			report("%s had %d effects", id, effects)
		}
		runs := slices.DeleteFunc(slices.Clone(f.Runs), func(x oracle.Run) bool { return !strings.Contains(x.Args, `"`+id+`"`) })
		if len(runs) != 1 {
			report("%s has %d rows", id, len(runs))
		}
		for _, x := range runs {
			held := strings.HasPrefix(id, "held-")
			if own := x.Driver == string(flow.DriverRun); own != held || !own && x.WorkflowID != r.workflow {
				report("%s is driven by %s", id, x.WorkflowID)
			}
			if x.State != string(r.states[i]) {
				report("%s is %s, and the workflow was told %s", id, x.State, r.states[i])
			}
		}
	}
	return broken
}

// try has a workflow stopped at every point of every step, kills the victims, restarts
// them and returns what is wrong with what came of the workflows.
func (c *inlineCourt) try(victims ...string) []string {
	c.t.Helper()
	var runs []*inlineRun
	for step, points := range inlinePoints() {
		for _, point := range points {
			runs = append(runs, c.stageInline(step, point))
		}
	}
	for _, victim := range victims {
		c.kill(victim)
	}
	c.gate.open()
	pause(c.t.Context(), moment)
	restarted := time.Now()
	for _, victim := range victims {
		c.restart(victim)
	}
	var mu sync.Mutex
	var broken []string
	var all sync.WaitGroup
	for _, r := range runs {
		all.Go(func() {
			err := c.seeInlineThrough(r)
			mu.Lock()
			defer mu.Unlock()
			if r.took = time.Since(restarted); err != nil {
				broken = append(broken, err.Error())
			}
		})
	}
	all.Wait()
	c.stack.AwaitAPI()
	c.requireAlive()
	f, err := oracle.Read(c.t.Context(), oracle.Database{URL: c.stack.DatabaseURL, VaultKeys: c.stack.VaultKeys()}, c.tenant.ID)
	require.NoError(c.t, err)
	for _, r := range runs {
		broken = append(broken, c.inlineViolations(r, f)...)
	}
	slices.SortFunc(runs, func(a, b *inlineRun) int { return int(b.took - a.took) })
	c.t.Logf("%s: %d workflows, the last ended %.1fs after the restart: %s", strings.Join(victims, "+"), len(runs), runs[0].took.Seconds(), runs[0])
	return broken
}

// A workflow other than ActionRun drives runs by ActionRun's activities, in the real worker
// process, and survives a kill at each step.
func TestInlineRunsSurviveKills(t *testing.T) {
	t.Parallel()
	c := newInlineCourt(t)
	require.Empty(t, c.try(victimWorker))
	require.Empty(t, c.try(victimTemporal, victimWorker, victimAPI))
}
