//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"agentruntime/test/rig"
)

// mapOfKinds has twelve steps of all kinds that something can happen in: writes, a parallel block,
// waits for a time and for an event, another Map, an approval and a loop. Its writes can be told
// apart by n.
const mapOfKinds = `{"schema_version":"1","name":"Twelve","steps":[
	{"id":"s1","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"1"}},
	{"id":"s2","type":"transform","expr":"${[range(3)] | map(. * 2) | add}"},
	{"id":"s3","type":"parallel","branches":[
		{"id":"a","steps":[{"id":"s4","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"4"}}]},
		{"id":"b","steps":[{"id":"s5","type":"wait","for":"1s"},
			{"id":"s6","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"6"}}]}]},
	{"id":"s7","type":"wait","event":{"type":"custom.go","correlate":"${trigger_data.id}"}},
	{"id":"s8","type":"map","map_id":"%s","payload":{"id":"${trigger_data.id}"}},
	{"id":"s9","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"9"}},
	{"id":"s10","type":"approval","title":"Go on?","payload":{"n":"${steps.s9.output.n}"}},
	{"id":"s11","type":"foreach","items":["12","13"],"steps":[
		{"id":"s12","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"${item}"}}]}],
	"output":{"made":"${steps.s11.output | length}","by":"${steps.s10.output.decision}","event":"${steps.s7.output.data.n}","sub":"${steps.s8.output}"}}`

// innerMap is what the eighth step of mapOfKinds starts.
const innerMap = `{"schema_version":"1","name":"Inner","steps":[
	{"id":"i1","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"8"}},
	{"id":"i2","type":"wait","for":"1s"},
	{"id":"i3","type":"transform","expr":"${steps.i1.output.n}"}]}`

// mapStory is what an execution of a Map does that nothing happens to.
type mapStory struct {
	name       string
	definition string
	// inner is the Map that it starts; its id is a part of the definition. "" for none.
	inner string
	// ends is the status at the end.
	ends string
	// made are its writes, by n, in order of the texts; ordered: they come in this order too.
	made, ordered []string
	// waits are the steps in which a kill can find it wait.
	waits []string
	// cancelled is the step in which the caller cancels it; "" for none.
	cancelled string
	// block is the path of the block before that step. A cancel can be taken when the task that ended it was
	// lost. "" for none.
	block string
	// after is the n of the write after which kills fall; "" for kills from the begin.
	after string
	// approvals is how many people decide in its approval steps.
	approvals int
	// failing is the path of the step s9, which the provider can refuse, and before are the writes that are
	// made when it fails, by n. "" and nil for a Map without one.
	failing string
	before  []string
	// reads are the paths of steps that read. again says which steps run again in a retry, by their paths:
	// from which steps it begins then.
	reads []string
	again map[string][]string
}

func storyOfKinds() *mapStory {
	return &mapStory{
		name: "twelve", definition: mapOfKinds, inner: innerMap, ends: "completed", made: []string{"1", "12", "13", "4", "6", "8", "9"},
		waits: []string{"s5", "s7", "s8", "s10"}, approvals: 1, failing: "/steps/5", before: []string{"1", "4", "6", "8"},
	}
}

const madeDocument = `{"openapi":"3.0.3","info":{"title":"Effects","version":"1"},
	"components":{"securitySchemes":{"key":{"type":"http","scheme":"bearer"}}},"security":[{"key":[]}],
	"paths":{"/look":{"get":{"operationId":"look","summary":"Look",
		"parameters":[{"name":"id","in":"query","schema":{"type":"string"}},{"name":"n","in":"query","schema":{"type":"string"}}],
		"responses":{"200":{"description":"done","content":{"application/json":{"schema":{"type":"object"}}}}}}},
	"/make":{"post":{"operationId":"make","summary":"Make","x-agent-runtime":{"risk_level":"low","idempotency":"header:Idempotency-Key"},
		"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"string"}}}}}},
		"responses":{"200":{"description":"done","content":{"application/json":{"schema":{"type":"object"}}}}}}}}}`

// makers is a provider that recognizes a repeat by its key. The gate can stop its calls.
type makers struct {
	gate *gate

	mu   sync.Mutex
	keys map[string]map[string]map[string]bool // by id and n
	// order has the n of each id in the order in which they were made first.
	order map[string][]string
	// refusing are the ids whose ninth step it refuses.
	refusing map[string]bool
}

// ServeHTTP implements http.Handler.
func (e *makers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	args, reads := struct{ ID, N string }{r.URL.Query().Get("id"), r.URL.Query().Get("n")}, r.Method == http.MethodGet
	if err != nil || !reads && json.Unmarshal(raw, &args) != nil {
		return // the sender was killed
	}
	call := args.ID + "|" + args.N
	e.gate.pass(r.Context(), inRequest, call)
	if r.Context().Err() != nil {
		return // it never arrived: no effect
	}
	w.Header().Set("Content-Type", "application/json")
	if !reads && e.refuses(args.ID, args.N) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"error":"not yet"}`)
		return
	}
	if !reads {
		e.make(args.ID, args.N, r.Header.Get("Idempotency-Key"))
	}
	e.gate.pass(r.Context(), inResponse, call)
	fmt.Fprintf(w, `{"id":%q,"n":%q}`, args.ID, args.N)
}

func (e *makers) refuses(id, n string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return n == "9" && e.refusing[id]
}

// refuse says whether the ninth step of the id is refused from now on.
func (e *makers) refuse(id string, refused bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refusing[id] = refused
}

func (e *makers) make(id, n, key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keys[id] == nil {
		e.keys[id] = map[string]map[string]bool{}
	}
	if e.keys[id][n] == nil {
		e.keys[id][n] = map[string]bool{}
		e.order[id] = append(e.order[id], n)
	}
	e.keys[id][n][key] = true
}

// inOrder returns what the id has made, in the order in which it was made first.
func (e *makers) inOrder(id string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.order[id])
}

// last returns what the id has made last for the first time, "" for nothing yet.
func (e *makers) last(id string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if made := e.order[id]; len(made) > 0 {
		return made[len(made)-1]
	}
	return ""
}

// of returns what the id has made, each n as often as it was made, in order.
func (e *makers) of(id string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := []string{}
	for n, keys := range e.keys[id] {
		list = append(list, slices.Repeat([]string{n}, len(keys))...)
	}
	slices.Sort(list)
	return list
}

// The kinds of drivers of the calls of a Map.
const (
	driverMap = "map" // its own workflow
	driverRun = "run" // a workflow of each call, because people are asked first
)

// mapDriver is a tenant whose Map is driven so.
type mapDriver struct {
	name, trigger string
	story         *mapStory
	tenant        *rig.Tenant
	events        *rig.Client
	// plain is the trace of an execution that nothing happened to, and boundaries where it came by.
	plain      mapTrace
	boundaries []boundary
	// failed is the trace of an execution to which only its failure happened; nil where that is not compared.
	failed mapTrace
}

// mapTrace is what each step of an execution has done, by its path; those of the other Map begin
// with "sub:".
type mapTrace map[string]stepTrace

type stepTrace struct {
	Status   string
	Attempts int
	Output   string
	Error    string
}

// mapCourt runs the service for executions of Maps.
type mapCourt struct {
	*crew
	effects *makers
	drivers []*mapDriver
	// struck counts the executions that a kill has met at their boundary.
	struck int
	// followed is how many executions are followed. moved is when one of them was last seen to go on.
	followed atomic.Int32
	moved    atomic.Pointer[time.Time]
	temporal client.Client
	db       *pgxpool.Pool
}

func newMapCourt(t *testing.T) *mapCourt {
	t.Helper()
	return newCourtOf(t, storyOfKinds())
}

// newCourtOf is a court with both drivers for the Map of each story.
func newCourtOf(t *testing.T, stories ...*mapStory) *mapCourt {
	t.Helper()
	c := &mapCourt{crew: muster(t, "chaos")}
	c.effects = &makers{gate: c.gate, keys: map[string]map[string]map[string]bool{}, order: map[string][]string{}, refusing: map[string]bool{}}
	pool, err := pgxpool.New(t.Context(), c.stack.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	c.db = pool
	c.gate.callOf = c.stepInDatabase
	temporal, err := client.Dial(client.Options{HostPort: c.stack.TemporalAddress, Logger: quiet{}})
	require.NoError(t, err)
	t.Cleanup(temporal.Close)
	c.temporal = temporal
	url := rig.Serve(t, c.effects)
	for _, story := range stories {
		for _, name := range []string{driverMap, driverRun} {
			c.drivers = append(c.drivers, c.newDriver(name, story, url))
		}
	}
	return c
}

func (c *mapCourt) newDriver(name string, story *mapStory, url string) *mapDriver {
	c.t.Helper()
	d := &mapDriver{name: name, story: story, tenant: c.stack.NewTenant(rig.Address())}
	d.tenant.Runtime.HTTP.Timeout, d.tenant.User.HTTP.Timeout = callLimit, callLimit
	d.tenant.Connect(c.t, "effects", url, json.RawMessage(madeDocument), "bearer", map[string]string{"token": "effects-token"})
	d.events = d.tenant.User.With(d.tenant.User.NewKey(c.t, "events:send").Key, "")
	if name == driverRun {
		d.tenant.User.NewPolicy(c.t, rig.RequireApproval("all calls", "effects:make", map[string]any{"self_approval": true}))
	}
	definition := story.definition
	if story.inner != "" {
		definition = fmt.Sprintf(definition, d.mapID(d.publish(c.t, story.inner)))
	}
	d.trigger = d.publish(c.t, definition)
	return d
}

// publish makes a Map and returns the path of its trigger.
func (d *mapDriver) publish(t *testing.T, definition string) string {
	t.Helper()
	a := d.tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(definition))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	return a.Header.Get("Location") + "/trigger"
}

func (d *mapDriver) mapID(trigger string) string {
	return strings.TrimSuffix(strings.TrimPrefix(trigger, "/v1/maps/"), "/trigger")
}

// stepInDatabase names what a failpoint is about: the session of the execution, "/sub" where
// another one has started it, and the step that makes a call, or what was written before a point of
// repeats.
func (c *mapCourt) stepInDatabase(ctx context.Context, point, id string) (call string) {
	if c.db.QueryRow(ctx, `SELECT m.session_id || CASE WHEN m.depth > 0 THEN '/sub' ELSE '' END || '|' || coalesce(r.step, '')
		FROM map_executions m LEFT JOIN runs r ON r.id = $1 AND r.parent_id = m.execution_id AND r.tenant_id = m.tenant_id
		WHERE m.id = $1 OR r.id = $1`, id).Scan(&call) != nil {
		return "" // it is about something else; or the database was killed, and with it all that is to be stopped
	}
	if repeats(point) {
		call += "@" + c.effects.last(call[:strings.IndexAny(call, "/|")])
	}
	return call
}

// strike brings all trials to their boundaries, kills the victims and restarts them. The returned
// function sees the trials through, and returns what is wrong with them.
func (c *mapCourt) strike(trials []*trial, victims ...string) (verdict func() []string) {
	c.t.Helper()
	began, names := time.Now(), strings.Join(victims, "+")
	c.mark()
	for _, tr := range trials {
		tr.passedBy, tr.end = false, nil
		if tr.at.point != waits {
			c.gate.armNth(tr.at.point, tr.session+tr.at.at, tr.at.nth)
		}
	}
	// What is stopped in a transaction takes a connection of the pool with each repeat, and timers do
	// not wait. So these come last.
	var over sync.WaitGroup
	early, late := partition(trials)
	var ended time.Time
	var last sync.Mutex
	for _, group := range [][]*trial{early, late} {
		over.Go(func() {
			c.follow(group...)
			last.Lock()
			defer last.Unlock()
			ended = time.Now()
		})
		for _, tr := range group {
			c.awaitStaged(tr)
		}
	}
	staged := time.Now()
	for _, victim := range victims {
		c.kill(victim)
	}
	// Events and decisions come while the victims are away.
	c.release(trials)
	c.gate.open()
	if !slices.Contains(victims, victimAPI) && !slices.Contains(victims, victimPostgres) {
		c.awaitDecisions(trials)
	}
	pause(c.t.Context(), moment)
	restarted := time.Now()
	for _, victim := range victims {
		c.restart(victim)
	}
	passed := 0
	for _, tr := range trials {
		if tr.passedBy {
			passed++
			c.t.Logf("%s was not stopped at its boundary", tr)
		}
	}
	c.struck += len(trials) - passed
	c.t.Logf("%s: %d executions at their boundaries within %.1fs, %d passed them", names, len(trials), staged.Sub(began).Seconds(), passed)
	return func() (broken []string) {
		over.Wait()
		c.stack.AwaitAPI()
		c.requireAlive()
		for _, tr := range trials {
			c.inspectTrial(tr)
			broken = append(broken, tr.broken...)
		}
		c.t.Logf("%s: all ended %.1fs after the restart", names, ended.Sub(restarted).Seconds())
		// One of a few may always pass.
		if passed > 1 && 10*passed > len(trials) {
			broken = append(broken, fmt.Sprintf("%d of %d executions were not stopped", passed, len(trials)))
		}
		return broken
	}
}

// judge reports what is wrong with a wave. The next waves run all the same.
func (c *mapCourt) judge(verdict func() []string) {
	c.t.Helper()
	for _, broken := range verdict() {
		c.t.Error(broken)
	}
}

// awaitStaged waits until the trial is at its boundary. It gives up where nothing goes on, not after a
// time: a busy machine may take any.
func (c *mapCourt) awaitStaged(tr *trial) {
	c.t.Helper()
	told := time.Now()
	for !tr.isStaged() {
		if time.Since(told) > 20*time.Second {
			told = time.Now()
			c.t.Logf("waiting for %s", tr)
		}
		if c.isStuck() {
			require.FailNow(c.t, tr.String()+" does not come to its boundary")
		}
		pause(c.t.Context(), callPause)
	}
}

// mark notes that an execution went on.
func (c *mapCourt) mark() {
	now := time.Now()
	c.moved.Store(&now)
}

// stuckAfter is more than the longest wait of an execution: for a repeat of an attempt, or the sweeper.
const stuckAfter = patience + stagingLimit

// isStuck reports whether no execution went on for longer than that.
func (c *mapCourt) isStuck() bool { return time.Since(*c.moved.Load()) > stuckAfter }

// look is how long the follower of an execution waits before it looks again. All together look so
// often that the service has time for other things.
func (c *mapCourt) look() time.Duration {
	return max(3*callPause, time.Duration(c.followed.Load())*lookTime)
}

// lookTime is the share of a look in the time of all.
const lookTime = 40 * time.Millisecond

// listen has the gate note what passes; the returned function ends that and returns what did.
func (g *gate) listen() (heard func() []stop) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listening = true
	return func() []stop {
		g.mu.Lock()
		defer g.mu.Unlock()
		all := g.heard
		g.listening, g.heard = false, nil
		return all
	}
}

// partition returns the trials in two groups: the second is brought to its boundaries after the first.
func partition(trials []*trial) (early, late []*trial) {
	for _, tr := range trials {
		inTransaction := tr.at.point == "in_count" || tr.at.point == "in_map_count"
		if inTransaction || tr.at == (boundary{waits, "|s5", 1}) || tr.at == (boundary{waits, "|s8", 1}) {
			late = append(late, tr)
		} else {
			early = append(early, tr)
		}
	}
	return early, late
}

func (c *mapCourt) release(trials []*trial) {
	for _, tr := range trials {
		tr.mu.Lock()
		tr.withheld = ""
		tr.mu.Unlock()
	}
}

// awaitDecisions waits until people have decided what was withheld.
func (c *mapCourt) awaitDecisions(trials []*trial) {
	c.t.Helper()
	for _, tr := range trials {
		if tr.at.point == waits && tr.at.at == "|s10" {
			rig.Until(c.t, stuckAfter, "a decision for "+tr.String(), func() bool {
				tr.mu.Lock()
				defer tr.mu.Unlock()
				return tr.decided || tr.passedBy
			})
		}
	}
}
