package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// mapOfTwelve has writes, a parallel block, waits and an approval. Its writes can be told apart by n.
const mapOfTwelve = `{"schema_version":"1","name":"Twelve","steps":[
	{"id":"s1","type":"verb","verb":"effects:make","args":{"n":"1"}},
	{"id":"s2","type":"transform","expr":"${steps.s1.output.n}"},
	{"id":"s3","type":"verb","verb":"effects:make","args":{"n":"3"}},
	{"id":"s4","type":"parallel","branches":[
		{"id":"a","steps":[{"id":"s5","type":"verb","verb":"effects:make","args":{"n":"5"}}]},
		{"id":"b","steps":[{"id":"s6","type":"wait","for":"1s"},{"id":"s7","type":"verb","verb":"effects:make","args":{"n":"7"}}]}]},
	{"id":"s8","type":"set","assign":{"seen":"${steps.s4.output}"}},
	{"id":"s9","type":"wait","for":"1s"},
	{"id":"ask","type":"approval","title":"Go on?"},
	{"id":"s10","type":"verb","verb":"effects:make","args":{"n":"10"}},
	{"id":"s11","type":"foreach","items":["12","13"],"steps":[{"id":"s12","type":"verb","verb":"effects:make","args":{"n":"${item}"}}]}],
	"output":"${steps.s11.output | length}"}`

// effects is a provider that recognizes a repeat by its key, and tells of each call that comes.
type effects struct {
	mu   sync.Mutex
	keys map[string]map[string]bool // by n
	met  func(n string)
	// refused is the n that it refuses, without an effect.
	refused string
}

// ServeHTTP implements http.Handler.
func (e *effects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var args struct{ N string }
	_ = json.Unmarshal(raw, &args)
	w.Header().Set("Content-Type", "application/json")
	if !e.make(args.N, r.Header.Get("Idempotency-Key")) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"error":"not yet"}`)
		return
	}
	if e.met != nil {
		e.met(args.N)
	}
	fmt.Fprintf(w, `{"n":%q}`, args.N)
}

// make notes an effect; it returns false where n is refused.
func (e *effects) make(n, key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n == e.refused {
		return false
	}
	if e.keys[n] == nil {
		e.keys[n] = map[string]bool{}
	}
	e.keys[n][key] = true
	return true
}

func (e *effects) refuse(n string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refused = n
}

const effectsDocument = `{"openapi":"3.0.3","info":{"title":"Effects","version":"1"},
	"components":{"securitySchemes":{"key":{"type":"http","scheme":"bearer"}}},"security":[{"key":[]}],
	"paths":{"/make":{"post":{"operationId":"make","summary":"Make","x-agent-runtime":{"idempotency":"header:Idempotency-Key"},
		"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"n":{"type":"string"}}}}}},
		"responses":{"200":{"description":"done","content":{"application/json":{"schema":{"type":"object"}}}}}}}}}`

// asks stands for the n of a call where the Map waits for people.
const asks = "ask"

// Each part is killed while the Map makes one of its calls, and one while it waits for people, who
// decide before the part is back. It ends with the same trace, and no effect happens twice.
func TestMapsEachPartKilledKeepTheirTrace(t *testing.T) {
	t.Parallel()
	s := rig.Split(t, rig.SplitOptions{})
	plain := newTwelve(t, s).run("", "")
	require.Len(t, plain, 14)
	for _, at := range [][2]string{{"worker", "5"}, {"api", "3"}, {"temporal", "7"}, {"postgres", "12"}, {"worker", asks}} {
		require.Equal(t, plain, newTwelve(t, s).run(at[0], at[1]), "%s killed at %s", at[0], at[1])
	}
	// It fails, and the worker is killed while it is retried.
	w := newTwelve(t, s)
	w.effects.refuse("10")
	w.wants = "failed"
	failed := w.run("", "")
	require.Equal(t, "failed", failed["/steps/7"])
	require.Len(t, w.effects.keys, 4)
	w.effects.refuse("")
	w.wants = "completed"
	require.Equal(t, plain, w.run("worker", "10"))
}

// twelve is a tenant with the Map, and one execution of it.
type twelve struct {
	t       *testing.T
	stack   *rig.Stack
	tenant  *rig.Tenant
	effects *effects
	trigger string
	// path is that of the execution, once it is known; a further run retries it.
	path string
	// wants is the status at the end.
	wants string
	// victim is killed at the call of n, or at asks. Then struck is closed.
	victim, at string
	struck     chan struct{}
	once       *sync.Once
}

func newTwelve(t *testing.T, s *rig.Stack) *twelve {
	t.Helper()
	w := &twelve{t: t, stack: s, tenant: s.NewTenant(rig.Address()), effects: &effects{keys: map[string]map[string]bool{}}, wants: "completed"}
	w.effects.met = func(n string) {
		if n == w.at {
			w.kill()
		}
	}
	w.tenant.Connect(t, "effects", rig.Serve(t, w.effects), json.RawMessage(effectsDocument), "bearer", map[string]string{"token": "effects-token"})
	a := w.tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(mapOfTwelve))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	w.trigger = a.Header.Get("Location") + "/trigger"
	return w
}

func (w *twelve) kill() {
	w.once.Do(func() {
		w.stack.Kill(w.victim)
		close(w.struck)
	})
}

// run triggers the Map, or retries it, and kills the part when the call of n comes, or while it asks. It
// returns the status of each step by its path.
func (w *twelve) run(victim, at string) map[string]string {
	w.t.Helper()
	w.victim, w.at, w.struck, w.once = victim, at, make(chan struct{}), &sync.Once{}
	if w.path == "" {
		w.tenant.Runtime.Do(http.MethodPost, w.trigger, map[string]any{"session_id": "twelve"}, "Prefer: wait=0")
	} else {
		a := w.tenant.User.Do(http.MethodPost, w.path+"/retry", nil, "Prefer: wait=0")
		require.Equal(w.t, http.StatusAccepted, a.Status, "%s", a.Body)
	}
	var out mapEnd
	rig.Until(w.t, 3*time.Minute, "the Map has ended", func() bool {
		w.decide()
		w.restart()
		out = w.look()
		return out.Status == "completed" || out.Status == "failed"
	})
	w.restart()
	if victim != "" {
		require.Empty(w.t, w.victim, "no part was killed")
	}
	require.Equal(w.t, w.wants, out.Status, "%s", out.Output)
	w.requireEffects(out)
	steps := map[string]string{}
	for _, step := range out.Steps {
		steps[step.Path] = step.Status
	}
	return steps
}

// decide approves what the Map asks. Where the part is to be killed there, that comes first.
func (w *twelve) decide() {
	a := w.tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending&kind=step", nil)
	var page struct{ Data []struct{ ID string } }
	if a.Err != nil || a.Status != http.StatusOK || json.Unmarshal(a.Body, &page) != nil || len(page.Data) == 0 {
		return
	}
	if w.at == asks {
		w.kill()
	}
	w.tenant.User.Decide(page.Data[0].ID, "approve", nil)
}

// restart starts the part again that was killed.
func (w *twelve) restart() {
	select {
	case <-w.struck:
		if w.victim != "" {
			w.stack.Restart(w.victim)
			w.stack.AwaitAPI()
			w.victim = ""
		}
	default:
	}
}

// mapEnd is what these tests read of an execution.
type mapEnd struct {
	ExecutionID string `json:"execution_id"`
	Status      string
	Output      json.RawMessage
	Steps       []struct{ Path, Status string }
}

// look reads how far the execution is. Until it is known, the trigger is repeated, as a caller does who
// got no answer.
func (w *twelve) look() (out mapEnd) {
	var a rig.Answer
	if w.path == "" {
		a = w.tenant.Runtime.Do(http.MethodPost, w.trigger, map[string]any{"session_id": "twelve"}, "Prefer: wait=0")
	} else {
		a = w.tenant.Runtime.Do(http.MethodGet, w.path, nil, "Prefer: wait=1")
	}
	var e struct{ Data mapEnd }
	if a.Err != nil || a.Status >= http.StatusBadRequest || json.Unmarshal(a.Body, &e) != nil {
		return out
	}
	if w.path == "" {
		w.path = "/v1/executions/" + e.Data.ExecutionID
		return out
	}
	return e.Data
}

// requireEffects checks that each write has happened once.
func (w *twelve) requireEffects(out mapEnd) {
	w.t.Helper()
	w.effects.mu.Lock()
	defer w.effects.mu.Unlock()
	for n, keys := range w.effects.keys {
		require.Len(w.t, keys, 1, "the effect of %s", n)
	}
	if out.Status == "completed" {
		require.Equal(w.t, "2", string(out.Output))
		require.Len(w.t, w.effects.keys, 7)
	}
}
