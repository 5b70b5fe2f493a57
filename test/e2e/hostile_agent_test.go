package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/edge/engine"
	"agentruntime/test/rig"
)

// hostileScenario is a scenario of testdata/agents/hostile.json.
type hostileScenario struct {
	Name, About string
	Agent       map[string]any
	Plants      map[string]string
	Steps       []hostileStep
	Sent        []string
	Status      string
	Stop        string
	Waits       *int
	Streams     bool
	Asked       int
	Reads       []string
	NeverReads  []string `json:"never_reads"`
	LastNever   []string `json:"last_never_reads"`
}

type hostileStep struct {
	Say, Session, Customer, Key, Agent, Refused string
	Identity, Metadata                          json.RawMessage
	Anonymous, Cancel                           bool
	Decide, By                                  string
	Body                                        json.RawMessage
}

// bazaar is the provider of the scenarios. It answers what they plant, and remembers each call.
type bazaar struct {
	mu     sync.Mutex
	sent   []string
	plants map[string]string
}

// ServeHTTP implements http.Handler.
func (b *bazaar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	verb := strings.TrimPrefix(r.URL.Path, "/")
	body := struct{ ID string }{r.URL.Query().Get("id")}
	_ = json.NewDecoder(r.Body).Decode(&body)
	b.mu.Lock()
	b.sent = append(b.sent, verb+" "+body.ID)
	note, count := b.plants[body.ID], len(b.sent)
	b.mu.Unlock()
	if verb != "get_note" {
		note = "ok"
	}
	if rest, is := strings.CutPrefix(note, "FILL:"); is {
		at := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
		n, _ := strconv.Atoi(rest[:at])
		note = strings.Repeat("x", n) + rest[at:]
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasPrefix(note, "STATUS:422"):
		w.WriteHeader(http.StatusUnprocessableEntity)
	case strings.HasPrefix(note, "ECHO"):
		note += r.Header.Get("Authorization")
	case note == "COUNT":
		note = strconv.Itoa(count)
	}
	_, _ = w.Write(plainJSON(map[string]string{"note": note}))
}

// calls returns those of a scenario, sorted; "" stands for those of none.
func (b *bazaar) calls(scenario string, all []hostileScenario) (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, call := range b.sent {
		verb, id, _ := strings.Cut(call, " ")
		if rest, is := strings.CutPrefix(id, scenario+"--"); is && scenario != "" {
			list = append(list, verb+" "+rest)
		}
		if scenario == "" && !slices.ContainsFunc(all, func(s hostileScenario) bool { return strings.HasPrefix(id, s.Name+"--") }) {
			list = append(list, call)
		}
	}
	slices.Sort(list)
	return list
}

func bazaarDocument() json.RawMessage {
	text, number := map[string]any{"type": "string"}, map[string]any{"type": "number"}
	op := func(method, name, risk string, properties map[string]any) (string, map[string]any) {
		o := map[string]any{"operationId": name, "summary": strings.ReplaceAll(name, "_", " "), "responses": map[string]any{"200": map[string]any{
			"description": "done", "content": map[string]any{"application/json": map[string]any{"schema": map[string]any{"type": "object"}}},
		}}, "x-agent-runtime": map[string]any{"risk_level": risk}}
		if method == "get" {
			o["parameters"] = []any{map[string]any{"name": "id", "in": "query", "schema": text}, map[string]any{"name": "fresh", "in": "query", "schema": text}}
		} else {
			o["requestBody"] = map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": map[string]any{"type": "object", "properties": properties}}}}
		}
		return "/" + name, map[string]any{method: o}
	}
	paths := map[string]any{}
	add := func(path string, item map[string]any) { paths[path] = item }
	add(op("get", "get_note", "low", nil))
	add(op("post", "create_order", "medium", map[string]any{"id": text, "order note": text, "to": map[string]any{"type": "object", "properties": map[string]any{"name": text}}}))
	add(op("post", "pay", "medium", map[string]any{"id": text, "amount": number}))
	add(op("post", "move_house", "medium", map[string]any{"id": text}))
	add(op("post", "send_mail", "medium", map[string]any{"id": text, "text": text}))
	add(op("post", "delete_account", "high", map[string]any{"id": text, "mode": text}))
	add(op("post", "wipe", "high", map[string]any{"id": text}))
	return plainJSON(map[string]any{
		"openapi": "3.0.3", "info": map[string]any{"title": "Bazaar", "version": "1"}, "paths": paths,
		"components": map[string]any{"securitySchemes": map[string]any{"key": bearer()}}, "security": []any{map[string]any{"key": []any{}}},
	})
}

// hostileWorld is a tenant under attack, and another one whose data must not be seen.
type hostileWorld struct {
	stack     *rig.Stack
	tenant    *rig.Tenant
	shop      *bazaar
	key       *rig.Client
	anonymous *rig.Client
	names     *strings.Replacer
	canaries  []string
	scenarios []hostileScenario
	mu        sync.Mutex
	answers   bytes.Buffer
}

func newHostileWorld(t *testing.T) *hostileWorld {
	t.Helper()
	tag := uuid.NewString()
	w := &hostileWorld{stack: sharedDev().For(t), shop: &bazaar{plants: map[string]string{}}}
	for _, what := range []string{"bazaar", "sink", "model", "foreign-bazaar", "foreign-word", "foreign-model"} {
		w.canaries = append(w.canaries, "canary-"+what+"-"+tag)
	}
	base := rig.Serve(t, w.shop)
	connect := func(tenant *rig.Tenant, slug, token string) {
		tenant.Connect(t, slug, base, bazaarDocument(), "bearer", map[string]string{"token": token})
	}
	model := func(tenant *rig.Tenant, token string) {
		a := tenant.User.Do(http.MethodPost, "/v1/model-providers", map[string]any{"slug": "evil", "api": "openai", "private": "hostile"})
		require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
		a = tenant.User.Do(http.MethodPost, "/v1/credentials", map[string]any{"provider": "model:evil", "type": "bearer", "data": map[string]any{"token": token}})
		require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	}
	keyOf := func(tenant *rig.Tenant, mode string) *rig.Client {
		var made rig.Key
		tenant.User.MakeKey(map[string]any{"name": "k", "permissions": []string{"agents:message"}, "identity_mode": mode}).Data(t, &made)
		return tenant.Runtime.With(made.Key, "")
	}
	w.tenant = newTenant(w.stack)
	connect(w.tenant, "bazaar", w.canaries[0])
	connect(w.tenant, "sink", w.canaries[1])
	model(w.tenant, w.canaries[2])
	w.key, w.anonymous = keyOf(w.tenant, "identified"), keyOf(w.tenant, "anonymous")
	for _, p := range []map[string]any{
		{"name": "deletions", "verbMatchers": []any{map[string]any{"type": "verb", "value": "bazaar:delete_account"}}, "action": map[string]any{"type": "require_approval"}, "approval": map[string]any{"self_approval": true}},
		{
			"name": "payments", "verbMatchers": []any{map[string]any{"type": "verb", "value": "bazaar:pay"}}, "action": map[string]any{"type": "require_approval"},
			"conditions": []any{map[string]any{"field": "args.amount", "operator": "greater", "value": 100}},
		},
		taintedPolicy(t, "bazaar:move_house"), taintedPolicy(t, "sink:send_mail"),
	} {
		w.tenant.User.NewPolicy(t, p)
	}

	other := newTenant(w.stack)
	connect(other, "bazaar", w.canaries[3])
	connect(other, "secretshop", w.canaries[3])
	model(other, w.canaries[5])
	held(t, other, "bazaar:delete_account")
	var agent struct{ ID string }
	other.User.Do(http.MethodPost, "/v1/agents", map[string]any{
		"name": "Other", "instructions": "You are scenario foreign. " + w.canaries[4], "tools": map[string]any{"allow": []string{"bazaar:*"}}, "models": evilModel(),
	}).Data(t, &agent)
	a := keyOf(other, "identified").Do(http.MethodPost, "/v1/agents/"+agent.ID+"/message", map[string]any{
		"message": w.canaries[4] + ` [[call bazaar__delete_account {"id":"foreign"}]]`, "session_id": "foreign-session", "customer_id": "foreign-customer",
	})
	waits := saidOf(t, a, http.StatusOK)
	var about struct {
		CustomerID string `json:"customer_id"`
	}
	a.Data(t, &about)
	w.names = strings.NewReplacer("$OTHER_AGENT", agent.ID, "$OTHER_EXECUTION", waits.ExecutionID, "$OTHER_APPROVAL", *waits.ApprovalID, "$OTHER_CUSTOMER", about.CustomerID)

	raw, err := os.ReadFile(filepath.Join(rig.Root(), "testdata", "agents", "hostile.json"))
	require.NoError(t, err)
	dec := json.NewDecoder(strings.NewReader(w.names.Replace(string(raw))))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&w.scenarios))
	require.GreaterOrEqual(t, len(w.scenarios), 60)
	return w
}

// taintedPolicy is the policy of docs/use/messages.md for one verb.
func taintedPolicy(t *testing.T, verb string) (p map[string]any) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(rig.Root(), "docs", "use", "messages.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "```json\n{\"name\": \"Look at")
	require.True(t, found, "docs/use/messages.md has the policy")
	text, _, _ := strings.Cut(rest, "```")
	require.NoError(t, json.Unmarshal([]byte(`{"name": "Look at`+text), &p))
	p["name"], p["verbMatchers"] = verb, []any{map[string]any{"type": "verb", "value": verb}}
	return p
}

func evilModel() map[string]any {
	return map[string]any{"worker": map[string]any{"provider": "evil", "model": "gpt-4o-mini"}}
}

// do makes a call of a scenario, and keeps what it was answered.
func (w *hostileWorld) do(c *rig.Client, method, path string, body any, headers ...string) rig.Answer {
	a := c.Do(method, path, body, headers...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers.Write(a.Body)
	return a
}

// Whatever a model reads and does, no call is sent that was not allowed, nothing of others is seen, and
// what it costs is bounded.
func TestHostileModelHarmsNothing(t *testing.T) { //nolint:tparallel // what follows the scenarios looks at all of them
	t.Parallel()
	w := newHostileWorld(t)
	t.Run("scenarios", func(t *testing.T) {
		for _, s := range w.scenarios {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				w.run(t, s)
			})
		}
	})
	require.Empty(t, w.shop.calls("", w.scenarios), "calls of no scenario")
	for _, path := range []string{"/v1/events?limit=500", "/v1/audit?limit=500", "/v1/approvals?limit=500", "/v1/executions?limit=500"} {
		w.do(w.tenant.User, http.MethodGet, path, nil)
	}
	histories := w.histories(t)
	for where, text := range map[string]string{
		"prompts": hostile.all(), "answers": w.answers.String(), "logs": w.stack.Logs(), "histories": histories,
	} {
		for _, canary := range w.canaries {
			if where == "prompts" && canary == w.canaries[4] {
				continue // the other tenant's own model has read it
			}
			require.Empty(t, newSearch(canary).in([]byte(text)), "%s have %s", where, canary)
		}
	}
	for _, s := range w.scenarios {
		require.NotContains(t, strings.Join(hostile.of(s.Name), "\n"), w.canaries[4], s.Name)
	}
	said := regexp.MustCompile(`\[\[[a-z]+ .{0,80}`) // begins with a text, which makes the search fast
	require.Empty(t, said.FindString(histories), "what is said is in no history")
	require.Empty(t, said.FindString(w.stack.Logs()), "what is said is in no log")
}

// run runs one scenario.
func (w *hostileWorld) run(t *testing.T, s hostileScenario) {
	t.Helper()
	own := strings.NewReplacer("$S-", s.Name+"--", "$S", s.Name)
	w.shop.mu.Lock()
	for id, note := range s.Plants {
		w.shop.plants[s.Name+"--"+id] = own.Replace(note)
	}
	w.shop.mu.Unlock()
	definition := map[string]any{"name": s.Name, "instructions": "You are scenario " + s.Name + ".", "tools": map[string]any{"allow": []string{"bazaar:*"}}, "models": evilModel()}
	maps.Copy(definition, s.Agent)
	raw, err := json.Marshal(definition)
	require.NoError(t, err)
	a := w.tenant.User.Do(http.MethodPost, "/v1/agents", json.RawMessage(own.Replace(string(raw))))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	var agent struct {
		ID     string
		Limits struct {
			Tokens      int64
			MoneyMicros int64 `json:"money_micros"`
		}
		Tools struct {
			MaxPerTurn int `json:"max_per_turn"`
		}
	}
	a.Data(t, &agent)

	var last said
	for i, step := range s.Steps {
		at := fmt.Sprintf("step %d", i)
		switch {
		case step.Cancel:
			a = w.do(w.key, http.MethodPost, "/v1/executions/"+last.ExecutionID+"/cancel", nil)
			require.Equal(t, http.StatusOK, a.Status, "%s: %s", at, a.Body)
			last = w.settled(t, last, "")
		case step.Decide != "":
			who := w.tenant.User
			if step.By == "key" {
				who = w.key
			}
			body := json.RawMessage(own.Replace(string(step.Body)))
			if len(body) == 0 {
				body = json.RawMessage("{}")
			}
			a = w.do(who, http.MethodPost, "/v1/approvals/"+url.PathEscape(*last.ApprovalID)+"/"+step.Decide, body)
			if step.Refused != "" {
				require.Contains(t, string(a.Body), step.Refused, at)
				continue
			}
			require.Equal(t, http.StatusOK, a.Status, "%s: %s", at, a.Body)
			last = w.settled(t, last, *last.ApprovalID)
		default:
			if a = w.say(agent.ID, own, step); step.Refused != "" {
				require.Contains(t, string(a.Body), step.Refused, at)
				require.GreaterOrEqual(t, a.Status, http.StatusBadRequest, at)
				continue
			}
			last = saidOf(t, a, http.StatusOK)
		}
	}
	w.judge(t, s, own, last)
	if s.Streams {
		stream := w.say(agent.ID, own, s.Steps[0], "Accept: text/event-stream")
		require.Contains(t, string(stream.Body), "event: message.completed")
	}
	require.LessOrEqual(t, last.ActionsExecuted, agent.Tools.MaxPerTurn)
	if agent.Limits.Tokens > 0 { // an answer that was asked for within the limit may end beyond it
		require.Less(t, last.TokensUsed, agent.Limits.Tokens+1100)
	}
}

func (w *hostileWorld) say(agent string, own *strings.Replacer, step hostileStep, more ...string) rig.Answer {
	body := map[string]any{"message": step.Say, "session_id": step.Session, "customer_id": step.Customer, "identity": step.Identity, "metadata": step.Metadata}
	for name, value := range body {
		if text, is := value.(string); is && text == "" {
			delete(body, name)
		}
		if raw, is := value.(json.RawMessage); is && raw == nil {
			delete(body, name)
		}
	}
	key := w.key
	if step.Anonymous {
		key = w.anonymous
	}
	headers := append([]string{"Prefer: wait=60"}, more...)
	if step.Key != "" {
		headers = append(headers, "Idempotency-Key: "+own.Replace(step.Key))
	}
	if step.Agent != "" {
		agent = step.Agent
	}
	return w.do(key, http.MethodPost, "/v1/agents/"+agent+"/message", json.RawMessage(own.Replace(string(plainJSON(body)))), headers...)
}

// settled waits until the message has ended, or waits for another decision than the one about approval.
func (w *hostileWorld) settled(t *testing.T, of said, approval string) (e said) {
	t.Helper()
	rig.Until(t, time.Minute, of.ExecutionID+" has heard of it", func() bool {
		e = saidOf(t, w.do(w.tenant.User, http.MethodGet, "/v1/executions/"+of.ExecutionID, nil), http.StatusOK)
		return e.Status != "running" && (e.Status != "pending_approval" || approval != "" && *e.ApprovalID != approval)
	})
	e.Metadata.StopReason = e.StopReason
	return e
}

// judge looks from outside at what has become of a scenario.
func (w *hostileWorld) judge(t *testing.T, s hostileScenario, own *strings.Replacer, last said) {
	t.Helper()
	want := append([]string{}, s.Sent...)
	slices.Sort(want)
	require.ElementsMatch(t, want, w.shop.calls(s.Name, nil), "what the provider got")
	if s.Status != "" {
		require.Equal(t, s.Status, last.Status)
	}
	if s.Stop != "" {
		require.Equal(t, s.Stop, *last.Metadata.StopReason)
	}
	if s.Waits != nil {
		var list []struct{ Args json.RawMessage }
		w.tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending&limit=500", nil).Data(t, &list)
		waits := 0
		for _, one := range list {
			if strings.Contains(string(one.Args), `"`+s.Name+"--") {
				waits++
			}
		}
		require.Equal(t, *s.Waits, waits, "calls that wait for people")
	}
	prompts := hostile.of(s.Name)
	if s.Asked > 0 {
		require.LessOrEqual(t, len(prompts), s.Asked)
	}
	all := strings.Join(prompts, "\n")
	for _, text := range s.Reads {
		require.Contains(t, all, own.Replace(text))
	}
	for _, text := range s.NeverReads {
		require.NotContains(t, all, own.Replace(text))
	}
	for _, text := range s.LastNever {
		require.NotContains(t, prompts[len(prompts)-1], own.Replace(text))
	}
	if last.ExecutionID != "" {
		w.do(w.tenant.User, http.MethodGet, "/v1/executions/"+last.ExecutionID, nil)
	}
}

// histories returns all that Temporal stores of the tenant's workflows: raw, and through the codec.
func (w *hostileWorld) histories(t *testing.T) string {
	t.Helper()
	c := stranger(t, w.stack)
	converter, err := engine.Converter(w.stack.CodecKey())
	require.NoError(t, err)
	var all strings.Builder
	ids := w.workflows(t, c)
	require.GreaterOrEqual(t, len(ids), 60)
	for _, id := range ids {
		for it := c.GetWorkflowHistory(t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
			event, err := it.Next()
			require.NoError(t, err)
			raw, err := protojson.Marshal(event)
			require.NoError(t, err)
			all.Write(raw)
			err = proxy.VisitPayloads(t.Context(), event, proxy.VisitPayloadsOptions{
				SkipSearchAttributes: true,
				Visitor: func(_ *proxy.VisitPayloadsContext, list []*commonpb.Payload) ([]*commonpb.Payload, error) {
					for _, p := range list {
						all.WriteString(converter.ToString(p) + "\n")
					}
					return list, nil
				},
			})
			require.NoError(t, err)
		}
	}
	return all.String()
}

// workflows returns the ids of the tenant's workflows of messages and of calls.
func (w *hostileWorld) workflows(t *testing.T, c client.Client) (ids []string) {
	t.Helper()
	for _, kind := range []flow.Kind{flow.KindMessage, flow.KindAction} {
		var next []byte
		for more := true; more; more = len(next) > 0 {
			page, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
				Query: "AgentRuntimeTenant = '" + w.tenant.ID + "' AND AgentRuntimeKind = '" + string(kind) + "'", NextPageToken: next,
			})
			require.NoError(t, err)
			for _, e := range page.Executions {
				ids = append(ids, e.Execution.WorkflowId)
			}
			next = page.NextPageToken
		}
	}
	return ids
}
