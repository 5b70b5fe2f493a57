package language_test

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/language"
)

// Sentences in 25 languages that ask for one, and that name a country, a people or a language and ask for
// none.
func TestWishIsForALanguageAndNotForACountry(t *testing.T) {
	t.Parallel()
	file, err := os.Open("../../../testdata/languages/wishes.txt")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var all count
	wishes := map[bool]int{}
	languages := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		want, text, is := strings.Cut(lines.Text(), " = ")
		if strings.HasPrefix(want, "[") {
			languages++
		}
		if !is {
			continue
		}
		want = strings.TrimPrefix(want, "-")
		wishes[want != ""]++
		l, ok := language.Wish(text)
		require.Equal(t, l.Code != "", ok, text)
		all.add(t, want, text, l, ok || want == "")
	}
	published(t, "sentence that asks for a language, or only names one or a country", all)
	require.GreaterOrEqual(t, languages, 25)
	require.Greater(t, wishes[true], 70)
	require.Greater(t, wishes[false], 100)
}

// A long letter is read at its begin and its end only.
func TestWishAtTheEndOfALongMessage(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("My order has not come, and I am waiting. ", 700)
	for _, text := range []string{long + "Please answer in German.", "Please answer in German. " + long} {
		l, ok := language.Wish(text)
		require.True(t, ok)
		require.Equal(t, "de", l.Code)
	}
}
