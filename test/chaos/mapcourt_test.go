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
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"agentruntime/test/rig"
)

// mapOfTwelve has twelve steps of all kinds that something can happen in: writes, a parallel block,
// waits for a time and for an event, another Map, an approval and a loop. Its writes can be told
// apart by n.
const mapOfTwelve = `{"schema_version":"1","name":"Twelve","steps":[
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

// innerMap is what the eighth step of mapOfTwelve starts.
const innerMap = `{"schema_version":"1","name":"Inner","steps":[
	{"id":"i1","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"8"}},
	{"id":"i2","type":"wait","for":"1s"},
	{"id":"i3","type":"transform","expr":"${steps.i1.output.n}"}]}`

// made are the writes of mapOfTwelve, by n; before9 those of its first eight steps.
func made() []string    { return []string{"1", "12", "13", "4", "6", "8", "9"} }
func before9() []string { return []string{"1", "4", "6", "8"} }

const effectsDocument = `{"openapi":"3.0.3","info":{"title":"Effects","version":"1"},
	"components":{"securitySchemes":{"key":{"type":"http","scheme":"bearer"}}},"security":[{"key":[]}],
	"paths":{"/make":{"post":{"operationId":"make","summary":"Make","x-agent-runtime":{"risk_level":"low","idempotency":"header:Idempotency-Key"},
		"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"string"}}}}}},
		"responses":{"200":{"description":"done","content":{"application/json":{"schema":{"type":"object"}}}}}}}}}`

// effects is a provider that recognizes a repeat by its key. The gate can stop its calls.
type effects struct {
	gate *gate

	mu   sync.Mutex
	keys map[string]map[string]map[string]bool // by id and n
	// refusing are the ids whose ninth step it refuses.
	refusing map[string]bool
}

// ServeHTTP implements http.Handler.
func (e *effects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var args struct{ ID, N string }
	if err != nil || json.Unmarshal(raw, &args) != nil {
		return // the sender was killed
	}
	call := args.ID + "|" + args.N
	e.gate.pass(r.Context(), inRequest, call)
	if r.Context().Err() != nil {
		return // it never arrived: no effect
	}
	w.Header().Set("Content-Type", "application/json")
	if e.refuses(args.ID, args.N) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"error":"not yet"}`)
		return
	}
	e.make(args.ID, args.N, r.Header.Get("Idempotency-Key"))
	e.gate.pass(r.Context(), inResponse, call)
	fmt.Fprintf(w, `{"id":%q,"n":%q}`, args.ID, args.N)
}

func (e *effects) refuses(id, n string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return n == "9" && e.refusing[id]
}

// refuse says whether the ninth step of the id is refused from now on.
func (e *effects) refuse(id string, refused bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refusing[id] = refused
}

func (e *effects) make(id, n, key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keys[id] == nil {
		e.keys[id] = map[string]map[string]bool{}
	}
	if e.keys[id][n] == nil {
		e.keys[id][n] = map[string]bool{}
	}
	e.keys[id][n][key] = true
}

// of returns what the id has made, each n as often as it was made, in order.
func (e *effects) of(id string) []string {
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
	tenant        *rig.Tenant
	events        *rig.Client
	// plain is the trace of an execution that nothing happened to, and boundaries where it came by.
	plain      mapTrace
	boundaries []boundary
}

// boundary is a place in an execution where a kill can fall.
type boundary struct {
	// point is a failpoint, inRequest and inResponse in the provider, or waits.
	point string
	// at is the place in the execution, after its session: "/sub" for what the other Map does, then
	// "|" and the path of a call, the n of a call at the provider, or the id of the step that waits.
	at string
	// nth is how often the execution came by, this time included.
	nth int
}

// waits is the point of an execution that waits in a step.
const waits = "waits"

func (b boundary) String() string { return fmt.Sprintf("%s%s#%d", b.point, b.at, b.nth) }

// The kinds of boundaries.
const (
	kindCall     = "call"
	kindWait     = "wait"
	kindApproval = "approval"
	kindSub      = "sub-Map"
	kindContinue = "continue"
	kindOther    = "other"
)

func (b boundary) kind() string {
	switch {
	case b.point == "map_begin" && b.nth > 1:
		return kindContinue
	case strings.HasPrefix(b.at, "/sub"), b.at == "|s8", b.at == "|8":
		return kindSub
	case strings.Contains(b.point, "map_ask"), strings.Contains(b.point, "map_count"), b.at == "|s10":
		return kindApproval
	case b.point == waits:
		return kindWait
	case b.at != "|":
		return kindCall
	default:
		return kindOther
	}
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
	effects *effects
	drivers []*mapDriver
	// struck counts the executions that a kill has met at their boundary.
	struck   int
	temporal client.Client
	db       *pgxpool.Pool
}

func newMapCourt(t *testing.T) *mapCourt {
	t.Helper()
	c := &mapCourt{crew: muster(t, "chaos")}
	c.effects = &effects{gate: c.gate, keys: map[string]map[string]map[string]bool{}, refusing: map[string]bool{}}
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
	for _, name := range []string{driverMap, driverRun} {
		d := &mapDriver{name: name, tenant: c.stack.NewTenant(rig.Address())}
		d.tenant.Runtime.HTTP.Timeout, d.tenant.User.HTTP.Timeout = callLimit, callLimit
		d.tenant.Connect(t, "effects", url, json.RawMessage(effectsDocument), "bearer", map[string]string{"token": "effects-token"})
		d.events = d.tenant.User.With(d.tenant.User.NewKey(t, "events:send").Key, "")
		if name == driverRun {
			d.tenant.User.NewPolicy(t, rig.RequireApproval("all calls", "effects:make", nil))
		}
		d.trigger = d.publish(t, fmt.Sprintf(mapOfTwelve, d.mapID(d.publish(t, innerMap))))
		c.drivers = append(c.drivers, d)
	}
	return c
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
// another one has started it, and the step that makes a call.
func (c *mapCourt) stepInDatabase(ctx context.Context, id string) (call string) {
	if c.db.QueryRow(ctx, `SELECT m.session_id || CASE WHEN m.depth > 0 THEN '/sub' ELSE '' END || '|' || coalesce(r.step, '')
		FROM map_executions m LEFT JOIN runs r ON r.id = $1 AND r.parent_id = m.execution_id AND r.tenant_id = m.tenant_id
		WHERE m.id = $1 OR r.id = $1`, id).Scan(&call) != nil {
		return "" // it is about something else; or the database was killed, and with it all that is to be stopped
	}
	return call
}

// requirePlain runs a Map of each driver that nothing happens to. Its trace is that of all others,
// and where it comes by, kills fall. The others run beside it.
func (c *mapCourt) requirePlain(others ...*trial) {
	c.t.Helper()
	heard := c.gate.listen()
	var trials []*trial
	for _, d := range c.drivers {
		trials = append(trials, c.newTrial(d, boundary{}))
	}
	began := time.Now()
	c.follow(append(others, trials...)...)
	passed := heard()
	for _, tr := range trials {
		c.inspectTrial(tr)
		require.Empty(c.t, tr.broken)
		require.Equal(c.t, "completed", tr.end.Status)
		tr.driver.plain = tr.trace
		times := map[stop]int{}
		for _, at := range passed {
			if place, own := strings.CutPrefix(at.call, tr.session); own {
				times[at]++
				tr.driver.boundaries = append(tr.driver.boundaries, boundary{at.point, place, times[at]})
			}
		}
		for _, step := range []string{"s5", "s7", "s8", "s10"} {
			tr.driver.boundaries = append(tr.driver.boundaries, boundary{waits, "|" + step, 1})
		}
		c.t.Logf("driven by %s: %d steps, %d boundaries, plain in %.1fs", tr.driver.name, len(tr.trace), len(tr.driver.boundaries), time.Since(began).Seconds())
	}
}

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

	mu sync.Mutex
	// withheld is the step whose event or decision does not come before the kill.
	withheld string
	// seen are the steps in which it was seen to wait; decided: a decision was taken for it.
	seen     map[string]bool
	decided  bool
	end      *mapExecution
	passedBy bool
	trace    mapTrace
	broken   []string
	took     time.Duration
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

func (c *mapCourt) newTrial(d *mapDriver, at boundary) *trial {
	c.serial++
	tr := &trial{c: c, driver: d, at: at, attempt: 1, seen: map[string]bool{}, session: fmt.Sprintf("twelve-%s-%d", d.name, c.serial)}
	if at.point == waits {
		tr.withheld = strings.TrimPrefix(at.at, "|")
	}
	return tr
}

// newFailing returns a trial that fails in its ninth step so many times.
func (c *mapCourt) newFailing(d *mapDriver, failures int) *trial {
	tr := c.newTrial(d, boundary{})
	tr.failures = failures
	c.effects.refuse(tr.session, true)
	return tr
}

// retry has the trial go on in its next attempt, at whose boundary a kill is to fall.
func (tr *trial) retry(at boundary) {
	tr.attempt++
	tr.at = at
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

// follow does what patient callers and people do until the trials have ended.
func (c *mapCourt) follow(trials ...*trial) {
	ctx, giveUp := context.WithTimeout(c.t.Context(), patience+stagingLimit)
	defer giveUp()
	var all sync.WaitGroup
	for _, tr := range trials {
		all.Go(func() { tr.follow(ctx) })
	}
	people, home := context.WithCancel(ctx)
	defer home()
	go c.approveCalls(people)
	all.Wait()
}

func (tr *trial) follow(ctx context.Context) {
	for ctx.Err() == nil && !tr.begin() { //nolint:contextcheck // the client has a time limit of its own
		pause(ctx, callPause)
	}
	var last mapExecution
	for ctx.Err() == nil {
		e, known := tr.look() //nolint:contextcheck // as above
		if known {
			last = e
		}
		if known && e.ended() && e.Attempt >= tr.attempt {
			tr.mu.Lock()
			tr.end = &e
			tr.mu.Unlock()
			return
		}
		if known && e.WaitingFor != nil {
			tr.attend(e) //nolint:contextcheck // as above
		}
		pause(ctx, 3*callPause)
	}
	others := tr.driver.tenant.User.Do(http.MethodGet, "/v1/executions?kind=map&session_id="+tr.session, nil) //nolint:contextcheck // as above
	tr.report("not terminal: %s in attempt %d, waits for %+v; %s", last.Status, last.Attempt, last.WaitingFor, others.Body)
}

// begin triggers the Map, or retries it. A call without an answer is repeated.
func (tr *trial) begin() bool {
	c, path, body, headers := tr.driver.tenant.Runtime, tr.driver.trigger, any(map[string]any{"session_id": tr.session, "payload": map[string]any{"id": tr.session}}), []string{"Prefer: wait=0"}
	if tr.attempt > 1 {
		c, path, body = tr.driver.tenant.User, tr.path+"/retry", nil
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
	switch {
	case withheld:
	case w.For == "event" && w.Step == "s7":
		tr.driver.events.Do(http.MethodPost, "/v1/events", map[string]any{
			"id": "go-" + tr.session, "type": "custom.go", "correlate": tr.session, "data": map[string]any{"n": 7},
		})
	case w.For == "approval" && w.Step == "s10" && w.ApprovalID != "":
		a := tr.driver.tenant.User.Decide(w.ApprovalID, "approve", nil)
		tr.mu.Lock()
		tr.decided = tr.decided || a.Status == http.StatusOK
		tr.mu.Unlock()
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
			a := d.tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending&kind=hold&limit=100", nil)
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
				go func() {
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

// isStaged reports whether the trial is where the kill is to find it, or has ended before.
func (tr *trial) isStaged() bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.end != nil {
		tr.passedBy = true
		return true
	}
	if tr.at.point == waits {
		return tr.seen[strings.TrimPrefix(tr.at.at, "|")]
	}
	return tr.c.gate.stops(tr.at.point, tr.session+tr.at.at)
}

// strike brings all trials to their boundaries, kills the victims and restarts them. The returned
// function sees the trials through, and returns what is wrong with them.
func (c *mapCourt) strike(trials []*trial, victims ...string) (verdict func() []string) {
	c.t.Helper()
	began, names := time.Now(), strings.Join(victims, "+")
	for _, tr := range trials {
		tr.passedBy, tr.end = false, nil
		if tr.at.point != waits {
			c.gate.armNth(tr.at.point, tr.session+tr.at.at, tr.at.nth)
		}
	}
	over := make(chan struct{})
	go func() {
		c.follow(trials...)
		close(over)
	}()
	for _, tr := range trials {
		rig.Until(c.t, stagingLimit, tr.String()+" is at its boundary", tr.isStaged)
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
		<-over
		c.stack.AwaitAPI()
		c.requireAlive()
		for _, tr := range trials {
			c.inspectTrial(tr)
			broken = append(broken, tr.broken...)
		}
		c.t.Logf("%s: all ended %.1fs after the restart", names, time.Since(restarted).Seconds())
		if 2*passed > len(trials) {
			broken = append(broken, fmt.Sprintf("%d of %d executions were not stopped", passed, len(trials)))
		}
		return broken
	}
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
			rig.Until(c.t, stagingLimit, "a decision for "+tr.String(), func() bool {
				tr.mu.Lock()
				defer tr.mu.Unlock()
				return tr.decided || tr.passedBy
			})
		}
	}
}

// inspectTrial judges an execution that has ended.
func (c *mapCourt) inspectTrial(tr *trial) {
	c.t.Helper()
	if tr.end == nil {
		return // it was reported
	}
	want, writes := "completed", made()
	if tr.failures >= tr.attempt {
		want, writes = "failed", before9()
	}
	if tr.end.Status != want {
		tr.report("ended as %s: %v", tr.end.Status, tr.end.Error)
		return
	}
	if got := c.effects.of(tr.session); !slices.Equal(got, writes) {
		tr.report("has made %v instead of %v", got, writes)
	}
	tr.trace = c.traceOf(tr)
	if want == "completed" && tr.driver.plain != nil {
		for path, is := range tr.trace {
			was := tr.driver.plain[path]
			if tr.failures > 0 && path == "/steps/5" {
				was.Attempts += tr.failures
			}
			if is != was {
				tr.report("%s is %+v instead of %+v", path, is, was)
			}
		}
		if len(tr.trace) != len(tr.driver.plain) {
			tr.report("has %d steps instead of %d", len(tr.trace), len(tr.driver.plain))
		}
	}
	c.inspectRows(tr)
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
	completed := 1
	if tr.end.Status != "completed" {
		completed = 0
	}
	for what, want := range map[string]int{
		`SELECT count(*) FROM map_executions WHERE session_id = $1 AND tenant_id = $3 AND length($2) > 0`:                                                   2,
		`SELECT count(*) FROM audit_records WHERE execution_id = $2 AND tenant_id = $3 AND action = 'map.ended' AND length($1) > 0`:                         tr.attempt,
		`SELECT count(*) FROM audit_records WHERE execution_id = $2 AND tenant_id = $3 AND action = 'approval.approved' AND length($1) > 0`:                 completed,
		`SELECT count(*) FROM events WHERE execution_id = $2 AND tenant_id = $3 AND type = 'map.completed' AND length($1) > 0`:                              completed,
		`SELECT count(*) FROM events WHERE execution_id = $2 AND tenant_id = $3 AND type = 'map.failed' AND length($1) > 0`:                                 tr.attempt - completed,
		`SELECT count(*) FROM approvals WHERE tenant_id = $3 AND execution_id = $2 AND status = 'pending' AND length($1) > 0`:                               0,
		`SELECT count(*) FROM map_executions WHERE session_id = $1 AND tenant_id = $3 AND finished_at IS NULL AND length($2) > 0`:                           0,
		`SELECT count(*) FROM runs r JOIN map_executions m ON m.execution_id = r.parent_id WHERE m.session_id = $1 AND m.tenant_id = $3 AND length($2) > 0`: len(c.effects.of(tr.session)) + min(tr.failures, tr.attempt),
	} {
		var got int
		require.NoError(c.t, c.db.QueryRow(ctx, what, tr.session, tr.end.ExecutionID, tr.driver.tenant.ID).Scan(&got))
		if got != want {
			tr.report("%d instead of %d: %s", got, want, what)
		}
	}
	rig.Until(c.t, terminalLimit, "the workflow of "+tr.session+" closes", func() bool {
		d, err := c.temporal.DescribeWorkflowExecution(ctx, tr.end.WorkflowID, "")
		return err == nil && d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	})
}
