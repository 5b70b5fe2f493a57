//go:build corpus

package corpus

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// lists have the examples that do not arrive, and those that arrive in one way only. README.md says why.
type lists struct {
	refused map[string][]string // that their schema accepts and the service refuses, by the reason
	unfit   map[string][]string // that their schema does not accept, by what is wrong
	loose   []string            // that arrive where the document is imported with strict: false
}

func newLists() *lists {
	return &lists{refused: map[string][]string{}, unfit: map[string][]string{}, loose: []string{}}
}

func (l *lists) refuse(why, id string) { l.refused[why] = append(l.refused[why], id) }
func (l *lists) misfit(why, id string) { l.unfit[why] = append(l.unfit[why], id) }
func (l *lists) loosen(id string)      { l.loose = append(l.loose, id) }

// requireListed compares the lists with their files. It fails for an example that is not listed, and for
// a listed one that arrives or has another reason.
func (l *lists) requireListed(t *testing.T) {
	t.Helper()
	for _, list := range []map[string][]string{l.refused, l.unfit} {
		for _, names := range list {
			slices.Sort(names)
		}
	}
	slices.Sort(l.loose)
	requireFile(t, "refused.json", l.refused, "examples that their schema accepts and the service refuses: mend it, or change the list")
	requireFile(t, "unfit.json", l.unfit, "examples that their schema does not accept")
	requireFile(t, "loose.json", l.loose, "examples that arrive with strict: false only")
}

// requireFile compares a list with that of a file. With CORPUS_LISTS=write it writes the file instead.
func requireFile(t *testing.T, file string, found any, message string) {
	t.Helper()
	text, err := json.MarshalIndent(found, "", "  ")
	require.NoError(t, err)
	text = append(text, '\n')
	if os.Getenv("CORPUS_LISTS") == "write" {
		require.NoError(t, os.WriteFile(file, text, 0o600))
		return
	}
	listed, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(listed), string(text), "%s: %s", file, message)
}
