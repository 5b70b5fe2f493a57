package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// shared is the stacks that the tests of this package have in common. Starting one
// takes seconds. Each test signs up a tenant of its own.
var shared = rig.NewSuite("e2e")

// Every process logs all it can say, for the search for secrets.
const logAll = "LOG_LEVEL=debug"

var sharedDev = sync.OnceValue(func() *rig.Stack {
	return rig.Dev(shared, logAll, modelScript(shared), hostileServer(shared)+","+pricedServer(shared))
})

// twoAPIs is the split lane with a second API process. Both see all parts.
type twoAPIs struct{ first, second *rig.Stack }

var sharedSplit = sync.OnceValue(func() twoAPIs {
	s := rig.Split(shared, rig.SplitOptions{Env: []string{logAll, modelScript(shared)}})
	second := s.StartAPI("api-2")
	first := *second
	first.APIURL = s.APIURL
	return twoAPIs{first: &first, second: second}
})

func TestMain(m *testing.M) {
	code := rig.Run(m, 6)
	shared.Close()
	os.Exit(code)
}

// The lanes.
const (
	eager = "eager"
	split = "split"
)

// inBothLanes runs a test against the service in one process and split.
func inBothLanes(t *testing.T, test func(t *testing.T, s *rig.Stack, lane string)) {
	t.Helper()
	for _, lane := range []string{eager, split} {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			test(t, stack(t, lane), lane)
		})
	}
}

func stack(t *testing.T, lane string) *rig.Stack {
	t.Helper()
	if lane == split {
		return sharedSplit().first.For(t)
	}
	return sharedDev().For(t)
}

func newTenant(s *rig.Stack) *rig.Tenant { return s.NewTenant(rig.Address()) }

// newKey makes a key with which the tenant's calls can be told apart.
func newKey(t *testing.T, tenant *rig.Tenant) (c *rig.Client, id string) {
	t.Helper()
	made := tenant.User.NewKey(t, rig.RuntimePermissions()...)
	return &rig.Client{Base: tenant.Runtime.Base, Key: made.Key, HTTP: rig.NewHTTP()}, made.ID
}

// execution is what tests read of GET /v1/executions/{id}.
type execution struct {
	ExecutionID    string          `json:"execution_id"`
	Status         string          `json:"status"`
	WorkflowID     string          `json:"workflow_id"`
	Sends          int             `json:"sends"`
	Attempt        int             `json:"attempt"`
	ProviderStatus int             `json:"provider_status"`
	Args           json.RawMessage `json:"args"`
	Result         json.RawMessage `json:"result"`
	Error          *struct{ Code string }
}

func executionOf(t *testing.T, c *rig.Client, id string) execution {
	t.Helper()
	var e execution
	c.Do(http.MethodGet, "/v1/executions/"+id, nil).Data(t, &e)
	return e
}

// operation is one operation of a provider's document.
type operation struct {
	method, path, id string
	// args are the names of its string arguments: in the query of a GET, else in a
	// JSON body; number is one of type integer.
	args   []string
	number string
	// runtime is the x-agent-runtime extension; nil for none.
	runtime map[string]any
	// answer is the schema of its answer; nil for any object.
	answer map[string]any
}

// document describes a provider as OpenAPI; scheme is its security scheme, nil for none.
func document(scheme map[string]any, ops ...operation) json.RawMessage {
	paths := map[string]map[string]any{}
	for _, o := range ops {
		if paths[o.path] == nil {
			paths[o.path] = map[string]any{}
		}
		paths[o.path][strings.ToLower(o.method)] = o.describe()
	}
	doc := map[string]any{"openapi": "3.0.3", "info": map[string]any{"title": "Test provider", "version": "1"}, "paths": paths}
	if scheme != nil {
		doc["components"] = map[string]any{"securitySchemes": map[string]any{"key": scheme}}
		doc["security"] = []any{map[string]any{"key": []any{}}}
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		panic(err) // it is made of plain values
	}
	return raw
}

func (o operation) describe() map[string]any {
	text, answer := map[string]any{"type": "string"}, map[string]any{"type": "object"}
	if o.answer != nil {
		answer = o.answer
	}
	d := map[string]any{
		"operationId": o.id, "summary": o.id,
		"responses": map[string]any{"200": map[string]any{"description": "done", "content": map[string]any{
			"application/json": map[string]any{"schema": answer},
		}}},
	}
	if o.runtime != nil {
		d["x-agent-runtime"] = o.runtime
	}
	if o.method == http.MethodGet || o.method == http.MethodDelete {
		params := []any{}
		for _, name := range o.args {
			params = append(params, map[string]any{"name": name, "in": "query", "schema": text})
		}
		d["parameters"] = params
		return d
	}
	properties := map[string]any{}
	for _, name := range o.args {
		properties[name] = text
	}
	if o.number != "" {
		properties[o.number] = map[string]any{"type": "integer"}
	}
	d["requestBody"] = map[string]any{"content": map[string]any{
		"application/json": map[string]any{"schema": map[string]any{"type": "object", "properties": properties}},
	}}
	return d
}

// bearer is the security scheme of most test providers.
func bearer() map[string]any { return map[string]any{"type": "http", "scheme": "bearer"} }

// ids makes n execution ids that no other test uses.
func ids(n int) []string {
	prefix, list := uuid.NewString(), make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return list
}

// requireRun checks that the run was made and returns its data.
func requireRun(t *testing.T, a rig.Answer) rig.RunData {
	t.Helper()
	require.NoError(t, a.Err)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	var d rig.RunData
	a.Data(t, &d)
	return d
}
