package language_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/language"
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

func BenchmarkOf(b *testing.B) {
	for b.Loop() {
		language.Of("Where is my order, I have been waiting for a week and nobody has told me anything about it")
	}
}
