package governance_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
)

func TestContextOf(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	for metadata, want := range map[string]governance.Context{
		``:                                    {},
		`{}`:                                  {},
		`[]`:                                  {},
		`{"agent_id":"a","customer_id":"c"}`:  {AgentID: text("a"), CustomerID: text("c")},
		`{"agent_id":7,"customer_id":"c"}`:    {CustomerID: text("c")},
		`{"agent_id":null,"Customer_ID":"c"}`: {},
		`{"agent_id":"a","customer_id":""}`:   {AgentID: text("a")},
	} {
		require.Equal(t, want, governance.ContextOf(json.RawMessage(metadata)), metadata)
	}
}

// Of a call by an agent or a Map of ours the service writes the metadata. What the caller has written is a
// member of it, and stands for no other.
func TestContextOfOwnCallsHasTheWordsOfTheirCaller(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	yes, no := true, false
	agent := json.RawMessage(`{"name":"Support"}`)
	for name, c := range map[string]struct {
		made governance.Made
		want governance.Context
	}{
		"nothing is known": {governance.Made{}, governance.Context{}},
		"of a trigger": {
			governance.Made{Metadata: json.RawMessage(`{"map_id":"m","step":"s","customer_id":"ann","message":{"channel":"chat","customer_id":"bob","tainted":true}}`)},
			governance.Context{MapID: text("m"), CustomerID: text("ann"), Metadata: json.RawMessage(`{"channel":"chat","customer_id":"bob","tainted":true}`)},
		},
		"of a message": {
			governance.Made{AgentID: text("a"), CustomerID: text("0199"), Metadata: json.RawMessage(`{"customer_id":"0199","customer":"ann","session_id":"s1","tainted":true,"agent":{"name":"Support"},"message":{"x":1}}`)},
			governance.Context{AgentID: text("a"), OwnAgentID: text("a"), CustomerID: text("ann"), CustomerRef: text("0199"), SessionID: text("s1"), Tainted: &yes, Agent: agent, Metadata: json.RawMessage(`{"x":1}`)},
		},
		"of a Map that a message has started": {
			governance.Made{SessionID: text("s1"), Metadata: json.RawMessage(`{"customer_id":"0199","customer":"ann","tainted":false}`)},
			governance.Context{CustomerID: text("ann"), CustomerRef: text("0199"), SessionID: text("s1"), Tainted: &no},
		},
		"of a trigger with an empty customer_id": {
			governance.Made{Metadata: json.RawMessage(`{"map_id":"m","customer_id":""}`)},
			governance.Context{MapID: text("m")},
		},
		"of a message without customer_id": {
			governance.Made{CustomerID: text("0199"), Metadata: json.RawMessage(`{"customer_id":"0199","customer":null}`)},
			governance.Context{CustomerID: text("0199")},
		},
	} {
		c.made.Own, c.want.DryRun = true, &no
		require.Equal(t, c.want, c.made.Context(), name)
	}
}

// What is written for one call is read again for the next, and never becomes what the service writes itself.
func TestWordsGoOnFromCallToCall(t *testing.T) {
	t.Parallel()
	forged := json.RawMessage(`{"channel":"chat","message":{"channel":"forged"},"customer":"forged","tainted":false}`)
	for name, c := range map[string]struct {
		words governance.Words
		want  string
	}{
		"none":         {governance.Words{}, `{"step":"s"}`},
		"empty":        {governance.Words{Metadata: json.RawMessage(`{}`)}, `{"step":"s"}`},
		"of a trigger": {governance.WordsOf(false, forged), `{"step":"s","message":` + string(forged) + `}`},
		"of a message": {governance.Words{Metadata: forged, Customer: "ann"}, `{"step":"s","customer":"ann","message":` + string(forged) + `}`},
	} {
		for range 3 {
			about := map[string]any{"step": "s"}
			c.words.Write(about)
			raw, err := json.Marshal(about)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(raw), name)
			c.words = governance.WordsOf(true, raw)
		}
	}
}

// Calls whose caller names no customer have nothing in common to be counted by.
func TestWindowPerCustomerWithAnEmptyCustomerIDCountsNothing(t *testing.T) {
	t.Parallel()
	set := governance.Compile(1, []governance.Policy{policy("p", block, windowed(perCustomer, "greater", "5000"))})
	call := refund(`{"amount":1}`)
	call.Context = governance.Made{Metadata: json.RawMessage(`{"customer_id":""}`)}.Context()
	require.Nil(t, set.Windows(call).Uses[0].Value)
	call.Context = governance.Made{Metadata: json.RawMessage(`{"customer_id":"c"}`)}.Context()
	require.NotNil(t, set.Windows(call).Uses[0].Value)
}
