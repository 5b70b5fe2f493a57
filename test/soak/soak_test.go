//go:build soak

package soak

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"agentruntime/test/oracle"
	"agentruntime/test/rig"
)

const (
	// quiet is how long the service has to end what is under way after the load.
	quiet = time.Minute
	// Pauses between two kills, and how long a victim stays away.
	killFirst, killLast = 4 * time.Second, 16 * time.Second
	awayMost            = 4 * time.Second
	// mostMinutes keeps the users' tokens valid.
	mostMinutes = 50
)

// number reads a positive number from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "%s is a number", name)
	require.NotZero(t, n, "%s is a number above 0", name)
	return n
}

// soak is the running service with what is known of it.
type soak struct {
	*load

	t *testing.T
	// stacks say which stack has the part.
	stacks   map[string]*rig.Stack
	rnd      *rand.Rand
	said     *said
	lives    lives
	outages  []outage
	findings []string
	database string // host:port
}

func (s *soak) report(format string, args ...any) {
	s.findings = append(s.findings, fmt.Sprintf(format, args...))
}

// start starts the service and makes its tenants.
func start(t *testing.T, seed uint64) *soak {
	t.Helper()
	s := &soak{
		t: t, rnd: rand.New(rand.NewPCG(seed, seed)), said: &said{byPid: map[int]vitals{}}, lives: lives{}, stacks: map[string]*rig.Stack{},
		load: &load{provider: newProvider(), over: make(chan struct{}), gaveUp: make(chan struct{})},
	}
	target := rig.Serve(t, s.provider.handler())
	first := rig.Split(t, rig.SplitOptions{Tags: "chaos", Workers: 2, Env: []string{"LOG_LEVEL=warn", "AGENTRUNTIME_VITALS_URL=" + rig.Serve(t, s.said)}})
	second := first.StartAPI("api-2")
	for _, part := range []string{"postgres", "temporal", "worker", "worker-2", "api"} {
		s.stacks[part] = first
	}
	s.stacks["api-2"] = second
	u, err := url.Parse(first.DatabaseURL)
	require.NoError(t, err)
	s.database = u.Host
	for n := range 4 {
		made := first.NewTenant(fmt.Sprintf("owner-%d@example.com", n))
		made.Connect(t, "target", target, document(), "bearer", map[string]string{"token": "a token of the soak"})
		made.User.NewPolicy(t, rig.Policy("held", "require_approval", verbWrite, map[string]any{
			"conditions": []any{map[string]any{"field": "args.id", "operator": "starts_with", "value": "held-"}},
			"approval":   map[string]any{"timeout": 2 * 3600, "on_timeout": "reject"},
		}))
		other := func(c *rig.Client) [2]*rig.Client {
			c.HTTP.Timeout = callLimit
			there := &rig.Client{Base: second.APIURL, Key: c.Key, Token: c.Token, HTTP: rig.NewHTTP()}
			there.HTTP.Timeout = callLimit
			return [2]*rig.Client{c, there}
		}
		s.tenants = append(s.tenants, tenant{id: made.ID, runtime: other(made.Runtime), user: other(made.User)})
	}
	return s
}

// parts are those whose memory is judged.
func parts() []string { return []string{"api", "api-2", "worker", "worker-2"} }

func (s *soak) process(part string) *rig.Process { return s.stacks[part].Parts[part] }

// watch samples the processes every second until it is time, and notices the end of one
// that nobody killed.
func (s *soak) watch(until time.Time) {
	s.t.Helper()
	for time.Now().Before(until) {
		for part := range s.stacks {
			select {
			case <-s.process(part).Done():
				require.FailNow(s.t, part+" ended by itself", s.process(part).Log())
			default:
			}
		}
		for _, part := range parts() {
			p := s.process(part)
			v, known := s.said.of(p.Pid())
			if !known {
				continue // it has just started
			}
			v.resident, v.connections = p.Resident(s.t), int64(p.Connections(s.t, s.database))
			s.lives.add(p.Pid(), part, v)
		}
		s.pause(time.Second)
	}
}

// strike ends the part, by force or with SIGTERM, and starts it again after a moment.
func (s *soak) strike(victim string, gently bool) {
	s.t.Helper()
	o := outage{victim: victim, gently: gently, from: time.Now()}
	p := s.process(victim)
	switch {
	case !gently:
		p.KillTree(s.t)
	case !p.Terminate():
		s.report("%s did not end by itself after SIGTERM", victim)
	}
	s.requireCalm(victim)
	s.pause(time.Duration(s.rnd.Int64N(int64(awayMost))))
	stack := s.stacks[victim]
	stack.Restart(victim)
	if strings.HasPrefix(victim, "api") {
		stack.AwaitAPI()
	}
	o.to = time.Now()
	s.outages = append(s.outages, o)
	how := "kill -9"
	if gently {
		how = "SIGTERM"
	}
	s.t.Logf("%s: %s of %s, back after %.1f s", o.from.Format(clock), how, victim, o.to.Sub(o.from).Seconds())
}

// requireCalm looks for panics in what the part wrote.
func (s *soak) requireCalm(part string) {
	for line := range strings.Lines(s.process(part).Log()) {
		if strings.Contains(line, "panic") {
			s.report("%s: %.600s", part, line)
		}
	}
}

// harass strikes the victims at random moments until it is time, each once before any is
// struck again.
func (s *soak) harass(until time.Time, victims ...string) {
	s.t.Helper()
	for n := 0; ; n++ {
		if n %= len(victims); n == 0 {
			s.rnd.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
		}
		next := time.Now().Add(killFirst + time.Duration(s.rnd.Int64N(int64(killLast-killFirst))))
		if next.After(until) {
			s.watch(until)
			return
		}
		s.watch(next)
		s.strike(victims[n], s.rnd.IntN(3) == 0)
	}
}

// settle ends the load and waits for what is under way.
func (s *soak) settle() {
	close(s.over)
	after := time.Now().Add(quiet)
	time.AfterFunc(quiet, func() { close(s.gaveUp) })
	s.calls.Wait()
	s.pause(time.Until(after))
}

// gather completes the books with the rows and with what the provider saw.
func (s *soak) gather() {
	s.t.Helper()
	byID := map[string]*seen{}
	for _, one := range s.all {
		byID[one.id] = one
		one.effects, one.receipts = s.provider.saw(one.id)
		to := one.to
		if one.status == "" {
			to = to.Add(quiet) // it went on without its caller
		}
		one.excused = slices.ContainsFunc(s.outages, func(o outage) bool {
			return o.excuses() && o.from.Before(to) && o.to.After(one.from)
		})
	}
	stack := s.stacks["api"]
	for _, t := range s.tenants {
		facts, err := oracle.Read(s.t.Context(), oracle.Database{URL: stack.DatabaseURL, VaultKeys: stack.VaultKeys()}, t.id)
		require.NoError(s.t, err)
		for execution, f := range facts.ByExecution() {
			var args struct{ ID string }
			require.NoError(s.t, json.Unmarshal([]byte(f.Runs[0].Args), &args))
			if one := byID[args.ID]; one != nil {
				one.runs = append(one.runs, f)
			} else {
				s.report("run %s is nobody's", execution)
			}
		}
	}
}

// requireClosed looks for workflows that run although their run has ended. It asks Temporal
// about those that the list of workflows names as running. The list of the development server
// may forget what it was told within a second before Postgres was killed, so it also asks
// about all that were under way then.
func (s *soak) requireClosed() {
	s.t.Helper()
	ctx := s.t.Context()
	c, err := client.Dial(client.Options{HostPort: s.stacks["temporal"].TemporalAddress, Logger: nolog{}})
	require.NoError(s.t, err)
	defer c.Close()
	list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowType = 'ActionRun' AND ExecutionStatus = 'Running'"})
	require.NoError(s.t, err)
	ask := s.underWayAtKills()
	for _, e := range list.Executions {
		ask[e.Execution.WorkflowId] = true
	}
	for id := range ask {
		d, err := c.DescribeWorkflowExecution(ctx, id, "")
		if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown {
			continue // it never began
		}
		require.NoError(s.t, err)
		if d.WorkflowExecutionInfo.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			s.report("open although its run has ended: %s", s.described(c, id))
		}
	}
	s.t.Logf("%d workflows asked for, of these %d that the list calls running", len(ask), len(list.Executions))
}

// forgets is how far back the list of workflows may forget.
const forgets = 2 * time.Second

// underWayAtKills returns the workflows of the calls under way when Postgres ended.
func (s *soak) underWayAtKills() map[string]bool {
	ids := map[string]bool{}
	for _, one := range s.all {
		if !slices.ContainsFunc(s.outages, func(o outage) bool {
			return o.victim == "postgres" && o.from.Add(-forgets).Before(one.to) && o.to.Add(forgets).After(one.from)
		}) {
			continue
		}
		for _, f := range one.runs {
			ids[f.Runs[0].WorkflowID] = true
		}
	}
	return ids
}

// described says of a workflow what its run is and how its history goes on.
func (s *soak) described(c client.Client, workflow string) string {
	lines := []string{workflow}
	for _, one := range s.all {
		for _, f := range one.runs {
			if f.Runs[0].WorkflowID == workflow {
				lines = append(lines, fmt.Sprintf("%s, %s, made at %s, told %q, approvals %+v", one.id, f.Runs[0].State, one.from.Format(clock), one.status, f.Approvals))
			}
		}
	}
	history := c.GetWorkflowHistory(s.t.Context(), workflow, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		e, err := history.Next()
		if err != nil {
			lines = append(lines, err.Error())
			break
		}
		lines = append(lines, fmt.Sprintf("%s %s", e.EventTime.AsTime().Local().Format(clock), e.EventType))
	}
	return strings.Join(lines, "\n\t")
}

// nolog drops what the SDK says.
type nolog struct{}

func (nolog) Debug(string, ...any) {}
func (nolog) Info(string, ...any)  {}
func (nolog) Warn(string, ...any)  {}
func (nolog) Error(string, ...any) {}

// verdict reports what the soak has seen and returns all that is wrong.
func (s *soak) verdict(length time.Duration) []string {
	s.t.Helper()
	counts := map[string]int{}
	runs := 0
	for _, one := range s.all {
		runs += len(one.runs)
		for _, f := range one.runs {
			counts[f.Runs[0].State]++
		}
		s.findings = append(s.findings, one.violations()...)
	}
	struck := map[string]int{}
	for _, o := range s.outages {
		struck[o.victim]++
	}
	for part := range s.stacks {
		s.requireCalm(part)
		if struck[part] == 0 {
			s.report("%s was never struck: the soak was too short", part)
		}
	}
	grown, table := s.lives.judged()
	s.findings = append(s.findings, grown...)
	s.findings = append(s.findings, s.strange...)
	s.t.Logf("%d calls, %d runs, %.1f runs/s: %v\noutages: %v\nwrites and reads that the provider answered at once: %s\nlists: %s\nthe longest life of each process, from its second sixth to its last:\n%s",
		len(s.all), runs, float64(runs)/length.Seconds(), counts, struck, s.ran, s.read, table)
	return s.findings
}

// Two API and two worker processes live through kills of every part. In the first half the
// second of each is struck and the first lives on, in the second half the other way round.
// So each has a long life in one piece, by which its memory is judged.
func TestSoakRunsKeepPromisesAndMemoryStaysFlat(t *testing.T) { //nolint:paralleltest // it takes all the machine has
	length := time.Duration(number(t, "SOAK_MINUTES", 30)) * time.Minute
	require.LessOrEqual(t, length, mostMinutes*time.Minute, "SOAK_MINUTES is at most %d", mostMinutes)
	seed := number(t, "SOAK_SEED", rand.Uint64N(1<<32)+1)
	t.Logf("SOAK_MINUTES=%d SOAK_SEED=%d", length/time.Minute, seed)
	s := start(t, seed)
	began := time.Now()
	s.begin(seed)
	s.harass(began.Add(length/2), "api-2", "worker-2", "temporal", "postgres")
	s.harass(began.Add(length), "api", "worker", "temporal", "postgres")
	s.settle()
	s.gather()
	s.requireClosed()
	found := s.verdict(length)
	require.Empty(t, found[:min(len(found), 40)], "%d findings", len(found))
}
