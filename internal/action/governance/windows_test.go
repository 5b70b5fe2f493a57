package governance_test

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
)

func windowed(w governance.Window, op governance.Operator, value string) governance.Condition {
	return governance.Condition{Window: &w, Operator: op, Value: json.RawMessage(value)}
}

var perCustomer = governance.Window{By: "customer_id", Per: "1h", Sum: "args.amount"}

func TestCheckPolicyNamesWhatIsWrongWithAWindow(t *testing.T) {
	t.Parallel()
	own := []governance.Matcher{{Type: governance.MatchVerb, Value: "shop:refund"}}
	for name, c := range map[string]struct {
		condition governance.Condition
		path      string
	}{
		"fits":                 {windowed(perCustomer, "greater", "5000"), ""},
		"counts":               {windowed(governance.Window{By: "args.order.id", Per: "90d", Count: true, Matching: governance.MatchingAny(own...)}, "greater", "1"), ""},
		"no by":                {windowed(governance.Window{Per: "1h", Count: true}, "greater", "1"), "/conditions/0/window/by"},
		"another by":           {windowed(governance.Window{By: "customer.tags", Per: "1h", Count: true}, "greater", "1"), "/conditions/0/window/by"},
		"an empty path":        {windowed(governance.Window{By: "args.", Per: "1h", Count: true}, "greater", "1"), "/conditions/0/window/by"},
		"neither":              {windowed(governance.Window{By: "key.id", Per: "1h"}, "greater", "1"), "/conditions/0/window"},
		"both":                 {windowed(governance.Window{By: "key.id", Per: "1h", Count: true, Sum: "args.a"}, "greater", "1"), "/conditions/0/window"},
		"sum of no argument":   {windowed(governance.Window{By: "key.id", Per: "1h", Sum: "metadata.a"}, "greater", "1"), "/conditions/0/window/sum"},
		"no per":               {windowed(governance.Window{By: "key.id", Count: true}, "greater", "1"), "/conditions/0/window/per"},
		"seconds":              {windowed(governance.Window{By: "key.id", Per: "90s", Count: true}, "greater", "1"), "/conditions/0/window/per"},
		"nothing":              {windowed(governance.Window{By: "key.id", Per: "0m", Count: true}, "greater", "1"), "/conditions/0/window/per"},
		"too long":             {windowed(governance.Window{By: "key.id", Per: "91d", Count: true}, "greater", "1"), "/conditions/0/window/per"},
		"another operator":     {windowed(perCustomer, "contains", "1"), "/conditions/0/operator"},
		"a text":               {windowed(perCustomer, "equals", `"1"`), "/conditions/0/value"},
		"a list":               {windowed(perCustomer, "greater", "[1]"), "/conditions/0/value"},
		"nothing to compare":   {governance.Condition{Window: &perCustomer, Operator: "greater"}, "/conditions/0/value"},
		"a field beside it":    {governance.Condition{Window: &perCustomer, Field: "args.a", Operator: "greater", Value: json.RawMessage("1")}, "/conditions/0/window"},
		"another value_field":  {governance.Condition{Window: &perCustomer, ValueField: "args.a", Operator: "greater"}, "/conditions/0/window"},
		"a group beside it":    {governance.Condition{Window: &perCustomer, Any: []governance.Condition{cond("args.a", "exists", "")}}, "/conditions/0"},
		"a matcher is no verb": {windowed(governance.Window{By: "key.id", Per: "1h", Count: true, Matching: governance.MatchingAny(governance.Matcher{Type: "verb", Value: "Shop"})}, "greater", "1"), "/conditions/0/window/matching/0/value"},
	} {
		p := policy("p", block, c.condition)
		p.Matchers = own
		problems := governance.CheckPolicy(p)
		if c.path == "" {
			require.Empty(t, problems, name)
			continue
		}
		require.NotEmpty(t, problems, name)
		require.Equal(t, c.path, problems[0].Path, name)
	}
	many := policy("p", block)
	for range 6 {
		many.Conditions = append(many.Conditions, windowed(perCustomer, "greater", "5000"))
	}
	require.Equal(t, "/conditions/5/window", governance.CheckPolicy(many)[0].Path)
	require.Equal(t, "/conditions/0/window", governance.CheckConditions("/conditions", many.Conditions[:1])[0].Path, "a grant counts its own uses")
	_, err := governance.CompileConditions(many.Conditions[:1])
	require.Error(t, err)
}

// judgedWindow returns whether a policy that blocks and one that allows apply, where the window contains
// so much: low without the calls whose outcome is not known, and high with them.
func judgedWindow(t *testing.T, c governance.Condition, low, high string) (blocks, allows bool) {
	t.Helper()
	customer := "c1"
	for i, action := range []governance.Action{block, allow} {
		set := governance.Compile(1, []governance.Policy{policy("p", action, c)})
		call := governance.Call{
			Verb: verb.Name{Provider: "shop", Verb: "refund"}, Risk: verb.RiskLow, Args: json.RawMessage(`{"amount":1}`),
			Context: governance.Context{CustomerID: &customer},
		}
		call.Windows = set.Windows(call)
		for u := range call.Windows.Uses {
			for r := range call.Windows.Uses[u].Readings {
				reading := &call.Windows.Uses[u].Readings[r]
				reading.Filled, reading.Low, reading.High = true, decimal.RequireFromString(low), decimal.RequireFromString(high)
			}
		}
		applies := len(set.Evaluate(call).Matches) > 0
		if i == 0 {
			blocks = applies
		} else {
			allows = applies
		}
	}
	return blocks, allows
}

// What may still take effect counts only where that is stricter.
func TestWindowWithCallsUnderWayIsJudgedOnTheStrictSide(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		op, value      string
		low, high      string
		blocks, allows bool
	}{
		"greater, over":                   {"greater", "5000", "5000.01", "5000.01", true, true},
		"greater, at the limit":           {"greater", "5000", "5000", "5000", false, false},
		"greater, over if all succeed":    {"greater", "5000", "4000", "6000", true, false},
		"at least, at the limit":          {"greater_or_equal", "5000", "4000", "5000", true, false},
		"less, under":                     {"less", "5", "4", "4", true, true},
		"less, under if all fail":         {"less", "5", "4", "6", true, false},
		"less, not under":                 {"less", "5", "5", "6", false, false},
		"at most":                         {"less_or_equal", "5", "5", "6", true, false},
		"none yet":                        {"equals", "0", "0", "0", true, true},
		"none yet, one under way":         {"equals", "0", "0", "1", true, false},
		"one succeeded":                   {"equals", "0", "1", "1", false, false},
		"some between":                    {"equals", "3", "2", "4", true, false},
		"none, with a credit":             {"equals", "0", "-5", "0", true, false},
		"under, with a credit":            {"less", "100", "50", "150", true, false},
		"any":                             {"not_equals", "0", "0", "1", true, false},
		"any, for certain":                {"not_equals", "0", "1", "2", true, true},
		"none for certain":                {"not_equals", "0", "0", "0", false, false},
		"one that is larger than a float": {"greater", "9007199254740993", "9007199254740993.1", "9007199254740993.1", true, true},
	} {
		blocks, allows := judgedWindow(t, windowed(perCustomer, governance.Operator(c.op), c.value), c.low, c.high)
		require.Equal(t, c.blocks, blocks, "%s: blocks", name)
		require.Equal(t, c.allows, allows, "%s: allows", name)
		// not turns the side and the result.
		blocks, allows = judgedWindow(t, not(windowed(perCustomer, governance.Operator(c.op), c.value)), c.low, c.high)
		require.Equal(t, !c.allows, blocks, "%s: not blocks", name)
		require.Equal(t, !c.blocks, allows, "%s: not allows", name)
	}
}

func TestWindowFindsTheValueAndTheAmountOfACall(t *testing.T) {
	t.Parallel()
	customer := "c1"
	use := func(w governance.Window, args string) governance.WindowUse {
		set := governance.Compile(1, []governance.Policy{policy("p", block, windowed(w, "greater", "1"))})
		uses := set.Windows(governance.Call{
			Verb: verb.Name{Provider: "shop", Verb: "refund"}, Args: json.RawMessage(args), Context: governance.Context{CustomerID: &customer},
		}).Uses
		require.Len(t, uses, 1)
		return uses[0]
	}
	order := governance.Window{By: "args.order", Per: "1h", Count: true}
	require.Equal(t, use(order, `{"order":1.0}`).Value, use(order, `{"order":1}`).Value)
	require.Equal(t, use(order, `{"order":1e2}`).Value, use(order, `{"order":100}`).Value)
	require.Equal(t, use(order, `{"order":"\u0061"}`).Value, use(order, `{"order":"a"}`).Value)
	for _, alike := range [][2]string{{"7", `"7"`}, {"7.50", `"7.5"`}, {"-0.0", `"0"`}, {"0.05", `"0.05"`}, {"-12.5e1", `"-125"`}, {"1e21", `"1e21"`}, {"1e-30", `"1e-30"`}, {"true", `"true"`}} {
		require.Equal(t, string(use(order, `{"order":`+alike[0]+`}`).Value), string(use(order, `{"order":`+alike[1]+`}`).Value), "a path or a query sends both alike: %s", alike)
	}
	for _, other := range []string{`{"order":"1.0"}`, `{"order":"01"}`, `{"order":10}`, `{"order":-1}`, `{"order":0}`, `{"order":0.1}`, `{"order":true}`} {
		require.NotEqual(t, use(order, other).Value, use(order, `{"order":1}`).Value, other)
	}
	for _, none := range []string{`{}`, `{"order":null}`, `{"order":[1,2]}`, `{"order":{}}`, `{"order":1,"Order":2}`, `{`} {
		require.Nil(t, use(order, none).Value, none)
	}
	amounts := func(w governance.Window, args string) string {
		u := use(w, args)
		return u.Up + " and " + u.Down
	}
	require.Equal(t, "1 and 0", amounts(order, `{"order":1}`))
	require.Equal(t, "0.3 and 0", amounts(perCustomer, `{"amount":0.3}`))
	require.Equal(t, "0 and -1000000", amounts(perCustomer, `{"amount":-1e6}`))
	require.Equal(t, "0 and 0", amounts(perCustomer, `{"amount":-0.0}`))
	items := governance.Window{By: "customer_id", Per: "1h", Sum: "args.items.amount"}
	require.Equal(t, "0.3 and 0", amounts(items, `{"items":[{"amount":0.1},{"amount":0.2}]}`))
	require.Equal(t, "5000 and -5000.5", amounts(items, `{"items":[{"amount":-5000},{"amount":5000},{"amount":-0.5}]}`), "one hides the other")
	for _, none := range []string{`{}`, `{"items":[{"amount":1},{}]}`, `{"items":[{"amount":"1"}]}`, `{"items":[]}`} {
		u := use(items, none)
		require.Empty(t, u.Up+u.Down, none)
		require.NotNil(t, u.Value, none)
	}
}

func TestWindowCountsByEachOfItsFields(t *testing.T) {
	t.Parallel()
	for by, give := range map[string]func(c *governance.Call, value *string){
		"customer_id": func(c *governance.Call, value *string) { c.Context.CustomerID = value },
		"session.id":  func(c *governance.Call, value *string) { c.Context.SessionID = value },
		"agent_id":    func(c *governance.Call, value *string) { c.Context.AgentID = value },
		"key.id":      func(c *governance.Call, value *string) { c.Context.KeyID = value },
		"args.order": func(c *governance.Call, value *string) {
			args, err := json.Marshal(map[string]*string{"order": value})
			require.NoError(t, err)
			c.Args = args
		},
	} {
		p := policy("p", block, windowed(governance.Window{By: by, Per: "1h", Count: true}, "greater", "1"))
		require.Empty(t, governance.CheckPolicy(p), by)
		value := func(of *string) []byte {
			call := governance.Call{Verb: verb.Name{Provider: "shop", Verb: "refund"}, Args: json.RawMessage(`{}`)}
			give(&call, of)
			set := governance.Compile(1, []governance.Policy{p})
			uses := set.Windows(call).Uses
			require.Len(t, uses, 1, by)
			require.True(t, uses[0].Counts, by)
			require.Len(t, uses[0].Readings, 1, by)
			return uses[0].Value
		}
		one, same, other := "one", "one", "other"
		require.NotNil(t, value(&one), by)
		require.Equal(t, value(&one), value(&same), by)
		require.NotEqual(t, value(&one), value(&other), by)
		require.Nil(t, value(nil), by)
	}
}

func TestWindowWithoutAReadingIsInDoubt(t *testing.T) {
	t.Parallel()
	customer := "c1"
	call := governance.Call{
		Verb: verb.Name{Provider: "shop", Verb: "refund"}, Risk: verb.RiskLow, Args: json.RawMessage(`{"amount":1}`),
		Context: governance.Context{CustomerID: &customer},
	}
	set := governance.Compile(1, []governance.Policy{policy("p", block, windowed(perCustomer, "greater", "5000"))})
	v := set.Evaluate(call)
	require.Equal(t, governance.Block, v.Decision)
	require.Contains(t, v.Reason, "sum of args.amount by customer_id within 1h greater 5000 (counts as true: the window is being filled)")
	call.Windows = set.Windows(call)
	require.True(t, call.Windows.Ask())
	require.Equal(t, governance.Block, set.Evaluate(call).Decision)
	require.NoError(t, call.Windows.Take(json.RawMessage(`[{"window":"`+windowOf(t, call.Windows)+`","per":60,"low":"0","high":"4999.5","filled":true,"unknown":false}]`)))
	require.Equal(t, governance.Allow, set.Evaluate(call).Decision)
	require.JSONEq(t, `[{"window":"`+windowOf(t, call.Windows)+`","value":"","up":"1","down":"0","counts":true,
		"reads":[{"per":60,"low":[],"high":[{"bound":"5000","sign":-1}]}]}]`, string(call.Windows.Stored(true)))
	reading := &call.Windows.Uses[0].Readings[0]
	reading.Unknown = true
	require.Contains(t, set.Evaluate(call).Reason, "an earlier call in the window has no amount")
	call.Context.CustomerID, call.Windows = nil, nil
	call.Windows = set.Windows(call)
	require.False(t, call.Windows.Ask())
	require.JSONEq(t, `[]`, string(call.Windows.Stored(true)))
	require.Equal(t, "the call lacks what the window counts by", set.Evaluate(call).Matches[0].Conditions[0].FailClosed)
}

// A window that counts by what the call does not have says the same after any other call.
func TestReasonOfAWindowWithoutItsFieldSaysWhatToSend(t *testing.T) {
	t.Parallel()
	for by, says := range map[string][]string{
		"session.id":   {"(counts as true: the call lacks session.id). Send session_id: the same call would be blocked again"},
		"customer_id":  {"(counts as true: the call lacks customer_id). Send metadata.customer_id: the same call would be blocked again"},
		"agent_id":     {"(counts as true: the call lacks agent_id). Send metadata.agent_id:"},
		"key.id":       {"(counts as true: the call lacks key.id). Send it with an API key:"},
		"args.account": {"(counts as true: the call lacks args.account). Send args.account:"},
	} {
		window := windowed(governance.Window{By: by, Per: "1d", Count: true, Matching: governance.MatchingAny()}, "greater", "0")
		for name, c := range map[string]struct {
			with []governance.Condition
			says []string
		}{
			"alone":    {nil, says},
			"and time": {[]governance.Condition{cond("time.hour", "less", "24")}, []string{"The same call may pass later: it depends on the time"}},
		} {
			set := governance.Compile(1, []governance.Policy{policy("p", block, append(c.with, window)...)})
			call := refund(`{"order_id":"7"}`)
			call.Context = governance.Context{Now: time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC)}
			call.Windows = set.Windows(call)
			reason := set.Evaluate(call).Reason
			for _, text := range c.says {
				require.Contains(t, reason, text, "%s %s", by, name)
			}
			require.NotContains(t, reason, "other calls", "%s %s", by, name)
		}
	}
}

// A policy in shadow mode decides by its window what it would decide if it were enforced. It asks for
// no number to stay as it was until the call is sent: a call must not wait for a limit that changes
// nothing, nor be judged again.
func TestWindowOfAShadowPolicyDecidesNothing(t *testing.T) {
	t.Parallel()
	customer := "c1"
	for name, c := range map[string]struct {
		operator  governance.Operator
		low, high string
		unfilled  bool
		nobody    bool
		block     bool
		lows      string // of an enforced policy, what has to stay
		highs     string
	}{
		"below a limit":          {operator: "greater", low: "1", high: "4999", highs: `[{"bound":"5000","sign":-1}]`},
		"over a limit":           {operator: "greater", low: "1", high: "5000.01", block: true, highs: `[{"bound":"5000","sign":1}]`},
		"at a limit":             {operator: "greater_or_equal", low: "1", high: "5000", block: true, highs: `[{"bound":"5000","sign":0}]`},
		"less than needed":       {operator: "less", low: "4999", high: "6000", block: true, lows: `[{"bound":"5000","sign":-1}]`},
		"as much as needed":      {operator: "less", low: "5000", high: "6000", lows: `[{"bound":"5000","sign":0}]`},
		"no more than that":      {operator: "less_or_equal", low: "5000", high: "6000", block: true, lows: `[{"bound":"5000","sign":0}]`},
		"may be equal":           {operator: "equals", low: "4999", high: "5001", block: true, lows: `[{"bound":"5000","sign":-1}]`, highs: `[{"bound":"5000","sign":1}]`},
		"is not equal":           {operator: "equals", low: "1", high: "4999", lows: `[{"bound":"5000","sign":-1}]`, highs: `[{"bound":"5000","sign":-1}]`},
		"is equal":               {operator: "not_equals", low: "5000", high: "5000", lows: `[{"bound":"5000","sign":0}]`, highs: `[{"bound":"5000","sign":0}]`},
		"a window that is empty": {operator: "greater", unfilled: true, block: true},
		"a call of no customer":  {operator: "greater", nobody: true, block: true},
	} {
		call := governance.Call{Verb: verb.Name{Provider: "shop", Verb: "refund"}, Risk: verb.RiskLow, Args: json.RawMessage(`{"amount":1}`)}
		if !c.nobody {
			call.Context.CustomerID = &customer
		}
		judge := func(policies ...governance.Policy) (governance.Verdict, string) {
			set := governance.Compile(1, policies)
			call.Windows = set.Windows(call)
			require.Equal(t, !c.nobody, call.Windows.Ask(), name)
			for i := range call.Windows.Uses[0].Readings {
				r := &call.Windows.Uses[0].Readings[i]
				if r.Filled = !c.unfilled; r.Filled && !c.nobody {
					r.Low, r.High = decimal.RequireFromString(c.low), decimal.RequireFromString(c.high)
				}
			}
			return set.Evaluate(call), string(call.Windows.Stored(true))
		}
		reads := func(lows, highs string) string {
			if c.nobody {
				return `[]` // it is counted in no window
			}
			return `[{"window":"` + windowOf(t, call.Windows) + `","value":"","up":"1","down":"0","counts":true,
				"reads":[{"per":60,"low":` + cmp.Or(lows, `[]`) + `,"high":` + cmp.Or(highs, `[]`) + `}]}]`
		}
		decision := governance.Allow
		if c.block {
			decision = governance.Block
		}
		enforced := policy("p", block, windowed(perCustomer, c.operator, "5000"))
		v, stored := judge(enforced)
		require.Equal(t, decision, v.Decision, name)
		require.Equal(t, decision, v.ShadowDecision, name)
		require.JSONEq(t, reads(c.lows, c.highs), stored, name)

		shadow := enforced
		shadow.Mode = governance.Shadow
		v, stored = judge(shadow)
		require.Equal(t, governance.Allow, v.Decision, name)
		require.Equal(t, decision, v.ShadowDecision, name)
		require.JSONEq(t, reads("", ""), stored, name)
		require.Equal(t, c.block, len(v.Matches) == 1 && v.Matches[0].Mode == governance.Shadow && !v.Matches[0].Decided, name)

		// Beside an enforced policy that reads the same window, only that one's number has to stay.
		other := policy("other", block, windowed(perCustomer, "greater", "1000000"))
		v, stored = judge(shadow, other)
		require.Equal(t, c.unfilled || c.nobody, v.Decision == governance.Block, name)
		require.Equal(t, decision, v.ShadowDecision, name)
		require.NotContains(t, stored, `"5000"`, name)
		require.Equal(t, !c.unfilled && !c.nobody, strings.Contains(stored, `"1000000"`), name)
	}
}

func windowOf(t *testing.T, w *governance.Windows) string {
	t.Helper()
	var list []struct{ Window string }
	require.NoError(t, json.Unmarshal(w.Stored(true), &list))
	return list[0].Window
}

func TestWindowOfOtherVerbsCountsThoseAndNotTheCall(t *testing.T) {
	t.Parallel()
	session := "s1"
	checked := governance.Window{By: "session.id", Per: "1d", Count: true, Matching: governance.MatchingAny(governance.Matcher{Type: "verb", Value: "shop:verify"})}
	p := policy("not before verify", block, windowed(checked, "equals", "0"))
	p.Matchers = []governance.Matcher{{Type: "verb", Value: "shop:refund"}}
	set := governance.Compile(1, []governance.Policy{p})
	at := func(name string) *governance.Windows {
		return set.Windows(governance.Call{Verb: verb.Name{Provider: "shop", Verb: name}, Context: governance.Context{SessionID: &session}})
	}
	require.Nil(t, at("list"), "it is in no window")
	verify := at("verify").Uses
	require.Len(t, verify, 1)
	require.True(t, verify[0].Counts)
	require.Empty(t, verify[0].Readings)
	refund := at("refund").Uses
	require.False(t, refund[0].Counts)
	require.Equal(t, 24*time.Hour, refund[0].Readings[0].Per)
	require.Equal(t, verify[0].Value, refund[0].Value)
}

func TestWindowsThatCountTheSameHaveOneID(t *testing.T) {
	t.Parallel()
	own := []governance.Matcher{{Type: "verb", Value: "shop:refund"}}
	hour, day := perCustomer, perCustomer
	day.Per, day.Matching = "1d", governance.MatchingAny(own...)
	a, b := policy("a", block, windowed(hour, "greater", "1")), policy("b", block, windowed(day, "greater", "1"))
	a.Matchers = own
	defs := governance.WindowDefs([]governance.Policy{a, b})
	require.Len(t, defs, 1)
	require.Equal(t, 24*time.Hour, defs[0].Longest)
	b.Conditions[0].Window.Matching = governance.MatchingAny()
	require.Len(t, governance.WindowDefs([]governance.Policy{a, b}), 2, "an empty list is every verb")
	stored, err := json.Marshal(b.Conditions[0])
	require.NoError(t, err)
	require.Contains(t, string(stored), `"matching":[]`)
}

func TestSecretSumOfAWindowIsMasked(t *testing.T) {
	t.Parallel()
	customer := "c1"
	set := governance.Compile(1, []governance.Policy{policy("p", block, windowed(governance.Window{By: "customer_id", Per: "1h", Sum: "args.secret"}, "greater", "4711"))})
	call := governance.Call{
		Verb: verb.Name{Provider: "shop", Verb: "refund"}, Risk: verb.RiskLow, Args: json.RawMessage(`{"secret":5000}`),
		Context: governance.Context{CustomerID: &customer, RunID: uuid.New()},
	}
	call.Windows = set.Windows(call)
	r := &call.Windows.Uses[0].Readings[0]
	r.Filled, r.High = true, decimal.RequireFromString("5000")
	v := set.Evaluate(call)
	require.JSONEq(t, `"[masked]"`, string(v.Matches[0].Conditions[0].Actual))
	require.JSONEq(t, `"[masked]"`, string(v.Matches[0].Conditions[0].Value))
	require.NotContains(t, v.Reason, "4711")
}

//nolint:paralleltest // what is allocated is counted for the whole process
func TestWindowsOfACallThatNoneIsAboutTakeNoMemory(t *testing.T) {
	p := policy("p", block, windowed(perCustomer, "greater", "1"))
	p.Matchers = []governance.Matcher{{Type: "verb", Value: "shop:refund"}}
	set := governance.Compile(1, []governance.Policy{p})
	call := governance.Call{Verb: verb.Name{Provider: "shop", Verb: "list"}, Args: json.RawMessage(`{"amount":1}`)}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if set.Windows(call) != nil {
			t.Error("it is in a window")
		}
	}))
}

// A window without matchers of its own counts what its policy is about only.
func TestWindowCountsWhatItsPolicyNarrows(t *testing.T) {
	t.Parallel()
	p := policy("p", block, governance.Condition{Window: &governance.Window{By: "customer_id", Per: "1h", Count: true}, Operator: "greater", Value: json.RawMessage("3")})
	p.Match = governance.Narrowing{All: []governance.Matcher{{Provider: "stripe"}}, Except: []governance.Matcher{{Verb: "stripe:get_*"}}}
	require.Empty(t, governance.CheckPolicy(p))
	customer := "c"
	for verb, want := range map[string]int{"create_refund": 1, "get_refund": 0} {
		c := refund(`{}`)
		c.Verb.Verb, c.Context.CustomerID = verb, &customer
		uses := governance.Compile(1, []governance.Policy{p}).Records(c, func(governance.WindowID) bool { return true })
		require.Len(t, uses, want, verb)
	}
	whole := p
	whole.Match = governance.Narrowing{}
	require.NotEqual(t, governance.WindowDefs([]governance.Policy{p})[0].ID, governance.WindowDefs([]governance.Policy{whole})[0].ID)
}

// Earlier calls may have named the customer by another text. What is counted is what the call says.
func TestWindowOfACustomerAsksForAllTheirNames(t *testing.T) {
	t.Parallel()
	set := governance.Compile(1, []governance.Policy{
		policy("p", block, windowed(perCustomer, "greater", "1"), windowed(governance.Window{By: "session.id", Per: "1h", Count: true}, "greater", "1")),
	})
	at := func(named string, names ...string) []governance.WindowUse {
		return set.Windows(governance.Call{
			Verb: verb.Name{Provider: "shop", Verb: "refund"}, Args: json.RawMessage(`{"amount":1}`),
			Context: governance.Context{CustomerID: &named, SessionID: &named, CustomerNames: names},
		}).Uses
	}
	a, b := at("a", "a", "b", "c"), at("b", "c", "b", "a")
	require.Equal(t, [][]byte{b[0].Value, at("c")[0].Value}, a[0].Also)
	require.Equal(t, [][]byte{at("c")[0].Value, a[0].Value}, b[0].Also)
	require.Empty(t, a[1].Also, "it is the field of a customer only")
	require.Empty(t, at("a")[0].Also)
	require.Empty(t, at("a", "a")[0].Also)
	a[0].Digest, a[0].AlsoDigests = []byte{2}, [][]byte{{3}, {1}}
	b[0].Digest, b[0].AlsoDigests = []byte{3}, [][]byte{{1}, {2}}
	lock := func(u governance.WindowUse) string {
		var list []struct{ Lock string }
		require.NoError(t, json.Unmarshal((&governance.Windows{Uses: []governance.WindowUse{u}}).Stored(true), &list))
		return list[0].Lock
	}
	require.Equal(t, "01", lock(a[0]))
	require.Equal(t, "01", lock(b[0]), "whatever they say, calls for one customer wait for each other")
	require.Empty(t, lock(a[1]))
}

// A call of an agent is counted by the id of the customer's record, whatever text has named them.
func TestWindowOfACustomerCountsByTheirRecord(t *testing.T) {
	t.Parallel()
	set := governance.Compile(1, []governance.Policy{policy("p", block, windowed(perCustomer, "greater", "1"))})
	at := func(named, ref string, names ...string) governance.WindowUse {
		c := governance.Call{Verb: verb.Name{Provider: "shop", Verb: "refund"}, Args: json.RawMessage(`{"amount":1}`), Context: governance.Context{CustomerID: &named, CustomerNames: names}}
		if ref != "" {
			c.Context.CustomerRef = &ref
		}
		return set.Windows(c).Uses[0]
	}
	byText, byID := at("ann", "", "ann", "id"), at("ann", "id", "ann", "id")
	require.Equal(t, at("id", "").Value, byID.Value)
	require.Equal(t, [][]byte{byText.Value}, byID.Also)
	require.Equal(t, [][]byte{byID.Value}, byText.Also)
}

// A caller, or a model, reads in the reason what is missing, and whether to try again.
func TestReasonOfABlockSaysWhatTheDecisionDependsOn(t *testing.T) {
	t.Parallel()
	const again = "the same call would be blocked again"
	verify := governance.Window{By: "session.id", Per: "1d", Count: true, Matching: governance.MatchingAny(governance.Matcher{Verb: "retail:find_user_*"}, governance.Matcher{Provider: "shop", Domain: "support"})}
	every := governance.Window{By: "session.id", Per: "1d", Sum: "args.amount", Matching: governance.MatchingAny()}
	many := governance.Window{By: "session.id", Per: "1d", Count: true, Matching: governance.MatchingAny(governance.Matcher{Verb: "a:*"}, governance.Matcher{Verb: "b:*"}, governance.Matcher{Verb: "c:*"}, governance.Matcher{Verb: "d:*"}, governance.Matcher{Verb: "e:*"})}
	zoned := cond("time.hour", "less", "24")
	looks := withLookups(policy("p", block, cond("lookup.order.n", "greater", "1")), lookup("order", orderOfCall))
	for name, c := range map[string]struct {
		policies []governance.Policy
		says     []string
		again    bool
	}{
		"of the call":  {[]governance.Policy{policy("p", block, cond("args.order_id", "exists", ""))}, []string{"Change the call or the policy"}, true},
		"a window":     {[]governance.Policy{policy("p", block, windowed(verify, "equals", "0"))}, []string{"calls of retail:find_user_* or provider shop and domain support by session.id within 1d equals 0", "The same call may pass later: it depends on other calls"}, false},
		"all calls":    {[]governance.Policy{policy("p", block, windowed(every, "less", "5"))}, []string{"sum of args.amount of all calls by session.id within 1d"}, false},
		"many":         {[]governance.Policy{policy("p", block, windowed(many, "equals", "0"))}, []string{"calls of a:* or b:* or c:* or 2 more by session.id"}, false},
		"the customer": {[]governance.Policy{policy("p", block, cond("customer.id", "not_exists", ""), zoned)}, []string{"it depends on the record of the customer and on the time"}, false},
		"a look-up":    {[]governance.Policy{looks}, []string{"lookup: not_run", "A run makes the look-up and may decide otherwise"}, false},
		"one of two":   {[]governance.Policy{policy("a", block, windowed(verify, "equals", "0")), policy("b", block)}, nil, true},
		"within a group": {
			[]governance.Policy{policy("p", block, governance.Condition{Any: []governance.Condition{windowed(verify, "equals", "0"), cond("args.order_id", "exists", "")}})},
			[]string{"it depends on other calls"},
			false,
		},
	} {
		session := "s1"
		call := refund(`{"order_id":"7"}`)
		call.Context.SessionID, call.Context.Now = &session, time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC)
		set := governance.Compile(1, c.policies)
		v := set.Evaluate(call)
		require.Equal(t, governance.Block, v.Decision, name)
		for _, text := range c.says {
			require.Contains(t, v.Reason, text, name)
		}
		require.Equal(t, c.again, strings.Contains(v.Reason, again), "%s: %s", name, v.Reason)
		if len(v.Lookups) > 0 {
			call.Context.Lookups = map[string]governance.Answer{v.Lookups[0].Key: {Value: json.RawMessage(`{"n":2}`)}}
			require.Contains(t, set.Evaluate(call).Reason, "it depends on what is looked up")
		}
	}
}
