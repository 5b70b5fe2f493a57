package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	quinceInEnglish = "Your parcel with the quinces is on its way and will arrive tomorrow."
	quinceInGerman  = "Ihr Paket mit den Quitten ist unterwegs und kommt morgen bei Ihnen an."
	medlarInEnglish = "The parcel with the medlars will be there on Monday, as we have said before."
)

// inLanguages are answers of the scripted model in languages that it was not told.
var inLanguages = []string{
	`{"purpose":"reply","contains":["Quitten","because it is in English"],"text":"` + quinceInGerman + `"}`,
	`{"purpose":"reply","turn":0,"contains":["Quitten"],"text":"` + quinceInEnglish + `","pause_ms":40}`,
	`{"purpose":"reply","contains":["Mispeln gestört","because it is in English"],"error":"the model is down"}`,
	`{"purpose":"reply","contains":["Mispeln leer","because it is in English"],"text":" "}`,
	`{"purpose":"reply","contains":["Mispeln verweigert","because it is in English"],"finish":"refusal"}`,
	`{"purpose":"reply","contains":["Mispeln verboten","because it is in English"],"finish":"refusal","text":"Das darf ich nicht."}`,
	`{"purpose":"reply","contains":["Mispeln gesucht","because it is in English"],` + toolCalls(toolCall("1", "gate:get_thing", `{"id":"medlar"}`)) + `}`,
	`{"purpose":"reply","contains":["Mispeln"],"text":"` + medlarInEnglish + `"}`,
	`{"purpose":"reply","contains":["Quitten"],"text":"OK."}`,
	`{"purpose":"reply","contains":["Sanddorn"],` + toolCalls(toolCall("1", "gate:get_thing", `{"id":"sea-buckthorn"}`)) + `}`,
}

// A reply in another language than the customer's is asked for once more, and what was streamed of it is
// void. The session has only the second one.
func TestReplyInAnotherLanguageIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	path, key := agentOf(t, tenant, nil)
	all := readReply(t, key, path, write("Wo ist mein Paket mit den Quitten?", "q1")).rest()
	text, resets := textOf(t, all)
	require.Equal(t, []string{"language"}, resets)
	end := completed(t, all)
	require.Equal(t, quinceInGerman, *end.Message)
	require.Equal(t, quinceInGerman, text)
	require.Equal(t, "final_answer", *end.Metadata.StopReason)
	e := saidOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+end.ExecutionID+"?prompts=true", nil), http.StatusOK)
	require.Len(t, e.ModelCalls, 2)
	require.Equal(t, quinceInEnglish, e.ModelCalls[0].Prompt.Wrote.Text)

	advice := func(text string) string {
		next := saidOf(t, key.Do(http.MethodPost, path, write(text, "q1")), http.StatusOK)
		e := saidOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+next.ExecutionID+"?prompts=true", nil), http.StatusOK)
		for _, m := range e.ModelCalls[0].Prompt.Read {
			require.NotContains(t, m.Text, quinceInEnglish, "the session has it")
		}
		return e.ModelCalls[0].Prompt.Advice
	}
	// The session decides where a message is unsure, and a switch is followed. A wish is for the model.
	const unless = ", unless the customer asks for another language."
	require.Equal(t, "The conversation was in German. Answer in German"+unless, advice("ord_1001"))
	require.Equal(t, "The customer's last message is in French. Answer in French"+unless, advice("Où est ma commande ?"))
	require.Equal(t, "The customer's last message is in English. Answer in English"+unless, advice("Please answer in Spanish."))
	require.Equal(t, "The customer's last message is in German. Answer in German"+unless, advice("Wo ist meine Bestellung?"))
}

// Where the model fails, refuses, says nothing or calls a tool when it is asked again, its first reply is
// better than none.
func TestReplyInAnotherLanguageIsTakenWhereThereIsNoOther(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	ask := func(message string, limits map[string]any) {
		path, key := agentOf(t, tenant, map[string]any{"limits": limits, "escalation": map[string]any{"on_failure": true, "on_limit": true}})
		all := readReply(t, key, path, write(message, "")).rest()
		end := completed(t, all)
		require.Equal(t, medlarInEnglish, *end.Message, message)
		require.Equal(t, "completed", end.Status, message)
		require.Equal(t, "final_answer", *end.Metadata.StopReason, message)
		require.Zero(t, end.ActionsExecuted, message)
		text, _ := textOf(t, all)
		require.Equal(t, medlarInEnglish, text, message)
	}
	for _, then := range []string{"gestört", "leer", "verweigert", "verboten", "gesucht"} {
		ask("Wo ist mein Paket mit den Mispeln "+then+"?", map[string]any{})
	}
	// The second answer is one of max_turns. One answer is all that the agent may give.
	ask("Wo ist mein Paket mit den Mispeln gesucht?", map[string]any{"max_turns": 2})
	ask("Wo ist mein Paket mit den Mispeln gestört?", map[string]any{"max_turns": 1})
}

// An agent with one language answers in that, also a customer who writes in another one and asks for it.
func TestAgentAnswersInOneLanguage(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	path, key := agentOf(t, tenant, map[string]any{"language": "de"})
	for _, message := range []string{"Where is my parcel with the Quitten?", "Please answer in English: where are the Quitten?"} {
		end := saidOf(t, key.Do(http.MethodPost, path, write(message, "")), http.StatusOK)
		require.Equal(t, quinceInGerman, *end.Message)
		e := saidOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+end.ExecutionID+"?prompts=true", nil), http.StatusOK)
		require.Len(t, e.ModelCalls, 2, "the first answer was in English")
		require.Equal(t, "You answer every customer, whatever they write and ask for, in German. Answer in German.", e.ModelCalls[0].Prompt.Advice)
	}
	path, key = agentOf(t, tenant, map[string]any{"language": "es", "models": map[string]any{"worker": map[string]any{"provider": "builtin", "model": "rules"}}})
	end := saidOf(t, key.Do(http.MethodPost, path, write("Die Lampe ist kaputt, ich brauche eine neue.", "")), http.StatusOK)
	require.True(t, strings.HasPrefix(*end.Message, "I have not understood"), "the built-in rules know English only: %s", *end.Message)
	refused := tenant.User.Do(http.MethodPost, "/v1/agents", map[string]any{"name": "klingon", "language": "qq"})
	require.Equal(t, http.StatusBadRequest, refused.Status, "%s", refused.Body)
	require.Contains(t, string(refused.Body), `"/language"`)
}

// What the service says itself is in the language of the customer, or in that of the agent.
func TestServiceSpeaksTheLanguageOfTheCustomer(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	for only, want := range map[string]string{
		"follow": "Ich konnte das nicht abschließen: Es waren mehr Schritte nötig, als ich für eine Nachricht machen darf. Ich habe einen Menschen gebeten, sich das anzusehen. Die Antwort kommt hier.",
		"en":     "I could not finish this: it took more steps than I may make for one message. I have asked a person to look at this. They will answer here.",
	} {
		path, key := agentOf(t, tenant, map[string]any{"language": only, "limits": map[string]any{"max_turns": 1}, "escalation": map[string]any{"on_limit": true}})
		end := saidOf(t, key.Do(http.MethodPost, path, write("Wo ist mein Paket mit dem Sanddorn?", "")), http.StatusOK)
		require.Equal(t, want, *end.Message)
		require.Equal(t, "max_turns", *end.Metadata.StopReason)
	}
}
