package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// remembering are the answers of the scripted model to the tests of this file. It knows the flower only
// where the prompt has what was remembered.
var remembering = []string{
	`{"purpose":"memory","contains":["violet tulips by a model","known"],"json":{"facts":[{"text":"Likes violet tulips.","profile":true,"supersedes":null},{"text":"Password is rosebud.","profile":false,"supersedes":"no-id"}]}}`,
	`{"purpose":"reply","contains":["Which tulips do I like","customer_memory","violet tulips"],"text":"Violet tulips."}`,
	`{"purpose":"reply","contains":["Which tulips do I like"],"text":"I do not know."}`,
	`{"purpose":"reply","contains":["I prefer violet tulips"],"text":"A fine flower."}`,

	`{"purpose":"reply","contains":["I prefer quetzalcoatlus"],"text":"Noted."}`,
	`{"purpose":"summary","contains":["quetzalcoatlus"],"text":"The customer prefers quetzalcoatlus."}`,
	prefers(0), prefers(1), prefers(2), prefers(3), prefers(4), prefers(5),

	`{"purpose":"reply","contains":["What did I say","daffodils"],"text":"Daffodils."}`,
	`{"purpose":"reply","contains":["What did I say"],"text":"Nothing."}`,
	`{"purpose":"reply","contains":["I say daffodils"],"text":"Noted."}`,

	`{"purpose":"reply","contains":["Keep the note","\"remembered\":true"],"text":"I keep it."}`,
	`{"purpose":"reply","turn":1,"contains":["Keep the note"],` + toolCalls(
		toolCall("2", "tool__memory_write", `{"fact":"The note is under the walnut."}`), toolCall("3", "tool__memory_write", `{"fact":" "}`)) + `}`,
	`{"purpose":"reply","turn":0,"contains":["Keep the note"],` + toolCalls(toolCall("1", "shelf__get_thing", `{"id":"mango"}`)) + `}`,
	`{"purpose":"reply","contains":["Where is it","known_in_all","under the walnut","untrusted"],"text":"Under the walnut."}`,
	`{"purpose":"reply","contains":["Where is it"],` + toolCalls(toolCall("1", "tool:memory_read", `{"query":"walnut"}`)) + `}`,
}

// prefers is what the model finds out of a message of TestErasureLeavesNothingOfWhatWasRemembered.
func prefers(number int) string {
	return fmt.Sprintf(`{"purpose":"memory","contains":["I prefer quetzalcoatlus number %[1]d."],"json":{"facts":[{"text":"Prefers quetzalcoatlus number %[1]d.","profile":true,"supersedes":null}]}}`, number)
}

// rememberingPlans are those of the scripted planner.
var rememberingPlans = []string{
	plan([]string{"Ask for the hazel", `"f1"`, `"remembered":true`}, "blocked", ""),
	plan([]string{"Ask for the hazel", "customer_memory", "Has a hazel."}, "act", next("tool__memory_write", `{"fact":"Wants to sell the hazel."}`)),
	plan([]string{"Ask for the hazel"}, "blocked", ""),
}

// memoryOf is what the execution of a message shows of the customer's memory.
type memoryOf struct {
	Memory *struct {
		Used []struct {
			FactID string `json:"fact_id"`
			Why    string
			Words  []string
			Text   *string
		}
		Written []struct {
			FactID string `json:"fact_id"`
			By     string
			Text   *string
		}
	}
}

func memoryIn(t *testing.T, c *rig.Client, one said, query string) (m memoryOf) {
	t.Helper()
	a := c.Do(http.MethodGet, "/v1/executions/"+one.ExecutionID+query, nil)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	a.Data(t, &m)
	return m
}

// fact is what tests read of a fact about a customer.
type fact struct {
	ID, Text         string
	Profile, Tainted bool
	Source           struct{ Kind string }
	UsedAt           *string `json:"used_at"`
}

func factsOf(t *testing.T, tenant *rig.Tenant, customer string) (list []fact) {
	t.Helper()
	a := tenant.User.Do(http.MethodGet, "/v1/customers/"+customer+"/memory", nil)
	if a.Status == http.StatusNotFound {
		return nil
	}
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	a.Data(t, &list)
	return list
}

// from is a message of a customer.
func from(customer, text, session string) map[string]any {
	body := write(text, session)
	if customer != "" {
		body["customer_id"] = customer
	}
	return body
}

// What a customer says in one session is known in another one and with another agent, and to nobody
// else: no other customer, no other tenant, no agent that does not remember, no message that is nobody's.
func TestCustomerIsRememberedInAnotherSessionAndNobodyElseIs(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	tenant := newTenant(s)
	const customer = "ada"
	path, key := agentOf(t, tenant, map[string]any{"memory": map[string]any{"customer": "auto"}})
	told := saidOf(t, key.Do(http.MethodPost, path, from(customer, "I prefer violet tulips by a model.", "s1")), http.StatusOK)
	require.Equal(t, "A fine flower.", *told.Message)
	var known []fact
	rig.Until(t, arriveLimit, "the fact is written after the reply", func() bool {
		known = factsOf(t, tenant, customer)
		return len(known) > 0 && len(memoryIn(t, tenant.User, told, "").Memory.Written) > 0
	})
	i := slices.IndexFunc(known, func(f fact) bool { return strings.Contains(f.Text, "violet tulips") })
	require.GreaterOrEqual(t, i, 0)
	require.Equal(t, "auto", known[i].Source.Kind)
	require.True(t, known[i].Profile)
	require.False(t, known[i].Tainted)
	require.NotContains(t, fmt.Sprint(known), "rosebud", "no secret is remembered")

	other, key := agentOf(t, tenant, nil)
	asked := saidOf(t, key.Do(http.MethodPost, other, from(customer, "Which tulips do I like?", "s2")), http.StatusOK)
	require.Equal(t, "Violet tulips.", *asked.Message)
	used := memoryIn(t, tenant.User, asked, "").Memory
	u := slices.IndexFunc(used.Used, func(u struct {
		FactID string `json:"fact_id"`
		Why    string
		Words  []string
		Text   *string
	},
	) bool {
		return u.FactID == known[i].ID
	})
	require.GreaterOrEqual(t, u, 0)
	require.Equal(t, "profile", used.Used[u].Why)
	require.Nil(t, used.Used[u].Text)
	require.Contains(t, *memoryIn(t, tenant.User, asked, "?prompts=true").Memory.Used[u].Text, "violet tulips")
	require.NotNil(t, factsOf(t, tenant, customer)[i].UsedAt)

	deaf, talks := agentOf(t, tenant, map[string]any{"memory": map[string]any{"customer": "off"}})
	auto, _ := agentOf(t, tenant, map[string]any{"memory": map[string]any{"customer": "auto"}})
	var anonymous struct{ Key string }
	tenant.User.MakeKey(map[string]any{"name": "nobody", "permissions": []string{"agents:message"}, "identity_mode": "anonymous"}).Data(t, &anonymous)
	stranger := newTenant(s)
	strangers, strange := agentOf(t, stranger, nil)
	for name, c := range map[string]struct {
		key            *rig.Client
		path, customer string
		reads          bool
	}{
		"another customer":              {talks, auto, "bob", true},
		"another tenant":                {strange, strangers, "ada", true},
		"an agent that is deaf":         {talks, deaf, "ada", false},
		"an anonymous key":              {tenant.Runtime.With(anonymous.Key, ""), auto, "ada", false},
		"a message that is of nobody":   {talks, auto, "", false},
		"nobody, who prefers something": {tenant.Runtime.With(anonymous.Key, ""), auto, "nobody", false},
	} {
		text := "Which tulips do I like?"
		if c.customer == "nobody" {
			text = "I prefer violet tulips by a model."
		}
		one := saidOf(t, c.key.Do(http.MethodPost, c.path, from(c.customer, text, "")), http.StatusOK)
		require.NotContains(t, *one.Message, "Violet", name)
		owner := tenant.User
		if c.key == strange {
			owner = stranger.User
		}
		require.Equal(t, c.reads, memoryIn(t, owner, one, "").Memory != nil, name)
		require.Empty(t, factsOf(t, tenant, "nobody"))
	}
}

// One session_id on two agents is two sessions: what one agent has heard, the other has not.
func TestSessionOfOneAgentIsUnknownToAnother(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	tenant := newTenant(s)
	first, key := agentOf(t, tenant, nil)
	second, _ := agentOf(t, tenant, nil)
	for _, c := range []struct{ path, text, want string }{
		{first, "I say daffodils", "Noted."}, {second, "What did I say?", "Nothing."}, {first, "What did I say?", "Daffodils."}, {second, "What did I say?", "Nothing."},
	} {
		require.Equal(t, c.want, *saidOf(t, key.Do(http.MethodPost, c.path, write(c.text, "same")), http.StatusOK).Message)
	}
}

// A model writes and reads by tools. What it writes after it has read a provider's result is marked, and
// a session that reads it is tainted.
func TestMemoryFromTaintedTextStaysMarked(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	tenant := shelved(t, s)
	path, key := agentOf(t, tenant, map[string]any{"tools": map[string]any{"allow": []string{"shelf:*", "tool:*"}}})
	one := saidOf(t, key.Do(http.MethodPost, path, from("ada", "Keep the note", "s1")), http.StatusOK)
	require.Equal(t, "I keep it.", *one.Message)
	known := factsOf(t, tenant, "ada")
	require.Len(t, known, 1)
	require.Equal(t, "The note is under the walnut.", known[0].Text)
	require.True(t, known[0].Tainted)
	require.Equal(t, "tool", known[0].Source.Kind)
	written := memoryIn(t, tenant.User, one, "").Memory.Written
	require.Len(t, written, 1)
	require.Equal(t, known[0].ID, written[0].FactID)
	require.Equal(t, 1, one.ActionsExecuted, "a tool of the platform is no call of a provider")

	again := saidOf(t, key.Do(http.MethodPost, path, from("ada", "Where is it?", "s2")), http.StatusOK)
	require.Equal(t, "Under the walnut.", *again.Message)
	var session struct{ Tainted bool }
	tenant.User.Do(http.MethodGet, strings.TrimSuffix(path, "/message")+"/sessions/s2", nil).Data(t, &session)
	require.True(t, session.Tainted)

	// A person says that it can be trusted, and no key.
	var server struct{ Key string }
	tenant.User.MakeKey(map[string]any{"name": "server", "permissions": []string{"customers:manage"}}).Data(t, &server)
	of, trusted := "/v1/customers/ada/memory/"+known[0].ID, map[string]any{"tainted": false}
	require.Equal(t, http.StatusForbidden, tenant.Runtime.With(server.Key, "").Do(http.MethodPatch, of, trusted).Status)
	require.True(t, factsOf(t, tenant, "ada")[0].Tainted)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPatch, of, trusted).Status)
	require.False(t, factsOf(t, tenant, "ada")[0].Tainted)

	// An agent that may not use the tools is not offered them.
	path, key = agentOf(t, tenant, map[string]any{"tools": map[string]any{"allow": []string{"shelf:*"}}})
	saidOf(t, key.Do(http.MethodPost, path, from("eve", "Keep the note", "")), http.StatusOK)
	require.Empty(t, factsOf(t, tenant, "eve"))
}

// A planner reads what is remembered of the customer, and writes by the tool. That is a fact of the goal
// and evidence of nothing.
func TestPlannerReadsAndWritesWhatIsRemembered(t *testing.T) {
	t.Parallel()
	tenant := newTenant(stack(t, eager))
	_, goals, key := goalAgent(t, tenant, map[string]any{"tools": map[string]any{"allow": []string{"tool:*"}}})
	tenant.User.Do(http.MethodPost, "/v1/customers", map[string]any{"external_id": "ada"})
	require.Equal(t, http.StatusCreated, tenant.User.Do(http.MethodPost, "/v1/customers/ada/memory", map[string]any{"text": "Has a hazel."}).Status)
	goal := goalOf("Ask for the hazel", criterion("asked", ""))
	goal["customer_id"] = "ada"
	got := pursuedOf(t, key.Do(http.MethodPost, goals, goal), http.StatusOK)
	require.Equal(t, "planner_blocked", *got.StopReason)
	require.Zero(t, got.ActionsExecuted)
	known := factsOf(t, tenant, "ada")
	require.Len(t, known, 2)
	require.Equal(t, "Wants to sell the hazel.", known[0].Text)
	m := memoryIn(t, tenant.User, said{ExecutionID: got.ExecutionID}, "").Memory
	require.Len(t, m.Used, 1)
	require.Equal(t, known[1].ID, m.Used[0].FactID)
	require.Len(t, m.Written, 1)
	require.Equal(t, known[0].ID, m.Written[0].FactID)

	goal["customer_id"] = "bob"
	pursuedOf(t, key.Do(http.MethodPost, goals, goal), http.StatusOK)
	require.Empty(t, factsOf(t, tenant, "bob"))
}

// Nothing of a customer is left after an erasure: no fact, no session with its summary, no trace of a
// message, and nowhere the text in the clear.
func TestErasureLeavesNothingOfWhatWasRemembered(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	tenant := newTenant(s)
	path, key := agentOf(t, tenant, map[string]any{
		"memory": map[string]any{"customer": "auto", "window_messages": 2},
	})
	const canary = "quetzalcoatlus"
	for i := range 6 {
		saidOf(t, key.Do(http.MethodPost, path, from("ada", fmt.Sprintf("I prefer %s number %d.", canary, i), "s1")), http.StatusOK)
	}
	rig.Until(t, arriveLimit, "facts are written", func() bool { return len(factsOf(t, tenant, "ada")) == 6 })
	made := tenant.User.Do(http.MethodPost, "/v1/customers/ada/memory", map[string]any{"text": "Likes the " + canary + "."})
	require.Equal(t, http.StatusCreated, made.Status, "%s", made.Body)
	export := tenant.User.Do(http.MethodGet, "/v1/customers/ada/export", nil)
	require.Equal(t, 7, strings.Count(string(export.Body[strings.Index(string(export.Body), `"memory":[`):]), `"superseded_at"`))

	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	tables := []string{"customer_facts", "conversations", "conversation_entries", "conversation_summaries", "turns", "turn_answers"}
	rows := func(table string) (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM "+table+" WHERE tenant_id = $1", tenant.ID).Scan(&n))
		return n
	}
	for _, table := range tables {
		require.NotZero(t, rows(table), table)
	}
	var customer struct{ ID string }
	tenant.User.Do(http.MethodGet, "/v1/customers/ada", nil).Data(t, &customer)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/customers/ada", nil).Status)
	require.Empty(t, factsOf(t, tenant, "ada"), "at once")
	var erasure struct {
		Status string
		Erased []struct {
			Kind  string
			Count int
		}
	}
	rig.Until(t, arriveLimit, "the customer is erased", func() bool {
		tenant.User.Do(http.MethodGet, "/v1/customers/"+customer.ID+"/erasure", nil).Data(t, &erasure)
		return erasure.Status == "completed"
	})
	for _, e := range erasure.Erased {
		if e.Kind == "memory" {
			require.Equal(t, 7, e.Count)
		}
	}
	for _, table := range tables {
		require.Zero(t, rows(table), table)
	}
	require.NotContains(t, string(pgDump(t, s.DatabaseURL)), canary)
}

// The sessions of a customer who was merged belong to the other one: a message goes on in an old one,
// lists, exports and erasures have it.
func TestSessionsOfAMergedCustomerGoOn(t *testing.T) {
	t.Parallel()
	tenant := newTenant(stack(t, eager))
	path, key := agentOf(t, tenant, nil)
	saidOf(t, key.Do(http.MethodPost, path, from("twin", "I say daffodils", "s1")), http.StatusOK)
	saidOf(t, key.Do(http.MethodPost, path, from("ada", "I say daffodils", "s2")), http.StatusOK)
	var ada, twin struct{ ID string }
	tenant.User.Do(http.MethodGet, "/v1/customers/ada", nil).Data(t, &ada)
	tenant.User.Do(http.MethodGet, "/v1/customers/twin", nil).Data(t, &twin)
	merged := tenant.User.Do(http.MethodPost, "/v1/customers/ada/merge", map[string]any{"customer_id": "twin"})
	require.Equal(t, http.StatusOK, merged.Status, "%s", merged.Body)

	for _, customer := range []string{"ada", "twin", twin.ID, ""} {
		a := key.Do(http.MethodPost, path, from(customer, "What did I say?", "s1"))
		require.Equal(t, "Daffodils.", *saidOf(t, a, http.StatusOK).Message, customer)
		var of struct {
			CustomerID string `json:"customer_id"`
		}
		a.Data(t, &of)
		require.Equal(t, ada.ID, of.CustomerID, customer)
	}
	for _, id := range []string{ada.ID, twin.ID} {
		var list []struct {
			SessionID  string `json:"session_id"`
			CustomerID string `json:"customer_id"`
		}
		tenant.User.Do(http.MethodGet, strings.TrimSuffix(path, "/message")+"/sessions?customer_id="+id, nil).Data(t, &list)
		require.Len(t, list, 2)
		tenant.User.Do(http.MethodGet, "/v1/executions?kind=message&customer_id="+id, nil).Data(t, &list)
		require.Len(t, list, 6)
		for _, one := range list {
			require.Equal(t, ada.ID, one.CustomerID)
		}
	}
	var export struct {
		Sessions []struct {
			SessionID string `json:"session_id"`
		}
		MessageExecutions []any `json:"message_executions"`
	}
	require.NoError(t, json.Unmarshal(tenant.User.Do(http.MethodGet, "/v1/customers/ada/export", nil).Body, &export))
	require.Len(t, export.Sessions, 2)
	require.Len(t, export.MessageExecutions, 6)
}
