package governance_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
)

// Each field can be asked for, and one that callers write is warned of where a policy loosens by it.
func TestFieldsSayWhoSetsThem(t *testing.T) {
	t.Parallel()
	list := func(name, op, value string) []governance.Condition {
		return []governance.Condition{cond(strings.NewReplacer("<path>", "a.b", "<name>", "n").Replace(name), governance.Operator(op), value)}
	}
	words := map[string]bool{}
	for _, info := range governance.FieldInfos() {
		p := policy("p", block, list(info.Name, "exists", "")...)
		p.Lookups = []governance.Lookup{{Name: "n", Verb: "a:get_b", Args: json.RawMessage(`{}`)}}
		if !strings.HasPrefix(info.Name, "lookup.") {
			p.Lookups = nil
		}
		require.Empty(t, governance.CheckPolicy(p), info.Name)
		isWord := info.SetBy == governance.SetByCaller || info.SetBy == governance.SetByVisitor
		words[info.Name] = isWord
		for _, c := range []struct {
			action governance.Action
			of     []governance.Condition
		}{
			{"allow", list(info.Name, "exists", "")},
			{"block", list(info.Name, "not_exists", "")},
			{"require_approval", list(info.Name, "equals", "null")},
			{"block", []governance.Condition{not(list(info.Name, "exists", "")[0])}},
		} {
			found := governance.CallersWords(c.action, c.of)
			require.Equal(t, isWord || strings.HasPrefix(info.Name, "customer."), len(found) == 1, "%s %s: %v", c.action, info.Name, found)
		}
		require.Empty(t, governance.CallersWords("block", list(info.Name, "exists", "")), "%s: it only gets stricter by the word", info.Name)
	}
	for _, name := range []string{"agent_id", "customer_id", "session.id", "metadata.<path>", "customer.claimed.<path>"} {
		require.True(t, words[name], name)
	}
	for _, name := range []string{"agent.id", "map_id", "key.id", "customer.tags", "customer.metadata.<path>", "session.tainted"} {
		require.False(t, words[name], name)
	}
	for _, name := range []string{"agent", "agent.ID", "map", "customer.claimed", "customer.email", "metadata", "session", "session.other", "lookup.n"} {
		require.NotEmpty(t, governance.CheckPolicy(policy("p", block, list(name, "exists", "")...)), name)
	}
}

func TestCallersWordLoosens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action string
		one    governance.Condition
		loose  bool
	}{
		{"block", cond("agent_id", "equals", `"a"`), false},
		{"block", cond("agent_id", "not_equals", `"a"`), true},
		{"block", cond("customer_id", "in", `["a",null]`), true},
		{"block", cond("metadata.trust", "less", `5`), true},
		{"block", cond("metadata.tags", "not_contains", `"vip"`), true},
		{"block", not(cond("session.id", "equals", `"s"`)), true},
		{"block", not(cond("session.id", "not_equals", `"s"`)), false},
		{"notify", cond("agent_id", "exists", ``), false},
		{"require_approval", cond("customer.claimed.tier", "not_equals", `"gold"`), true},
		{"allow", cond("agent_id", "equals", `"a"`), true},
		{"allow", cond("agent.id", "equals", `"a"`), false},
		{"block", with("args.customer", "not_equals", "customer_id"), true},
		{"block", with("args.customer", "equals", "customer.id"), false},
		{"block", cond("customer.tags", "not_contains", `"vip"`), true},
		{"block", cond("customer.tags", "contains", `"banned"`), true},
		{"allow", cond("customer.metadata.plan", "equals", `"gold"`), true},
		{"block", windowed(governance.Window{By: "agent_id", Per: "1h", Count: true}, "greater", "5"), true},
		{"block", windowed(governance.Window{By: "key.id", Per: "1h", Count: true}, "greater", "5"), false},
	} {
		found := governance.CallersWords(governance.Action(c.action), []governance.Condition{c.one})
		require.Equal(t, c.loose, len(found) == 1, "%s %+v: %v", c.action, c.one, found)
	}
}
