package run

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/flow"
)

func projectFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", path))
	require.NoError(t, err)
	return string(text)
}

// queriesOfRuns returns the text of each query that changes rows of runs.
func queriesOfRuns(t *testing.T) map[string]string {
	t.Helper()
	queries := map[string]string{}
	for part := range strings.SplitSeq(projectFile(t, "queries/runs.sql"), "-- name: ") {
		name, text, _ := strings.Cut(part, " ")
		if strings.Contains(text, "UPDATE runs") {
			queries[name] = text
		}
	}
	queries["ClaimRun"] = projectFile(t, "db/functions/claim_run.sql")
	return queries
}

// statesIn returns the states that a part of a query names, sorted.
func statesIn(text string) []State {
	var found []State
	for _, word := range regexp.MustCompile(`'([a-z_]+)'`).FindAllStringSubmatch(text, -1) {
		if s := State(word[1]); slices.Contains(flow.States(), s) && !slices.Contains(found, s) {
			found = append(found, s)
		}
	}
	slices.Sort(found)
	return found
}

func TestQueriesMoveRunsAsTheTableSays(t *testing.T) {
	t.Parallel()
	queries := queriesOfRuns(t)
	from := map[string][]State{}
	for _, m := range moves() {
		from[m.query] = append(from[m.query], m.from...)
	}
	for query, states := range from {
		text, exists := queries[query]
		require.True(t, exists, "no query %s changes runs", query)
		if query == "FinishRun" { // its states are parameters
			continue
		}
		_, where, found := strings.Cut(text[strings.LastIndex(text, "UPDATE runs"):], " WHERE ")
		require.True(t, found)
		where, _, _ = strings.Cut(where, "RETURNING")
		// An approval's status is not a state of the run.
		where = regexp.MustCompile(`a\.status = '[a-z]+'`).ReplaceAllString(where, "")
		if query == "ClaimRun" {
			where, _, _ = strings.Cut(where, "IF FOUND")
		}
		slices.Sort(states)
		require.Equal(t, states, statesIn(where), query)
	}
	for name := range queries {
		require.Contains(t, from, name, "%s changes runs and is not in the table of moves", name)
	}
}

func TestRunsEndFromTheStatesOfTheTable(t *testing.T) {
	t.Parallel()
	for _, state := range flow.States() {
		var want []string
		for _, m := range moves() {
			fromSending := slices.Equal(m.from, []State{StateSending})
			if m.query == "FinishRun" && slices.Contains(m.to, state) && !fromSending {
				for _, s := range m.from {
					want = append(want, string(s))
				}
			}
		}
		if want != nil {
			require.ElementsMatch(t, want, endsFrom(ending{state: state}), state)
		}
	}
	require.Equal(t, []string{"sending"}, endsFrom(ending{state: StateRefused, fromSending: true}))
}

// The page for users shows every move that changes the state, and no other.
func TestMovesAreDocumented(t *testing.T) {
	t.Parallel()
	type pair struct{ from, to State }
	var want, got []pair
	for _, m := range moves() {
		for _, from := range m.from {
			for _, to := range m.to {
				if p := (pair{from, to}); from != to && !slices.Contains(want, p) {
					want = append(want, p)
				}
			}
		}
	}
	page := projectFile(t, "docs/use/runs-and-the-fence.md")
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z_, ]+) \| ([a-z_, ]+) \| [A-Z].*\|$`).FindAllStringSubmatch(page, -1) {
		for from := range strings.SplitSeq(row[1], ", ") {
			for to := range strings.SplitSeq(row[2], ", ") {
				if p := (pair{State(from), State(to)}); p.from != p.to {
					got = append(got, p)
				}
			}
		}
	}
	require.ElementsMatch(t, want, got)
	for _, s := range flow.States() {
		require.Regexp(t, `(?m)^\| [a-z_, ]*\b`+string(s)+`\b[a-z_, ]* \| .*`+"`"+s.Status()+"`", page, "the table of states has it")
	}
}
