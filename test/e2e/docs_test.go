package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// notRun are the blocks of commands that say of themselves that they are not run, in the
// order of the pages.
var notRun = []string{
	"README.md: it installs packages of the machine, as root",
	"README.md: the test of these pages has started what it starts",
	"README.md: make test runs the test of these pages, which has started what make dev starts",
	"docs/use/getting-started.md: the test of these pages has started what it starts",
	"docs/operate/temporal-ui.md: no package of README.md has the temporal command",
}

// alone takes minutes, so `make test` does without it.
var alone = flag.Bool("alone", false, "run the commands of each page against an installation of its own")

// block is a block of code on a page.
type block struct {
	line           int
	language, text string
	// skip is why it is not run, given what the reader has that no block before it makes, and until
	// what it prints before the reader stops it.
	skip, given, until string
	// answer is what the page says that it prints: its language and text; the language is
	// empty where the page says nothing.
	answerLanguage, answer string
}

// TestCommandsOfThePagesWork runs what the pages show as a newcomer would: page after
// page, block after block, against one installation. It is one of their own: a newcomer's has no
// scripted model, so that builtin:rules answers. With -alone each page has one.
//
//nolint:paralleltest,tparallel // each page continues where the one before it ended
func TestCommandsOfThePagesWork(t *testing.T) {
	t.Parallel()
	var r reader
	if !*alone {
		r = newReader(t, rig.Dev(t))
	}
	var skipped []string
	ran := 0
	for _, page := range pagesInOrder(t) {
		var run []block
		for _, b := range blocks(t, page) {
			switch {
			case b.skip != "":
				skipped = append(skipped, page+": "+b.skip)
			case b.language == "sh" || b.language == "sql":
				run = append(run, b)
			}
		}
		if len(run) == 0 {
			continue
		}
		ran += len(run)
		t.Run(page, func(t *testing.T) {
			if *alone {
				r = newReader(t, rig.Dev(t))
			}
			runPage(t, r, page, run)
		})
	}
	require.Equal(t, notRun, skipped)
	t.Logf("%d blocks of commands were run, %d were not", ran, len(skipped))
	require.Greater(t, ran, 60)
}

// What the pages show as a Map can be stored where `make dev` runs.
func TestMapsOfThePagesAreValid(t *testing.T) {
	t.Parallel()
	s := sharedDev().For(t)
	user, found := newReader(t, s).user(t), 0
	for _, page := range pagesInOrder(t) {
		for _, b := range blocks(t, page) {
			text := b.text
			if (b.language != "yaml" && b.language != "json") || !regexp.MustCompile(`(?m)^\s*"?steps"?:`).MatchString(text) {
				continue
			}
			if b.language == "yaml" && !strings.Contains(text, "schema_version") {
				text = "schema_version: \"1\"\nname: A part\n" + text
			}
			found++
			a := user.Do(http.MethodPost, "/v1/maps/validate", []byte(text), "Content-Type: application/"+b.language)
			var report struct {
				Valid    bool
				Errors   []json.RawMessage
				Warnings []struct{ Rule string }
			}
			a.Data(t, &report)
			require.True(t, report.Valid, "%s:%d: %s", page, b.line, report.Errors)
			for _, w := range report.Warnings {
				require.Contains(t, []string{"governance_hold", "governance_block"}, w.Rule, "%s:%d: %s", page, b.line, a.Body)
			}
		}
	}
	require.GreaterOrEqual(t, found, 3)
}

// pagesInOrder lists the pages as they are read: the first two, then the others, those of docs by
// their names without folders.
func pagesInOrder(t *testing.T) []string {
	t.Helper()
	first := []string{"README.md", "docs/use/getting-started.md"}
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "test/*.md"} {
		found, err := filepath.Glob(filepath.Join(rig.Root(), pattern))
		require.NoError(t, err)
		slices.SortFunc(found, func(a, b string) int { return cmp.Compare(filepath.Base(a), filepath.Base(b)) })
		for _, path := range found {
			page, err := filepath.Rel(rig.Root(), path)
			require.NoError(t, err)
			if !slices.Contains(first, page) {
				pages = append(pages, page)
			}
		}
	}
	return append(first, pages...)
}

var (
	fence = regexp.MustCompile("^( *)```(.*)$")
	mark  = regexp.MustCompile(`^ *<!-- (not run|given|runs until): (.+) -->$`)
)

// blocks reads the blocks of code of a page; an answer belongs to the block before it.
func blocks(t *testing.T, page string) []block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rig.Root(), page))
	require.NoError(t, err)
	var (
		list    []block
		open    *block
		next    block // with the marks before it
		indent  string
		content []string
	)
	for i, line := range strings.Split(string(text), "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			next.line, next.language = i+1, m[2]
			of := next
			open, next, indent, content = &of, block{}, m[1], nil
		case open == nil:
			next.mark(line)
		case m == nil:
			content = append(content, strings.TrimPrefix(line, indent))
		default:
			open.text = strings.Join(content, "\n") + "\n"
			if language, isAnswer := strings.CutSuffix(open.language, " answer"); isAnswer {
				require.NotEmpty(t, list, "%s:%d: an answer to nothing", page, open.line)
				last := &list[len(list)-1]
				require.Equal(t, "sh", last.language, "%s:%d: an answer to no command", page, open.line)
				last.answerLanguage, last.answer = language, open.text
			} else {
				list = append(list, *open)
			}
			open = nil
		}
	}
	require.Nil(t, open, "%s: a block does not end", page)
	return list
}

// mark reads a line before a block: its marks are the lines right before it.
func (b *block) mark(line string) {
	m := mark.FindStringSubmatch(line)
	switch {
	case m == nil:
		*b = block{}
	case m[1] == "not run":
		b.skip = m[2]
	case m[1] == "given":
		b.given = m[2]
	default:
		b.until = m[2]
	}
}

// runPage runs the blocks in one shell, as in one terminal. SQL goes to the database.
func runPage(t *testing.T, r reader, page string, run []block) {
	t.Helper()
	r.cleans(t)
	var script strings.Builder
	out := t.TempDir()
	for i, b := range run {
		if b.language == "sh" {
			calls := filepath.Join(out, fmt.Sprint(i, ".calls"))
			require.NoError(t, os.Mkdir(calls, 0o755))
			fmt.Fprintf(&script, "exec >%s/%d 2>&1\nexport CALLS=%s\n%s%s", out, i, calls, r.gives(t, b.given), b.command(filepath.Join(out, strconv.Itoa(i))))
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script.String())
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), "PATH="+r.shims+":"+os.Getenv("PATH"))
	said, failed := cmd.CombinedOutput()
	var last []byte // what the last block printed
	for i, b := range run {
		where := fmt.Sprintf("%s:%d", page, b.line)
		if b.language == "sql" {
			checkSQL(t, r.stack, where, b.text)
			continue
		}
		printed, err := os.ReadFile(filepath.Join(out, strconv.Itoa(i)))
		require.NoError(t, err, "%s: a block before it failed: %v %s%s", where, failed, said, last)
		last = printed
		checkPrinted(t, where, b, string(printed))
		checkStatuses(t, where, b, filepath.Join(out, fmt.Sprint(i, ".calls")), string(printed))
	}
	require.NoError(t, failed, "%s: the last block failed: %s", page, last)
}

// checkSQL executes the statements, and undoes them: other pages have the same database.
func checkSQL(t *testing.T, s *rig.Stack, where, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), statement)
	require.NoError(t, err, where)
	require.NoError(t, tx.Rollback(t.Context()))
}

// checkPrinted compares what a block printed with the page. Where the page says nothing,
// no answer may be a refusal.
func checkPrinted(t *testing.T, where string, b block, printed string) {
	t.Helper()
	if b.answerLanguage == "text" {
		want, got := strings.Split(b.answer, "\n"), strings.Split(printed, "\n")
		require.Len(t, got, len(want), "%s: it printed\n%s", where, printed)
		for i, line := range want {
			require.True(t, shows(line, got[i]), "%s: the page says %q, it printed %q", where, line, got[i])
		}
		return
	}
	answers := jsonOf(printed)
	if b.answerLanguage == "" {
		for _, a := range answers {
			if object, ok := a.(map[string]any); ok {
				require.NotEqual(t, false, object["success"], "%s: it printed\n%s", where, printed)
			}
		}
		return
	}
	require.NotEmpty(t, answers, "%s: it printed\n%s", where, printed)
	var want any
	require.NoError(t, json.Unmarshal([]byte(b.answer), &want), where)
	if path := differs(want, answers[len(answers)-1]); path != "" {
		require.Fail(t, "the page says otherwise", "%s: at %s; it printed\n%s", where, path, printed)
	}
}

// jsonOf reads the JSON values that a block printed, until something else comes.
func jsonOf(printed string) (values []any) {
	decoder := json.NewDecoder(strings.NewReader(printed))
	for {
		var v any
		if err := decoder.Decode(&v); err != nil {
			if errors.Is(err, io.EOF) {
				return values
			}
			return append(values, err.Error())
		}
		values = append(values, v)
	}
}

// differs returns where got is not what the page shows; "" where it is. The page may show
// some members of an object and leave out the end of a text: "appr_…".
func differs(want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return "/"
		}
		for name, value := range w {
			if path := differs(value, g[name]); path != "" {
				return "/" + name + strings.TrimSuffix(path, "/")
			}
		}
	case string:
		if g, ok := got.(string); !ok || !shows(w, g) {
			return "/"
		}
	default:
		if fmt.Sprint(want) != fmt.Sprint(got) {
			return "/"
		}
	}
	return ""
}

// shows reports whether a text of the page, in which … stands for anything, shows got.
func shows(want, got string) bool {
	parts := strings.Split(want, "…")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(got)
}
