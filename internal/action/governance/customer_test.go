package governance_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
)

// Of a customer without a record every field is null, and null equals null only. Other comparisons
// cannot be judged: a policy that tightens counts them as true, and one that allows as false.
func TestConditionsReadTheCustomersRecord(t *testing.T) {
	t.Parallel()
	record := json.RawMessage(`{"id":"0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90","external_id":"u1","tags":["vip","eu"],"metadata":{"plan":"gold","spent":9007199254740993,"a.b":1,"in":{"deep":true}}}`)
	for _, c := range []struct {
		field, operator, value string
		known, unknown         [2]bool // what block and allow decide
	}{
		{"customer.external_id", "equals", `"u1"`, [2]bool{true, true}, [2]bool{false, false}},
		{"customer.external_id", "equals", `null`, [2]bool{false, false}, [2]bool{true, true}},
		{"customer.id", "exists", ``, [2]bool{true, true}, [2]bool{false, false}},
		{"customer.id", "not_exists", ``, [2]bool{false, false}, [2]bool{true, true}},
		{"customer.tags", "contains", `"vip"`, [2]bool{true, true}, [2]bool{true, false}},
		{"customer.tags", "not_contains", `"vip"`, [2]bool{false, false}, [2]bool{true, false}},
		{"customer.metadata.plan", "in", `["gold","silver"]`, [2]bool{true, true}, [2]bool{false, false}},
		{"customer.metadata.plan", "equals", `"free"`, [2]bool{false, false}, [2]bool{false, false}},
		{"customer.metadata.spent", "greater", `9007199254740992`, [2]bool{true, true}, [2]bool{true, false}},
		{"customer.metadata.in.deep", "equals", `true`, [2]bool{true, true}, [2]bool{false, false}},
		{`customer.metadata.a\.b`, "equals", `1`, [2]bool{true, true}, [2]bool{false, false}},
		{"customer.metadata.none", "equals", `1`, [2]bool{false, false}, [2]bool{false, false}},
		{"customer.metadata.none", "not_exists", ``, [2]bool{true, true}, [2]bool{true, true}},
	} {
		for customer, want := range map[string][2]bool{"known": c.known, "unknown": c.unknown} {
			call := governance.Call{Verb: verb.Name{Provider: "p", Verb: "v"}, Risk: verb.RiskLow, Operation: verb.Write, Args: json.RawMessage(`{}`)}
			if customer == "known" {
				call.Context.Customer = record
			}
			condition := governance.Condition{Field: c.field, Operator: governance.Operator(c.operator), Value: json.RawMessage(c.value)}
			set := governance.Compile(1, []governance.Policy{{Name: "b", Enabled: true, Mode: governance.Enforce, Action: governance.ActionBlock, Conditions: []governance.Condition{condition}}})
			verdict := set.Evaluate(call)
			require.Equal(t, want[0], verdict.Decision == governance.Block, "block: %s %s %s, %s customer", c.field, c.operator, c.value, customer)
			compiled, err := governance.CompileConditions([]governance.Condition{condition})
			require.NoError(t, err)
			require.Equal(t, want[1], compiled.Met(call, governance.NewWork()), "allow: %s %s %s, %s customer", c.field, c.operator, c.value, customer)
			// What is stored of a decision cannot be erased, so it has nothing of the record.
			stored, err := json.Marshal(verdict.Matches)
			require.NoError(t, err)
			for _, personal := range []string{`"gold"`, "9007199254740993", "2c1d8e4f7a90"} {
				if !json.Valid([]byte(c.value)) || c.value != personal {
					require.NotContains(t, string(actuals(t, stored)), personal)
				}
			}
		}
	}
}

// actuals returns what a stored match tells of the call.
func actuals(t *testing.T, stored []byte) []byte {
	t.Helper()
	var matches []struct {
		Conditions []struct{ Actual json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(stored, &matches))
	text, err := json.Marshal(matches)
	require.NoError(t, err)
	return text
}

func TestConditionsKnowTheFieldsOfACustomer(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"customer.", "customer.email", "customer.name", "customer.metadata", "customer.tags.0", "customer.id.x", "customer.metadata.", "customer"} {
		_, err := governance.CompileConditions([]governance.Condition{{Field: field, Operator: governance.OpExists}})
		require.Error(t, err, field)
	}
}
