package governance_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
)

// The cases of TestWindowKeepsAmountsBelowZeroApart and TestFirstMinuteOfWindowCountsOnTheStrictSide,
// which ask the database.
func TestHistoryCountsAsTheDatabaseDoes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 9, 30, 15, 0, time.UTC)
	set := governance.Compile(1, []governance.Policy{policy("p", block, windowed(governance.Window{By: "customer_id", Per: "1h", Sum: "args.items.amount"}, "greater", "5000"))})
	call := func(customer, items string) governance.Call {
		return governance.Call{
			Verb: verb.Name{Provider: "shop", Verb: "refund"}, Args: json.RawMessage(`{"items":` + items + `}`), Context: governance.Context{CustomerID: &customer},
		}
	}
	const edge = time.Hour + 15*time.Second // back to the beginning of the first minute
	type earlier struct {
		ago   time.Duration
		items string
		done  bool
	}
	for name, c := range map[string]struct {
		earlier   []earlier
		low, high string
	}{
		"none":                      {nil, "0", "5"},
		"executed":                  {[]earlier{{time.Minute, `[{"amount":7}]`, true}}, "7", "12"},
		"an executed credit":        {[]earlier{{2 * time.Minute, `[{"amount":-1000}]`, true}, {time.Minute, `[{"amount":7}]`, true}}, "-993", "12"},
		"not known":                 {[]earlier{{time.Minute, `[{"amount":-3},{"amount":7}]`, false}}, "-3", "12"},
		"in the first minute":       {[]earlier{{edge, `[{"amount":7},{"amount":-3}]`, true}}, "-3", "12"},
		"in the second":             {[]earlier{{edge - time.Minute, `[{"amount":7},{"amount":-3}]`, true}}, "4", "12"},
		"before the first":          {[]earlier{{edge + time.Second, `[{"amount":7},{"amount":-3}]`, true}}, "0", "5"},
		"at this moment, and later": {[]earlier{{0, `[{"amount":7}]`, true}, {-time.Minute, `[{"amount":7}]`, true}}, "0", "5"},
		"many": {[]earlier{
			{edge + time.Minute, `[{"amount":100}]`, true},
			{edge - time.Minute, `[{"amount":10},{"amount":-1}]`, true},
			{time.Minute, `[{"amount":20}]`, false},
			{time.Second, `[{"amount":40}]`, true},
			{-time.Second, `[{"amount":1000}]`, true},
		}, "49", "75"},
	} {
		h := &governance.History{}
		for _, e := range c.earlier {
			for _, customer := range []string{"c1", "c2"} {
				h.Add(set.Records(call(customer, e.items), func(governance.WindowID) bool { return true }), now.Add(-e.ago), e.done)
			}
		}
		require.Equal(t, 2*len(c.earlier), h.Size(), name)
		w := set.Windows(call("c1", `[{"amount":5}]`))
		h.Read(w, now)
		r := w.Uses[0].Readings[0]
		require.Equal(t, c.low, r.Low.String(), name)
		require.Equal(t, c.high, r.High.String(), name)
		require.True(t, r.Filled, name)
		require.False(t, r.Unknown, name)
	}
	h := &governance.History{}
	h.Add(set.Records(call("c1", `[{}]`), func(governance.WindowID) bool { return true }), now.Add(-30*time.Minute), true)
	w := set.Windows(call("c1", `[{"amount":5}]`))
	h.Read(w, now)
	require.True(t, w.Uses[0].Readings[0].Unknown)
	h.Read(w, now.Add(time.Hour))
	require.False(t, w.Uses[0].Readings[0].Unknown)
	require.Equal(t, governance.Block, set.Evaluate(call("c1", `[{"amount":5}]`)).Decision, "in doubt")
}

func TestHistoryCountsAllNamesOfACustomer(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 9, 30, 15, 0, time.UTC)
	set := governance.Compile(1, []governance.Policy{policy("p", block, windowed(perCustomer, "greater", "5000"))})
	call := func(customer string, names ...string) governance.Call {
		return governance.Call{
			Verb: verb.Name{Provider: "shop", Verb: "refund"}, Args: json.RawMessage(`{"amount":5}`), Context: governance.Context{CustomerID: &customer, CustomerNames: names},
		}
	}
	h := &governance.History{}
	for _, customer := range []string{"a", "b", "other"} {
		h.Add(set.Records(call(customer), func(governance.WindowID) bool { return true }), now.Add(-time.Minute), true)
	}
	w := set.Windows(call("a", "id", "a", "b"))
	h.Read(w, now)
	r := w.Uses[0].Readings[0]
	require.Equal(t, [2]string{"10", "15"}, [2]string{r.Low.String(), r.High.String()})
}
