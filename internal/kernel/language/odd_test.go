package language_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/language"
)

// What is no plain sentence: the page has the same table. The code is what a message is surely in.
func TestLanguageOfOddMessages(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/languages.md")
	require.NoError(t, err)
	for _, c := range []struct{ what, message, want string }{
		{"emoji", "🙂👍", ""},
		{"ids, numbers, addresses", "ord_1001, 4711, https://shop.example/de/wo/ist/meine/bestellung", ""},
		{"an id within Japanese", "ありがとう。ord_1004をキャンセルしてください", "ja"},
		{"an id before Chinese", "ord_1004在哪里？", "zh"},
		{"an id with a Korean ending", "ord_1004는 어디에 있나요?", "ko"},
		{"an id within Thai", "ออเดอร์ord_1004อยู่ที่ไหน", "th"},
		{"a name and an address", "Jean-Pierre Dupont, 12 rue de la Paix", ""},
		{"JSON", `{"order": "ord_1", "status": "is the order paid"}`, ""},
		{"a question after code", "```\nfor i in range(10):\n  print(where is my order)\n```\nWarum geht das nicht?", "de"},
		{"a question about a quotation", `"Where is my order?" steht in der Mail. Was heißt das?`, "de"},
		{"only a quotation", `"Where is my order?"`, "en"},
		{"one word of another language", "Where is my Bestellung?", "en"},
		{"a name of a product", "我的 iPhone 15 Pro Max 还没到", "zh"},
		{"two scripts", "Привет! Where is my order, please?", "en"},
		{"capitals", "WO IST MEINE BESTELLUNG", "de"},
		{"no accents", "donde esta mi pedido", "es"},
		{"faults of spelling", "wo ist meine bestelung bite", "de"},
		{"spaced letters", "W o i s t m e i n e B e s t e l l u n g", ""},
		{"a mail whose footer is longer than its text", "Wo ist meine Bestellung?\n\nSent from my iPhone. This message is confidential and is meant for you only.", "en"},
	} {
		l, _ := language.Surely(c.message)
		require.Equal(t, c.want, l.Code, c.what)
		code := "none"
		if c.want != "" {
			code = "`" + c.want + "`"
		}
		require.Contains(t, string(page), "\n| "+c.what+" | "+code+" |\n")
	}
}

// What is read of a long text ends with a whole word: "o" is Portuguese, and the beginning of an id.
func TestLanguageOfALongTextIsThatOfItsWords(t *testing.T) {
	t.Parallel()
	for _, filler := range []string{"", "4711 ", "47 ", "4 "} {
		_, ok := language.Guess(filler+strings.Repeat("ord_1001 ", 3600), "")
		require.False(t, ok, filler)
	}
	l, ok := language.Guess(strings.Repeat("我的订单在哪里", 2000), "")
	require.True(t, ok)
	require.Equal(t, "zh", l.Code)
}

// A message has 32 KiB at most, and costs no more than a short one that is as long as what is read of it.
func TestLanguageOfHugeTextsIsBounded(t *testing.T) {
	t.Parallel()
	german, _ := language.Named("de")
	began := time.Now()
	for _, part := range []string{"where is ", "ÄÖÜ ", "\u0300", "<", "`", "{\"a", "@", "a:", "用中文", "ภาษาตอบ", "english answer "} {
		text := strings.Repeat(part, 32<<10/len(part))
		language.Advice(text, "", "fr")
		language.Says(text, "fr")
		language.Differs(text, german)
	}
	require.Less(t, time.Since(began), 2*time.Minute, "a second without the race detector")
}
