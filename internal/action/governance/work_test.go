package governance_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
)

// TestEvaluateTakesNoMoreWorkThanItsBound: each of these would take from seconds to days. A
// condition beyond the bound counts as true for a policy that blocks, and as false for one
// that allows. All conditions are true of the arguments.
func TestEvaluateTakesNoMoreWorkThanItsBound(t *testing.T) {
	t.Parallel()
	times := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	for name, tc := range map[string]struct {
		condition governance.Condition
		args      func(n int) string
	}{
		"patterns":            {cond("args.s", "matches", `"(?:.{0,900}a)$"`), func(n int) string { return `{"s":"` + strings.Repeat("a", n) + `"}` }},
		"parts of texts":      {cond("args.s", "not_contains", `"b"`), func(n int) string { return `{"s":"` + strings.Repeat("a", 20*n) + `"}` }},
		"escaped text":        {cond("args.s", "starts_with", `"a"`), func(n int) string { return `{"s":"` + strings.Repeat(`\u0061`, 5*n) + `"}` }},
		"for allow: elements": {cond("args.l.x", "equals", `1`), func(n int) string { return `{"l":[` + times(n, `{"x":1}`) + `]}` }},
		"parts of lists":      {cond("args.l", "not_contains", `"y"`), func(n int) string { return `{"l":[` + times(n, `"x"`) + `]}` }},
		"for allow: lists":    {cond("args.l.x", "in", `[`+times(100, "1")+`]`), func(n int) string { return `{"l":[` + times(n, `{"x":1}`) + `]}` }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var blocks, allows []governance.Policy
			for i := range 200 {
				conditions := repeat(50, tc.condition)
				if tc.condition.Operator == "matches" && i > 1 {
					conditions = conditions[:1]
				}
				p := policy(fmt.Sprint("p", i), block, conditions...)
				p.ID = uuid.UUID{byte(i + 1)}
				blocks = append(blocks, p)
				p.Action = "allow"
				allows = append(allows, p)
			}
			small, large := refund(tc.args(1)), refund(tc.args(40_000))
			small.Fields, large.Fields = nil, nil
			strict, lax := governance.Compile(1, blocks), governance.Compile(1, allows)
			require.NotContains(t, strict.Evaluate(small).Reason, "too much work")
			require.Len(t, lax.Evaluate(small).Matches, 200)

			v := strict.Evaluate(large)
			require.Equal(t, governance.Block, v.Decision)
			if one, _, _ := strings.Cut(name, ":"); one != "for allow" { // a single element is enough to block
				last := v.Shown()[len(v.Shown())-1]
				require.Contains(t, fmt.Sprint(v.Reason, last), "too much work to judge")
			}
			require.Less(t, len(lax.Evaluate(large).Matches), 200)
		})
	}
}

func repeat(n int, c governance.Condition) []governance.Condition {
	list := make([]governance.Condition, n)
	for i := range list {
		list[i] = c
	}
	return list
}

// TestVerdictBeyondTheBoundIsTheSameInAnyOrder: which condition is the first for which no work
// is left does not depend on how the policies were read.
func TestVerdictBeyondTheBoundIsTheSameInAnyOrder(t *testing.T) {
	t.Parallel()
	var list, reversed []governance.Policy
	for i := range 12 {
		p := policy(fmt.Sprint("p", i), block, repeat(8, cond("args.s", "matches", `"(?:.{0,900}b)$"`))...)
		p.ID = uuid.UUID{byte(i + 1)}
		list, reversed = append(list, p), append([]governance.Policy{p}, reversed...)
	}
	call := refund(`{"s":"` + strings.Repeat("a", 2000) + `"}`)
	a, b := governance.Compile(1, list).Evaluate(call), governance.Compile(1, reversed).Evaluate(call)
	require.Equal(t, a, b)
	require.NotEmpty(t, a.Matches)
	require.Less(t, len(a.Matches), 12, "the first ones were judged: they do not match")
}

func TestEvaluateStopsWhereNobodyWaits(t *testing.T) {
	t.Parallel()
	var list []governance.Policy
	for i := range 100 {
		p := policy(fmt.Sprint("p", i), block, cond("args.amount", "greater", "1e9"))
		p.ID = uuid.UUID{byte(i + 1)}
		list = append(list, p)
	}
	set := governance.Compile(1, list)
	call := refund(`{"amount":1}`)
	require.Empty(t, set.Evaluate(call).Matches)
	done := make(chan struct{})
	close(done)
	call.Done = done
	v := set.Evaluate(call)
	require.Equal(t, governance.Block, v.Decision, "what was not judged is on the strict side")
	require.Greater(t, len(v.Matches), 80)
}

func TestExplanationsAreBounded(t *testing.T) {
	t.Parallel()
	var list []governance.Policy
	for i := range 2000 {
		p := policy(strings.Repeat("n", 200), block, repeat(50, cond("args.zzz"+strings.Repeat("<", 900), "not_exists", `"`+strings.Repeat("A", 60_000)+`"`))...)
		p.ID = uuid.UUID{byte(i >> 8), byte(i)}
		list = append(list, p)
	}
	set := governance.Compile(1, list)
	require.Less(t, set.Size(), 400<<20)
	v := set.Evaluate(refund(`{"amount":1}`))
	require.Len(t, v.Matches, 2000, "all count, for coverage")
	text, err := json.Marshal(v.Shown())
	require.NoError(t, err)
	require.Less(t, len(text), 256<<10)
	require.Contains(t, v.Reason, fmt.Sprint("Policies that matched and are not shown: ", v.Omitted()))
	require.Positive(t, v.Omitted())
	shown := v.Shown()[0]
	require.True(t, shown.Decided, "the policy that decides is always shown")
	require.Equal(t, 50, len(shown.Conditions)+shown.ConditionsOmitted)

	few := governance.Compile(1, list[:1]).Evaluate(refund(`{}`))
	require.Zero(t, few.Omitted())
	require.NotContains(t, few.Reason, "not shown")
}

func TestCallThatTooManyPoliciesHoldIsBlocked(t *testing.T) {
	t.Parallel()
	var list []governance.Policy
	for i := range governance.MaxRequirements + 1 {
		p := policy(fmt.Sprint("p", i), approve)
		p.ID = uuid.UUID{byte(i + 1)}
		list = append(list, p)
	}
	v := governance.Compile(1, list[1:]).Evaluate(refund(`{}`))
	require.Equal(t, governance.PendingApproval, v.Decision)
	require.Len(t, v.Requirements, governance.MaxRequirements)
	v = governance.Compile(1, list).Evaluate(refund(`{}`))
	require.Equal(t, governance.Block, v.Decision)
	require.Empty(t, v.Requirements)
	require.Contains(t, v.Reason, "101 policies require approval")
}

func TestPoliciesThatCostTooMuchAreRefused(t *testing.T) {
	t.Parallel()
	costly := cond("args.s", "matches", `"[ab]{900}c"`)
	require.Empty(t, governance.CheckPolicy(policy("p", block, repeat(5, costly)...)))
	details := governance.CheckPolicy(policy("p", block, repeat(6, costly)...))
	require.Len(t, details, 1)
	require.Equal(t, "/conditions", details[0].Path)
	require.Greater(t, governance.Instructions(repeat(6, costly)), 5000)
	require.Zero(t, governance.Instructions([]governance.Condition{cond("args.s", "matches", `"("`), cond("args.s", "equals", `1`)}))

	stored := governance.Normalize(policy("p", block, cond("args.x", "NOT_EXISTS", `"payload"`), cond("args.x", "equals", `"kept"`)))
	require.Nil(t, stored.Conditions[0].Value)
	require.JSONEq(t, `"kept"`, string(stored.Conditions[1].Value))
}

// TestNamesThatDifferInCaseOnlyCountOnTheStrictSide: providers that ignore case read them
// alike, so a condition looks at all of them.
func TestNamesThatDifferInCaseOnlyCountOnTheStrictSide(t *testing.T) {
	t.Parallel()
	var wide strings.Builder
	for i := range 60 {
		fmt.Fprintf(&wide, `"filler%d":0,`, i)
	}
	above := cond("args.amount", "greater", "100")
	below := cond("args.amount", "less", "100")
	inside := cond("args.o.amount", "greater", "100")
	for _, tc := range []struct {
		condition governance.Condition
		members   string
		want      judged
	}{
		{above, `"amount":5`, no},
		{above, `"amount":5,"Amount":999`, some},
		{above, `"Amount":999,"amount":5`, some},
		{above, `"amount":999,"AMOUNT":5`, some},
		{above, `"Amount":999`, some},
		{above, `"amount":999,"AMOUNT":1e3`, yes},
		{above, `"amount":5,"\u0041mount":999`, some},
		{above, `"amount":5,"amounts":999`, no},
		{below, `"amount":5`, yes},
		{below, `"amount":5,"Amount":999`, some},
		{inside, `"o":{"amount":5,"AMOUNT":999}`, some},
		{inside, `"o":{"amount":5},"O":{"amount":999}`, some},
		{inside, `"o":{"amount":5},"O":{"Amount":999}`, some},
		{inside, `"o":[{"amount":5},{"AMOUNT":999}]`, some},
		{cond("args.big", "exists", ""), `"Big":1`, some},
		{cond("args.big", "not_exists", ""), `"Big":1`, some},
		{cond("args.big", "not_exists", ""), `"big":1,"Big":1`, no},
		{cond("args.kind", "equals", `"x"`), "\"kind\":\"y\",\"\u212Aind\":\"x\"", some},
	} {
		for _, filler := range []string{"", wide.String()} {
			call := refund(`{` + filler + tc.members + `}`)
			call.Fields = nil
			require.Equal(t, tc.want, judge(t, tc.condition, call), "%s %s", tc.condition.Field, tc.members)
		}
	}
}

// A name that is far too long to be the field is not read, however many conditions there are.
//
//nolint:paralleltest // AllocsPerRun counts the allocations of the whole process
func TestLongNamesOfArgumentsCostNothing(t *testing.T) {
	var members []string
	for i := range 30 {
		members = append(members, fmt.Sprintf(`"%d%s":1`, i, strings.Repeat(`\u0061`, 1_000)))
	}
	call := refund("{" + strings.Join(members, ",") + "}")
	call.Fields = nil
	set := governance.Compile(1, []governance.Policy{policy("p", block, repeat(50, cond("args.amount", "not_exists", "null"))...)})
	require.Less(t, testing.AllocsPerRun(5, func() { set.Evaluate(call) }), 1_000.0)

	written := refund(`{"\u0061\u006d\u006f\u0075\u006e\u0074":5,"\u212aey":1}`)
	written.Fields = nil
	for _, field := range []string{"args.amount", "args.key"} {
		set := governance.Compile(1, []governance.Policy{policy("p", block, cond(field, "exists", "null"))})
		require.Equal(t, governance.Block, set.Evaluate(written).Decision, field)
	}
}
