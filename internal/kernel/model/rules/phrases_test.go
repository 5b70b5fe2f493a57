package rules_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/agentloop"
	"agentruntime/internal/kernel/language"
	"agentruntime/internal/kernel/model"
	"agentruntime/internal/kernel/model/rules"
)

// sections reads the sentences by language.
func sections(t *testing.T) map[string]map[string]string {
	t.Helper()
	raw, err := os.ReadFile("phrases.txt")
	require.NoError(t, err)
	all := map[string]map[string]string{}
	code := ""
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "[") {
			code = strings.Trim(line, "[]")
			all[code] = map[string]string{}
		} else if name, text, is := strings.Cut(line, " = "); is && code != "" {
			require.NotContains(t, all[code], name, code)
			all[code][name] = text
		}
	}
	return all
}

func TestPhrasesAreComplete(t *testing.T) {
	t.Parallel()
	all := sections(t)
	require.GreaterOrEqual(t, len(all), 20)
	var names []string
	for code, p := range all {
		l, known := language.Named(code)
		require.True(t, known)
		names = append(names, l.Name)
		for name, text := range all["en"] {
			require.Equal(t, strings.Count(text, "%s"), strings.Count(p[name], "%s"), "%s of %s", name, l.Name)
			require.NotEmpty(t, p[name], "%s of %s", name, l.Name)
		}
		require.NotEmpty(t, strings.Split(p["shall"], "%s")[0], "a question is known by how it begins")
		require.Contains(t, p["please"], "%s. ", "what is asked for ends with a full stop")
	}
	slices.Sort(names)
	last := len(names) - 1
	require.Contains(t, strings.Join(strings.Fields(languagesPage(t)), " "),
		fmt.Sprintf("has sentences of its own in %d languages: %s and %s.", len(names), strings.Join(names[:last], ", "), names[last]))
}

// talkIn is talk with a customer of a language.
func talkIn(t *testing.T, code string, texts ...string) model.Response {
	t.Helper()
	req := model.Request{Purpose: model.Reply, Tools: shop(), Advice: language.Advice("ord_1", "", code)}
	for i, text := range texts {
		m := model.Message{Role: model.Assistant, Text: text}
		if i%2 == 0 {
			m = agentloop.Customer(text)
		}
		req.Messages = append(req.Messages, m)
	}
	got, err := rules.Model{}.Generate(t.Context(), req, model.Stream{})
	require.NoError(t, err)
	return got
}

// In each of its languages the model asks for what is missing, reads a write back, takes a yes and a no,
// tells a result, greets, and says what it has not understood.
func TestRulesTalkInTheLanguageOfTheCustomer(t *testing.T) {
	t.Parallel()
	for code, p := range sections(t) {
		word := func(name string) string { return strings.Split(p[name], ", ")[0] }
		said := func(name string, values ...string) string {
			text := p[name]
			for _, value := range values {
				text = strings.Replace(text, "%s", value, 1)
			}
			return text
		}
		require.Equal(t, p["nothing"], talkIn(t, code, "Cancel order ord_1002", said("shall", "cancel order", p["with"]+"order id ord_1002"), word("no")).Text, code)
		asked := talkIn(t, code, "Where is my order?")
		require.Equal(t, said("please", "order id", "get order"), asked.Text, code)
		got := talkIn(t, code, "Where is my order?", asked.Text, "1002")
		require.Len(t, got.Calls, 1, code)
		require.JSONEq(t, `{"order_id":"ord_1002"}`, string(got.Calls[0].Args), code)
		shall := talkIn(t, code, "Refund ord_1001, 12 dollars")
		require.Equal(t, said("shall", "create refund", p["with"]+"order id ord_1001, amount 1200"), shall.Text, code)
		yes := talkIn(t, code, "Refund ord_1001, 12 dollars", shall.Text, word("yes"))
		require.Len(t, yes.Calls, 1, code)
		require.Equal(t, "shop__create_refund", yes.Calls[0].Name, code)
		require.True(t, strings.HasPrefix(talkIn(t, code, word("hellos")).Text, p["hello"]), code)
		require.Equal(t, p["welcome"], talkIn(t, code, word("thanks")).Text, code)
		require.True(t, strings.HasPrefix(talkIn(t, code, "zzz").Text, p["lost"]), code)

		req := model.Request{Purpose: model.Reply, Tools: shop(), Advice: language.Advice("ord_1", "", code), Messages: []model.Message{
			agentloop.Customer("ord_1001"),
			{Role: model.Assistant, Calls: []model.ToolCall{{ID: "1", Name: "shop__get_order", Args: json.RawMessage(`{}`)}}},
			{Role: model.Result, CallID: "1", Text: `<data name="result">{"status":"executed","result":{"id":"ord_1001","status":"paid"}}</data>`},
		}}
		result, err := rules.Model{}.Generate(t.Context(), req, model.Stream{})
		require.NoError(t, err)
		require.Equal(t, said("found", "order", "id ord_1001, status paid"), result.Text, code)
	}
}

// A customer may answer in another language than they were asked in.
func TestRulesTakeAYesInAnyLanguage(t *testing.T) {
	t.Parallel()
	shall := talkIn(t, "de", "Storniere ord_1002")
	require.Equal(t, "Soll ich das tun: cancel order, mit order id ord_1002? Antworten Sie mit ja.", shall.Text)
	require.Len(t, talkIn(t, "fr", "Storniere ord_1002", shall.Text, "Oui").Calls, 1)
	require.Len(t, talkIn(t, "ja", "Storniere ord_1002", shall.Text, "はい。").Calls, 1)
	// The word for yes in Polish is that for thanks in Danish.
	skal := talkIn(t, "da", "Annuller ord_1002")
	require.Equal(t, "Skal jeg gøre dette: cancel order, med order id ord_1002? Svar ja.", skal.Text)
	require.Empty(t, talkIn(t, "da", "Annuller ord_1002", skal.Text, "Tak").Calls)
	require.Len(t, talkIn(t, "da", "Annuller ord_1002", skal.Text, "Ja tak").Calls, 1)
	require.Equal(t, "D'accord, je ne fais rien.", talkIn(t, "fr", "Storniere ord_1002", shall.Text, "Non merci").Text)
}

// Words of other languages than the customer's do not count: "Peru" begins as "cancel" does in Finnish.
func TestRulesReadTheWordsOfTheLanguageOnly(t *testing.T) {
	t.Parallel()
	require.Equal(t, "get_order", callOf(t, "en", "My order ord_1002 goes to Peru"))
	require.Equal(t, "get_order", callOf(t, "", "My order ord_1002 goes to Peru"))
	require.Contains(t, ask(t, language.Advice("ord_1", "", "fi"), "Peruuta ord_1002").Text, "cancel order")
}

func callOf(t *testing.T, code, text string) string {
	t.Helper()
	got := ask(t, language.Advice(text, "", code), text)
	require.Len(t, got.Calls, 1, got.Text)
	return strings.TrimPrefix(got.Calls[0].Name, "shop__")
}

// Where nothing is known of the language of an answer, the model goes on in that of its question.
func TestRulesGoOnInTheLanguageOfTheirQuestion(t *testing.T) {
	t.Parallel()
	skal := ask(t, "", "Annuller ord_1002", "Skal jeg gøre dette: cancel order, med order id ord_1002? Svar ja.", "nej")
	require.Equal(t, "I orden, jeg gør ingenting.", skal.Text)
	require.Equal(t, "All right, I do nothing.", ask(t, "", "Cancel ord_1002", "Shall I cancel order with order id ord_1002? Answer yes.", "nej").Text)
}

// A sentence is no answer to the question for an id.
func TestRulesTakeNoSentenceForAnID(t *testing.T) {
	t.Parallel()
	asked := ask(t, "", "Where is my order?")
	require.Equal(t, "Please tell me the order id. I need it to get order.", asked.Text)
	require.Equal(t, asked.Text, ask(t, "", "Where is my order?", asked.Text, "I do not know it").Text)
	require.Len(t, ask(t, "", "Where is my order?", asked.Text, "it is 1002").Calls, 1)
	require.Len(t, ask(t, "", "Where is my order?", asked.Text, "abc").Calls, 1)
}

// corpus returns the messages of customers by language, and its languages in order.
func corpus(t *testing.T) (messages map[string][]string, codes []string) {
	t.Helper()
	raw, err := os.ReadFile("../../../../testdata/languages/messages.txt")
	require.NoError(t, err)
	messages = map[string][]string{}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "["):
			codes = append(codes, strings.Trim(line, "[]"))
		case !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "= "):
			code := codes[len(codes)-1]
			messages[code] = append(messages[code], line)
		}
	}
	require.GreaterOrEqual(t, len(codes), 50)
	return messages, codes
}

// begun returns the name of the sentence of a language that a text begins with; "" for none.
func begun(p map[string]string, text string) string {
	for _, name := range []string{"shall", "please", "lost", "iam", "hello", "welcome", "bye", "none"} {
		if head, _, _ := strings.Cut(p[name], "%s"); strings.HasPrefix(text, head) {
			return name
		}
	}
	return ""
}

// offline counts answers of the built-in model.
type offline struct{ of, own, english, wrong int }

// add counts the answer to a message in a language: with a sentence in it, or in English and saying so.
func (o *offline) add(t *testing.T, all map[string]map[string]string, code, message string, got model.Response) {
	t.Helper()
	o.of++
	l, _ := language.Named(code)
	p, has := all[code]
	switch {
	case has && len(got.Calls) > 0, has && begun(p, got.Text) != "":
		o.own++
	case !has && strings.HasSuffix(got.Text, "I have no sentences in "+l.Name+", so this is English."):
		o.english++
	default:
		o.wrong++
		t.Logf("%s %q is answered %q", code, message, got.Text)
	}
}

func languagesPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../../docs/languages.md")
	require.NoError(t, err)
	return string(page)
}

// published fails where docs/languages.md has other figures than were counted.
func published(t *testing.T, what string, o offline) {
	t.Helper()
	require.Contains(t, languagesPage(t), fmt.Sprintf("\n| %s | %d | %d | %d | %d |\n", what, o.of, o.own, o.english, o.wrong))
}

// ask returns the answer to the last of the texts: of a customer and of the model in turn.
func ask(t *testing.T, advice string, texts ...string) model.Response {
	t.Helper()
	req := model.Request{Purpose: model.Reply, Tools: shop(), Advice: advice}
	for i, text := range texts {
		m := model.Message{Role: model.Assistant, Text: text}
		if i%2 == 0 {
			m = agentloop.Customer(text)
		}
		req.Messages = append(req.Messages, m)
	}
	got, err := rules.Model{}.Generate(t.Context(), req, model.Stream{})
	require.NoError(t, err)
	return got
}

// The offline path on short messages, each the first of its session. The first one of each language asks
// where an order is.
func TestRulesAnswerShortMessagesInTheirLanguage(t *testing.T) {
	t.Parallel()
	all := sections(t)
	messages, codes := corpus(t)
	var where, others offline
	for _, code := range codes {
		for i, message := range messages[code] {
			got := ask(t, language.Advice(message, "", ""), message)
			if i > 0 {
				others.add(t, all, code, message, got)
				continue
			}
			where.add(t, all, code, message, got)
			if name := begun(all[code], got.Text); all[code] != nil && name != "" {
				require.Equal(t, "please", name, "%s %q", code, got.Text)
			}
		}
	}
	published(t, "\"Where is my order?\"", where)
	published(t, "nine other messages in each language", others)
}

// The offline path where a customer goes on in another language, after a question in the first one.
func TestRulesFollowASwitchInMidConversation(t *testing.T) {
	t.Parallel()
	all := sections(t)
	messages, codes := corpus(t)
	var switches offline
	for i := range 20 {
		from, to := codes[(7*i)%len(codes)], codes[(11*i+3)%len(codes)]
		require.NotEqual(t, from, to)
		first := messages[from][0]
		asked := ask(t, language.Advice(first, "", ""), first)
		next := messages[to][2]
		got := ask(t, language.Advice(next, "", from), first, asked.Text, next)
		switches.add(t, all, to, next, got)
		// The first question is asked again, or given up, and an id is still understood.
		require.Empty(t, got.Calls, "%s is no id", next)
		again := ask(t, language.Advice("ord_1001", "", to), first, asked.Text, next, got.Text, "ord_1001")
		require.Len(t, again.Calls, 1, again.Text)
	}
	published(t, "20 switches in mid-conversation", switches)
}
