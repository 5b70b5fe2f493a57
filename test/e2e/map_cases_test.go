package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// mapCase is a file of testdata/maps, as its README says.
type mapCase struct {
	Map     json.RawMessage
	Trigger struct {
		Payload json.RawMessage
		DryRun  bool `json:"dry_run"`
	}
	Maps    map[string]json.RawMessage
	Answers []*mapAnswer
	Models  []json.RawMessage
	Happens []map[string]json.RawMessage
	Expect  struct {
		Status, Output json.RawMessage
		Error          struct{ Code, Instance string }
		Calls          []mapCall
		InAnyOrder     bool `json:"calls_in_any_order"`
		Changes        []struct {
			Verb      string
			Args      json.RawMessage
			DependsOn []int `json:"depends_on"`
		}
		Trace []string
	}
}

type mapAnswer struct {
	Verb         string
	Args, Result json.RawMessage
	Error        *struct{ Code string }
	Times        int
	Write        bool
}

type mapCall struct {
	Verb string          `json:"verb"`
	Args json.RawMessage `json:"args"`
}

// notOverHTTP are the cases that no provider can bring about, and why.
var notOverHTTP = map[string]string{
	"retry_an_unsent_write": "a call that never leaves needs a provider without an address",
	"model_failed":          "the service of these tests has a model; test/conformance asks one that has none",
	"agent":                 "its answer says nothing of the calls of an agent; TestAgentCallsVerbsUnderGovernance does",
}

// sooner has texts of cases that stand for a time, and what stands for a shorter one here. The
// tests of the step machine and of the workflow have the long ones.
var sooner = map[string][]string{
	"limits_duration": {`"1d"`, `"1s"`},
	// A run sends a read that was not answered again by itself.
	"on_error_default":          {`PROVIDER_TIMEOUT`, `PROVIDER_ERROR`},
	"retry_on":                  {`PROVIDER_TIMEOUT`, `PROVIDER_ERROR`},
	"pause_and_resume":          {`"1m"`, `"3s"`, `"${$now}"`, `"then"`, `"2026-01-01T01:00:00Z"`, `"then"`},
	"retry":                     {`"1s"`, `"100ms"`},
	"timeout":                   {`"10s"`, `"2500ms"`, `"4s"`, `"1s"`},
	"approval_expired_continue": {`"1h"`, `"1s"`},
	"approval_expired_fail":     {`"1h"`, `"1s"`},
	"timeout_of_a_wait":         {`"10s"`, `"1s"`},
	"wait_event_before":         {`"for": "1h"`, `"for": "3s"`},
	"wait_event_since_step":     {`"for": "1h"`, `"for": "4s"`, `"timeout": "1h"`, `"timeout": "1s"`},
	"wait_event_timeout":        {`"7d"`, `"1s"`},
	"wait_for":                  {`"30d"`, `"1s"`},
	"wait_for_expression":       {`}m"`, `}ms"`},
	"wait_until":                {`"2026-01-02T00:00:00Z"`, `"2026-01-01T00:00:00Z"`, `"${$now}"`, `"2026-01-01T00:00:00Z"`},
	"while_poll":                {`"30s"`, `"300ms"`},
}

func readMapCase(t *testing.T, file string) *mapCase {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	name := strings.TrimSuffix(filepath.Base(file), ".json")
	text := strings.NewReplacer(sooner[name]...).Replace(string(raw))
	c := &mapCase{}
	require.NoError(t, json.Unmarshal([]byte(text), c))
	return c
}

// TestMapsDoOverHTTPWhatTheirCasesSay runs the cases of testdata/maps on the real service. The
// providers answer as the case says. Each step must be where the step machine's trace ends.
func TestMapsDoOverHTTPWhatTheirCasesSay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(rig.Root(), "testdata", "maps", "*.json"))
	require.NoError(t, err)
	ran := 0
	for i, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		c := readMapCase(t, file)
		if notOverHTTP[name] != "" {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Half of the cases run in each lane.
			c.run(t, stack(t, []string{eager, split}[i%2]))
		})
	}
	require.Greater(t, ran, 80)
}

func (c *mapCase) run(t *testing.T, s *rig.Stack) {
	t.Helper()
	tenant := newTenant(s)
	p, w := c.connect(t, tenant), newCaseWorld(t, tenant, c)
	a := tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", p.named(t, c.publishOthers(t, tenant)))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	wait := "Prefer: wait=60"
	if len(c.Happens) > 0 {
		wait = "Prefer: wait=0"
	}
	a = tenant.Runtime.Do(http.MethodPost, a.Header.Get("Location")+"/trigger", map[string]any{"payload": c.Trigger.Payload, "dryRun": c.Trigger.DryRun}, wait)
	w.path = "/v1/executions/" + executionIn(t, a)
	for _, h := range c.Happens {
		w.happen(h)
	}
	e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, w.path, nil, "Prefer: wait=60"), http.StatusOK)
	require.Empty(t, p.wrong())
	require.Equal(t, text(c.Expect.Status), e.Status)
	if want := w.output(c); want != nil {
		require.Equal(t, exact(t, want), exact(t, e.Output))
	}
	w.requireChanges(c)
	if c.Expect.Error.Code != "" {
		require.Equal(t, c.Expect.Error.Code, e.Error.Code)
		if c.Expect.Error.Instance != "" {
			require.Equal(t, c.Expect.Error.Instance, e.Error.Instance)
		}
	}
	c.compareCalls(t, p)
	want, order := c.steps(t)
	got := map[string]tracedStep{}
	var begun []string
	for _, s := range e.Steps {
		step := tracedStep{id: s.ID, status: s.Status, attempts: s.Attempts}
		if s.Error != nil {
			step.code = s.Error.Code
		}
		got[s.Path] = step
		begun = append(begun, s.Path)
	}
	require.Equal(t, want, got)
	if !c.Expect.InAnyOrder {
		require.Equal(t, order, begun)
	}
}

// executionIn returns which execution an answer to a trigger is about.
func executionIn(t *testing.T, a rig.Answer) string {
	t.Helper()
	e := a.Envelope(t)
	if e.Error != nil {
		require.NotEmpty(t, e.Error.ExecutionID, "%s", a.Body)
		return e.Error.ExecutionID
	}
	return mapExecutionOf(t, a, a.Status).ExecutionID
}

func text(raw json.RawMessage) string {
	s, _ := strconv.Unquote(string(raw))
	return s
}

// exact decodes JSON with its numbers as they are written.
func exact(t *testing.T, raw json.RawMessage) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v), "%s", raw)
	return v
}

func (c *mapCase) compareCalls(t *testing.T, p *mapProvider) {
	t.Helper()
	list := func(calls []mapCall) []string {
		out := []string{}
		for _, call := range calls {
			raw, err := json.Marshal(exact(t, call.Args))
			require.NoError(t, err)
			out = append(out, call.Verb+" "+string(raw))
		}
		if c.Expect.InAnyOrder {
			slices.Sort(out)
		}
		return out
	}
	require.Equal(t, list(c.Expect.Calls), list(p.made()))
}

// tracedStep is how far a step is.
type tracedStep struct {
	id, status, code string
	attempts         int
}

// steps returns what the trace says of each step at last, and the paths in the order in which the
// steps began.
func (c *mapCase) steps(t *testing.T) (steps map[string]tracedStep, order []string) {
	t.Helper()
	steps = map[string]tracedStep{}
	for _, line := range c.Expect.Trace {
		words := strings.Fields(line)
		if words[0] != "record_step" {
			continue
		}
		path, attempt, _ := strings.Cut(words[1], "#")
		step := tracedStep{id: words[2], status: words[3]}
		step.attempts, _ = strconv.Atoi(attempt)
		if len(words) > 4 {
			step.code = words[4]
		}
		if _, known := steps[path]; !known {
			order = append(order, path)
		}
		steps[path] = step
	}
	return steps, order
}

// mapProvider answers the calls of a case as the case says.
type mapProvider struct {
	c *mapCase
	// credential is the id of the one credential; a definition that names one gets it.
	credential string

	mu    sync.Mutex
	calls []mapCall
	taken map[*mapAnswer]int
	err   string
}

// connect gives the tenant the providers of the case.
func (c *mapCase) connect(t *testing.T, tenant *rig.Tenant) *mapProvider {
	t.Helper()
	p := &mapProvider{c: c, taken: map[*mapAnswer]int{}}
	base := rig.Serve(t, p)
	ops := map[string][]operation{}
	known := map[string]bool{}
	add := func(v string, write bool) {
		slug, name, _ := strings.Cut(v, ":")
		if known[v] {
			return
		}
		known[v] = true
		runtime := map[string]any{"operation_type": "read", "risk_level": "low"}
		if write {
			runtime["operation_type"] = "write"
		}
		ops[slug] = append(ops[slug], operation{method: http.MethodPost, path: "/" + slug + "/" + name, id: name, runtime: runtime})
	}
	for _, a := range c.Answers {
		if a.Verb != "" {
			add(a.Verb, a.Write)
		}
	}
	args := argumentsIn(t, c)
	for v := range args {
		add(v, false)
	}
	for slug, list := range ops {
		doc := map[string]any{}
		require.NoError(t, json.Unmarshal(document(bearer(), list...), &doc))
		for at, path := range doc["paths"].(map[string]any) {
			schema := map[string]any{"type": "object", "properties": args[strings.Replace(at[1:], "/", ":", 1)]}
			path.(map[string]any)["post"].(map[string]any)["requestBody"] = map[string]any{"content": map[string]any{
				"application/json": map[string]any{"schema": schema},
			}}
		}
		raw, err := json.Marshal(doc)
		require.NoError(t, err)
		tenant.Connect(t, slug, base, raw, "bearer", map[string]string{"token": "case-token"})
	}
	var stored []struct{ ID string }
	tenant.User.Do(http.MethodGet, "/v1/credentials", nil).Data(t, &stored)
	if len(stored) > 0 {
		p.credential = stored[0].ID
	}
	return p
}

// argumentsIn returns the verbs that a case names, each with its arguments, of any type.
func argumentsIn(t *testing.T, c *mapCase) map[string]map[string]any {
	t.Helper()
	verbs := map[string]map[string]any{}
	note := func(name string, args any) {
		if verbs[name] == nil {
			verbs[name] = map[string]any{}
		}
		members, _ := args.(map[string]any)
		for member := range members {
			verbs[name][member] = map[string]any{}
		}
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			if name, ok := v["verb"].(string); ok {
				note(name, v["args"])
			}
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(exact(t, c.Map))
	for _, call := range c.Expect.Calls {
		note(call.Verb, exact(t, call.Args))
	}
	return verbs
}

// named returns the definition with the tenant's own credential.
func (p *mapProvider) named(t *testing.T, raw json.RawMessage) json.RawMessage {
	t.Helper()
	const of = `"credential_id": "`
	before, after, found := strings.Cut(string(raw), of)
	if !found {
		return raw
	}
	_, after, _ = strings.Cut(after, `"`)
	return json.RawMessage(before + of + p.credential + `"` + after)
}

func (p *mapProvider) made() []mapCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// wrong says which call the case does not answer; "" for none.
func (p *mapProvider) wrong() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// take returns the answer to a call; nil where there is none.
func (p *mapProvider) take(call mapCall) *mapAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
	for _, a := range p.c.Answers {
		if a.Verb == call.Verb && p.taken[a] < max(a.Times, 1) && (a.Args == nil || sameJSON(a.Args, call.Args)) {
			p.taken[a]++
			return a
		}
	}
	p.err = fmt.Sprintf("no answer to %s %s", call.Verb, call.Args)
	return nil
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// ServeHTTP implements http.Handler.
func (p *mapProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if len(body) == 0 {
		body = []byte("{}")
	}
	a := p.take(mapCall{Verb: strings.Replace(strings.TrimPrefix(r.URL.Path, "/"), "/", ":", 1), Args: body})
	w.Header().Set("Content-Type", "application/json")
	switch {
	case a == nil:
		w.WriteHeader(http.StatusTeapot)
	case a.Error == nil:
		_, _ = w.Write(a.Result)
	case a.Error.Code == "PROVIDER_ERROR":
		// A run sends a read again after any other failure.
		w.WriteHeader(http.StatusFound)
	case a.Error.Code == "OUTCOME_UNKNOWN":
		panic(http.ErrAbortHandler)
	default:
		w.WriteHeader(http.StatusConflict)
	}
}
