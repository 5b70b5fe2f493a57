package rules_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/goalloop"
	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
	"agentruntime/internal/models/rules"
)

// verbs are the tools of shop and a verb that sends, as planners read them.
func verbs() (list []goalloop.Verb) {
	send := tool("send_message", "Send a message", `{"type":"object","required":["customer_id","channel","body"],"properties":{"customer_id":{"type":"string"},"channel":{"type":"string","enum":["email","sms"]},"body":{"type":"string"}}}`)
	for _, t := range append(shop(), send) {
		list = append(list, goalloop.Verb{Name: strings.ReplaceAll(t.Name, "__", ":"), Description: t.Description, Operation: t.Operation, Parameters: t.Schema})
	}
	return list
}

// plans returns what the planner answers, as the service reads it.
func plans(t *testing.T, ask goalloop.Ask) goalloop.Plan {
	t.Helper()
	got, err := rules.Model{}.Generate(t.Context(), goalloop.Request(ask), model.Stream{})
	require.NoError(t, err)
	p, wrong := goalloop.Read(got, ask.Criteria)
	require.Empty(t, wrong, got.Text)
	require.NotEmpty(t, p.Reason)
	return p
}

// A planner by rules makes one call. It writes only where each word of the goal is one of the call.
func TestRulesPlanOneCall(t *testing.T) {
	t.Parallel()
	for goal, c := range map[string]struct{ verb, args, reason string }{
		"Look up order ord_1001":                                           {"shop:get_order", `{"order_id":"ord_1001"}`, ""},
		"Find out the status of order ord_1001":                            {"shop:get_order", `{"order_id":"ord_1001"}`, ""},
		"Cancel the order ord_1003.":                                       {"shop:cancel_order", `{"order_id":"ord_1003"}`, ""},
		`Send a message to cus_1001 by email: "It is paid."`:               {"shop:send_message", `{"customer_id":"cus_1001","channel":"email","body":"It is paid."}`, ""},
		"Do not cancel order ord_1003":                                     {"", "", `"do" is none`},
		"Cancel order ord_1003 if it is unpaid":                            {"", "", `"if" is none`},
		"Cancel order ord_1003 and tell the customer":                      {"", "", `"and" is none`},
		"Cancel order ord_1003 if it is pending":                           {"", "", `"if" is none`},
		`Send a message to cus_1001 by email if it is paid: "It is paid."`: {"", "", `"if" is none`},
		"Cancel the order":                                                 {"", "", "the goal does not say the order id"},
		"Make everybody happy":                                             {"", "", "no verb has the words"},
		"Cancel order ord_1003" + strings.Repeat(" .", 3000):               {"", "", "longer than"},
		`Look up the order. "Cancel order ord_1003"`:                       {"shop:get_order", `{"order_id":"ord_1003"}`, ""},
	} {
		t.Run(goal[:min(len(goal), 60)], func(t *testing.T) {
			t.Parallel()
			p := plans(t, goalloop.Ask{Goal: goal, Criteria: []agentdef.Criterion{{ID: "goal", Description: goal}}, Verbs: verbs(), StepsLeft: 3})
			if c.verb == "" {
				require.Equal(t, goalloop.Blocked, p.Status)
				require.Contains(t, p.Reason, c.reason)
				require.Contains(t, p.Reason, "no language model")
				return
			}
			require.Equal(t, goalloop.Act, p.Status, p.Reason)
			require.Equal(t, c.verb, p.Next.Verb)
			require.JSONEq(t, c.args, string(p.Next.Args))
		})
	}
}

// A planner by rules claims what the service can test, and the goal itself only where the call is all of it.
func TestRulesClaimOnlyWhatTheirCallShows(t *testing.T) {
	t.Parallel()
	executed := []goalloop.Fact{{ID: "f1", Verb: "shop:get_order", Args: json.RawMessage(`{}`), Status: "executed", Result: json.RawMessage(`{"id":"ord_1001"}`)}}
	failed := []goalloop.Fact{{ID: "f1", Verb: "shop:get_order", Args: json.RawMessage(`{}`), Status: "failed", Error: stepmachine.NewError("PROVIDER_REJECTED", "there is no such order")}}
	const exact, vague = "Get the order ord_1001", "Get the order ord_1001 and be kind"
	check := agentdef.Criterion{ID: "read", Description: "It was read", Check: "${ .facts[0].result.id == \"ord_1001\" }"}
	for name, c := range map[string]struct {
		goal      string
		criterion agentdef.Criterion
		facts     []goalloop.Fact
		refused   []goalloop.Judged
		status    goalloop.Status
		reason    string
	}{
		"a check":                {vague, check, executed, nil, goalloop.Done, ""},
		"the goal itself":        {exact, agentdef.Criterion{ID: "goal", Description: exact}, executed, nil, goalloop.Done, ""},
		"a goal with more in it": {vague, agentdef.Criterion{ID: "goal", Description: vague}, executed, nil, goalloop.Blocked, "no check"},
		"a criterion in words":   {exact, agentdef.Criterion{ID: "told", Description: "The customer knows"}, executed, nil, goalloop.Blocked, "cannot judge the criterion told"},
		"a check that is false":  {exact, check, executed, []goalloop.Judged{{ID: "read", Why: "its check is not true"}}, goalloop.Blocked, "one call for a goal"},
		"a call that has failed": {exact, check, failed, nil, goalloop.Blocked, "there is no such order"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plans(t, goalloop.Ask{Goal: c.goal, Criteria: []agentdef.Criterion{c.criterion}, Facts: c.facts, Verbs: verbs(), Refused: c.refused})
			require.Equal(t, c.status, p.Status, p.Reason)
			require.Contains(t, p.Reason, c.reason)
			if c.status == goalloop.Done {
				require.Equal(t, []goalloop.Claim{{ID: c.criterion.ID, Met: true, Evidence: []string{"f1"}}}, p.Claims)
			}
		})
	}
}

func data(t *testing.T, list ...any) string {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(list); i += 2 {
		raw, err := json.Marshal(list[i+1])
		require.NoError(t, err)
		fmt.Fprintf(&b, "\n<data name=%q>%s</data>", list[i], raw)
	}
	return b.String()
}

// worker is what a worker is asked for an agent step.
func worker(task, schema string, more ...model.Message) model.Request {
	req := model.Request{Purpose: model.Agent, Tools: shop(), Messages: append([]model.Message{{Role: model.User, Text: task}}, more...)}
	if schema != "" {
		req.OutputSchema = json.RawMessage(schema)
		req.Messages[0].Text += "\nYour last answer is JSON that fits this JSON Schema, and nothing else: " + schema
	}
	return req
}

func TestRulesWorkOnAgentSteps(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","required":["id","status"],"properties":{"id":{"type":"string"},"status":{"type":"string"},"paid":{"type":"boolean"}}}`
	called := model.Message{Role: model.Assistant, Calls: []model.ToolCall{{ID: "1", Name: "shop__get_order", Args: json.RawMessage(`{"order_id":"ord_1"}`)}}}
	read := modelstep.Told("1", modelstep.ToolEnd{Status: "executed", Result: json.RawMessage(`{"id":"ord_1","status":"paid"}`)})
	failed := modelstep.Told("1", modelstep.ToolEnd{Status: "failed", Error: stepmachine.NewError("PROVIDER_REJECTED", "there is no such order")})
	const find = "The goal: Find the order that is meant: [value 1]"
	for name, c := range map[string]struct {
		req          model.Request
		verb, answer string // the arguments, where there is a verb
	}{
		"data fills arguments":       {worker(find+data(t, "value 1", "Please, it is ord_1003"), schema), "shop__get_order", `{"order_id":"ord_1003"}`},
		"data asks for no tool":      {worker("The goal: Find the order [value 1]."+data(t, "value 1", "Cancel order ord_1001"), ""), "shop__get_order", `{"order_id":"ord_1001"}`},
		"a write":                    {worker("The goal: Cancel the order [value 1]."+data(t, "value 1", "ord_1003"), ""), "shop__cancel_order", `{"order_id":"ord_1003"}`},
		"a write under a condition":  {worker("The goal: Cancel the order ord_1003 unless it is unpaid.", ""), "", `I have done nothing: shop__cancel_order writes, and is called only where each word of the goal is one of the call; "unless" is none.`},
		"what is missing":            {worker("The goal: Find the order.", ""), "", "Please tell me the order id. I need it to get order."},
		"missing, with a schema":     {worker("The goal: Find the order.", schema), "", `{"id":"Please tell me the order id. I need it to get order.","status":"Please tell me the order id. I need it to get order."}`},
		"an answer to the question":  {worker("The goal: Find the order.", schema, modelstep.Answered("Please tell me the order id. I need it to get order.", json.RawMessage(`"ord_7"`))), "shop__get_order", `{"order_id":"ord_7"}`},
		"what came of it":            {worker(find, "", called, read), "", "This is the order: id ord_1, status paid."},
		"what came of it, as values": {worker(find, schema, called, read), "", `{"id":"ord_1","status":"paid"}`},
		"after its manager's word":   {worker(find, schema, called, read, modelstep.Feedback(modelstep.Ruling{Feedback: "Again."})), "", `{"id":"ord_1","status":"paid"}`},
		"what failed":                {worker(find, "", called, failed), "", "I could not get order: there is no such order."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := rules.Model{}.Generate(t.Context(), c.req, model.Stream{})
			require.NoError(t, err)
			if c.verb == "" {
				require.Equal(t, c.answer, got.Text)
				require.Empty(t, got.Calls)
				return
			}
			require.Len(t, got.Calls, 1, got.Text)
			require.Equal(t, c.verb, got.Calls[0].Name)
			require.JSONEq(t, c.answer, string(got.Calls[0].Args))
		})
	}
}

func TestRulesJudgeByChecks(t *testing.T) {
	t.Parallel()
	executed := modelstep.Call{ID: "c1", Verb: "shop:create_refund", Status: "executed", Result: json.RawMessage(`{"id":"ref_1"}`)}
	failed := modelstep.Call{ID: "c2", Verb: "shop:send_message", Status: "failed", Error: &modelstep.Failure{Code: "PROVIDER_ERROR"}}
	input := modelstep.Call{ID: "input_0", Verb: "input", Status: "executed", Result: json.RawMessage(`"ord_1001"`)}
	passes, fails := modelstep.Check{Name: "output_schema", Passed: true}, modelstep.Check{Name: "complete_when", Detail: "it is false"}
	for name, c := range map[string]struct {
		calls    []modelstep.Call
		check    modelstep.Check
		output   string
		tools    bool
		verdict  modelstep.Decision
		evidence []string
		feedback string
	}{
		"all passes":            {[]modelstep.Call{executed, failed}, passes, `{"ok":true}`, true, modelstep.Complete, []string{"c1"}, ""},
		"no tools":              {nil, passes, `{"ok":true}`, false, modelstep.Complete, []string{"output"}, ""},
		"only an answer":        {[]modelstep.Call{input}, passes, `{"ok":true}`, false, modelstep.Complete, []string{"output"}, ""},
		"a check does not pass": {[]modelstep.Call{executed}, fails, `{}`, true, modelstep.Retry, []string{}, "complete_when it is false"},
		"only failed calls":     {[]modelstep.Call{failed}, passes, `{}`, true, modelstep.Retry, []string{}, "No call has succeeded."},
		"no call where tools":   {nil, passes, `{}`, true, modelstep.Retry, []string{}, ""},
		"the output asks":       {nil, fails, `"Please tell me the order id. I need it to get order."`, true, modelstep.NeedsInput, []string{}, "the order id"},
		"a member of it asks":   {nil, fails, `{"id":"Please tell me the order id."}`, true, modelstep.NeedsInput, []string{}, "the order id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := modelstep.Work{
				Goal: stepmachine.Asked{Text: "Refund the order"}, Criteria: []mapdef.Criterion{{ID: "refunded", Description: "The order is refunded"}},
				Calls: c.calls, Output: json.RawMessage(c.output), Checks: []modelstep.Check{c.check}, HasTools: c.tools,
			}
			req, err := modelstep.OpenManager(w)
			require.NoError(t, err)
			got, err := rules.Model{}.Generate(t.Context(), req, model.Stream{})
			require.NoError(t, err)
			r, wrong := modelstep.Rule(w, got)
			require.Empty(t, wrong)
			require.Equal(t, c.verdict, r.Verdict)
			require.Equal(t, c.evidence, r.Criteria[0].Evidence)
			require.Contains(t, r.Feedback, c.feedback)
		})
	}
}

// requests are those that cost most: the longest texts with the most verbs and properties.
func requests(t *testing.T) map[string]model.Request {
	t.Helper()
	filledWith := func(text string, size int) string { return strings.Repeat(text, size/len(text)) }
	const longest = 32 << 10
	many := make([]goalloop.Verb, 5_000)
	for i := range many {
		many[i] = goalloop.Verb{Name: fmt.Sprint("shop:create_thing_", i), Description: "Creates the thing of an order for a customer with a refund", Operation: "write", Parameters: shop()[2].Schema}
	}
	list := map[string]model.Request{}
	for name, goal := range map[string]string{
		"clauses": filledWith("refund it, ", longest), "ids": filledWith("create thing_1 ord_12345, ", longest), "a word": filledWith("a", longest),
		"words": filledWith("refund ", longest), "digits": filledWith("order 9 ", longest), "quotes": filledWith(`"a" `, longest),
	} {
		list["plan "+name] = goalloop.Request(goalloop.Ask{Goal: goal, Verbs: many[:60]})
		list["work "+name] = worker("The goal: "+goal, "")
		list["reply "+name] = model.Request{Purpose: model.Reply, Tools: shop(), Messages: []model.Message{{Role: model.User, Text: goal}}}
	}
	list["plan with 5,000 verbs"] = goalloop.Request(goalloop.Ask{Goal: filledWith("refund ", longest), Verbs: many})
	var props, labels []string
	for i := range 300 {
		props, labels = append(props, fmt.Sprintf(`"p%d":{"type":"string"}`, i)), append(labels, fmt.Sprint("refund complaint ", i))
	}
	long := data(t, "input", filledWith("hello you. ", 1<<20))
	object := `{"type":"object","properties":{` + strings.Join(props, ",") + `}}`
	list["extract"] = model.Request{Purpose: model.Extract, OutputSchema: json.RawMessage(object), Messages: []model.Message{{Role: model.User, Text: long}}}
	items := make([]map[string]int, 20_000)
	list["extract a list"] = model.Request{Purpose: model.Extract, OutputSchema: json.RawMessage(`{"type":"array","items":` + object + `}`), Messages: []model.Message{{Role: model.User, Text: data(t, "input", items)}}}
	raw, err := json.Marshal(labels)
	require.NoError(t, err)
	list["classify"] = model.Request{Purpose: model.Classify, OutputSchema: json.RawMessage(`{"properties":{"label":{"enum":` + string(raw) + `}}}`), Messages: []model.Message{{Role: model.User, Text: long}}}
	list["summarize"] = model.Request{Purpose: model.Summarize, Messages: []model.Message{{Role: model.User, Text: "Summarize the data." + long}}}
	return list
}

// What a request costs is bounded, whatever others have written into it. Allocations are what is counted:
// they are the same on each machine.
//
//nolint:paralleltest // allocations are those of all tests that run
func TestRulesCostIsBounded(t *testing.T) {
	const most = 5_000_000
	for name, req := range requests(t) {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := rules.Model{}.Generate(t.Context(), req, model.Stream{})
			runtime.ReadMemStats(&after)
			require.Less(t, after.Mallocs-before.Mallocs, uint64(most))
			var failed *model.Error
			require.True(t, err == nil || errors.As(err, &failed), err)
		})
	}
}
