package governance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// TestDecisionTableIsTheDocumented compares the table of docs/use/governance.md with the one
// that is tested here.
func TestDecisionTableIsTheDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(rig.Root(), "docs", "use", "governance.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "| Strictest action that applies |")
	require.True(t, found, "the table of decisions")
	rows := map[string][]string{}
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "|") {
			if len(rows) > 0 {
				break
			}
			continue
		}
		if fields := strings.Split(strings.Trim(line, "| \n"), "|"); len(fields) > 3 {
			rows[strings.Trim(fields[0], " `")] = fields[1:]
		}
	}
	for _, row := range decisions {
		name := row.policies
		if name == "" {
			name = "none"
		}
		if strings.Contains(name, " ") {
			continue // the document has the strictest only
		}
		printed := rows[name]
		require.Len(t, printed, 4, name)
		for i, want := range []outcome{row.low, row.medium, row.high} {
			require.Equal(t, want, readOutcome(printed[i]), "%s at %s risk", name, risks[i])
		}
	}
}

// readOutcome reads a field of the document's table.
func readOutcome(field string) outcome {
	parts := strings.Split(field, "`")
	if len(parts) < 2 {
		return ""
	}
	if strings.HasPrefix(parts[2], ", notified") {
		return outcome(parts[1]) + ", notify"
	}
	return outcome(parts[1])
}
