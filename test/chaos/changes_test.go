package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

const countedDocument = `{"openapi":"3.0.3","info":{"title":"Counted","version":"1"},
	"components":{"securitySchemes":{"key":{"type":"http","scheme":"bearer"}}},"security":[{"key":[]}],
	"paths":{"/add":{"post":{"operationId":"add","summary":"Add","x-agent-runtime":{"idempotency":"header:Idempotency-Key"},
		"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"n":{"type":"string"}}}}}},
		"responses":{"200":{"description":"done","content":{"application/json":{"schema":{"type":"object"}}}}}}}}}`

// counted is a provider that recognizes a repeat by its key. It remembers the effects in their order.
type counted struct {
	mu      sync.Mutex
	keys    map[string]bool
	effects []string
	heard   []string // all requests, with their keys and bodies
	met     func(n string)
}

// ServeHTTP implements http.Handler.
func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var args struct{ N string }
	_ = json.Unmarshal(raw, &args)
	key := r.Header.Get("Idempotency-Key")
	c.mu.Lock()
	c.heard = append(c.heard, fmt.Sprintf("%s %s from %s by %s with %q: %q", r.Method, r.URL, r.RemoteAddr, r.UserAgent(), key, raw))
	if !c.keys[key] {
		c.keys[key] = true
		c.effects = append(c.effects, args.N)
	}
	c.mu.Unlock()
	c.met(args.N)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"n":%q}`, "real-"+args.N)
}

// Each part is killed while a change of a dry run is applied. The apply goes on, in the order of the
// list, and no effect happens twice.
func TestChangesEachPartKilledAreAppliedOnce(t *testing.T) {
	t.Parallel()
	s := rig.Split(t, rig.SplitOptions{})
	for _, victim := range victims() {
		struck, once := make(chan struct{}), sync.Once{}
		c := &counted{keys: map[string]bool{}, met: func(n string) {
			if n == "2" {
				once.Do(func() {
					s.Kill(victim)
					close(struck)
				})
			}
		}}
		tenant := s.NewTenant(rig.Address())
		tenant.Connect(t, "counted", rig.Serve(t, c), json.RawMessage(countedDocument), "bearer", map[string]string{"token": "counted-token"})
		a := tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(`{"schema_version":"1","name":"Three","steps":[
			{"id":"one","type":"verb","verb":"counted:add","args":{"n":"1"},"mock":{"n":"?"}},
			{"id":"two","type":"verb","verb":"counted:add","args":{"n":"2"}},
			{"id":"three","type":"verb","verb":"counted:add","args":{"n":"${steps.one.output.n}"}}]}`))
		require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
		var dry struct {
			ExecutionID string `json:"execution_id"`
		}
		a = tenant.Runtime.Do(http.MethodPost, a.Header.Get("Location")+"/trigger", map[string]any{"dryRun": true}, "Prefer: wait=60")
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		a.Data(t, &dry)

		decide, all := "/v1/executions/"+dry.ExecutionID+"/changes/decide", map[string]any{"approve": "all"}
		tenant.User.Do(http.MethodPost, decide, all)
		select {
		case <-struck:
		case <-time.After(stagingLimit):
			require.FailNow(t, "the call did not come")
		}
		s.Restart(victim)
		s.AwaitAPI()
		rig.Until(t, 3*time.Minute, "the changes are applied", func() bool {
			var set struct{ Status string }
			// The decision is repeated, as a caller does who got no answer.
			again := tenant.User.Do(http.MethodPost, decide, all, "Prefer: wait=20")
			if again.Err != nil || again.Status != http.StatusOK {
				return false
			}
			again.Data(t, &set)
			require.Equal(t, "applied", set.Status, "%s killed: %s", victim, again.Body)
			return true
		})
		c.mu.Lock()
		require.Equal(t, []string{"1", "2", "real-1"}, c.effects, "%s killed: %s", victim, strings.Join(c.heard, "\n"))
		c.mu.Unlock()
	}
}
