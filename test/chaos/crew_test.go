package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

const (
	// stagingLimit is how long a run may take to come to its point. An attempt that was lost is made
	// again after 30 seconds.
	stagingLimit = 90 * time.Second
	// moment is how long a victim stays away at least.
	moment = 1500 * time.Millisecond
	// patience bounds the wait for terminal answers; more than terminalLimit, so that
	// a late end is told from none.
	patience = terminalLimit + 30*time.Second
	// callLimit is above the longest wait of one call.
	callLimit = 45 * time.Second
	callPause = 100 * time.Millisecond
	// freeRun is how long runs that are not held take to begin; the kill falls within.
	freeRun = time.Second
)

// crew runs the service, kills it and keeps the books.
type crew struct {
	t        *testing.T
	stack    *rig.Stack
	gate     *gate
	provider *provider
	tenant   *rig.Tenant
	serial   int
	// seen holds every run of the crew's life.
	seen []observation
}

// muster starts the split service of the product binary built with tags; env is added to that of
// API and worker.
func muster(t *testing.T, tags string, env ...string) *crew {
	t.Helper()
	began := time.Now()
	c := &crew{t: t, gate: newGate()}
	c.provider = startProvider(t, c.gate)
	c.stack = rig.Split(t, rig.SplitOptions{Tags: tags, Env: append(env,
		"AGENTRUNTIME_FAILPOINT_URL="+c.provider.url+"/failpoint", "PROVIDER_TIMEOUT=60s",
	)})
	c.gate.callOf = callInDatabase(c.stack.DatabaseURL)
	c.tenant = c.stack.NewTenant("owner@example.com")
	c.tenant.Runtime.HTTP.Timeout = callLimit
	c.tenant.Connect(t, "target", c.provider.url, document(), "bearer", map[string]string{"token": "a token of the crash test"})
	c.requireDurable()
	t.Logf("built and started in %.1fs", time.Since(began).Seconds())
	return c
}

// lookUpFirst adds the policy that looks a thing up before each call of verbLooked. The thing lets the
// call pass.
func (c *crew) lookUpFirst() {
	c.t.Helper()
	c.tenant.User.NewPolicy(c.t, rig.Policy("the thing is looked up", "block", verbLooked, map[string]any{
		"lookups":    []any{map[string]any{"name": "thing", "verb": "target:find_thing", "args": map[string]any{"id": map[string]any{"field": "args.id"}}}},
		"conditions": []any{map[string]any{"field": "lookup.thing.id", "operator": "not_equals", "value_field": "args.id"}},
	}))
}

// strike is one kill and what is held while it falls.
type strike struct {
	// victims are killed one right after the other, and restarted in that order.
	victims []string
	// points are where a run of each of verbs is held. Without points the runs are
	// under way freely, and the kill falls at any moment of them.
	points, verbs []string
	// away is how long the victims stay away; 0 means a moment.
	away time.Duration
	// linger is how long runs stay held although their process lives; they go on at
	// once, with the victims away, where it is 0.
	linger time.Duration
}

// do has the runs under way, all at once, kills the victims, restarts them, repeats
// every call until it is terminal and returns what was seen.
func (c *crew) do(s strike) []observation {
	c.t.Helper()
	w := &wave{victims: strings.Join(s.victims, "+")}
	ctx, giveUp := context.WithCancel(c.t.Context())
	defer giveUp()
	began := time.Now()
	for _, point := range s.points {
		for _, r := range c.launch(ctx, w, point, s.verbs) {
			c.gate.await(c.t, point, r.id)
		}
	}
	if len(s.points) == 0 {
		c.launch(ctx, w, anywhere, s.verbs)
		pause(ctx, rand.N(freeRun))
	}
	staged := time.Now()
	for _, victim := range s.victims {
		c.kill(victim)
	}
	if s.linger == 0 {
		c.gate.open()
	}
	pause(ctx, max(s.away, moment))
	w.restarted = time.Now()
	for _, victim := range s.victims {
		c.restart(victim)
	}
	time.AfterFunc(patience, giveUp)
	if s.linger > 0 {
		pause(ctx, time.Until(staged.Add(s.linger)))
		c.gate.open()
	}
	w.calling.Wait()
	c.stack.AwaitAPI() // runs that were answered before the kill did not wait for it
	c.requireAlive()
	c.t.Logf("%s: %d runs under way within %.1fs, all ended %.1fs after the restart", w.victims, len(w.runs), staged.Sub(began).Seconds(),
		time.Since(w.restarted).Seconds())
	return c.inspect(w)
}

// wave is the calls of one strike.
type wave struct {
	victims   string
	runs      []*caller
	calling   sync.WaitGroup
	restarted time.Time
}

// launch starts one call of each verb, which the gate stops at the point.
func (c *crew) launch(ctx context.Context, w *wave, point string, verbs []string) (launched []*caller) {
	for _, verb := range verbs {
		c.serial++
		r := &caller{client: c.tenant.Runtime, observation: observation{
			id: fmt.Sprintf("%s-%s-%d", w.victims, point, c.serial), verb: verb, point: point, victim: w.victims,
		}}
		launched = append(launched, r)
		if point != anywhere {
			c.gate.arm(point, r.id)
		}
		w.calling.Go(func() {
			if point == anywhere {
				pause(ctx, rand.N(freeRun))
			}
			r.callUntilTerminal(ctx)
		})
	}
	w.runs = append(w.runs, launched...)
	return launched
}

// inspect completes the observations once their calls have ended.
func (c *crew) inspect(w *wave) []observation {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	ends := c.auditedEnds()
	out := make([]observation, 0, len(w.runs))
	for _, r := range w.runs {
		if r.status != "" {
			r.took = max(0, r.ended.Sub(w.restarted))
			r.repeat, r.repeatResult = r.again(ctx)
		}
		r.ends = ends[r.id]
		r.arrivals, r.effects = c.provider.counts(r.id)
		out = append(out, r.observation)
	}
	c.seen = append(c.seen, out...)
	return out
}

// recheck repeats every call that was ever answered as executed.
func (c *crew) recheck() []string {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	var broken []string
	for _, o := range c.seen {
		if o.status != statusExecuted {
			continue
		}
		r := &caller{client: c.tenant.Runtime, observation: o}
		r.repeat, r.repeatResult = r.again(ctx)
		r.arrivals, r.effects = c.provider.counts(o.id)
		broken = append(broken, r.violations()...)
	}
	return broken
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// kill ends the victim and all its descendants with SIGKILL. Postgres leads a
// process group of its own and each of its backends another, so the group that the
// rig kills is not all.
func (c *crew) kill(victim string) {
	c.t.Helper()
	tree := descendants(c.t, c.stack.Parts[victim].Pid())
	for _, pid := range tree {
		_ = syscall.Kill(pid, syscall.SIGKILL) // one that ended meanwhile is as good
	}
	c.stack.Kill(victim)
}

// descendants lists the processes below pid, parents before children: Postgres's
// postmaster must not live to see its backends die.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	children := map[int][]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		// "pid (name) state ppid …", where the name may contain anything.
		rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		require.NoError(t, err)
		parent, err := strconv.Atoi(strings.Fields(rest)[1])
		require.NoError(t, err)
		children[parent] = append(children[parent], child)
	}
	var all []int
	for next := children[pid]; len(next) > 0; {
		all = append(all, next...)
		var below []int
		for _, p := range next {
			below = append(below, children[p]...)
		}
		next = below
	}
	return all
}

func (c *crew) restart(victim string) {
	c.t.Helper()
	// That of the start before would be taken for the new one's.
	_ = os.Remove(filepath.Join(c.stack.Dir, victim+".json")) // api and worker have none
	c.stack.Restart(victim)
}

// requireAlive fails when a part ended that nobody killed.
func (c *crew) requireAlive() {
	c.t.Helper()
	for name, p := range c.stack.Parts {
		select {
		case <-p.Done():
			require.FailNow(c.t, name+" ended by itself", p.Log())
		default:
		}
	}
}

// requireDurable makes sure that the kills test a database that promises to lose nothing.
func (c *crew) requireDurable() {
	c.t.Helper()
	ctx := c.t.Context()
	conn, err := pgx.Connect(ctx, c.stack.DatabaseURL)
	require.NoError(c.t, err)
	defer conn.Close(ctx)
	var settings string
	require.NoError(c.t, conn.QueryRow(ctx, `SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings
		WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')`).Scan(&settings))
	require.Equal(c.t, "fsync=on full_page_writes=on synchronous_commit=on", settings)
}

// auditedEnds reads which ends of runs the audit knows, by execution id.
func (c *crew) auditedEnds() map[string][]string {
	c.t.Helper()
	ctx := c.t.Context()
	conn, err := pgx.Connect(ctx, c.stack.DatabaseURL)
	require.NoError(c.t, err)
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT execution_id, array_agg(action ORDER BY id) FROM audit_records
		WHERE action LIKE 'run.%' AND action NOT IN ('run.allowed', 'run.notified', 'run.retried', 'run.looked_up')
		  AND details->>'count' IS NULL -- calls that changed nothing
		GROUP BY execution_id`)
	require.NoError(c.t, err)
	ends := map[string][]string{}
	var id string
	var actions []string
	_, err = pgx.ForEachRow(rows, []any{&id, &actions}, func() error {
		ends[id] = actions
		return nil
	})
	require.NoError(c.t, err)
	return ends
}

// caller is one client with one id, which repeats its call until it knows.
type caller struct {
	observation
	client *rig.Client
	ended  time.Time
}

func (r *caller) callUntilTerminal(ctx context.Context) {
	var headers []string
	for ctx.Err() == nil {
		if status, _, result := r.call(headers...); status != "" { //nolint:contextcheck // the client has a time limit of its own
			r.status, r.result, r.ended = status, result, time.Now()
			return
		}
		headers = []string{"Prefer: wait=10"}
		pause(ctx, callPause)
	}
}

// again is the same call once more, for its fence status or that of its error.
func (r *caller) again(ctx context.Context) (string, json.RawMessage) {
	for ctx.Err() == nil {
		status, fence, result := r.call("Prefer: wait=10") //nolint:contextcheck // the client has a time limit of its own
		if status == statusExecuted {
			return fence, result
		}
		if status != "" {
			return status, result
		}
		pause(ctx, callPause)
	}
	return "", nil
}

// call makes the call. status is "" where the answer is not the end of it: no
// connection, unavailable, still running.
func (r *caller) call(headers ...string) (status, fence string, result json.RawMessage) {
	a := r.client.Do(http.MethodPost, "/v1/runtime/actions/run",
		map[string]any{"verb": r.verb, "args": arguments(r.verb, r.id), "execution_id": r.id}, headers...)
	var e rig.Envelope
	if a.Err != nil || json.Unmarshal(a.Body, &e) != nil {
		return "", "", nil
	}
	switch {
	case e.Error != nil && e.Error.Code == "SERVICE_UNAVAILABLE", a.Status == http.StatusAccepted:
		return "", "", nil
	case e.Error != nil && e.Error.Code == "OUTCOME_UNKNOWN":
		return statusUnknown, "", nil
	case e.Error != nil:
		return e.Error.Code + ": " + e.Error.Message, "", nil
	}
	var data rig.RunData
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return err.Error(), "", nil
	}
	return statusExecuted, data.FenceStatus, data.Result
}
