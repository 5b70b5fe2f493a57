package governance_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentruntime/internal/action/governance"
)

func anyOf(list ...governance.Condition) governance.Condition { return governance.Condition{Any: list} }

func allOf(list ...governance.Condition) governance.Condition { return governance.Condition{All: list} }

func not(c governance.Condition) governance.Condition { return governance.Condition{Not: &c} }

// sides is whether a policy that blocks, and one that allows, with these conditions applies.
func sides(call governance.Call, list ...governance.Condition) (blocks, allows bool) {
	b := governance.Compile(1, []governance.Policy{policy("b", block, list...)}).Evaluate(call)
	a := governance.Compile(1, []governance.Policy{policy("a", allow, list...)}).Evaluate(call)
	return len(b.Matches) > 0, len(a.Matches) > 0
}

// The table of docs/use/policies.md: in doubt, on either side of not, the stricter side counts.
func TestGroupsResolveDoubtOnceAtTheTop(t *testing.T) {
	t.Parallel()
	large, vip := cond("args.amount", "greater", "1000"), cond("args.tags", "contains", `"vip"`)
	item := cond("args.items.amount", "greater", "1000")
	for name, c := range map[string]struct {
		args           string
		condition      governance.Condition
		blocks, allows bool
	}{
		"any, one met":                 {`{"amount":5000,"tags":[]}`, anyOf(vip, large), true, true},
		"any, none met":                {`{"amount":5,"tags":[]}`, anyOf(vip, large), false, false},
		"any, one in doubt":            {`{"tags":[]}`, anyOf(vip, large), true, false},
		"any, one met, one in doubt":   {`{"tags":["vip"]}`, anyOf(large, vip), true, true},
		"all, one unmet":               {`{"amount":5000,"tags":[]}`, allOf(vip, large), false, false},
		"all, one in doubt":            {`{"tags":["vip"]}`, allOf(large, vip), true, false},
		"all, one in doubt, one unmet": {`{"tags":[]}`, allOf(large, vip), false, false},
		"not met":                      {`{"amount":5000}`, not(large), false, false},
		"not unmet":                    {`{"amount":5}`, not(large), true, true},
		"not in doubt":                 {`{}`, not(large), true, false},
		"not not in doubt":             {`{}`, not(not(large)), true, false},
		"not any, one in doubt":        {`{"tags":[]}`, not(anyOf(vip, large)), true, false},
		"not any, one met":             {`{"tags":["vip"]}`, not(anyOf(large, vip)), false, false},
		"not all, one in doubt":        {`{"tags":["vip"]}`, not(allOf(large, vip)), true, false},
		"not all, one unmet":           {`{"tags":[]}`, not(allOf(large, vip)), true, true},

		"each element met":     {`{"items":[{"amount":5000},{"amount":6000}]}`, item, true, true},
		"some elements met":    {`{"items":[{"amount":5000},{"amount":6}]}`, item, true, false},
		"not, each met":        {`{"items":[{"amount":5000},{"amount":6000}]}`, not(item), false, false},
		"not, some met":        {`{"items":[{"amount":5000},{"amount":6}]}`, not(item), true, false},
		"not, none met":        {`{"items":[{"amount":5},{"amount":6}]}`, not(item), true, true},
		"any, some and met":    {`{"amount":5000,"items":[{"amount":5000},{"amount":6}]}`, anyOf(item, large), true, true},
		"all, some and met":    {`{"amount":5000,"items":[{"amount":5000},{"amount":6}]}`, allOf(item, large), true, false},
		"names differ by case": {`{"amount":5,"Amount":5000}`, not(large), true, false},
		"cannot be read":       {`{"amount":`, not(large), true, false},
	} {
		blocks, allows := sides(refund(c.args), c.condition)
		require.Equal(t, c.blocks, blocks, "block: %s", name)
		require.Equal(t, c.allows, allows, "allow: %s", name)
		cs, err := governance.CompileConditions([]governance.Condition{c.condition})
		require.NoError(t, err)
		require.Equal(t, c.allows, cs.Met(refund(c.args), governance.NewWork()), "a grant lets through what an allow does: %s", name)
	}
}

func drawCondition(t *rapid.T, groups int) governance.Condition {
	kind := "leaf"
	if groups > 0 {
		kind = rapid.SampledFrom([]string{"leaf", "leaf", "any", "all", "not"}).Draw(t, "kind")
	}
	switch kind {
	case "leaf":
		if rapid.IntRange(0, 4).Draw(t, "compares fields") == 0 {
			return with(rapid.SampledFrom(fields).Draw(t, "field"), rapid.SampledFrom(operators).Draw(t, "operator"), rapid.SampledFrom(fields).Draw(t, "other"))
		}
		return cond(rapid.SampledFrom(fields).Draw(t, "field"), rapid.SampledFrom(operators).Draw(t, "operator"), rapid.SampledFrom(values).Draw(t, "value"))
	case "not":
		return not(drawCondition(t, groups-1))
	}
	var list []governance.Condition
	for range rapid.IntRange(1, 3).Draw(t, "parts") {
		list = append(list, drawCondition(t, groups-1))
	}
	if kind == "any" {
		return anyOf(list...)
	}
	return allOf(list...)
}

// value3 is what a condition may be, and what it must be: met, unmet (neither) or in doubt.
type value3 struct{ may, must bool }

// meaning is the value of a condition by the three-valued rules of groups. It takes the value
// of a leaf from policies of that condition alone.
func meaning(call governance.Call, c governance.Condition) value3 {
	switch {
	case c.Not != nil:
		v := meaning(call, *c.Not)
		return value3{!v.must, !v.may}
	case c.Any != nil:
		var v value3
		for _, part := range c.Any {
			p := meaning(call, part)
			v = value3{v.may || p.may, v.must || p.must}
		}
		return v
	case c.All != nil:
		v := value3{true, true}
		for _, part := range c.All {
			p := meaning(call, part)
			v = value3{v.may && p.may, v.must && p.must}
		}
		return v
	}
	blocks, allows := sides(call, c)
	return value3{blocks, allows}
}

func TestGroupsMeanWhatTheirConditionsMean(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, call := drawCondition(t, 4), drawCall(t)
		if len(governance.CheckConditions("", []governance.Condition{c})) > 0 {
			v := governance.Compile(1, []governance.Policy{policy("broken", allow, c)}).Evaluate(call)
			require.Equal(t, governance.Block, v.Decision)
			return
		}
		want := meaning(call, c)
		blocks, allows := sides(call, c)
		require.Equal(t, want, value3{blocks, allows})
		require.True(t, !want.must || want.may)
		for _, p := range []governance.Policy{policy("b", block, c), policy("a", allow, c)} {
			for _, m := range governance.Compile(1, []governance.Policy{p}).Evaluate(call).Matches {
				require.Len(t, m.Conditions, 1)
				checkMet(t, m.Conditions[0])
				require.True(t, m.Conditions[0].Met)
			}
		}
	})
}

// checkMet checks that each group of an explanation follows from its parts.
func checkMet(t *rapid.T, m governance.ConditionMatch) {
	met := m.Met
	switch {
	case m.Not != nil:
		checkMet(t, *m.Not)
		met = !m.Not.Met
	case m.Any != nil:
		met = false
		for _, part := range m.Any {
			checkMet(t, part)
			met = met || part.Met
		}
	case m.All != nil:
		met = true
		for _, part := range m.All {
			checkMet(t, part)
			met = met && part.Met
		}
	}
	require.Equal(t, met, m.Met)
}

func TestGroupsAreChecked(t *testing.T) {
	t.Parallel()
	leaf := cond("args.a", "exists", "")
	deep := func(groups int) governance.Condition {
		c := leaf
		for range groups {
			c = not(c)
		}
		return c
	}
	for name, c := range map[string]struct {
		list  []governance.Condition
		paths []string
	}{
		"four groups":            {[]governance.Condition{deep(4)}, nil},
		"five groups":            {[]governance.Condition{deep(5)}, []string{"/c/0/not/not/not/not/not"}},
		"empty group":            {[]governance.Condition{leaf, {Any: []governance.Condition{}}}, []string{"/c/1/any"}},
		"two groups in one":      {[]governance.Condition{{Any: []governance.Condition{leaf}, Not: &leaf}}, []string{"/c/0"}},
		"a group with a field":   {[]governance.Condition{{Field: "args.a", Any: []governance.Condition{leaf}}}, []string{"/c/0"}},
		"mistakes at two places": {[]governance.Condition{anyOf(leaf, cond("args.a", "like", "1")), not(cond("arg", "exists", ""))}, []string{"/c/0/any/1/operator", "/c/1/not/field"}},
		"a group of nothing":     {[]governance.Condition{not(governance.Condition{})}, []string{"/c/0/not/field"}},
		"fifty in groups":        {[]governance.Condition{anyOf(repeat(30, leaf)...), allOf(repeat(20, leaf)...)}, nil},
		"fifty-one in groups":    {[]governance.Condition{anyOf(repeat(30, leaf)...), allOf(repeat(21, leaf)...)}, []string{"/c"}},
		"very many groups":       {repeat(100_000, anyOf()), []string{"/c"}},
		"costly together":        {[]governance.Condition{anyOf(repeat(4, cond("args.a", "matches", `"(?:.{0,900}b)$"`))...)}, []string{"/c"}},
	} {
		var paths []string
		for _, d := range governance.CheckConditions("/c", c.list) {
			paths = append(paths, d.Path)
		}
		require.Equal(t, c.paths, paths, name)
	}
	_, err := governance.CompileConditions([]governance.Condition{leaf, anyOf(leaf, cond("args.a", "like", "1"))})
	require.ErrorContains(t, err, "condition 1/any/1/operator is not an operator")
}

func TestGroupsAreNormalized(t *testing.T) {
	t.Parallel()
	given := governance.Policy{Conditions: []governance.Condition{anyOf(cond("args.a", "EXISTS", `1`), not(allOf(cond("args.b", "Equals", `1`))))}}
	p := governance.Normalize(given)
	require.Equal(t, []governance.Condition{anyOf(governance.Condition{Field: "args.a", Operator: "exists"}, not(allOf(cond("args.b", "equals", `1`))))}, p.Conditions)
	require.Equal(t, governance.Operator("EXISTS"), given.Conditions[0].Any[0].Operator, "what was given is not changed")
	require.Positive(t, governance.Instructions([]governance.Condition{not(cond("args.a", "MATCHES", `"a+"`))}))
}

func TestExplanationsShowGroups(t *testing.T) {
	t.Parallel()
	call := refund(`{"amount":5000,"pass":"hunter2","items":[{"amount":1},{"amount":9}]}`)
	call.Masked = func() json.RawMessage {
		return json.RawMessage(`{"amount":5000,"pass":"[masked]","items":[{"amount":1},{"amount":9}]}`)
	}
	p := policy("Grouped", block,
		anyOf(cond("args.amount", "less", "10"), allOf(cond("args.pass", "equals", `"hunter2"`), not(cond("args.reason", "equals", `"test"`)))),
		cond("args.amount", "exists", ""),
		not(cond("args.items.amount", "greater", "5")))
	v := governance.Compile(1, []governance.Policy{p}).Evaluate(call)
	require.Equal(t, governance.Block, v.Decision)
	got, err := json.Marshal(v.Matches[0].Conditions)
	require.NoError(t, err)
	require.JSONEq(t, `[
	  {"met":true,"any":[
	    {"field":"args.amount","operator":"less","value":10,"actual":5000,"met":false},
	    {"met":true,"all":[
	      {"field":"args.pass","operator":"equals","value":"[masked]","actual":"[masked]","met":true},
	      {"met":true,"not":{"field":"args.reason","operator":"equals","value":"test","actual":null,"met":false,"fail_closed":"the call lacks it"}}]}]},
	  {"field":"args.amount","operator":"exists","value":null,"actual":5000,"met":true},
	  {"met":true,"not":{"field":"args.items.amount","operator":"greater","value":5,"actual":[1,9],"met":false}}]`, string(got))
	require.NotContains(t, v.Reason, "hunter2")
	require.Equal(t, `policy "Grouped" blocks this call: (args.amount less 10 or (args.pass equals a secret value and not (args.reason equals "test" `+
		`(counts as false: the call lacks it)))) and args.amount exists and not (args.items.amount greater 5). Change the call or the policy: the same call would be blocked again`, v.Reason)

	many := policy("Many", block, anyOf(repeat(9, cond("args.amount", "exists", ""))...), cond("args.amount", "exists", ""))
	v = governance.Compile(1, []governance.Policy{many}).Evaluate(call)
	require.Contains(t, v.Reason, strings.Repeat("args.amount exists or ", 5)+"…) and 5 more conditions.")
}

// A large group is left out as a whole where there is no room for it.
func TestExplanationsOfGroupsHaveBounds(t *testing.T) {
	t.Parallel()
	field := "args." + strings.Repeat(`<`, 900)
	var list []governance.Condition
	for i := range 49 {
		list = append(list, cond(field+strconv.Itoa(i), "not_exists", ""))
	}
	v := governance.Compile(1, []governance.Policy{policy("Large", block, cond("args.amount", "exists", ""), anyOf(list...))}).Evaluate(refund(`{"amount":1}`))
	require.Len(t, v.Matches[0].Conditions, 1)
	require.Equal(t, 49, v.Matches[0].ConditionsOmitted)
}

func TestContradictionsWithinGroups(t *testing.T) {
	t.Parallel()
	a, b := cond("args.amount", "greater", "10"), cond("args.amount", "less", "5")
	require.Equal(t, []string{"conditions 0 and 1/all/1 can never both be true: args.amount greater and less"},
		governance.Contradictions([]governance.Condition{a, allOf(cond("args.reason", "exists", ""), b)}))
	require.Empty(t, governance.Contradictions([]governance.Condition{a, anyOf(b, cond("args.reason", "exists", ""))}))
	require.Empty(t, governance.Contradictions([]governance.Condition{a, not(b)}))
}
