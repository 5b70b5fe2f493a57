package rules_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/models/model"
	"agentruntime/internal/models/rules"
)

func tool(name, description, schema string) model.Tool {
	operation := "write"
	if strings.HasPrefix(name, "get_") || strings.HasPrefix(name, "list_") {
		operation = "read"
	}
	return model.Tool{Name: "shop__" + name, Description: description, Schema: json.RawMessage(schema), Operation: operation}
}

func shop() []model.Tool {
	return []model.Tool{
		{Name: "escalate", Description: "Hand over to a person about an order or a refund", Schema: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string"}}}`)},
		tool("list_orders", "List orders", `{"type":"object","properties":{"status":{"type":"string","enum":["paid","shipped"]},"customer_id":{"type":"string"},"limit":{"type":"integer"}}}`),
		tool("create_order", "Create an order", `{"type":"object","required":["customer_id","amount","currency"],"properties":{"customer_id":{"type":"string"},"amount":{"type":"integer","description":"In the smallest unit of the currency."},"currency":{"type":"string","enum":["eur","usd"]}}}`),
		tool("get_order", "Get an order", `{"type":"object","required":["order_id"],"properties":{"order_id":{"type":"string","description":"Id of the order, such as ord_1001."}}}`),
		tool("cancel_order", "Cancel an order, which must be pending", `{"type":"object","required":["order_id"],"properties":{"order_id":{"type":"string","description":"Such as ord_1001"},"reason":{"type":"string"}}}`),
		tool("list_refunds", "List refunds", `{"type":"object","properties":{"order_id":{"type":"string"}}}`),
		tool("get_refund", "Get a refund", `{"type":"object","required":["refund_id"],"properties":{"refund_id":{"type":"string"}}}`),
		tool("create_refund", "Refund an order", `{"type":"object","required":["order_id","amount"],"properties":{"order_id":{"type":"string","description":"Such as ord_1001"},"amount":{"type":"integer","description":"Amount in cents."},"reason":{"type":"string"}}}`),
		tool("get_customer", "Get a customer", `{"type":"object","required":["customer_id"],"properties":{"customer_id":{"type":"string"}}}`),
		tool("create_customer", "Create a customer", `{"type":"object","required":["name","email"],"properties":{"name":{"type":"string"},"email":{"type":"string","format":"email"}}}`),
	}
}

// talk returns the answer to a conversation: messages of the customer and of the model in turn.
func talk(t *testing.T, texts ...string) model.Response {
	t.Helper()
	req := model.Request{Purpose: model.Reply, Tools: shop()}
	for i, text := range texts {
		m := model.Message{Role: model.Assistant, Text: text}
		if i%2 == 0 {
			m = agentloop.Customer(text)
		}
		req.Messages = append(req.Messages, m)
	}
	var streamed string
	got, err := rules.Model{}.Generate(t.Context(), req, model.Stream{Delta: func(delta string) { streamed += delta }})
	require.NoError(t, err)
	require.Equal(t, rules.Name, got.Model)
	require.Equal(t, got.Text, streamed)
	again, err := rules.Model{}.Generate(t.Context(), req, model.Stream{})
	require.NoError(t, err)
	require.Equal(t, got, again)
	return got
}

// abilities is what the model says of the tools of shop.
const abilities = "I can: list orders, get order, list refunds, get refund, get customer, create order, cancel order, create refund, and 1 more. For example, write: Get order ord_1001"

func TestRulesChooseToolsByWordsAndArguments(t *testing.T) {
	t.Parallel()
	for message, c := range map[string]struct{ verb, args, text string }{
		"Where is order ord_1001?":                   {"shop__get_order", `{"order_id":"ord_1001"}`, ""},
		"What is the status of my order ord_1001?":   {"shop__get_order", `{"order_id":"ord_1001"}`, ""},
		"Show me customer cus_1001":                  {"shop__get_customer", `{"customer_id":"cus_1001"}`, ""},
		"List the refunds of ord_1001":               {"shop__list_refunds", `{"order_id":"ord_1001"}`, ""},
		"List all orders that are shipped":           {"shop__list_orders", `{"status":"shipped"}`, ""},
		"Refund ord_1001, 12 dollars":                {"", "", "Shall I create refund with order id ord_1001, amount 1200? Answer yes."},
		"Please refund $12.50 of order ord_1001":     {"", "", "Shall I create refund with order id ord_1001, amount 1250? Answer yes."},
		"Cancel order ord_1002":                      {"", "", "Shall I cancel order with order id ord_1002? Answer yes."},
		"Where is my order?":                         {"", "", "Please tell me the order id. I need it to get order."},
		"Refund ord_1001":                            {"", "", "Please tell me the amount. I need it to create refund."},
		`Create a customer "Ada L" with a@b.example`: {"", "", "Shall I create customer with name Ada L, email a@b.example? Answer yes."},
		"I want to talk to a human":                  {"escalate", `{"reason":"The customer asks for a person."}`, ""},
		"Where is order 1001?":                       {"shop__get_order", `{"order_id":"ord_1001"}`, ""},
		"Where is ord_1001?":                         {"shop__get_order", `{"order_id":"ord_1001"}`, ""},
		"Can you look up order no. 1002, please?":    {"shop__get_order", `{"order_id":"ord_1002"}`, ""},
		"order #1002":                                {"shop__get_order", `{"order_id":"ord_1002"}`, ""},
		"List the orders of customer 1001":           {"shop__list_orders", `{"customer_id":"1001"}`, ""},
		"Refund order 1001":                          {"", "", "Please tell me the amount. I need it to create refund."},
		"Can you refund order 1001, 12 dollars?":     {"", "", "Shall I create refund with order id ord_1001, amount 1200? Answer yes."},
		"Read abc_77, it is a refund":                {"shop__get_refund", `{"refund_id":"abc_77"}`, ""},
		"Would you cancel order 1002?":               {"", "", "Shall I cancel order with order id ord_1002? Answer yes."},
		"What can you do?":                           {"", "", "I have not understood what to do. I work by rules and am no language model. " + abilities},
		"What is the capital of France?":             {"", "", "I have not understood what to do. I work by rules and am no language model. " + abilities},
	} {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			got := talk(t, message)
			require.Equal(t, c.text, got.Text)
			if c.verb == "" {
				require.Empty(t, got.Calls)
				require.Equal(t, model.Stopped, got.Finish)
				return
			}
			require.Len(t, got.Calls, 1)
			require.Equal(t, c.verb, got.Calls[0].Name)
			require.JSONEq(t, c.args, string(got.Calls[0].Args))
			require.Equal(t, model.Calling, got.Finish)
		})
	}
}

// A POST may be called get_token, and a GET create_report: the catalog says which of them writes.
func TestRulesTakeReadOrWriteFromTheCatalog(t *testing.T) {
	t.Parallel()
	for message, c := range map[string]struct{ operation, call string }{
		"Can you get a token?":                  {"write", ""},
		"Get the token":                         {"write", ""},
		"Wo ist der Token?":                     {"write", ""},
		"Can you get the token for me, please?": {"read", "auth__get_token"},
		"Please get a token":                    {"", ""},
	} {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			req := model.Request{Purpose: model.Reply, Messages: []model.Message{agentloop.Customer(message)}, Tools: []model.Tool{
				{Name: "auth__get_token", Description: "Get a token", Schema: json.RawMessage(`{"type":"object","properties":{}}`), Operation: c.operation},
			}}
			got, err := rules.Model{}.Generate(t.Context(), req, model.Stream{})
			require.NoError(t, err)
			if c.call == "" {
				require.Empty(t, got.Calls)
				return
			}
			require.Len(t, got.Calls, 1)
			require.Equal(t, c.call, got.Calls[0].Name)
		})
	}
}

func TestRulesCallAWriteOnlyAfterAYes(t *testing.T) {
	t.Parallel()
	const wish, asked = "Refund ord_1001, 12 dollars", "Shall I create refund with order id ord_1001, amount 1200? Answer yes."
	require.Equal(t, asked, talk(t, wish).Text)
	got := talk(t, wish, asked, "Yes, please.")
	require.Len(t, got.Calls, 1)
	require.Equal(t, "shop__create_refund", got.Calls[0].Name)
	require.JSONEq(t, `{"order_id":"ord_1001","amount":1200}`, string(got.Calls[0].Args))
	require.Equal(t, "All right, I do nothing.", talk(t, wish, asked, "no").Text)
	require.Empty(t, talk(t, wish, asked, "yes, but not this one").Calls)
	require.Empty(t, talk(t, "yes").Calls)
	// What is missing is asked for, and then confirmed.
	const first = "Please tell me the amount. I need it to create refund."
	require.Equal(t, asked, talk(t, "Refund ord_1001", first, "12 dollars").Text)
	require.Len(t, talk(t, "Refund ord_1001", first, "12 dollars", asked, "yes").Calls, 1)
	// A yes tells nothing, and digits are the id that was asked for.
	const which = "Please tell me the order id. I need it to get order."
	require.Equal(t, which, talk(t, "Where is my order?", which, "yes").Text)
	require.JSONEq(t, `{"order_id":"ord_1002"}`, string(talk(t, "Where is my order?", which, "1002").Calls[0].Args))
}

func TestRulesTellResultsInWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`<data name="result">{"status":"executed","result":{"amount":4999,"id":"ord_1001","status":"shipped"}}</data>`: "This is the order: id ord_1001, status shipped, amount 4999.",
		`{"status":"failed","error":{"code":"GOVERNANCE_BLOCKED","detail":"A policy blocks refunds."}}`:                "I could not get order: A policy blocks refunds.",
		`{"status":"pending_approval"}`: "A person has to approve this first: get order.",
		`{"result":{"data":[{"id":"a","status":"paid"},{"id":"b"}]},"status":"executed"}`: "I found 2 order: id a, status paid; id b.",
	} {
		got, err := rules.Model{}.Generate(t.Context(), model.Request{Purpose: model.Reply, Tools: shop(), Messages: []model.Message{
			{Role: model.User, Text: "Where is ord_1001?"},
			{Role: model.Assistant, Calls: []model.ToolCall{{ID: "1", Name: "shop__get_order", Args: json.RawMessage(`{}`)}}},
			{Role: model.Result, CallID: "1", Text: text},
		}}, model.Stream{})
		require.NoError(t, err)
		require.Equal(t, want, got.Text)
	}
}

func TestRulesRefuseWhatNeedsALanguageModel(t *testing.T) {
	t.Parallel()
	for _, purpose := range []model.Purpose{model.Summary, model.Reason} {
		_, err := rules.Model{}.Generate(t.Context(), model.Request{Purpose: purpose}, model.Stream{})
		var failure *model.Error
		require.ErrorAs(t, err, &failure)
		require.False(t, failure.Retryable)
		require.Contains(t, failure.Reason, "no language model")
	}
}
