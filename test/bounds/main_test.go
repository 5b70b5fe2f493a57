// Package bounds proves from outside that nobody can take more of the service than their
// share: quotas, connections, memory and time.
package bounds

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// shared is the stack that the tests have in common. Each test has a tenant of its own.
var shared = rig.NewSuite("bounds")

// quotas are those of the shared stack, small enough to be filled.
const quotas = "QUOTAS=keys=4,users=4,sessions=3,providers=2,verbs=60,credentials=4,policies=4,policy_windows=3,grants=4,kill_switches=4,customers=4,webhooks=4,held=4,dry_runs=4,agent_sessions=4,open_messages=23,reply_streams=2,maps=4,map_executions=4,policy_versions=5,policy_version_bytes=65536,emitted_events=5,revoked_keys=3,removed_users=3,ended_grants=3,lifted_kill_switches=3,map_value_bytes=16777216"

var sharedDev = sync.OnceValue(func() *rig.Stack {
	return rig.Dev(shared, "LOG_LEVEL=warn", quotas, "MODEL_SERVERS=slow="+slowModel())
})

func TestMain(m *testing.M) {
	code := m.Run()
	shared.Close()
	os.Exit(code)
}

type m = map[string]any

// document describes a provider with as many verbs: pay_1, pay_2, and so on.
func document(verbs int) json.RawMessage {
	paths := m{}
	for i := 1; i <= verbs; i++ {
		paths[fmt.Sprintf("/pay_%d", i)] = m{"post": m{
			"operationId": fmt.Sprintf("pay_%d", i), "responses": m{"200": m{"description": "ok"}},
			"x-agent-runtime": m{"risk_level": "low"},
			"requestBody":     m{"content": m{"application/json": m{"schema": m{"type": "object", "properties": m{"n": m{"type": "integer"}}}}}},
		}}
	}
	raw, err := json.Marshal(m{"openapi": "3.1.0", "info": m{"title": "Bank", "version": "1"}, "paths": paths})
	if err != nil {
		panic(err)
	}
	return raw
}

// bank answers every call.
func bank(t *testing.T) (url string) {
	t.Helper()
	return rig.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"done":true}`)
	}))
}

// connected is a tenant with the provider bank, which has one verb.
func connected(t *testing.T) *rig.Tenant {
	t.Helper()
	tenant := sharedDev().For(t).NewTenant(rig.Address())
	tenant.Connect(t, "bank", bank(t), document(1), "bearer", m{"token": "bank-token"})
	return tenant
}

// together calls do n times at once.
func together(n int, do func(i int) rig.Answer) []rig.Answer {
	answers := make([]rig.Answer, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { answers[i] = do(i) })
	}
	all.Wait()
	return answers
}

func status(t *testing.T, a rig.Answer, want int) {
	t.Helper()
	require.Equal(t, want, a.Status, "%s %v", a.Body, a.Err)
}
