package language_test

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/language"
)

// A language that is not supported is never named as another one: the model answers in what it sees, and no
// reply is asked for again.
func TestOtherLanguagesAreNotNamed(t *testing.T) {
	t.Parallel()
	file, err := os.Open("../../../testdata/languages/unsupported.txt")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var all count
	code := ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		switch text := lines.Text(); {
		case strings.HasPrefix(text, "["):
			code = text
		case !strings.HasPrefix(text, "#"):
			all.of++
			l, sure := language.Of(text)
			if _, told := language.Told(language.Advice(text, "")); sure || told {
				all.wrong++
				t.Logf("%s %q is taken for %s", code, text, l.Name)
			} else {
				all.unsure++
			}
		}
	}
	published(t, "message in one of 30 languages that are not supported", all)
}

func TestTooLittleNamesNoLanguage(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"iPhone 15 Pro Max":                    "",
		"Samsung Galaxy S24":                   "",
		"पैसे परत द्या":                        "", // Marathi, in words that Hindi has too
		"کتاب خوب":                             "", // Persian, in letters that Urdu has too
		"سفارش من کجاست":                       "fa",
		"طلبي لم يصل":                          "ar",
		"मला मदत हवी":                          "mr",
		"Gdje je moja narudžba?":               "hr",
		"Saya mau ganti alamat":                "id",
		"Quiero cambiar la dirección de envío": "es",
		"Где мой заказ?":                       "ru",
		"איפה ההזמנה שלי":                      "he",
	} {
		l, ok := language.Of(text)
		require.Equal(t, want, l.Code, text)
		require.Equal(t, want != "", ok, text)
	}
	const eye = "Answer in the language that the customer's last message is in."
	require.Equal(t, eye, language.Advice("Тауар әлі жеткен жоқ", ""))
	require.Equal(t, eye, language.Advice("Тауар әлі жеткен жоқ", "ru"), "the session was in another one")
	require.Equal(t, "The conversation was in Russian. Answer in Russian, unless the customer asks for another language.", language.Advice("ord_1001", "ru"))
	require.Empty(t, language.Advice("ord_1001", ""))
}
