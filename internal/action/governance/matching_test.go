package governance_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
)

// The calls that a window counts are written as a list of matchers, as one matcher or as all and except.
// What is wrong is refused where it stands, and what is right is stored in one of two forms.
func TestWindowTakesEveryFormOfMatching(t *testing.T) {
	t.Parallel()
	calls := map[string]governance.Call{
		"refund": {Verb: verb.Name{Provider: "shop", Verb: "refund"}, Operation: verb.Write, Risk: verb.RiskHigh, Domain: "orders"},
		"look":   {Verb: verb.Name{Provider: "shop", Verb: "get_order"}, Operation: verb.Read, Risk: verb.RiskLow, Domain: "orders"},
		"pay":    {Verb: verb.Name{Provider: "bank", Verb: "pay"}, Operation: verb.Write, Risk: verb.RiskHigh, Domain: "payments"},
	}
	for name, c := range map[string]struct {
		written string
		counted []string // of calls
		stored  string
		says    string // in reasons
		wrong   string // the path of what is wrong, below matching
	}{
		"absent":            {``, []string{"refund"}, ``, "calls by", ""},
		"null":              {`null`, []string{"refund"}, ``, "calls by", ""},
		"a list":            {`[{"verb":"shop:refund"},{"provider":"bank"}]`, []string{"refund", "pay"}, `[{"verb":"shop:refund"},{"provider":"bank"}]`, "calls of shop:refund or provider bank by", ""},
		"an empty list":     {`[]`, []string{"refund", "look", "pay"}, `[]`, "all calls by", ""},
		"one field":         {`{"provider":"bank"}`, []string{"pay"}, `[{"provider":"bank"}]`, "calls of provider bank by", ""},
		"several fields":    {`{"provider":"shop","operation_type":"write","domain":"orders"}`, []string{"refund"}, `[{"provider":"shop","operation_type":"write","domain":"orders"}]`, "calls of provider shop and operation_type write and domain orders by", ""},
		"a type":            {`{"type":"riskLevel","value":"HIGH"}`, []string{"refund", "pay"}, `[{"type":"risk_level","value":"high"}]`, "calls of risk_level high by", ""},
		"the other name":    {`{"riskLevel":"high"}`, []string{"refund", "pay"}, `[{"risk_level":"high"}]`, "calls of risk_level high by", ""},
		"all":               {`{"all":[{"provider":"shop"},{"operation_type":"WRITE"}]}`, []string{"refund"}, `{"all":[{"provider":"shop"},{"operation_type":"write"}]}`, "calls of provider shop and operation_type write by", ""},
		"except":            {`{"except":[{"verb":"shop:get_*"}]}`, []string{"refund", "pay"}, `{"except":[{"verb":"shop:get_*"}]}`, "all calls except shop:get_* by", ""},
		"all and except":    {`{"all":[{"provider":"shop"}],"except":[{"verb":"shop:get_*"}]}`, []string{"refund"}, `{"all":[{"provider":"shop"}],"except":[{"verb":"shop:get_*"}]}`, "calls of provider shop except shop:get_* by", ""},
		"empty lists":       {`{"all":[],"except":[]}`, []string{"refund", "look", "pay"}, `[]`, "all calls by", ""},
		"an empty object":   {`{}`, nil, ``, "", "/type"},
		"an unknown member": {`{"provider":"shop","method":"GET"}`, nil, ``, "", ""},
		"an empty value":    {`{"provider":""}`, nil, ``, "", ""},
		"two names of one":  {`{"risk_level":"low","riskLevel":"high"}`, nil, ``, "", ""},
		"a wrong value":     {`{"provider":"shop:*"}`, nil, ``, "", "/provider"},
		"a wrong one of it": {`{"all":[{"provider":"shop"},{"risk_level":"huge"}]}`, nil, ``, "", "/all/1/risk_level"},
		"a wrong exception": {`{"except":[{"verb":"Shop"}]}`, nil, ``, "", "/except/0/verb"},
		"both forms":        {`{"provider":"shop","except":[{"verb":"shop:get_*"}]}`, nil, ``, "", ""},
		"alternatives":      {`{"any":[{"provider":"shop"}],"all":[]}`, nil, ``, "", ""},
		"another case":      {`{"All":[{"provider":"shop"}]}`, nil, ``, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := `{"by":"args.id","per":"1h","count":true}`
			if c.written != "" {
				text = `{"by":"args.id","per":"1h","count":true,"matching":` + c.written + `}`
			}
			var w governance.Window
			require.NoError(t, json.Unmarshal([]byte(text), &w))
			p := policy("p", block, windowed(w, "greater_or_equal", "0"))
			p.Matchers = []governance.Matcher{{Verb: "shop:refund"}}
			problems := governance.CheckPolicy(p)
			if c.counted == nil {
				require.Len(t, problems, 1)
				require.Equal(t, "/conditions/0/window/matching"+c.wrong, problems[0].Path)
				return
			}
			require.Empty(t, problems)
			p = governance.Normalize(p)
			stored, err := json.Marshal(p.Conditions[0].Window)
			require.NoError(t, err)
			want := `{"by":"args.id","per":"1h","count":true}`
			if c.stored != "" {
				want = `{"by":"args.id","per":"1h","count":true,"matching":` + c.stored + `}`
			}
			require.JSONEq(t, want, string(stored))

			var again governance.Window
			require.NoError(t, json.Unmarshal(stored, &again))
			q := policy("q", block, windowed(again, "greater_or_equal", "0"))
			q.Matchers = p.Matchers
			require.Len(t, governance.WindowDefs([]governance.Policy{p, q}), 1, "both forms are one window")

			set := governance.Compile(1, []governance.Policy{q})
			counted := []string{}
			for _, name := range []string{"refund", "look", "pay"} {
				call := calls[name]
				call.Args = json.RawMessage(`{"id":"1"}`)
				if len(set.Records(call, func(governance.WindowID) bool { return true })) > 0 {
					counted = append(counted, name)
				}
			}
			require.Equal(t, c.counted, counted)
			call := calls["refund"]
			call.Args = json.RawMessage(`{"id":"1"}`)
			require.Contains(t, set.Evaluate(call).Reason, c.says)
		})
	}
}

// A row may have what a later version wrote. It is no smaller for that, and the policy cannot be read.
func TestMatchingThatCannotBeReadExemptsNothing(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{`{"all":[],"later":[]}`, `{"later":"x"}`, `{"provider":"shop","all":[]}`} {
		var w governance.Window
		require.NoError(t, json.Unmarshal([]byte(`{"by":"args.id","per":"1h","count":true,"matching":`+stored+`}`), &w))
		set := governance.Compile(1, []governance.Policy{policy("p", block, windowed(w, "greater", "1000"))})
		call := governance.Call{Verb: verb.Name{Provider: "shop", Verb: "refund"}, Risk: verb.RiskLow, Args: json.RawMessage(`{"id":"1"}`)}
		require.Equal(t, governance.Block, set.Evaluate(call).Decision, stored)
	}
}
