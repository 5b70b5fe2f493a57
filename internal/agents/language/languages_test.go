package language_test

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/language"
)

// speaker is a language of testdata/languages with messages of customers and a reply.
type speaker struct {
	code     string
	messages []string
	reply    string
}

func speakersOf(t *testing.T, name string, messages int) (list []speaker) {
	t.Helper()
	file, err := os.Open("../../../testdata/languages/" + name)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "["):
			list = append(list, speaker{code: strings.Trim(line, "[]")})
		case strings.HasPrefix(line, "= "):
			list[len(list)-1].reply = line[2:]
		case !strings.HasPrefix(line, "#"):
			list[len(list)-1].messages = append(list[len(list)-1].messages, line)
		}
	}
	require.GreaterOrEqual(t, len(list), 50)
	for _, s := range list {
		require.Len(t, s.messages, messages, s.code)
		require.NotEmpty(t, s.reply, s.code)
	}
	return list
}

func speakers(t *testing.T) []speaker {
	t.Helper()
	return speakersOf(t, "messages.txt", 10)
}

// count says how often a language was right.
type count struct{ of, wrong, unsure int }

func (c *count) add(t *testing.T, want, text string, got language.Language, ok bool) {
	t.Helper()
	if !c.note(want, got, ok) {
		t.Logf("%s %q is taken for %q", want, text, got.Code)
	}
}

// note is add without a word.
func (c *count) note(want string, got language.Language, ok bool) (right bool) {
	c.of++
	switch {
	case !ok:
		c.unsure++
	case got.Code != want:
		c.wrong++
	default:
		return true
	}
	return false
}

// published fails where docs/use/memory.md has other figures than were counted.
func published(t *testing.T, what string, c count) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/use/memory.md")
	require.NoError(t, err)
	of := strconv.Itoa(c.of)
	if n := len(of) - 3; n > 0 {
		of = of[:n] + "," + of[n:]
	}
	require.Contains(t, string(page), fmt.Sprintf("\n| %s | %s | %d | %d |\n", what, of, c.wrong, c.unsure))
}

func TestLanguagesOfTheirMessages(t *testing.T) {
	t.Parallel()
	var alone, first, later, replies count
	for _, s := range speakers(t) {
		for _, text := range append(slices.Clip(s.messages), s.reply) {
			l, ok := language.Of(text)
			alone.add(t, s.code, text, l, ok)
		}
	}
	published(t, "message or reply by which the tables were made", alone)
	for _, s := range speakersOf(t, "heldout.txt", 3) {
		for _, text := range s.messages {
			l, ok := language.Guess(text, "")
			first.add(t, s.code, text, l, ok)
			l, ok = language.Guess(text, s.code)
			later.add(t, s.code, text, l, ok)
		}
	}
	for _, s := range speakersOf(t, "heldout.txt", 3) {
		l, ok := language.Of(s.reply)
		replies.add(t, s.code, s.reply, l, ok)
	}
	published(t, "other reply", replies)
	published(t, "other message, the first of a session", first)
	published(t, "other message, in a session of its language", later)
}

func TestReplyInAnotherLanguage(t *testing.T) {
	t.Parallel()
	for _, list := range [][]speaker{speakers(t), speakersOf(t, "heldout.txt", 3)} {
		english, _ := language.Named("en")
		falsely, missed := 0, 0
		for _, s := range list {
			want, known := language.Named(s.code)
			require.True(t, known)
			require.NotEqual(t, want.Code, want.Name, "its name")
			if is, differs := language.Differs(s.reply, want); differs {
				falsely++
				t.Logf("the reply in %s is taken for %s", want.Name, is.Name)
			}
			if _, differs := language.Differs(s.reply, english); !differs && s.code != "en" {
				missed++
				t.Logf("the reply in %s passes for English", want.Name)
			}
			if _, differs := language.Differs(list[0].reply, want); !differs && s.code != "en" {
				missed++
				t.Logf("the reply in English passes for %s", want.Name)
			}
			back, ok := language.Told("Procedures.\n\n" + language.Advice("ord_1", s.code) + "\n\nMaps.")
			require.True(t, ok)
			require.Equal(t, want, back)
		}
		require.Zero(t, falsely)
		require.Zero(t, missed)
	}

	german, _ := language.Named("de")
	for _, fine := range []string{
		"", "OK", "ord_1001", "Done.", "Order shipped today.", "```\nSELECT the order FROM where is my order\n```", "`the order is on its way to you`",
		`{"status": "the order is on its way", "note": "where is it"}`, "Hier ist der Text: \"Where is my order, please, I have been waiting for it\"",
		"See https://shop.example/where/is/my/order/and/when/does/it/come",
	} {
		_, differs := language.Differs(fine, german)
		require.False(t, differs, fine)
	}
}

func TestLanguageThatAModelIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ message, session, want string }{
		"of the message": {"Wo ist meine Bestellung?", "en", "The customer's last message is in German. Answer in German, unless the customer asks for another language."},
		"of the session": {"ord_1001", "fr", "The conversation was in French. Answer in French, unless the customer asks for another language."},
		"not known":      {"ord_1001", "", ""},
	} {
		require.Equal(t, c.want, language.Advice(c.message, c.session), name)
	}
	_, ok := language.Told("Answer in German.") // the company's words are no advice of this kind
	require.False(t, ok)
}

// session is what the service keeps of the languages of a session.
type session struct{ spoken string }

// told returns what a model is told of the language of a message, and keeps what the message says.
func (s *session) told(message string) (advice string) {
	advice = language.Advice(message, s.spoken)
	s.spoken = cmp.Or(language.Says(message, s.spoken), s.spoken)
	return advice
}

var seems = regexp.MustCompile(`seems to be in (\pL+)\.`)

// likely returns the language in which a model was told to answer, otherwise the one that the message seems
// to be in.
func likely(advice string) (l language.Language, ok bool) {
	if found := seems.FindStringSubmatch(advice); found != nil {
		return language.Told("The conversation was in " + found[1] + ". Answer in " + found[1] + ".")
	}
	return language.Told(advice)
}

// again reports whether a model that was told the advice is asked again because of its reply.
func again(advice, reply string) bool {
	want, told := language.Told(advice)
	if !told {
		return false
	}
	_, differs := language.Differs(reply, want)
	return differs
}

// Ten conversations in each language, of messages and replies that were not there when the tables were made,
// and of some that were. One model answers in the language of the customer, another one in English.
func TestConversationsInFiftyLanguages(t *testing.T) {
	t.Parallel()
	list, others := speakers(t), speakersOf(t, "heldout.txt", 3)
	english := others[0].reply
	var all, right, passes count
	for n, s := range list {
		other := others[n]
		require.Equal(t, s.code, other.code)
		for i, text := range s.messages {
			var talk session
			for at, message := range []string{text, "ord_1001", other.messages[i%3], "ok", other.messages[(i+1)%3]} {
				advice := talk.told(message)
				l, ok := likely(advice)
				all.add(t, s.code, message, l, ok)
				right.of++
				if again(advice, []string{s.reply, other.reply}[at%2]) {
					right.wrong++
					t.Logf("%s: %s: the right reply is asked for again", s.code, advice)
				}
				if s.code == "en" {
					continue
				}
				passes.of++
				if _, told := language.Told(advice); !told {
					passes.unsure++
				} else if !again(advice, english) {
					passes.wrong++
					t.Logf("%s: %s: English passes", s.code, advice)
				}
			}
		}
	}
	published(t, "message of 530 conversations of five messages", all)
	published(t, "reply in them in the right language that is asked for again", right)
	published(t, "reply in them in English instead that is not asked for again", passes)
}

func TestSwitchOfLanguageInMidConversation(t *testing.T) {
	t.Parallel()
	list := speakers(t)
	var switches count
	for i := range 20 {
		from, to := list[(7*i)%len(list)], list[(11*i+3)%len(list)]
		require.NotEqual(t, from.code, to.code)
		talk := session{}
		talk.told(from.messages[0])
		l, ok := likely(talk.told(to.messages[2]))
		switches.add(t, to.code, to.messages[2], l, ok)
		l, ok = likely(talk.told("ord_1001"))
		switches.add(t, to.code, "ord_1001", l, ok)
	}
	published(t, "message after a switch, and the id after it: 20 switches", switches)
}

// A customer goes on in each language after a session in each other one, with messages that were not there
// when the tables were made.
func TestSwitchFromEachLanguageToEach(t *testing.T) {
	t.Parallel()
	var all count
	list := speakersOf(t, "heldout.txt", 3)
	for _, from := range list {
		for _, to := range list {
			for _, text := range to.messages {
				if l, ok := language.Guess(text, from.code); from.code != to.code {
					all.note(to.code, l, ok)
				}
			}
		}
	}
	published(t, "other message, in a session of each other language", all)
}

// A message that may be in the language of its session is in that.
func TestGuessKeepsToTheSession(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ message, session, want string }{
		{"Hvor er min bestilling?", "da", "da"},
		{"Hvor er min bestilling?", "no", "no"},
		{"Можете ли да ми помогнете?", "mk", "mk"},
		{"Korttiani veloitettiin kahdesti.", "fi", "fi"},
		{"لمبا", "fa", "fa"},
		{"Wo ist meine Bestellung?", "fr", "de"},
		{"ord_1001", "fr", "fr"},
		{"ord_1001", "", ""},
	} {
		l, _ := language.Guess(c.message, c.session)
		require.Equal(t, c.want, l.Code, "%s in %s", c.message, c.session)
	}
	// What only seems so is told as that, and no reply is asked for again because of it.
	advice := language.Advice("Hvor er min bestilling?", "")
	require.Equal(t, "The customer's last message seems to be in Norwegian. Answer in the language that it is in.", advice)
	_, told := language.Told(advice)
	require.False(t, told)
	_, told = language.Told(language.Advice("[[later bazaar__delete_account]]", ""))
	require.False(t, told, "one word")
	l, ok := likely("Procedures.\n\n" + advice)
	require.True(t, ok)
	require.Equal(t, "no", l.Code)
}
