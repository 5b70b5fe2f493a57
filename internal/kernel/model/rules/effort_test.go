package rules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/agentdef"
	"agentruntime/internal/kernel/goalloop"
	"agentruntime/internal/kernel/model"
	"agentruntime/internal/kernel/model/rules"
)

// longest is the longest goal that the service takes, in bytes.
const longest = 32 << 10

func filledWith(text string, size int) string { return strings.Repeat(text, size/len(text)) }

// manyVerbs returns verbs whose words are those of the goals below.
func manyVerbs(n int) (list []goalloop.Verb) {
	for i := range n {
		list = append(list, goalloop.Verb{
			Name: fmt.Sprintf("shop:create_thing_%d", i), Description: "Creates the thing of an order for a customer with a refund", Operation: "write",
			Parameters: json.RawMessage(`{"type":"object","required":["order_id","amount"],"properties":{"order_id":{"type":"string"},` +
				`"customer_id":{"type":"string"},"amount":{"type":"integer"},"channel":{"enum":["email","sms"]}}}`),
		})
	}
	return list
}

// requests are those that cost most: the longest texts with the most verbs, criteria and properties.
func requests(t *testing.T) map[string]model.Request {
	t.Helper()
	list := map[string]model.Request{}
	var criteria []agentdef.Criterion
	for i := range agentdef.MaxCriteria {
		criteria = append(criteria, agentdef.Criterion{ID: fmt.Sprint("c", i), Description: filledWith("it, ", 2_000), Check: "${ " + filledWith("shop:a or ", 3_900) + " }"})
	}
	for name, goal := range map[string]string{
		"clauses": filledWith("refund it, ", longest), "ids": filledWith("create thing_1 ord_12345, ", longest), "sentences": filledWith("Go. ", longest),
		"a word": filledWith("a", longest), "words": filledWith("refund ", longest), "digits": filledWith("order 9 ", longest), "quotes": filledWith(`"a" `, longest),
	} {
		list["plan "+name] = goalloop.Request(goalloop.Ask{Goal: goal, Criteria: criteria, Verbs: manyVerbs(60), StepsLeft: 10})
		if name == "clauses" || name == "words" {
			list["plan with 5,000 verbs "+name] = goalloop.Request(goalloop.Ask{Goal: goal, Criteria: criteria, Verbs: manyVerbs(5_000), StepsLeft: 10})
		}
		tools, _ := shopVerbs(t)
		list["work "+name] = model.Request{Purpose: model.Agent, Tools: tools, Messages: []model.Message{{Role: model.User, Text: "The goal: " + goal}}}
		list["reply "+name] = model.Request{Purpose: model.Reply, Tools: tools, Messages: []model.Message{{Role: model.User, Text: goal}}}
	}
	var props, labels []string
	for i := range 300 {
		props, labels = append(props, fmt.Sprintf(`"p%d":{"type":"string"}`, i)), append(labels, fmt.Sprint("refund complaint ", i))
	}
	long := data(t, "input", filledWith("hello you. ", 1<<20))
	list["extract"] = model.Request{Purpose: model.Extract, OutputSchema: json.RawMessage(`{"type":"object","properties":{` + strings.Join(props, ",") + `}}`), Messages: []model.Message{{Role: model.User, Text: long}}}
	raw, err := json.Marshal(labels)
	require.NoError(t, err)
	list["classify"] = model.Request{Purpose: model.Classify, OutputSchema: json.RawMessage(`{"properties":{"label":{"enum":` + string(raw) + `}}}`), Messages: []model.Message{{Role: model.User, Text: long}}}
	list["summarize"] = model.Request{Purpose: model.Summarize, Messages: []model.Message{{Role: model.User, Text: "Summarize the data." + long}}}
	list["reason"] = model.Request{Purpose: model.Reason, Messages: []model.Message{{Role: model.User, Text: "The question: " + filledWith("is what ", longest) + long}}}
	var judged []map[string]any
	for i := range agentdef.MaxCriteria {
		judged = append(judged, map[string]any{"id": fmt.Sprint("c", i), "description": filledWith("it, ", 2_000)})
	}
	calls := make([]map[string]any, 160)
	for i := range calls {
		calls[i] = map[string]any{"id": fmt.Sprint("c", i), "verb": "shop:get_it", "status": "executed"}
	}
	list["judge"] = model.Request{Purpose: model.Manager, Messages: []model.Message{{Role: model.User, Text: "Judge." + data(t, "goal", "It", "criteria", judged, "calls", calls, "output", "done", "checks", []any{})}}}
	// Each level has ten of the next: 10^12 values without a bound.
	levels := []string{`"x":{"type":"string"}`}
	for i := range 10 {
		levels = append(levels, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/n"}`, i))
	}
	nested := `{"type":"object","properties":{` + strings.Join(levels, ",") + `}}`
	list["extract nested"] = model.Request{Purpose: model.Extract, OutputSchema: json.RawMessage(`{"$ref":"#/$defs/n","$defs":{"n":` + nested + `}}`), Messages: []model.Message{{Role: model.User, Text: data(t, "input", "hello")}}}
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
			var err error
			require.Less(t, allocations(func() { _, err = rules.Model{}.Generate(t.Context(), req, model.Stream{}) }), uint64(most))
			var failed *model.Error
			require.True(t, err == nil || errors.As(err, &failed), err)
		})
	}
}

// allocations counts those of one call. testing.AllocsPerRun makes another call before, which would take
// as long.
func allocations(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// gone is a context that ends while a request is answered.
type gone struct {
	context.Context //nolint:containedctx // it is one

	looks int
}

func (g *gone) Done() <-chan struct{} {
	ended := make(chan struct{})
	close(ended)
	return ended
}

func (g *gone) Err() error {
	if g.looks++; g.looks == 1 {
		return nil
	}
	return context.Canceled
}

func TestRulesStopWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	for name, req := range requests(t) {
		if strings.HasPrefix(name, "plan") || strings.HasPrefix(name, "work") {
			_, err := rules.Model{}.Generate(&gone{Context: t.Context()}, req, model.Stream{})
			require.ErrorIs(t, err, context.Canceled, name)
		}
	}
}

// What a goal says beyond what is read of it was not done, so it is not reached.
func TestRulesNeverReachAGoalThatTheyDoNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	criteria := []map[string]any{{"id": "c", "description": "The goal is reached."}}
	for name, c := range map[string]struct{ more, status string }{
		"short":          {"", "done"},
		"many sentences": {filledWith(" Thanks.", 60*8), "blocked"},
		"many clauses":   {" Thanks" + filledWith(", thanks", 60*8), "blocked"},
		"long":           {" " + filledWith("Thanks ", 5_000), "blocked"},
	} {
		last, verbs := planFor(t, newCounter(), "Cancel the order ord_1003."+c.more, criteria, 12)
		require.Equal(t, []string{"get_order", "cancel_order"}, verbs, name)
		require.Equal(t, c.status, last.Status, name)
		if c.status == "blocked" {
			require.Contains(t, last.Reason, "longer than what is read of it", name)
		}
	}
}
