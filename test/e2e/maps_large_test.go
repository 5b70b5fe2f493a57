package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// bulkItem is one item of a long answer.
const bulkItem = `{"name":"0123456789012345678901234567890123456789"},`

// bulk is a provider whose answers have any size, and that counts calls by their argument n, or by the
// size that they ask for.
type bulk struct {
	mu    sync.Mutex
	calls map[string]int
	sizes map[int]int
}

// ServeHTTP implements http.Handler.
func (b *bulk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if n := r.URL.Query().Get("n"); n != "" {
		b.mu.Lock()
		b.calls[n]++
		b.mu.Unlock()
		fmt.Fprintf(w, `{"n":%q}`, n)
		return
	}
	size, _ := strconv.Atoi(r.URL.Query().Get("bytes"))
	b.mu.Lock()
	b.sizes[size]++
	b.mu.Unlock()
	_, _ = io.WriteString(w, `{"list":[`+strings.Repeat(bulkItem, size/len(bulkItem))+`{"name":"last"}]}`)
}

func bulky(t *testing.T, s *rig.Stack) (*bulk, *rig.Tenant) {
	t.Helper()
	b, tenant := &bulk{calls: map[string]int{}, sizes: map[int]int{}}, newTenant(s)
	tenant.Connect(t, "bulk", rig.Serve(t, b), document(bearer(),
		operation{method: http.MethodGet, path: "/big", id: "get_big", args: []string{"bytes"}},
		operation{method: http.MethodGet, path: "/one", id: "get_one", args: []string{"n"}},
		operation{method: http.MethodGet, path: "/make", id: "make", args: []string{"n"}, runtime: map[string]any{"operation_type": "write"}},
	), "bearer", map[string]string{"token": "bulk-token"})
	return b, tenant
}

// What a provider answers at length is kept by reference, and expressions read it. An answer that
// is too long is the provider's error, at once.
func TestMapReadsLargeAnswersByReference(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		b, tenant := bulky(t, s)
		trigger := publish(t, tenant, "Reads much", `[
			{"id":"big","type":"verb","verb":"bulk:get_big","args":{"bytes":"${trigger_data.bytes}"}},
			{"id":"all","type":"set","assign":{"all":"${steps.big.output.list}"}},
			{"id":"last","type":"verb","verb":"bulk:get_one","args":{"n":"${vars.all[-1].name}"}},
			{"id":"count","type":"transform","expr":"${vars.all | length}: ${steps.last.output.n}"}]`)
		send := func(bytes int) rig.Answer {
			return tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": map[string]string{"bytes": strconv.Itoa(bytes)}}, "Prefer: wait=60")
		}
		e := mapExecutionOf(t, send(3<<20), http.StatusOK)
		require.Equal(t, fmt.Sprintf(`"%d: last"`, (3<<20)/len(bulkItem)+1), string(e.Output))

		sent := time.Now()
		a := send(5 << 20)
		require.Less(t, time.Since(sent), patience+patienceSlack)
		require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s", a.Body)
		require.Contains(t, string(a.Envelope(t).Error.Details), "PROVIDER_ERROR")
		require.Equal(t, map[int]int{3 << 20: 1, 5 << 20: 1}, b.sizes, "no answer is asked for again")
	})
}

// manyItems is what a Map may loop over. It continues in new histories on the way.
const manyItems = 10_000

// CI runs a tenth of it.
func TestMapLoopsOverManyItems(t *testing.T) {
	t.Parallel()
	loopsOver(t, manyItems/10)
}

// loopsOver runs a Map that makes a call for each of n items, and counts the calls.
func loopsOver(t *testing.T, n int) {
	t.Helper()
	s := stack(t, split)
	b, tenant := bulky(t, s)
	trigger := publish(t, tenant, "Makes many", `[
		{"id":"each","type":"foreach","items":"${trigger_data.items}","mode":"parallel","concurrency":50,"steps":[
			{"id":"made","type":"verb","verb":"bulk:make","args":{"n":"${item}"}}]},
		{"id":"count","type":"transform","expr":"${steps.each.output | length}"}]`)
	items := make([]string, n)
	for i := range items {
		items[i] = strconv.Itoa(i)
	}
	a := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": map[string]any{"items": items}}, "Prefer: wait=0")
	require.Equal(t, http.StatusAccepted, a.Status, "%s", a.Body)
	path := a.Header.Get("Location")
	var e mapExecution
	rig.Until(t, time.Duration(max(10, n/100))*arriveLimit, "the Map has ended", func() bool {
		e = mapExecutionOf(t, tenant.Runtime.Do(http.MethodGet, path, nil, "Prefer: wait=60"), http.StatusOK)
		return e.Status == "completed" || e.Status == "failed"
	})
	require.Equal(t, "completed", e.Status)
	require.Equal(t, strconv.Itoa(n), string(e.Output))
	require.Equal(t, n, e.ActionsExecuted)
	require.Len(t, b.calls, n)
	for item, calls := range b.calls {
		require.Equal(t, 1, calls, item)
	}
	lengths := historyLengths(t, s, e.WorkflowID)
	t.Logf("histories of %v events", lengths)
	if n >= manyItems {
		require.Greater(t, len(lengths), 1, "it continues in a new history")
	}
	for _, length := range lengths {
		require.Less(t, length, int64(10_000), "%v", lengths)
	}
}

// Triggers of the same sessions meet in two API processes.
func TestManyTriggersOfFewSessionsMakeOneExecutionEach(t *testing.T) {
	t.Parallel()
	meets(t, 20, 10)
}

// meets triggers a Map for each session as often as repeats says, all at once over two API
// processes. One execution answers all triggers of its session.
func meets(t *testing.T, sessions, repeats int) {
	t.Helper()
	shared := sharedSplit()
	b, tenant := bulky(t, shared.first.For(t))
	trigger := publish(t, tenant, "Makes one", `[{"id":"made","type":"verb","verb":"bulk:make","args":{"n":"${trigger_data.n}"}}]`)
	second := *tenant.Runtime
	second.Base = shared.second.APIURL
	clients := []*rig.Client{tenant.Runtime, &second}
	answers := make([]rig.Answer, sessions*repeats)
	// The triggers of a session take turns between the processes, and so do those that come first.
	process := func(i int) int { return (i + i/sessions) % len(clients) }
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			n := strconv.Itoa(i % sessions)
			answers[i] = clients[process(i)].Do(http.MethodPost, trigger, map[string]any{"session_id": "s-" + n, "payload": map[string]string{"n": n}}, "Prefer: wait=60")
		})
	}
	all.Wait()
	executions, fresh := map[string]map[int]int{}, 0
	for i, a := range answers {
		e := mapExecutionOf(t, a, http.StatusOK)
		require.Equal(t, "completed", e.Status)
		require.JSONEq(t, fmt.Sprintf(`{"n":%q}`, strconv.Itoa(i%sessions)), string(e.Output))
		if executions[e.ExecutionID] == nil {
			executions[e.ExecutionID] = map[int]int{}
		}
		executions[e.ExecutionID][process(i)]++
		if e.FenceStatus == "executed" {
			fresh++
		}
	}
	for id, answered := range executions {
		require.Equal(t, map[int]int{0: repeats / 2, 1: repeats / 2}, answered, id)
	}
	require.Len(t, executions, sessions)
	require.Equal(t, sessions, fresh)
	require.Len(t, b.calls, sessions)
	for n, calls := range b.calls {
		require.Equal(t, 1, calls, n)
	}
	var list []json.RawMessage
	tenant.User.Do(http.MethodGet, "/v1/executions?kind=map&limit=1000", nil).Data(t, &list)
	require.Len(t, list, sessions)
}
