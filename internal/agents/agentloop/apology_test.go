package agentloop_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/language"
)

func TestApologyIsInTheLanguageOfTheCustomer(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("apologies.txt")
	require.NoError(t, err)
	stops := []agentloop.Stop{
		agentloop.MaxTurns, agentloop.TokenBudget, agentloop.WallClock, agentloop.PendingApproval, agentloop.Escalated, agentloop.MapCompleted,
		agentloop.MapFailed, agentloop.MapRunning, agentloop.NeedsInput, agentloop.ModelError,
	}
	languages := 0
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, "[") {
			continue
		}
		languages++
		code := strings.Trim(strings.TrimSpace(line), "[]")
		said := map[string]bool{}
		var all []string
		for _, stop := range stops {
			text := agentloop.Apology(stop, code)
			require.False(t, said[text], "%s: %s", code, text)
			require.Equal(t, code == "en", text == agentloop.Apology(stop, "en"), "%s has no sentence for %s", code, stop)
			said[text], all = true, append(all, text)
		}
		want, _ := language.Named(code)
		is, differs := language.Differs(strings.Join(all, " "), want)
		require.False(t, differs, "%s is %s", code, is.Name)
	}
	require.Equal(t, 27, languages)
	require.Equal(t, agentloop.Apology(agentloop.MaxTurns, "en"), agentloop.Apology(agentloop.LoopDetected, "sw"), "no sentence in Swahili")
	require.Equal(t, agentloop.Apology(agentloop.MaxTurns, "en"), agentloop.Apology(agentloop.MaxTurns, ""))
}
