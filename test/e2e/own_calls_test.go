package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// judgedFields are the fields of the calls that the tests below make. Each must be as the caller, the
// catalog and the time say, whichever part of the service makes the call.
var judgedFields = []string{
	"metadata.channel", "metadata.order.items", "session.id", "session.tainted", "customer_id", "customer.external_id", "customer.metadata.plan",
	"key.id", "agent.id", "time.hour", "verb", "provider", "risk_level", "operation_type", "domain", "dry_run",
}

// judging are the answers of the scripted model to agents whose calls are judged by these fields.
var judging = []string{
	`{"purpose":"reply","turn":0,"contains":["Make all that is judged"],` + judgedCalls("gate__create_thing", "passes ") + `}`,
	`{"purpose":"reply","turn":1,"contains":["Make all that is judged"],` + judgedCalls("gate__create_thing", "blocked ") + `}`,
	`{"purpose":"reply","turn":2,"contains":["Make all that is judged"],"text":"Done."}`,
	`{"purpose":"reply","turn":0,"contains":["Start what is judged"],` + toolCalls(toolCall("1", "start_judged", `{"ids":`+quoted(judgedIDs())+`}`)) + `}`,
	`{"purpose":"reply","turn":1,"contains":["Start what is judged"],"text":"Done."}`,
	fixture(0, "Make each that is judged", judgedCalls("gate:create_thing", "passes ")),
	fixture(1, "Make each that is judged", judgedCalls("gate:create_thing", "blocked ")),
	fixture(2, "Make each that is judged", `"text":"Done."`),
}

// judgedIDs returns two ids for each field: what a policy of the field lets pass, and what it blocks.
func judgedIDs() (list []string) {
	for _, field := range judgedFields {
		list = append(list, "passes "+field, "blocked "+field)
	}
	return list
}

// judgedCalls are the calls of one answer of a model, one for each field.
func judgedCalls(tool, prefix string) string {
	var calls []string
	for i, field := range judgedFields {
		calls = append(calls, toolCall(prefix[:1]+strconv.Itoa(i), tool, `{"id":"`+prefix+field+`"}`))
	}
	return toolCalls(calls...)
}

func quoted(list []string) string {
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // they are texts
	}
	return string(text)
}

// judgedMap makes a thing for each id, and goes on where one is blocked.
const judgedMap = `{"schema_version":"1","name":"Judged","when":"Judged things",
	"trigger_schema":{"type":"object","properties":{"ids":{"type":"array","items":{"type":"string"}}}},
	"steps":[{"id":"each","type":"foreach","items":"${trigger_data.ids}","on_item_error":"skip","steps":[
		{"id":"make","type":"verb","verb":"gate:create_thing","args":{"id":"${item}"}}]}]}`

// startsJudged starts it, through a Map between.
const startsJudged = `{"schema_version":"1","name":"%s","trigger_schema":{"type":"object","properties":{"ids":{"type":"array","items":{"type":"string"}}}},
	"steps":[{"id":"other","type":"map","map_id":"%s","payload":{"ids":"${trigger_data.ids}"},"wait":true}]}`

// callersWords is the metadata that the callers write. Its other members are names of what the service
// writes: they must not count for that.
func callersWords() map[string]any {
	return map[string]any{
		"channel": "chat", "order": map[string]any{"items": 3}, "message": map[string]any{"channel": "forged", "order": map[string]any{"items": 9}}, "tainted": "forged",
		"customer_id": "forged", "session_id": "forged", "agent_id": "forged", "agent": map[string]any{"name": "forged"}, "step": "forged", "map_id": "forged",
		"credential_id": "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95", "change": "forged",
	}
}

// judged is a tenant whose calls are judged.
type judged struct {
	*rig.Tenant

	g *gate
	// says are the values of the fields, by their names.
	says map[string]any
}

func newJudged(t *testing.T, s *rig.Stack) *judged {
	t.Helper()
	g, tenant := connected(t, s)
	a := tenant.User.Do(http.MethodPost, "/v1/customers", map[string]any{"external_id": "ann", "metadata": map[string]any{"plan": "gold"}})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	return &judged{tenant, g, map[string]any{
		"metadata.channel": "chat", "metadata.order.items": 3, "session.id": "s1", "session.tainted": nil, "customer_id": "ann", "customer.external_id": "ann",
		"customer.metadata.plan": "gold", "key.id": tenant.RuntimeKeyID, "agent.id": nil, "verb": "gate:create_thing", "provider": "gate",
		"risk_level": "medium", "operation_type": "write", "domain": "test", "dry_run": false,
	}}
}

// agent makes an agent and a key for it, and says that these make the calls.
func (j *judged) agent(t *testing.T, more map[string]any) (message string, key *rig.Client) {
	t.Helper()
	message, _ = agentOf(t, j.Tenant, more)
	agent, made := path.Base(path.Dir(message)), j.User.NewKey(t, "agents:message")
	j.says["agent.id"], j.says["session.tainted"], j.says["key.id"] = agent, false, made.ID
	return message, j.Runtime.With(made.Key, "")
}

// enact makes the policies of the fields: one that blocks a call because the field has the value, and one
// that would block another because it has any other.
func (j *judged) enact(t *testing.T, fields ...string) {
	t.Helper()
	for _, field := range fields {
		operators := map[string]string{"blocked ": "equals", "passes ": "not_equals"}
		if strings.HasPrefix(field, "time.") { // it may be another by the time of the call
			operators = map[string]string{"blocked ": "exists", "passes ": "not_exists"}
		}
		for id, operator := range operators {
			j.User.NewPolicy(t, map[string]any{
				"name": id + field, "verbMatchers": []any{map[string]any{"verb": "gate:create_thing"}}, "action": map[string]any{"type": "block"},
				"conditions": []any{
					map[string]any{"field": "args.id", "operator": "equals", "value": id + field},
					map[string]any{"field": field, "operator": operator, "value": j.says[field]},
				},
			})
		}
	}
}

// trigger triggers a Map as a caller who says who they are and whom it is for.
func (j *judged) trigger(t *testing.T, trigger string, more map[string]any) rig.Answer {
	t.Helper()
	body := map[string]any{"session_id": "s1", "customer_id": "ann", "metadata": callersWords(), "payload": map[string]any{"ids": judgedIDs()}}
	maps.Copy(body, more)
	return j.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=60")
}

// words is the body of a message of the same caller.
func (j *judged) words(text string) map[string]any {
	body := write(text, "s1")
	body["customer_id"], body["metadata"] = "ann", callersWords()
	return body
}

// requireJudged checks that the calls about the fields were made that no policy blocks, and no others.
func (j *judged) requireJudged(t *testing.T, fields ...string) {
	t.Helper()
	var want, got []string
	for _, field := range fields {
		want = append(want, "passes "+field)
	}
	for _, h := range j.g.all() {
		if kind, field, _ := strings.Cut(h.id, " "); kind != "made" && slices.Contains(fields, field) {
			got = append(got, h.id)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)
}

// Conditions see the same of a call, whether its caller or a step of a Map makes it: what the caller of the
// Map wrote, for whom, by which key, and what the catalog says.
func TestPoliciesJudgeStepsByTheWordsOfTheirCaller(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		for name, calls := range map[string]func(t *testing.T, j *judged){
			"step": func(t *testing.T, j *judged) {
				t.Helper()
				mapExecutionOf(t, j.trigger(t, "/v1/maps/"+publishedMap(t, j.Tenant, judgedMap)+"/trigger", nil), http.StatusOK)
			},
			// Calls for no customer are judged before they are claimed.
			"step for no customer": func(t *testing.T, j *judged) {
				t.Helper()
				mapExecutionOf(t, j.trigger(t, "/v1/maps/"+publishedMap(t, j.Tenant, judgedMap)+"/trigger", map[string]any{"customer_id": nil}), http.StatusOK)
			},
			"step of a Map of a Map": func(t *testing.T, j *judged) {
				t.Helper()
				between := publishedMap(t, j.Tenant, fmt.Sprintf(startsJudged, "Between", publishedMap(t, j.Tenant, judgedMap)))
				mapExecutionOf(t, j.trigger(t, "/v1/maps/"+publishedMap(t, j.Tenant, fmt.Sprintf(startsJudged, "Outer", between))+"/trigger", nil), http.StatusOK)
			},
			"call that undoes a step": func(t *testing.T, j *judged) {
				t.Helper()
				undoes := publish(t, j.Tenant, "Undoes", `[{"id":"each","type":"foreach","items":"${trigger_data.ids}","steps":[
					{"id":"make","type":"verb","verb":"gate:create_thing","args":{"id":"${\"made \" + item}"},"compensate":{"verb":"gate:create_thing","args":{"id":"${item}"}}}]},
					{"id":"stop","type":"raise","error":{"code":"STOPPED"}}]`)
				requireCode(t, j.trigger(t, undoes, nil), http.StatusUnprocessableEntity, "MAP_FAILED")
			},
			"step of a retry": func(t *testing.T, j *judged) {
				t.Helper()
				stop := j.User.NewPolicy(t, map[string]any{
					"name": "Stop", "verbMatchers": []any{map[string]any{"verb": "gate:get_thing"}}, "action": map[string]any{"type": "block"},
					"conditions": []any{map[string]any{"field": "args.id", "operator": "equals", "value": "second"}},
				})
				a := j.trigger(t, publish(t, j.Tenant, "Retried", `[
					{"id":"first","type":"verb","verb":"gate:get_thing","args":{"id":"first"}},
					{"id":"second","type":"verb","verb":"gate:get_thing","args":{"id":"second"}},
					{"id":"each","type":"foreach","items":"${trigger_data.ids}","on_item_error":"skip","steps":[
						{"id":"make","type":"verb","verb":"gate:create_thing","args":{"id":"${item}"}}]}]`), nil)
				requireCode(t, a, http.StatusUnprocessableEntity, "MAP_FAILED")
				require.Equal(t, http.StatusOK, j.User.Do(http.MethodDelete, "/v1/policies/"+stop, nil).Status)
				path := "/v1/executions/" + a.Envelope(t).Error.ExecutionID
				a = j.User.Do(http.MethodPost, path+"/retry", nil)
				require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, a.Status, "%s", a.Body)
				require.Equal(t, "completed", ended(t, j.Tenant, path).Status)
			},
			"call of the model of a step": func(t *testing.T, j *judged) {
				t.Helper()
				mapExecutionOf(t, j.trigger(t, publish(t, j.Tenant, "Asks a model", `[{"id":"work","type":"agent","goal":"Make each that is judged","tools":["gate:*"]}]`), nil), http.StatusOK)
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				j := newJudged(t, s)
				if name == "step for no customer" {
					j.says["customer_id"], j.says["customer.external_id"], j.says["customer.metadata.plan"] = nil, nil, nil
				}
				fields := judgedFields
				if name == "call of the model of a step" { // it has read answers of the provider before its last calls
					fields = slices.DeleteFunc(slices.Clone(fields), func(field string) bool { return field == "session.tainted" })
				}
				j.enact(t, fields...)
				calls(t, j)
				j.requireJudged(t, fields...)
			})
		}
	})
}

// The apply of a dry run ends with the first change that is blocked. So each field has a dry run of its
// own, of a Map that another starts.
func TestPoliciesJudgeAppliedChangesByTheWordsOfTheCaller(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		for _, field := range []string{"metadata.channel", "session.id", "customer_id", "customer.metadata.plan", "key.id", "agent.id", "risk_level", "dry_run"} {
			t.Run(field, func(t *testing.T) {
				t.Parallel()
				j := newJudged(t, s)
				outer := publishedMap(t, j.Tenant, fmt.Sprintf(startsJudged, "Outer", publishedMap(t, j.Tenant, judgedMap)))
				e := mapExecutionOf(t, j.trigger(t, "/v1/maps/"+outer+"/trigger", map[string]any{
					"dryRun": true, "payload": map[string]any{"ids": []string{"passes " + field, "blocked " + field}},
				}), http.StatusOK)
				require.Equal(t, "completed", e.Status)
				j.enact(t, field)
				set := decideAll(t, j.User, "/v1/executions/"+e.ExecutionID, map[string]any{"approve": "all"})
				require.Equal(t, "applied failed", set.statuses())
				require.Equal(t, "GOVERNANCE_BLOCKED", set.Changes[1].Code)
				j.requireJudged(t, field)
			})
		}
	})
}

func TestPoliciesJudgeStepsOfADryRunAsSuch(t *testing.T) {
	t.Parallel()
	j := newJudged(t, stack(t, eager))
	trigger := publish(t, j.Tenant, "Makes", `[{"id":"a","type":"verb","verb":"gate:create_thing","args":{"id":"a"}}]`)
	j.User.NewPolicy(t, map[string]any{
		"name": "No dry runs", "verbMatchers": []any{map[string]any{"verb": "gate:create_thing"}}, "action": map[string]any{"type": "block"},
		"conditions": []any{map[string]any{"field": "dry_run", "operator": "equals", "value": true}},
	})
	requireCode(t, j.trigger(t, trigger, map[string]any{"dryRun": true, "session_id": nil}), http.StatusUnprocessableEntity, "MAP_FAILED")
	mapExecutionOf(t, j.trigger(t, trigger, map[string]any{"session_id": nil}), http.StatusOK)
}

// The calls of an agent are judged by the words of who wrote the message, and so are those of the Maps and
// the agents that it starts.
func TestPoliciesJudgeCallsForAMessageByItsWords(t *testing.T) {
	t.Parallel()
	tools := map[string]any{"allow": []string{"gate:*"}, "max_per_turn": 100}
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		for name, c := range map[string]struct {
			words string
			agent func(t *testing.T, j *judged) map[string]any
		}{
			"call of an agent": {"Make all that is judged", func(*testing.T, *judged) map[string]any { return map[string]any{"tools": tools} }},
			"step of its Map": {"Start what is judged", func(t *testing.T, j *judged) map[string]any {
				t.Helper()
				return map[string]any{"maps": []string{publishedMap(t, j.Tenant, judgedMap)}}
			}},
			"step of a Map of its Map": {"Start what is judged", func(t *testing.T, j *judged) map[string]any {
				t.Helper()
				return map[string]any{"maps": []string{publishedMap(t, j.Tenant, fmt.Sprintf(startsJudged, "Judged", publishedMap(t, j.Tenant, strings.Replace(judgedMap, `"Judged"`, `"Inner"`, 1))))}}
			}},
			"step of a Map that is all": {"Serve", func(t *testing.T, j *judged) map[string]any {
				t.Helper()
				all := strings.Replace(judgedMap, `"${trigger_data.ids}"`, quoted(judgedIDs()), 1)
				return map[string]any{"executionMode": "workflow_only", "map_id": publishedMap(t, j.Tenant, all)}
			}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				j := newJudged(t, s)
				message, key := j.agent(t, c.agent(t, j))
				fields := judgedFields
				if name == "call of an agent" { // it has read answers of the provider before its last calls
					fields = slices.DeleteFunc(slices.Clone(fields), func(field string) bool { return field == "session.tainted" })
				}
				j.enact(t, fields...)
				saidOf(t, key.Do(http.MethodPost, message, j.words(c.words), "Prefer: wait=60"), http.StatusOK)
				j.requireJudged(t, fields...)
			})
		}
	})
}

// A goal has metadata as a message has.
func TestPoliciesJudgeCallsForAGoalByItsWords(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	for _, field := range []string{"metadata.channel", "session.id", "customer_id", "customer.metadata.plan", "key.id", "agent.id"} {
		for operator, calls := range map[string]int{"equals": 1, "not_equals": 2} {
			t.Run(field+" "+operator, func(t *testing.T) {
				t.Parallel()
				j := newJudged(t, s)
				message, key := j.agent(t, map[string]any{"executionMode": "goal"})
				j.User.NewPolicy(t, map[string]any{
					"name": "Judged", "verbMatchers": []any{map[string]any{"verb": "gate:create_thing"}}, "action": map[string]any{"type": "block"},
					"conditions": []any{map[string]any{"field": field, "operator": operator, "value": j.says[field]}},
				})
				body := goalOf("Make the medlar", criterion("seen", ""), criterion("made", ""))
				maps.Copy(body, j.words(""))
				delete(body, "message")
				pursuedOf(t, key.Do(http.MethodPost, path.Dir(message)+"/goals", body), http.StatusOK)
				require.Len(t, j.g.of("medlar"), calls, "the reads, and the write where it is not blocked")
			})
		}
	}
}

// A message that answers the question of a Map is the one for which the Map goes on. So its metadata counts
// from then on.
func TestPoliciesJudgeAMapByTheMessageThatItAnswers(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		for channel, calls := range map[string]int{"web": 1, "chat": 0} {
			t.Run(channel, func(t *testing.T) {
				t.Parallel()
				g, tenant := connected(t, s)
				tenant.User.NewPolicy(t, map[string]any{
					"name": channel, "verbMatchers": []any{map[string]any{"verb": "gate:create_thing"}}, "action": map[string]any{"type": "block"},
					"conditions": []any{map[string]any{"field": "metadata.channel", "operator": "equals", "value": channel}},
				})
				message, key := guided(t, tenant, guidedMap, nil)
				for i, text := range []string{"A cup please", "large", "blue"} {
					body := write(text, "s1")
					body["metadata"] = map[string]any{"channel": []string{"web", "web", "chat"}[i]}
					saidOf(t, key.Do(http.MethodPost, message, body, "Prefer: wait=60"), http.StatusOK)
				}
				require.Len(t, g.of("cup"), calls)
			})
		}
	})
}

// A held step of a Map is judged again by the record of its customer as it is then, and is sent by that
// customer's credential.
func TestHeldStepIsJudgedAgainForItsCustomer(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		for plan, want := range map[string][]string{"gold": {"/make Bearer token-of-a-customer"}, "frozen": nil} {
			t.Run(plan, func(t *testing.T) {
				t.Parallel()
				b, tenant := withBadges(t, s)
				storeCredential(t, tenant, "token-of-the-tenant", "")
				storeCredential(t, tenant, "token-of-a-customer", "ann")
				a := tenant.User.Do(http.MethodPost, "/v1/customers", map[string]any{"external_id": "ann", "metadata": map[string]any{"plan": "gold"}})
				require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
				held(t, tenant, "badges:make")
				tenant.User.NewPolicy(t, map[string]any{
					"name": "Frozen", "verbMatchers": []any{map[string]any{"verb": "badges:make"}}, "action": map[string]any{"type": "block"},
					"conditions": []any{map[string]any{"field": "customer.metadata.plan", "operator": "equals", "value": "frozen"}},
				})
				trigger := publish(t, tenant, "Makes", `[{"id":"a","type":"verb","verb":"badges:make","args":{"id":"a"}}]`)
				e := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"customer_id": "ann"}, "Prefer: wait=0"), http.StatusAccepted)
				var waiting []struct{ ID string }
				rig.Until(t, arriveLimit, "the call is held", func() bool {
					tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending", nil).Data(t, &waiting)
					return len(waiting) == 1
				})
				a = tenant.User.Do(http.MethodPatch, "/v1/customers/ann", map[string]any{"metadata": map[string]any{"plan": plan}})
				require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
				// The step may be judged again before the decision counts. Then nobody is asked any more.
				if a = tenant.User.Decide(waiting[0].ID, "approve", nil); plan == "gold" || a.Status != http.StatusConflict {
					require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
				}
				end := ended(t, tenant, "/v1/executions/"+e.ExecutionID)
				require.Equal(t, plan == "gold", end.Status == "completed")
				require.Equal(t, want, b.calls())
			})
		}
	})
}
