package governance_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
)

func shadow(p governance.Policy) governance.Policy {
	p.Mode = governance.Shadow
	return p
}

func against(field string, op governance.Operator, other string) governance.Condition {
	return governance.Condition{Field: field, Operator: op, ValueField: other}
}

func lookup(name, args string) governance.Lookup {
	return governance.Lookup{Name: name, Verb: "shop:get_order", Args: json.RawMessage(args)}
}

func withLookups(p governance.Policy, list ...governance.Lookup) governance.Policy {
	p.Lookups = list
	return p
}

// answering judges the call, answers the look-ups that it needs, and judges again until it needs
// none. It returns the verdict, and how many look-ups were made in which round.
func answering(s *governance.Set, c governance.Call, result func(governance.LookupCall) string) (v governance.Verdict, rounds []int) {
	c.Context.Lookups = map[string]governance.Answer{}
	for {
		v = s.Evaluate(c)
		if len(v.Lookups) == 0 {
			return v, rounds
		}
		rounds = append(rounds, len(v.Lookups))
		for _, l := range v.Lookups {
			c.Context.Lookups[l.Key] = l.Answered(json.RawMessage(result(l)))
		}
	}
}

const orderOfCall = `{"id": {"field": "args.order_id"}}`

// A look-up is made only where its answer decides something.
func TestLookupsNeeded(t *testing.T) {
	t.Parallel()
	status := cond("lookup.order.status", "not_equals", `"pending"`)
	order := lookup("order", orderOfCall)
	blocked := withLookups(policy("status", block, status), order)
	for name, c := range map[string]struct {
		policies []governance.Policy
		args     string
		result   string
		rounds   []int
		decision governance.Decision
		says     string
	}{
		"met":                     {[]governance.Policy{blocked}, `{"order_id":"7"}`, `{"status":"shipped"}`, []int{1}, governance.Block, `lookup.order.status not equals "pending"`},
		"unmet":                   {[]governance.Policy{blocked}, `{"order_id":"7"}`, `{"status":"pending"}`, []int{1}, governance.Allow, "registry default"},
		"the call lacks the id":   {[]governance.Policy{blocked}, `{}`, ``, nil, governance.Block, "lookup: the call lacks a value that it needs"},
		"the id is null":          {[]governance.Policy{blocked}, `{"order_id":null}`, ``, nil, governance.Block, "lacks a value"},
		"the ids are two":         {[]governance.Policy{blocked}, `{"order_id":"7","Order_id":"8"}`, ``, nil, governance.Block, "lacks a value"},
		"the answer lacks it":     {[]governance.Policy{blocked}, `{"order_id":"7"}`, `{"state":"pending"}`, []int{1}, governance.Block, "lookup: the answer lacks it"},
		"the answer is null":      {[]governance.Policy{blocked}, `{"order_id":"7"}`, `{"status":null}`, []int{1}, governance.Block, "it is null"},
		"the answer is no object": {[]governance.Policy{blocked}, `{"order_id":"7"}`, `"pending"`, []int{1}, governance.Block, "lookup: the answer lacks it"},
		"the answer is no JSON":   {[]governance.Policy{blocked}, `{"order_id":"7"}`, `<html>`, []int{1}, governance.Block, "lookup: it failed"},
		"names that differ in case": {
			[]governance.Policy{blocked}, `{"order_id":"7"}`, `{"status":"pending","Status":"shipped"}`, []int{1}, governance.Block, "not equals",
		},
		"another condition decides": {
			[]governance.Policy{withLookups(policy("p", block, status, cond("args.amount", "greater", "100")), order)},
			`{"order_id":"7","amount":5}`, ``, nil, governance.Allow, "registry default",
		},
		"another condition decides within a group": {
			[]governance.Policy{withLookups(policy("p", block, anyOf(status, cond("args.amount", "less", "100"))), order)},
			`{"order_id":"7","amount":5}`, ``, nil, governance.Block, "policy",
		},
		"the call is blocked anyway": {
			[]governance.Policy{blocked, policy("b", block)}, `{"order_id":"7"}`, ``, nil, governance.Block, `policy "b" blocks this call`,
		},
		"a shadow policy blocks": {
			[]governance.Policy{blocked, shadow(policy("b", block))}, `{"order_id":"7"}`, `{"status":"pending"}`, []int{1}, governance.Allow, "registry",
		},
		"of a shadow policy": {
			[]governance.Policy{shadow(blocked)}, `{"order_id":"7"}`, `{"status":"shipped"}`, []int{1}, governance.Allow, "registry",
		},
		"one call for two policies": {
			[]governance.Policy{
				withLookups(policy("one", approve, cond("lookup.order.status", "equals", `"x"`)), order),
				withLookups(policy("two", block, cond("lookup.o.total", "greater", "10")), lookup("o", `{"id":{"field":"args.order_id"}}`)),
			},
			`{"order_id":"7"}`, `{"status":"x","total":11}`,
			[]int{1},
			governance.Block, "lookup.o.total greater 10",
		},
		"two look-ups, the first decides": {
			[]governance.Policy{withLookups(policy("p", block, status, cond("lookup.user.vip", "equals", "false")), order, lookup("user", `{"id":{"field":"args.user_id"}}`))},
			`{"order_id":"7","user_id":"1"}`, `{"status":"pending"}`,
			[]int{1},
			governance.Allow, "registry",
		},
		"two look-ups, one after the other": {
			[]governance.Policy{withLookups(policy("p", block, status, cond("lookup.user.vip", "equals", "false")), order, lookup("user", `{"id":{"field":"args.user_id"}}`))},
			`{"order_id":"7","user_id":"1"}`, `{"status":"shipped","vip":false}`,
			[]int{1, 1},
			governance.Block, "lookup.user.vip",
		},
		"allow in doubt does not match": {
			[]governance.Policy{withLookups(policy("a", allow, cond("lookup.order.status", "equals", `"pending"`)), order)},
			`{"order_id":"7"}`, `{}`,
			[]int{1},
			governance.Allow, "medium risk: allowed and notified",
		},
		"allow met": {
			[]governance.Policy{withLookups(policy("a", allow, cond("lookup.order.status", "equals", `"pending"`)), order)},
			`{"order_id":"7"}`, `{"status":"pending"}`,
			[]int{1},
			governance.Allow, `policy "a" allows this call`,
		},
		"compared with a field of the call": {
			[]governance.Policy{withLookups(policy("own", block, against("lookup.order.user_id", "not_equals", "args.user_id")), order)},
			`{"order_id":"7","user_id":"u1"}`, `{"user_id":"u2"}`,
			[]int{1},
			governance.Block, "lookup.order.user_id not equals the field args.user_id",
		},
		"a field of the call compared with it": {
			[]governance.Policy{withLookups(policy("own", block, against("args.method", "not_equals", "lookup.order.payment.0.method")), order)},
			`{"order_id":"7","method":"card"}`, `{"payment":[{"method":"card","n":1},{"method":"x"}]}`,
			[]int{1},
			governance.Allow, "registry",
		},
		"not": {
			[]governance.Policy{withLookups(policy("n", block, not(cond("lookup.order.status", "equals", `"pending"`))), order)},
			`{"order_id":"7"}`, `{"status":"pending"}`,
			[]int{1},
			governance.Allow, "registry",
		},
		"not in doubt": {
			[]governance.Policy{withLookups(policy("n", block, not(cond("lookup.order.status", "equals", `"pending"`))), order)},
			`{"order_id":"7"}`, `{}`,
			[]int{1},
			governance.Block, "lookup: the answer lacks it",
		},
		"exists means what it says": {
			[]governance.Policy{withLookups(policy("e", block, cond("lookup.order.hold", "exists", "")), order)},
			`{"order_id":"7"}`, `{}`,
			[]int{1},
			governance.Allow, "registry",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call := refund(c.args)
			call.Risk = verb.RiskMedium
			v, rounds := answering(governance.Compile(1, c.policies), call, func(l governance.LookupCall) string {
				require.Contains(t, []string{`{"id":"7"}`, `{"id":"1"}`}, string(l.Args))
				return c.result
			})
			require.Equal(t, c.rounds, rounds)
			require.Equal(t, c.decision, v.Decision, v.Reason)
			require.Contains(t, v.Reason, c.says)
			raw, err := json.Marshal(v.Shown())
			require.NoError(t, err)
			require.NotContains(t, string(raw), "shipped")
			require.NotContains(t, v.Reason, "shipped")
			require.NotContains(t, v.Reason, "u2")
		})
	}
}

func TestLookupsThatFailCountOnTheStrictSide(t *testing.T) {
	t.Parallel()
	tight := withLookups(policy("t", block, cond("lookup.order.n", "greater", "1")), lookup("order", orderOfCall))
	lax := withLookups(policy("l", allow, cond("lookup.order.n", "greater", "1")), lookup("order", orderOfCall))
	for _, f := range []governance.LookupFailure{
		governance.LookupNoVerb, governance.LookupNoRead, governance.LookupArgs, governance.LookupNotConnected, governance.LookupStopped, governance.LookupQuarantined,
		governance.LookupRefused, governance.LookupTimeout, governance.LookupFailed, governance.LookupTooLarge, "of a later release",
	} {
		call := refund(`{"order_id":"7"}`)
		call.Risk = verb.RiskMedium
		set := governance.Compile(1, []governance.Policy{tight, lax})
		v := set.Evaluate(call)
		require.Len(t, v.Lookups, 1)
		require.Len(t, v.Lookups[0].For, 2)
		require.Contains(t, v.Reason, "lookup: not_run")
		require.Equal(t, governance.Block, v.Decision)
		call.Context.Lookups = map[string]governance.Answer{v.Lookups[0].Key: {Failure: f}}
		v = set.Evaluate(call)
		require.Empty(t, v.Lookups)
		require.Equal(t, governance.Block, v.Decision)
		require.Len(t, v.Matches, 1)
		require.True(t, strings.HasPrefix(v.Matches[0].Conditions[0].FailClosed, "lookup: "), f)
		require.NotContains(t, v.Reason, "not_run")
	}
}

// A call that is judged again before it is sent is not refused for a look-up that comes then.
func TestLookupsLater(t *testing.T) {
	t.Parallel()
	set := governance.Compile(1, []governance.Policy{
		withLookups(policy("t", block, cond("lookup.order.n", "greater", "1")), lookup("order", orderOfCall)), policy("ask", approve),
	})
	call := refund(`{"order_id":"7"}`)
	call.Context.LookupsLater = true
	v := set.Evaluate(call)
	require.Equal(t, governance.PendingApproval, v.Decision)
	require.Len(t, v.Lookups, 1)
	require.Len(t, v.Matches, 1)
	requireRuling(t, set, call, v)
}

func TestOneCallNeedsTenLookupsAtMost(t *testing.T) {
	t.Parallel()
	var list []governance.Policy
	for i := range 20 {
		p := withLookups(policy(fmt.Sprint("p", i), block, cond("lookup.order.n", "greater", "1")), lookup("order", fmt.Sprintf(`{"id":"%d"}`, i)))
		p.ID[0] = byte(i)
		list = append(list, p)
	}
	made := 0
	call := refund(`{}`)
	v, _ := answering(governance.Compile(1, list), call, func(governance.LookupCall) string { made++; return `{"n":0}` })
	require.Equal(t, 10, made)
	require.Equal(t, governance.Block, v.Decision)
	require.Contains(t, v.Reason, "lookup: the call needs too many")
}

// Only what conditions ask about is kept of an answer.
func TestAnswersAreCutToWhatIsAsked(t *testing.T) {
	t.Parallel()
	const result = `{"order":{"items":[{"id":1,"note":"a"},{"id":2,"note":"b"}],"total":5,"Total":6},"payments":[{"m":"x"},{"m":"y"}],"whole":{"a":[1,{"b":2}]},"other":"z"}`
	for path, want := range map[string]string{
		"order.total":    `{"order":{"total":5,"Total":6}}`,
		"order.items.id": `{"order":{"items":[{"id":1},{"id":2}]}}`,
		"payments.1.m":   `{"payments":[null,{"m":"y"}]}`,
		"payments.m":     `{"payments":[{"m":"x"},{"m":"y"}]}`,
		"whole":          `{"whole":{"a":[1,{"b":2}]}}`,
		"none":           `{}`,
		"other.deeper":   `{"other":"z"}`,
	} {
		set := governance.Compile(1, []governance.Policy{withLookups(policy("p", block, cond("lookup.order."+path, "equals", "1")), lookup("order", `{}`))})
		v := set.Evaluate(refund(`{}`))
		require.Equal(t, want, string(v.Lookups[0].Answered(json.RawMessage(result)).Value), path)
	}
	set := governance.Compile(1, []governance.Policy{withLookups(policy("p", block, cond("lookup.order.a", "length_equals", "1")), lookup("order", `{}`))})
	l := set.Evaluate(refund(`{}`)).Lookups[0]
	require.JSONEq(t, `{"a":1}`, string(l.Answered(json.RawMessage(`{"b":"`+strings.Repeat("x", 4<<20)+`","a":1}`)).Value))
	require.Equal(t, governance.Answer{Failure: governance.LookupTooLarge}, l.Answered(json.RawMessage(`{"a":"`+strings.Repeat("x", 4<<20)+`"}`)))
	require.Equal(t, governance.Answer{Failure: governance.LookupTooLarge}, l.Answered(json.RawMessage(`[`+strings.Repeat(`{},`, 1<<20)+`{}]`)))
}

// Of two members of one name another reader may take the other one.
func TestAnswerThatRepeatsANameCountsAsNone(t *testing.T) {
	t.Parallel()
	set := governance.Compile(1, []governance.Policy{withLookups(policy("p", block, cond("lookup.order.o.status", "not_equals", `"paid"`)), lookup("order", `{}`))})
	for result, want := range map[string]governance.Decision{
		`{"o":{"status":"paid"}}`:                                governance.Allow,
		`{"o":{"status":"paid","more":1,"more":2}}`:              governance.Allow, // nothing is asked about it
		`{"o":{"status":"open","status":"paid"}}`:                governance.Block,
		`{"o":{"status":"open","st\u0061tus":"paid"}}`:           governance.Block,
		`{"o":{"status":"open"},"o":{"status":"paid"}}`:          governance.Block,
		`{"o":[{"status":"paid"},{"status":1,"status":"paid"}]}`: governance.Block,
	} {
		v, _ := answering(set, refund(`{}`), func(governance.LookupCall) string { return result })
		require.Equal(t, want, v.Decision, "%s: %s", result, v.Reason)
		if want == governance.Block {
			require.Contains(t, v.Reason, "lookup: it failed", result)
		}
	}
}

func TestArgumentsOfLookups(t *testing.T) {
	t.Parallel()
	key := "k1"
	call := refund(`{"a":"x\"y","n":12345678901234567890.0,"o":{"p":[1,2]},"list":[{"id":1},{"id":2}],"big":"` + strings.Repeat("x", 70_000) + `"}`)
	call.Context.KeyID, call.Context.Metadata = &key, json.RawMessage(`{"tier":"gold"}`)
	for args, want := range map[string]string{
		``:                                    `{}`,
		`{"a": {"field": "args.a"}}`:          `{"a":"x\"y"}`,
		`{"n": [{"field": "args.n"}, 1]}`:     `{"n":[12345678901234567890.0,1]}`,
		`{"o": {"field": "args.o"}}`:          `{"o":{"p":[1,2]}}`,
		`{"o": {"field": "args.o.p.1"}}`:      `{"o":2}`,
		`{"k": {"field": "key.id"}, "x": 1}`:  `{"k":"k1","x":1}`,
		`{"m": {"field": "metadata.tier"}}`:   `{"m":"gold"}`,
		`{"field": "args.a"}`:                 `{"field":"args.a"}`, // the argument named field
		`{"x": {"field": "a", "y": 1}}`:       `{"x":{"field":"a","y":1}}`,
		`{"x": {"field": "args.list.id"}}`:    "",
		`{"x": {"field": "args.none"}}`:       "",
		`{"x": {"field": "customer_id"}}`:     "",
		`{"x": {"field": "args.big"}}`:        "",
		`{"x": {"field": "customer.id"}}`:     "",
		`{"v": {"field": "verb"}, "z": null}`: `{"v":"stripe:create_refund","z":null}`,
	} {
		set := governance.Compile(1, []governance.Policy{withLookups(policy("p", block, cond("lookup.order.a", "equals", "1")), lookup("order", args))})
		v := set.Evaluate(call)
		if want == "" {
			require.Empty(t, v.Lookups, args)
			require.Contains(t, v.Reason, "lookup: ", args)
			continue
		}
		require.Len(t, v.Lookups, 1, "%s: %s", args, v.Reason)
		require.Equal(t, want, string(v.Lookups[0].Args), args)
	}
}

func TestLookupsThatAreRefused(t *testing.T) {
	t.Parallel()
	uses := cond("lookup.order.a", "equals", "1")
	order := lookup("order", `{}`)
	for name, c := range map[string]struct {
		p    governance.Policy
		path string
	}{
		"four":                 {withLookups(policy("p", block, uses), order, lookup("b", ``), lookup("c", ``), lookup("d", ``)), "/lookups"},
		"twice":                {withLookups(policy("p", block, uses), order, order), "/lookups/1/name"},
		"no name":              {withLookups(policy("p", block), lookup("", ``)), "/lookups/0/name"},
		"a name with a dot":    {withLookups(policy("p", block), lookup("a.b", ``)), "/lookups/0/name"},
		"a long name":          {withLookups(policy("p", block), lookup(strings.Repeat("a", 33), ``)), "/lookups/0/name"},
		"a glob":               {withLookups(policy("p", block, uses), governance.Lookup{Name: "order", Verb: "shop:get_*"}), "/lookups/0/verb"},
		"a tool":               {withLookups(policy("p", block, uses), governance.Lookup{Name: "order", Verb: "tool:web_fetch"}), "/lookups/0/verb"},
		"args are no object":   {withLookups(policy("p", block, uses), lookup("order", `[]`)), "/lookups/0/args"},
		"args repeat a name":   {withLookups(policy("p", block, uses), lookup("order", `{"a":1,"a":2}`)), "/lookups/0/args"},
		"args are large":       {withLookups(policy("p", block, uses), lookup("order", `{"a":"`+strings.Repeat("x", 5000)+`"}`)), "/lookups/0/args"},
		"an unknown field":     {withLookups(policy("p", block, uses), lookup("order", `{"a":{"field":"arg.x"}}`)), "/lookups/0/args"},
		"a field of a look-up": {withLookups(policy("p", block, uses), lookup("order", `{"a":{"field":"lookup.order.x"}}`)), "/lookups/0/args"},
		"an unknown name":      {withLookups(policy("p", block, cond("lookup.other.a", "equals", "1")), order), "/conditions/0/field"},
		"an unknown other":     {withLookups(policy("p", block, uses, against("args.a", "equals", "lookup.other.a")), order), "/conditions/1/value_field"},
		"no path":              {withLookups(policy("p", block, cond("lookup.order", "equals", "1")), order), "/conditions/0/field"},
		"no look-ups":          {policy("p", block, uses), "/conditions/0/field"},
	} {
		details := governance.CheckPolicy(c.p)
		require.NotEmpty(t, details, name)
		require.Equal(t, c.path, details[0].Path, name)
		if name != "four" {
			v := governance.Compile(1, []governance.Policy{c.p}).Evaluate(refund(`{}`))
			require.Equal(t, governance.Block, v.Decision, name)
			require.Contains(t, v.Reason, "cannot be read", name)
		}
	}
	require.Empty(t, governance.CheckPolicy(withLookups(policy("p", block, uses), order)))
	require.Equal(t, "/conditions/0/field", governance.CheckConditions("/conditions", []governance.Condition{uses})[0].Path, "grants have none")
}

// A condition is right to name a look-up that the policy has, whatever is wrong with the look-up.
func TestCheckPolicyWithAWrongLookupNamesNoOtherFault(t *testing.T) {
	t.Parallel()
	uses := cond("lookup.d.status", "equals", `"a"`)
	for name, list := range map[string][]governance.Lookup{
		"a glob":   {{Name: "d", Verb: "shop:get_*"}},
		"its args": {lookup("d", `[]`)},
		"four":     {lookup("a", ``), lookup("b", ``), lookup("c", ``), lookup("d", ``)},
	} {
		p := withLookups(policy("p", block, uses, against("args.a", "equals", "lookup.d.b")), list...)
		details := governance.CheckPolicy(p)
		require.Len(t, details, 1, name)
		require.Contains(t, details[0].Path, "/lookups", name)
		require.Equal(t, governance.Block, governance.Compile(1, []governance.Policy{p}).Evaluate(refund(`{}`)).Decision, name)
	}
	many := make([]governance.Lookup, 2000)
	for i := range many {
		many[i] = lookup("d", ``)
	}
	require.Equal(t, "/lookups", governance.CheckPolicy(withLookups(policy("p", block, uses), many...))[0].Path)
}

// For any policy, a look-up is asked for where the answers can change whether the policy matches, and
// the decision is the one that all answers lead to.
func TestLookupsAreNeededWhereTheyDecide(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 14))
	list := []governance.Lookup{lookup("a", `{"id":"a"}`), lookup("b", `{"id":"b"}`), lookup("c", `{"id":"c"}`)}
	asks := 0
	for range 3000 {
		action := []governance.Action{allow, block}[rng.IntN(2)]
		tree := randomTree(rng, 3)
		p := withLookups(policy("p", action, tree...), list...)
		require.Empty(t, governance.CheckPolicy(p))
		set := governance.Compile(1, []governance.Policy{p})
		call := refund(fmt.Sprintf(`{"x":%d}`, rng.IntN(2)))
		outcomes := map[int]bool{}
		for bits := range 8 {
			v, _ := answering(set, call, func(l governance.LookupCall) string {
				i := strings.Index(`abc`, string(l.Args[7]))
				return fmt.Sprintf(`{"v":%d}`, bits>>i&1)
			})
			outcomes[bits] = len(v.Matches) == 1
			require.Equal(t, holds(tree, call, bits), outcomes[bits])
		}
		differ := false
		for bits := range 8 {
			differ = differ || outcomes[bits] != outcomes[0]
		}
		unanswered := set.Evaluate(call)
		requireRuling(t, set, call, unanswered)
		needs := unanswered.Lookups
		require.True(t, !differ || len(needs) > 0)
		asks += len(needs)
	}
	require.Greater(t, asks, 100)
}

func randomTree(rng *rand.Rand, depth int) []governance.Condition {
	var list []governance.Condition
	for range 1 + rng.IntN(3) {
		switch n := rng.IntN(6); {
		case n < 2 && depth > 0:
			list = append(list, anyOf(randomTree(rng, depth-1)...))
		case n == 2 && depth > 0:
			list = append(list, not(randomTree(rng, depth-1)[0]))
		case n == 3:
			list = append(list, cond("args.x", "equals", "1"))
		default:
			list = append(list, cond("lookup."+string("abc"[rng.IntN(3)])+".v", "equals", "1"))
		}
	}
	return list
}

// holds says what the conditions come to, by plain logic.
func holds(list []governance.Condition, call governance.Call, bits int) bool {
	for _, c := range list {
		ok := false
		switch {
		case c.Any != nil:
			for _, part := range c.Any {
				ok = ok || holds([]governance.Condition{part}, call, bits)
			}
		case c.Not != nil:
			ok = !holds([]governance.Condition{*c.Not}, call, bits)
		case c.Field == "args.x":
			ok = string(call.Args) == `{"x":1}`
		default:
			ok = bits>>strings.Index("abc", c.Field[len("lookup."):][:1])&1 == 1
		}
		if !ok {
			return false
		}
	}
	return true
}

// A block that needs no look-up is reported as what it is: what was not looked up is no reason.
func TestCertainBlockIsTheReason(t *testing.T) {
	t.Parallel()
	uses := cond("lookup.order.status", "equals", `"shipped"`)
	waits := withLookups(policy("a: waits for a look-up", block, uses), lookup("order", `{"id":{"field":"args.order"}}`))
	certain := policy("b: certain", block, cond("args.amount", "greater", `1`))
	for _, list := range [][]governance.Policy{{waits, certain}, {certain, waits}} {
		v := governance.Compile(1, list).Evaluate(refund(`{"order":"o","amount":5}`))
		require.Equal(t, governance.Block, v.Decision)
		require.Empty(t, v.Lookups)
		require.Equal(t, "b: certain", v.PolicyName)
		require.Len(t, v.Matches, 1)
		require.NotContains(t, v.Reason, "look-up")
	}
}
