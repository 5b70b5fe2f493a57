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

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// retail is a shop with the verbs of docs/retail-policies.md. It counts what it gets.
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
		"modify_pending_order":           {"order_id": text, "changes": map[string]any{"type": "object", "properties": m{"address": text, "payment": text}}},
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

// retailPolicies are those of the page, by their names.
func retailPolicies(t *testing.T) map[string]m {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(rig.Root(), "docs", "retail-policies.md"))
	require.NoError(t, err)
	policies := map[string]m{}
	for i, block := range strings.Split(string(page), "```json\n") {
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

// Each rule of the page lets through what it should, and stops the rest before it is sent.
func TestRulesOfARetailAgent(t *testing.T) {
	t.Parallel()
	policies := retailPolicies(t)
	cancel := m{"order_id": "#W0000001", "reason": "no longer needed"}
	exchange := m{"order_id": "#W0000002", "item_ids": []string{"1"}, "new_item_ids": []string{"2"}, "payment_method_id": "card_1"}
	giveBack := m{"order_id": "#W0000002", "item_ids": []string{"1"}, "payment_method_id": "card_1"}
	ann := m{"customer_id": "ann", "confirmed": true}
	type call struct {
		verb     string
		args     m
		metadata m
		session  string
	}
	rules := map[string]struct{ passes, fails []call }{
		"The customer is found first": {
			[]call{{"find_user_id_by_email", m{"email": "ann@example.com"}, ann, "s1"}, {"cancel_pending_order", cancel, ann, "s1"}},
			[]call{{"cancel_pending_order", cancel, ann, "s2"}, {"cancel_pending_order", cancel, ann, ""}},
		},
		"Only after the customer has confirmed": {
			[]call{{"cancel_pending_order", cancel, ann, ""}, {"get_order_details", m{"order_id": "#W0000001"}, m{}, ""}, {"transfer_to_human_agents", m{"summary": "x"}, m{}, ""}},
			[]call{{"cancel_pending_order", cancel, m{"customer_id": "ann"}, ""}, {"cancel_pending_order", cancel, m{"confirmed": "true"}, ""}, {"modify_pending_order", m{}, m{"confirmed": false}, ""}},
		},
		"Ids of one shape": {
			[]call{{"get_order_details", m{"order_id": "#W0000001"}, ann, ""}},
			[]call{{"get_order_details", m{"order_id": "W0000001"}, ann, ""}, {"cancel_pending_order", m{"order_id": "#W0000001 ", "reason": "x"}, ann, ""}, {"cancel_pending_order", m{"reason": "x"}, ann, ""}},
		},
		"Only the customer's own orders": {
			[]call{{"cancel_pending_order", cancel, ann, ""}, {"get_order_details", m{"order_id": "#W0000003"}, ann, ""}},
			[]call{
				{"cancel_pending_order", with(cancel, m{"order_id": "#W0000003"}), ann, ""},
				{"cancel_pending_order", cancel, m{}, ""},
				{"cancel_pending_order", with(cancel, m{"order_id": "#W9999999"}), ann, ""},
				{"cancel_pending_order", m{"reason": "x"}, ann, ""},
			},
		},
		"As many new items as old ones": {
			[]call{{"exchange_delivered_order_items", exchange, ann, ""}},
			[]call{{"exchange_delivered_order_items", with(exchange, m{"new_item_ids": []string{"2", "3"}}), ann, ""}, {"exchange_delivered_order_items", m{"order_id": "#W0000002", "item_ids": []string{"1"}}, ann, ""}},
		},
		"One exchange per order": {
			[]call{{"exchange_delivered_order_items", exchange, ann, ""}, {"exchange_delivered_order_items", with(exchange, m{"order_id": "#W0000004"}), ann, ""}},
			[]call{{"exchange_delivered_order_items", exchange, ann, ""}, {"exchange_delivered_order_items", m{"item_ids": []string{"1"}}, ann, ""}},
		},
		"Reasons from a list": {
			[]call{{"cancel_pending_order", cancel, ann, ""}, {"cancel_pending_order", with(cancel, m{"reason": "ordered by mistake"}), ann, ""}},
			[]call{{"cancel_pending_order", with(cancel, m{"reason": "found it cheaper"}), ann, ""}, {"cancel_pending_order", m{"order_id": "#W0000001"}, ann, ""}},
		},
		"Only pending orders change": {
			[]call{{"cancel_pending_order", cancel, ann, ""}, {"modify_pending_order", m{"order_id": "#W0000001", "changes": m{"address": "x"}}, ann, ""}},
			[]call{{"cancel_pending_order", with(cancel, m{"order_id": "#W0000002"}), ann, ""}, {"cancel_pending_order", with(cancel, m{"order_id": "#W0000005"}), ann, ""}},
		},
		"Refunds go back to where the money came from": {
			[]call{{"return_delivered_order_items", giveBack, ann, ""}},
			[]call{{"return_delivered_order_items", with(giveBack, m{"payment_method_id": "card_2"}), ann, ""}, {"return_delivered_order_items", with(giveBack, m{"order_id": "#W0000005"}), ann, ""}},
		},
		"A person takes over": {
			[]call{{"cancel_pending_order", cancel, ann, ""}},
			[]call{{"transfer_to_human_agents", m{"summary": "x"}, ann, ""}},
		},
		"One change a call": {
			[]call{{"modify_pending_order", m{"order_id": "#W0000001", "changes": m{"address": "x"}}, ann, ""}},
			[]call{{"modify_pending_order", m{"order_id": "#W0000001", "changes": m{"address": "x", "payment": "y"}}, ann, ""}},
		},
	}
	require.Len(t, policies, len(rules), "the page and the test have the same rules")
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := emptyWorld(t, sharedDev().For(t))
			shop := newRetail(t)
			w.Connect(t, "retail", shop.srv.URL, bankDocument(retailPaths()), "bearer", map[string]string{"token": "retail-token"})
			require.Contains(t, policies, name)
			w.policy(policies[name])
			run := func(c call) rig.Answer {
				body := m{"verb": "retail:" + c.verb, "args": c.args, "metadata": c.metadata, "execution_id": uuid.NewString()}
				if c.session != "" {
					body["session_id"] = c.session
				}
				return w.send(body)
			}
			for _, c := range rule.passes {
				before := shop.count(c.verb)
				a := run(c)
				require.Equal(t, http.StatusOK, a.Status, "%v: %s", c, a.Body)
				require.Equal(t, before+1, shop.count(c.verb))
			}
			for _, c := range rule.fails {
				before := shop.count(c.verb)
				e := refused(t, run(c), http.StatusForbidden, "GOVERNANCE_BLOCKED")
				require.Contains(t, e.Error.Message, name)
				require.Equal(t, before, shop.count(c.verb), "%v", c)
				require.NotContains(t, e.Error.Message, "ann")
			}
		})
	}
}
