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

// mapOfTwelve has writes, a parallel block and waits. Its writes can be told apart by n.
const mapOfTwelve = `{"schema_version":"1","name":"Twelve","steps":[
	{"id":"s1","type":"verb","verb":"effects:make","args":{"n":"1"}},
	{"id":"s2","type":"transform","expr":"${steps.s1.output.n}"},
	{"id":"s3","type":"verb","verb":"effects:make","args":{"n":"3"}},
	{"id":"s4","type":"parallel","branches":[
		{"id":"a","steps":[{"id":"s5","type":"verb","verb":"effects:make","args":{"n":"5"}}]},
		{"id":"b","steps":[{"id":"s6","type":"wait","for":"1s"},{"id":"s7","type":"verb","verb":"effects:make","args":{"n":"7"}}]}]},
	{"id":"s8","type":"set","assign":{"seen":"${steps.s4.output}"}},
	{"id":"s9","type":"wait","for":"1s"},
	{"id":"s10","type":"verb","verb":"effects:make","args":{"n":"10"}},
	{"id":"s11","type":"foreach","items":["12","13"],"steps":[{"id":"s12","type":"verb","verb":"effects:make","args":{"n":"${item}"}}]}],
	"output":"${steps.s11.output | length}"}`

// effects is a provider that recognizes a repeat by its key, and tells of each call that comes.
type effects struct {
	mu   sync.Mutex
	keys map[string]map[string]bool // by n
	met  func(n string)
}

// ServeHTTP implements http.Handler.
func (e *effects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var args struct{ N string }
	_ = json.Unmarshal(raw, &args)
	e.mu.Lock()
	if e.keys[args.N] == nil {
		e.keys[args.N] = map[string]bool{}
	}
	e.keys[args.N][r.Header.Get("Idempotency-Key")] = true
	e.mu.Unlock()
	if e.met != nil {
		e.met(args.N)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"n":%q}`, args.N)
}

const effectsDocument = `{"openapi":"3.0.3","info":{"title":"Effects","version":"1"},
	"components":{"securitySchemes":{"key":{"type":"http","scheme":"bearer"}}},"security":[{"key":[]}],
	"paths":{"/make":{"post":{"operationId":"make","summary":"Make","x-agent-runtime":{"idempotency":"header:Idempotency-Key"},
		"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"n":{"type":"string"}}}}}},
		"responses":{"200":{"description":"done","content":{"application/json":{"schema":{"type":"object"}}}}}}}}}`

// Each part is killed while the Map makes one of its calls. It ends with the same trace, and no
// effect happens twice.
func TestMapsEachPartKilledKeepTheirTrace(t *testing.T) {
	t.Parallel()
	s := rig.Split(t, rig.SplitOptions{})
	plain := runTwelve(t, s, "", "")
	require.Len(t, plain, 13)
	for victim, at := range map[string]string{"worker": "5", "api": "3", "temporal": "7", "postgres": "12"} {
		require.Equal(t, plain, runTwelve(t, s, victim, at), "%s killed at %s", victim, at)
	}
}

// runTwelve runs the Map and kills the part when the call of n comes. It returns the status of each
// step by its path.
func runTwelve(t *testing.T, s *rig.Stack, victim, n string) map[string]string {
	t.Helper()
	tenant := s.NewTenant(rig.Address())
	e := &effects{keys: map[string]map[string]bool{}}
	struck, once := make(chan struct{}), sync.Once{}
	if victim != "" {
		e.met = func(met string) {
			if met == n {
				once.Do(func() {
					s.Kill(victim)
					close(struck)
				})
			}
		}
	}
	tenant.Connect(t, "effects", rig.Serve(t, e), json.RawMessage(effectsDocument), "bearer", map[string]string{"token": "effects-token"})
	a := tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(mapOfTwelve))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	trigger := a.Header.Get("Location") + "/trigger"
	tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"session_id": "twelve"}, "Prefer: wait=0")
	if victim != "" {
		select {
		case <-struck:
		case <-time.After(stagingLimit):
			require.FailNow(t, "the call did not come")
		}
		s.Restart(victim)
		s.AwaitAPI()
	}
	var out struct {
		Status string
		Output json.RawMessage
		Steps  []struct{ Path, Status string }
	}
	rig.Until(t, 3*time.Minute, "the Map has ended", func() bool {
		// The trigger is repeated, as a caller does who got no answer.
		again := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"session_id": "twelve"}, "Prefer: wait=20")
		if again.Err != nil || again.Status != http.StatusOK {
			return false
		}
		var done struct {
			ExecutionID string `json:"execution_id"`
		}
		again.Data(t, &done)
		tenant.Runtime.Do(http.MethodGet, "/v1/executions/"+done.ExecutionID, nil).Data(t, &out)
		return true
	})
	require.Equal(t, "completed", out.Status)
	require.Equal(t, "2", string(out.Output))
	e.mu.Lock()
	defer e.mu.Unlock()
	require.Len(t, e.keys, 7)
	for n, keys := range e.keys {
		require.Len(t, keys, 1, "the effect of %s", n)
	}
	steps := map[string]string{}
	for _, step := range out.Steps {
		steps[step.Path] = step.Status
	}
	return steps
}
