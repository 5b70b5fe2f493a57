package governance

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// retail is a shop with the verbs of docs/use/policies.md. It counts what it gets.
type retail struct {
	srv *httptest.Server

	mu     sync.Mutex
	got    map[string]int
	orders map[string]string
}

func newRetail(t *testing.T) *retail {
	t.Helper()
	order := func(user, status string) string {
		return `{"user_id":"` + user + `","status":"` + status + `","items":[{"item_id":"1"}],"payment_history":[{"payment_method_id":"card_1"}]}`
	}
	s := &retail{got: map[string]int{}, orders: map[string]string{
		"#W0000001": order("ann", "pending"), "#W0000002": order("ann", "delivered"), "#W0000003": order("bob", "pending"),
		"#W0000004": order("ann", "exchange requested"), "#W0000005": `{"user_id":"ann"}`,
		"W0000001": order("ann", "pending"), // so that nothing but the shape of the id is wrong
	}}
	s.srv = httptest.NewServer(s)
	t.Cleanup(s.srv.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *retail) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	verb := strings.Trim(r.URL.Path, "/")
	s.mu.Lock()
	s.got[verb]++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := `{"done":true}`
	if verb == "get_order_details" {
		var args struct {
			OrderID string `json:"order_id"`
		}
		_ = json.Unmarshal(body, &args)
		if args.OrderID == "#HANGS" {
			<-r.Context().Done()
			return
		}
		if answer = s.orders[args.OrderID]; answer == "" {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"error":"no such order"}`
		}
	}
	_, _ = io.WriteString(w, answer)
}

func (s *retail) count(verb string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got[verb]
}

func retailPaths() map[string]any {
	text, list := typed("string"), map[string]any{"type": "array", "items": typed("string")}
	paths := map[string]any{}
	for name, properties := range map[string]map[string]any{
		"get_order_details":              {"order_id": text},
		"find_user_id_by_email":          {"email": text},
		"cancel_pending_order":           {"order_id": text, "reason": text},
		"modify_pending_order":           {"order_id": text, "changes": map[string]any{"type": "object", "properties": m{"address": text, "items": list, "payment": text}}},
		"exchange_delivered_order_items": {"order_id": text, "item_ids": list, "new_item_ids": list, "payment_method_id": text},
		"return_delivered_order_items":   {"order_id": text, "item_ids": list, "payment_method_id": text},
		"transfer_to_human_agents":       {"summary": text},
	} {
		risk, kind := "medium", "write"
		if strings.HasPrefix(name, "get_") || strings.HasPrefix(name, "find_") {
			risk, kind = "low", "read"
		}
		paths["/"+name] = map[string]any{"post": operation(name, risk, kind, properties)}
	}
	return paths
}

// retailWorld is a tenant that is connected to a shop of its own.
func retailWorld(t *testing.T) (*world, *retail) {
	t.Helper()
	w, shop := emptyWorld(t, sharedDev().For(t)), newRetail(t)
	w.Connect(t, "retail", shop.srv.URL, bankDocument(retailPaths()), "bearer", map[string]string{"token": "retail-token"})
	return w, shop
}

// retailPolicies are those of the page, by their names.
func retailPolicies(t *testing.T) map[string]m {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(rig.Root(), "docs", "use", "policies.md"))
	require.NoError(t, err)
	_, part, found := strings.Cut(string(page), "\n## The policies of a shop's agent\n")
	require.True(t, found)
	part, _, _ = strings.Cut(part, "\n## ")
	policies := map[string]m{}
	for i, block := range strings.Split(part, "```json\n") {
		if i == 0 {
			continue
		}
		block, _, _ = strings.Cut(block, "```")
		var p m
		require.NoError(t, json.Unmarshal([]byte(block), &p), block)
		policies[p["name"].(string)] = p
	}
	return policies
}

// retailCall is a call of the shop.
type retailCall struct {
	verb     string
	args     m
	metadata m
	session  string
}

// run makes the call and returns its execution id beside the answer.
func (c retailCall) run(w *world) (a rig.Answer, id string) {
	id = uuid.NewString()
	body := m{"verb": "retail:" + c.verb, "args": c.args, "metadata": c.metadata, "execution_id": id}
	if c.session != "" {
		body["session_id"] = c.session
	}
	return w.send(body), id
}

// retailRule has calls of each kind for a rule. Those that are held are sent once where people approve
// them, and not where people reject them.
type retailRule struct{ passes, fails, held []retailCall }

// check makes the calls under the policy of the rule.
func (r retailRule) check(t *testing.T, w *world, shop *retail, name string, policy m) {
	t.Helper()
	lookups, _ := policy["lookups"].([]any)
	reads := func(c retailCall) (n int) { // the look-ups that call the same verb
		for _, one := range lookups {
			if read, _ := one.(m); read["verb"] == "retail:"+c.verb {
				n++
			}
		}
		return n
	}
	for _, c := range r.passes {
		want := shop.count(c.verb) + reads(c) + 1
		a, _ := c.run(w)
		require.Equal(t, http.StatusOK, a.Status, "%v: %s", c, a.Body)
		require.Equal(t, want, shop.count(c.verb), "%v", c)
	}
	for _, c := range r.fails {
		want := shop.count(c.verb) + reads(c)
		a, _ := c.run(w)
		e := refused(t, a, http.StatusForbidden, "GOVERNANCE_BLOCKED")
		require.Equal(t, "block", e.Error.Decision)
		require.Contains(t, e.Error.Message, name)
		require.NotContains(t, e.Error.Message, "ann")
		require.Equal(t, want, shop.count(c.verb), "%v", c)
	}
	for _, c := range r.held {
		before := shop.count(c.verb)
		a, id := c.run(w)
		e := refused(t, a, http.StatusForbidden, "GOVERNANCE_BLOCKED")
		require.Equal(t, "pending_approval", e.Error.Decision)
		require.Equal(t, before, shop.count(c.verb), "%v", c)
		require.Equal(t, http.StatusOK, w.approve(e.Error.ApprovalID).Status)
		w.awaitStatus(id, "executed")
		require.Equal(t, http.StatusConflict, w.approve(e.Error.ApprovalID).Status)
		require.Equal(t, before+1, shop.count(c.verb), "%v", c)

		a, id = c.run(w)
		approval := refused(t, a, http.StatusForbidden, "GOVERNANCE_BLOCKED").Error.ApprovalID
		require.Equal(t, http.StatusOK, w.reject(approval).Status)
		w.awaitStatus(id, "rejected")
		require.Equal(t, before+1, shop.count(c.verb), "%v was rejected", c)
	}
}

// Each rule of the page lets through what it should, and stops the rest before it is sent.
func TestRulesOfARetailAgent(t *testing.T) {
	t.Parallel()
	policies := retailPolicies(t)
	cancel := m{"order_id": "#W0000001", "reason": "no longer needed"}
	exchange := m{"order_id": "#W0000002", "item_ids": []string{"1"}, "new_item_ids": []string{"2"}, "payment_method_id": "card_1"}
	giveBack := m{"order_id": "#W0000002", "item_ids": []string{"1"}, "payment_method_id": "card_1"}
	ann := m{"customer_id": "ann", "confirmed": true}
	modify := func(changes m) retailCall {
		return retailCall{"modify_pending_order", m{"order_id": "#W0000001", "changes": changes}, ann, ""}
	}
	rules := map[string]retailRule{
		"The customer is found first": {
			passes: []retailCall{{"find_user_id_by_email", m{"email": "ann@example.com"}, ann, "s1"}, {"cancel_pending_order", cancel, ann, "s1"}},
			fails:  []retailCall{{"cancel_pending_order", cancel, ann, "s2"}, {"cancel_pending_order", cancel, ann, ""}},
		},
		"Only after the customer has confirmed": {
			passes: []retailCall{{"cancel_pending_order", cancel, ann, ""}, {"get_order_details", m{"order_id": "#W0000001"}, m{}, ""}, {"transfer_to_human_agents", m{"summary": "x"}, m{}, ""}},
			fails:  []retailCall{{"cancel_pending_order", cancel, m{"customer_id": "ann"}, ""}, {"cancel_pending_order", cancel, m{"confirmed": "true"}, ""}, {"modify_pending_order", m{}, m{"confirmed": false}, ""}},
		},
		"Ids of one shape": {
			passes: []retailCall{{"get_order_details", m{"order_id": "#W0000001"}, ann, ""}},
			fails:  []retailCall{{"get_order_details", m{"order_id": "W0000001"}, ann, ""}, {"cancel_pending_order", m{"order_id": "#W0000001 ", "reason": "x"}, ann, ""}, {"cancel_pending_order", m{"reason": "x"}, ann, ""}},
		},
		"Only the customer's own orders": {
			passes: []retailCall{{"cancel_pending_order", cancel, ann, ""}, {"get_order_details", m{"order_id": "#W0000001"}, ann, ""}},
			fails: []retailCall{
				{"get_order_details", m{"order_id": "#W0000003"}, ann, ""},
				{"get_order_details", m{"order_id": "#W0000001"}, m{}, ""},
				{"cancel_pending_order", with(cancel, m{"order_id": "#W0000003"}), ann, ""},
				{"cancel_pending_order", cancel, m{}, ""},
				{"cancel_pending_order", with(cancel, m{"order_id": "#W9999999"}), ann, ""},
				{"cancel_pending_order", m{"reason": "x"}, ann, ""},
			},
		},
		"As many new items as old ones": {
			passes: []retailCall{{"exchange_delivered_order_items", exchange, ann, ""}},
			fails:  []retailCall{{"exchange_delivered_order_items", with(exchange, m{"new_item_ids": []string{"2", "3"}}), ann, ""}, {"exchange_delivered_order_items", m{"order_id": "#W0000002", "item_ids": []string{"1"}}, ann, ""}},
		},
		"One exchange per order": {
			passes: []retailCall{{"exchange_delivered_order_items", exchange, ann, ""}, {"exchange_delivered_order_items", with(exchange, m{"order_id": "#W0000004"}), ann, ""}},
			fails:  []retailCall{{"exchange_delivered_order_items", exchange, ann, ""}, {"exchange_delivered_order_items", m{"item_ids": []string{"1"}}, ann, ""}},
		},
		"Reasons from a list": {
			passes: []retailCall{{"cancel_pending_order", cancel, ann, ""}, {"cancel_pending_order", with(cancel, m{"reason": "ordered by mistake"}), ann, ""}},
			fails:  []retailCall{{"cancel_pending_order", with(cancel, m{"reason": "found it cheaper"}), ann, ""}, {"cancel_pending_order", m{"order_id": "#W0000001"}, ann, ""}},
		},
		"Only pending orders change": {
			passes: []retailCall{{"cancel_pending_order", cancel, ann, ""}, {"modify_pending_order", m{"order_id": "#W0000001", "changes": m{"address": "x"}}, ann, ""}},
			fails:  []retailCall{{"cancel_pending_order", with(cancel, m{"order_id": "#W0000002"}), ann, ""}, {"cancel_pending_order", with(cancel, m{"order_id": "#W0000005"}), ann, ""}},
		},
		"Refunds go back to where the money came from": {
			passes: []retailCall{{"return_delivered_order_items", giveBack, ann, ""}},
			fails:  []retailCall{{"return_delivered_order_items", with(giveBack, m{"payment_method_id": "card_2"}), ann, ""}, {"return_delivered_order_items", with(giveBack, m{"order_id": "#W0000005"}), ann, ""}},
		},
		"A person takes over": {
			passes: []retailCall{{"cancel_pending_order", cancel, ann, ""}},
			held:   []retailCall{{"transfer_to_human_agents", m{"summary": "x"}, ann, ""}},
		},
		"One change a call": {
			passes: []retailCall{
				modify(m{"address": "x"}), modify(m{"payment": "card_1"}), modify(m{"items": []string{"1", "2"}}), modify(m{}),
				{"cancel_pending_order", m{"order_id": "#W0000001", "reason": "no longer needed"}, ann, ""},
			},
			fails: []retailCall{
				modify(m{"address": "x", "payment": "y"}), modify(m{"address": "", "items": []string{}}), modify(m{"address": "x", "items": []string{"1"}, "payment": "y"}),
				{"modify_pending_order", m{"order_id": "#W0000001"}, ann, ""},
			},
		},
	}
	require.Len(t, policies, len(rules), "the page and the test have the same rules")
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, shop := retailWorld(t)
			require.Contains(t, policies, name)
			require.NotEmpty(t, rule.passes)
			require.NotEmpty(t, append(rule.fails, rule.held...))
			w.policy(policies[name])
			rule.check(t, w, shop, name, policies[name])
		})
	}
}

// With all rules of the page stored, an agent that keeps them can do its work. Each call that breaks one
// rule is refused, and the refusal names that rule alone.
func TestRulesOfARetailAgentTogether(t *testing.T) {
	t.Parallel()
	w, shop := retailWorld(t)
	policies := retailPolicies(t)
	for _, policy := range policies {
		w.policy(policy)
	}
	ann := m{"customer_id": "ann", "confirmed": true}
	of := func(verb string, args m) retailCall { return retailCall{verb, args, ann, "s1"} }
	cancel := of("cancel_pending_order", m{"order_id": "#W0000001", "reason": "no longer needed"})
	modify := of("modify_pending_order", m{"order_id": "#W0000001", "changes": m{"address": "x"}})
	exchange := of("exchange_delivered_order_items", m{"order_id": "#W0000002", "item_ids": []string{"1"}, "new_item_ids": []string{"2"}, "payment_method_id": "card_1"})
	giveBack := of("return_delivered_order_items", m{"order_id": "#W0000002", "item_ids": []string{"1"}, "payment_method_id": "card_1"})
	passes := func(c retailCall) {
		before := shop.count(c.verb)
		a, _ := c.run(w)
		require.Equal(t, http.StatusOK, a.Status, "%v: %s", c, a.Body)
		require.Greater(t, shop.count(c.verb), before, "%v", c)
	}
	passes(of("find_user_id_by_email", m{"email": "ann@example.com"}))
	passes(of("get_order_details", m{"order_id": "#W0000001"}))
	for _, c := range []retailCall{modify, cancel, exchange, giveBack} {
		passes(c)
	}
	held := of("transfer_to_human_agents", m{"summary": "The customer asks for a person."})
	breaks := map[string]retailCall{
		"The customer is found first":                  {cancel.verb, cancel.args, ann, "s2"},
		"Only after the customer has confirmed":        {cancel.verb, cancel.args, m{"customer_id": "ann"}, "s1"},
		"Ids of one shape":                             of(cancel.verb, with(cancel.args, m{"order_id": "W0000001"})),
		"Only the customer's own orders":               of(cancel.verb, with(cancel.args, m{"order_id": "#W0000003"})),
		"As many new items as old ones":                of(exchange.verb, with(exchange.args, m{"order_id": "#W0000004", "new_item_ids": []string{"2", "3"}})),
		"One exchange per order":                       exchange,
		"Reasons from a list":                          of(cancel.verb, with(cancel.args, m{"reason": "found it cheaper"})),
		"Only pending orders change":                   of(modify.verb, with(modify.args, m{"order_id": "#W0000002"})),
		"Refunds go back to where the money came from": of(giveBack.verb, with(giveBack.args, m{"payment_method_id": "card_2"})),
		"A person takes over":                          held,
		"One change a call":                            of(modify.verb, with(modify.args, m{"changes": m{"address": "x", "payment": "card_1"}})),
	}
	require.Len(t, breaks, len(policies), "each rule of the page is broken once")
	var waits string
	for broken, c := range breaks {
		before := shop.count(c.verb)
		a, _ := c.run(w)
		e := refused(t, a, http.StatusForbidden, "GOVERNANCE_BLOCKED")
		for name := range policies {
			require.Equal(t, name == broken, strings.Contains(e.Error.Message, name), "%s is broken: %s", broken, e.Error.Message)
		}
		require.Equal(t, before, shop.count(c.verb), "%s: nothing is sent", broken)
		if c.verb == held.verb {
			waits = e.Error.ApprovalID
		}
	}
	require.Equal(t, http.StatusOK, w.approve(waits).Status)
	rig.Until(t, 30*time.Second, "the held call is sent", func() bool { return shop.count(held.verb) == 1 })
	passes(modify)
	passes(of(exchange.verb, with(exchange.args, m{"order_id": "#W0000004"})))
}
