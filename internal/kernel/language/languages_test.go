package language_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/language"
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
	}
	return list
}

func speakers(t *testing.T) []speaker {
	t.Helper()
	list := speakersOf(t, "messages.txt", 10)
	for _, s := range list {
		require.NotEmpty(t, s.reply, s.code)
	}
	return list
}

// count says how often a language was right.
type count struct{ of, wrong, unsure int }

func (c *count) add(t *testing.T, want, text string, got language.Language, ok bool) {
	t.Helper()
	c.of++
	switch {
	case !ok:
		c.unsure++
		t.Logf("%s %q is not known", want, text)
	case got.Code != want:
		c.wrong++
		t.Logf("%s %q is taken for %q", want, text, got.Code)
	}
}

// published fails where docs/languages.md has other figures than were counted.
func published(t *testing.T, what string, c count) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/languages.md")
	require.NoError(t, err)
	of := strconv.Itoa(c.of)
	if n := len(of) - 3; n > 0 {
		of = of[:n] + "," + of[n:]
	}
	require.Contains(t, string(page), fmt.Sprintf("\n| %s | %s | %d | %d |\n", what, of, c.wrong, c.unsure))
}

func TestLanguagesOfTheirMessages(t *testing.T) {
	t.Parallel()
	var alone, first, later count
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
	published(t, "other message, the first of a session", first)
	published(t, "other message, in a session of its language", later)
}

func TestWishForALanguage(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Please answer in German.":                           "de",
		"Can you reply in French from now on?":               "fr",
		"In English please":                                  "en",
		"Auf Deutsch bitte":                                  "de",
		"Antworten Sie bitte auf Englisch.":                  "en",
		"Réponds en anglais, s'il te plaît":                  "en",
		"Por favor, responda en inglés":                      "en",
		"Rispondi in tedesco":                                "de",
		"Responda em português, por favor":                   "pt",
		"Antwoord alstublieft in het Engels":                 "en",
		"Svara på engelska":                                  "en",
		"Odpowiedz po angielsku":                             "en",
		"Odpovězte prosím anglicky":                          "en",
		"Vastaa suomeksi":                                    "fi",
		"Válaszolj magyarul":                                 "hu",
		"Lütfen Türkçe cevap ver":                            "tr",
		"Ответьте по-русски":                                 "ru",
		"Відповідайте українською":                           "uk",
		"Απάντησε στα ελληνικά":                              "el",
		"日本語で答えてください":                                        "ja",
		"请用中文回答":                                             "zh",
		"한국어로 대답해 주세요":                                       "ko",
		"Jawab dalam bahasa Inggris":                         "en",
		"Hello. Where is ord_1? Please write in Spanish.":    "es",
		"Možete li mi pomoći? Na hrvatskom, molim.":          "hr",
		"Español por favor":                                  "es",
		"Is the manual available in German?":                 "",
		"I do not speak German.":                             "",
		"May I talk to your German colleague?":               "",
		"I bought a German car":                              "",
		"Where is my order?":                                 "",
		"Do you have somebody who speaks French?":            "",
		"Ich habe einen englischen Garten":                   "",
		"Send the danish to my office, please write it down": "",
	} {
		l, ok := language.Wish(text)
		require.Equal(t, want, l.Code, text)
		require.Equal(t, want != "", ok, text)
	}
}

func TestReplyInAnotherLanguage(t *testing.T) {
	t.Parallel()
	list := speakers(t)
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
		back, ok := language.Told("Procedures.\n\n" + language.Advice("ord_1", "", s.code) + "\n\nMaps.")
		require.True(t, ok)
		require.Equal(t, want, back)
	}
	require.Zero(t, falsely)
	require.Zero(t, missed)

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
	for name, c := range map[string]struct{ message, asked, session, want string }{
		"of the message": {"Wo ist meine Bestellung?", "", "en", "The customer's last message is in German. Answer in German."},
		"of the session": {"ord_1001", "", "fr", "The conversation was in French. Answer in French."},
		"wished now":     {"Wo ist meine Bestellung? Please answer in Spanish.", "it", "en", "The customer has asked for answers in Spanish. Answer in Spanish."},
		"wished before":  {"Wo ist meine Bestellung?", "it", "en", "The customer has asked for answers in Italian. Answer in Italian."},
		"not known":      {"ord_1001", "", "", ""},
	} {
		require.Equal(t, c.want, language.Advice(c.message, c.asked, c.session), name)
	}
	_, ok := language.Told("Answer in German.") // the company's words are no advice of this kind
	require.False(t, ok)
}

// session is what the service keeps of the languages of a session.
type session struct{ spoken, wished string }

// told returns in which language a model is told to answer a message, or which one the message seems to
// be in, and keeps what the message says.
func (s *session) told(message string) (l language.Language, ok bool) {
	l, ok = language.Likely(language.Advice(message, s.wished, s.spoken))
	if is, sure := language.Surely(message); sure {
		s.spoken = is.Code
	}
	if wish, is := language.Wish(message); is {
		s.wished = wish.Code
	}
	return l, ok
}

// Ten conversations in each language, with a model that answers in the language that it was told, or in
// English. No reply in the right language is asked for again, and each one in English is.
func TestConversationsInFiftyLanguages(t *testing.T) {
	t.Parallel()
	list := speakers(t)
	replies := map[string]string{}
	for _, s := range list {
		replies[s.code] = s.reply
	}
	var all, again, passes count
	for _, s := range list {
		for i, text := range s.messages {
			var talk session
			for _, message := range []string{text, "ord_1001", s.messages[(i+3)%10], "ok", s.messages[(i+7)%10]} {
				l, ok := talk.told(message)
				all.add(t, s.code, message, l, ok)
				want, _ := language.Named(s.code)
				again.of++
				if _, differs := language.Differs(replies[l.Code], want); differs && l == want {
					again.wrong++
				}
				if s.code == "en" {
					continue
				}
				passes.of++
				if _, differs := language.Differs(replies["en"], want); !differs {
					passes.wrong++
				}
			}
		}
	}
	published(t, "message of 530 conversations of five messages", all)
	published(t, "reply in them in the right language that is asked for again", again)
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
		l, ok := talk.told(to.messages[2])
		switches.add(t, to.code, to.messages[2], l, ok)
		l, ok = talk.told("ord_1001")
		switches.add(t, to.code, "ord_1001", l, ok)
	}
	published(t, "message after a switch, and the id after it: 20 switches", switches)
}

// A customer asks in English for each of the languages, and goes on in their own.
func TestWishForEachLanguageStays(t *testing.T) {
	t.Parallel()
	var wishes count
	for _, s := range speakers(t) {
		wanted, _ := language.Named(s.code)
		for _, ask := range []string{"Please answer in " + wanted.Name + ".", "Can you write in " + wanted.Name + " from now on?"} {
			talk := session{}
			l, ok := talk.told(ask)
			wishes.add(t, s.code, ask, l, ok)
			l, ok = talk.told("Wo ist meine Bestellung?")
			wishes.add(t, s.code, "the message after it", l, ok)
		}
	}
	published(t, "wish for a language, and the German message after it", wishes)
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
	advice := language.Advice("Hvor er min bestilling?", "", "")
	require.Equal(t, "The customer's last message seems to be in Norwegian. Answer in the language that it is in.", advice)
	_, told := language.Told(advice)
	require.False(t, told)
	_, told = language.Told(language.Advice("[[later bazaar__delete_account]]", "", ""))
	require.False(t, told, "one word")
	l, likely := language.Likely("Procedures.\n\n" + advice)
	require.True(t, likely)
	require.Equal(t, "no", l.Code)
}
