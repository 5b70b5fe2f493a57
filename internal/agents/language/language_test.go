package language_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/language"
)

func TestLanguageOfMessages(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Where is my order ord_1001?":                       "en",
		"Refund order 4711":                                 "en",
		"Wo ist meine Bestellung?":                          "de",
		"Où est ma commande ?":                              "fr",
		"¿Dónde está mi pedido?":                            "es",
		"Dov'è il mio ordine?":                              "it",
		"Onde está o meu pedido?":                           "pt",
		"Waar is mijn bestelling?":                          "nl",
		"Var är min beställning?":                           "sv",
		"Hvor er min ordre? Hvornår kommer den?":            "da",
		"Hvor er bestillingen min? Når kommer den til meg?": "no",
		"Missä tilaukseni on?":                              "fi",
		"Gdzie jest moje zamówienie?":                       "pl",
		"Kde je moje objednávka?":                           "cs",
		"Unde este comanda mea?":                            "ro",
		"Hol van a rendelésem?":                             "hu",
		"Siparişim nerede?":                                 "tr",
		"Pesanan saya di mana?":                             "id",
		"Đơn hàng của tôi ở đâu?":                           "vi",
		"Где мой заказ?":                                    "ru",
		"Де моє замовлення?":                                "uk",
		"Къде е моята поръчка?":                             "bg",
		"Где је моја поруџбина?":                            "sr",
		"Ποια είναι η παραγγελία μου;":                      "el",
		"איפה ההזמנה שלי":                                   "he",
		"أين طلبي":                                          "ar",
		"سفارش من کجاست":                                    "fa",
		"मेरा ऑर्डर कहाँ है":                                "hi",
		"私の注文はどこですか":                                        "ja",
		"我的订单在哪里":                                           "zh",
		"내 주문은 어디에 있나요":                                     "ko",
		"คำสั่งซื้อของฉันอยู่ที่ไหน":                         "th",
		"Mein Code ist XK-99, see https://en.example.com/is": "de",
	} {
		got, ok := language.Of(text)
		require.True(t, ok, text)
		require.Equal(t, want, got.Code, text)
		require.NotEmpty(t, got.Name)
		require.NotEqual(t, got.Code, got.Name, text)
	}
	for _, none := range []string{"", "ord_1001", "12345 !?", "ann@example.com", "ok", "\xff\xfe", "🙂"} {
		got, ok := language.Of(none)
		require.False(t, ok, "%q: %v", none, got)
	}
	long, ok := language.Of(strings.Repeat("Where is my order? ", 100_000))
	require.True(t, ok)
	require.Equal(t, language.Language{Code: "en", Name: "English"}, long)
}

// Short answers, names and addresses in Japanese have Han signs only. They are Chinese where they have a
// sign or a word that Japanese does not have.
func TestHanSignsAreNotChineseInAJapaneseSession(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ message, session, guess, of string }{
		{"了解", "ja", "ja", ""},
		{"注文番号", "ja", "ja", ""},
		{"返品希望", "ja", "ja", ""},
		{"在庫有無", "ja", "ja", ""},
		{"東京都新宿区西新宿二丁目", "ja", "ja", ""},
		{"我慢", "ja", "ja", ""},
		{"山田太郎", "zh", "zh", ""},
		{"了解", "", "zh", ""},
		{"了解", "de", "zh", ""},
		{"我的订单在哪里", "ja", "zh", "zh"},
		{"我的訂單在哪裡？", "ja", "zh", "zh"},
		{"谢谢", "ja", "zh", "zh"},
		{"退款可以吗", "ja", "zh", "zh"},
		{"注文はどこですか", "zh", "ja", "ja"},
		{"キャンセル", "zh", "ja", "ja"},
		{"我想买一个ドラえもん玩具", "zh", "zh", ""},
	} {
		l, _ := language.Guess(c.message, c.session)
		require.Equal(t, c.guess, l.Code, "%s in %q", c.message, c.session)
		l, ok := language.Of(c.message)
		require.Equal(t, c.of, l.Code, c.message)
		require.Equal(t, c.of != "", ok, c.message)
	}
	require.Equal(t, "The conversation was in Japanese. Answer in Japanese, unless the customer asks for another language.", language.Advice("了解", "ja"))
	require.Equal(t, "The customer's last message seems to be in Chinese. Answer in the language that it is in.", language.Advice("了解", ""))
	japanese, _ := language.Named("ja")
	_, differs := language.Differs("配送先：東京都新宿区西新宿二丁目、到着予定：明日午前", japanese)
	require.False(t, differs)
	_, differs = language.Differs("您的订单已经发货，明天就会送到。", japanese)
	require.True(t, differs, "a reply in Chinese")
}

func BenchmarkOf(b *testing.B) {
	for b.Loop() {
		language.Of("Where is my order, I have been waiting for a week and nobody has told me anything about it")
	}
}

func BenchmarkAdvice(b *testing.B) {
	for b.Loop() {
		language.Advice("Where is my order, I have been waiting for a week and nobody has told me anything about it", "fr")
	}
}
