package docs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/record/audit"
)

// The part of audit.md between these lines is made of the table of actions.
const (
	actionsBegin = "<!-- Made of internal/record/audit/actions.go by make gen. Do not edit. -->\n"
	actionsEnd   = "<!-- End of the made part. -->\n"
)

// actionReference renders the table of audit actions.
func actionReference() string {
	var b strings.Builder
	b.WriteString("| Action | Subject | When |\n|---|---|---|\n")
	for _, row := range audit.Actions() {
		subject := ""
		if row.Subject != audit.SubjectNone {
			subject = fmt.Sprintf("`%s`", row.Subject)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", row.Action, subject, row.When)
	}
	return b.String()
}

func TestAuditPageListsTheTableOfActions(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("operate/audit.md")
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(raw), actionsBegin)
	require.True(t, found)
	_, after, found := strings.Cut(rest, actionsEnd)
	require.True(t, found)
	want := before + actionsBegin + actionReference() + actionsEnd + after
	if *update {
		require.NoError(t, os.WriteFile("operate/audit.md", []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(raw), "make gen writes it again")
}
