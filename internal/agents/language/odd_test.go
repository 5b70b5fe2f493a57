package language_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/language"
)

// What is no plain sentence: the page has the same table. The code is what a message is surely in.
func TestLanguageOfOddMessages(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/use/memory.md")
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

// huge are parts of texts of the largest size, which patterns could take long to read.
func huge() []string {
	return []string{"where is ", "ÄÖÜ ", "\u0300", "<", "`", "{\"a", "@", "a:"}
}

const hugeBytes = 32 << 10

// Four times as much of the same changes nothing of what is found out. BenchmarkHugeTexts says what it costs.
func TestHugeTextsAreJudgedAsShorterOnes(t *testing.T) {
	t.Parallel()
	german, _ := language.Named("de")
	for _, part := range huge() {
		text := strings.Repeat(part, hugeBytes/len(part))
		short := text[:len(part)*(len(text)/4/len(part))]
		require.Equal(t, judged(short, german), judged(text, german), part)
	}
}

// judged is all that is found out about a text.
func judged(text string, want language.Language) []any {
	is, surely := language.Differs(text, want)
	return []any{language.Advice(text, "fr"), language.Says(text, "fr"), is, surely}
}

func BenchmarkHugeTexts(b *testing.B) {
	german, _ := language.Named("de")
	for _, part := range huge() {
		text := strings.Repeat(part, hugeBytes/len(part))
		b.Run(part, func(b *testing.B) {
			for b.Loop() {
				judged(text, german)
			}
		})
	}
}
