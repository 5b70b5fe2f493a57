package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// text is what a person reads in a file: a page without its code, a comment, a message of
// the product, or a description of the API.
type text struct {
	path string // from the root, with slashes
	line int
	text string
	// opening: it is the comment of a package.
	opening bool
}

func TestWhatPeopleReadIsInPlainWords(t *testing.T) {
	t.Parallel()
	for _, x := range texts(t) {
		for _, fault := range faults(x) {
			t.Errorf("%s:%d: %s", x.path, x.line, fault)
		}
	}
}

func TestPagesWrapAt100Columns(t *testing.T) {
	t.Parallel()
	const most = 100
	for _, page := range pages(t) {
		name := strings.TrimPrefix(path.Join("docs", filepath.ToSlash(page)), "/")

		// Blank lines take the place of the code, so that lines keep their numbers.
		text := fences.ReplaceAllStringFunc(read(t, page), func(code string) string { return strings.Repeat("\n", strings.Count(code, "\n")) })
		for i, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > most && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d: %d columns, at most %d", name, i+1, n, most)
			}
		}
	}
}

// faults lists what is wrong with the words of a text.
func faults(x text) []string {
	var found []string
	for _, s := range sentences(x.text) {
		if word := forbidden.FindString(s); word != "" {
			found = append(found, quoted("say it in other words: "+word, s))
		}
		for _, i := range noMore.FindAllStringIndex(s, -1) {
			if !strings.HasPrefix(strings.ToLower(s[i[1]:]), " than") {
				found = append(found, quoted("say no longer, or no further", s))
			}
		}
		if word := wrongHold(s); word != "" {
			found = append(found, quoted(word+`: "hold" means that a call waits for approval, and nothing else`, s))
		}
		const most = 40 // words
		if x.opening && len(strings.Fields(s)) > most {
			found = append(found, quoted("a sentence of more than 40 words", s))
		}
	}
	return found
}

func quoted(fault, sentence string) string {
	const most = 120
	if r := []rune(sentence); len(r) > most {
		sentence = string(r[:most]) + "…"
	}
	return fault + ": " + sentence
}

var (
	// forbidden are words that a reader of plain English stumbles over.
	forbidden = regexp.MustCompile(`(?i)\b(he|him|his|himself|whoever|whomever|somebody|anew)\b`)
	noMore    = regexp.MustCompile(`(?i)\bno more\b`)
	word      = regexp.MustCompile(`[A-Za-z_']+`)
	spaces    = regexp.MustCompile(`\s+`)
	ends      = regexp.MustCompile(`[.?!][")]*\s|\n\s*\n|\n\s*([-*|]|\d+\.) |\|`)
)

// sentences splits a text at full stops, empty lines, list items and cells of tables.
func sentences(text string) []string {
	var list []string
	for _, s := range ends.Split(text+"\n", -1) {
		if s = strings.TrimSpace(spaces.ReplaceAllString(s, " ")); s != "" {
			list = append(list, s)
		}
	}
	return list
}

var (
	// held are the things that wait for approval.
	held = strings.Fields(`call calls run runs it them write writes refund refunds request requests execution executions action
		actions verb verbs one ones order orders dry_run steps step`)
	// before a noun: "the hold", "a first hold".
	articles = strings.Fields(`a an the this that each every no any one of first second next new longer such on during after before between
		per under without and or for with about to's from`)
	// others are what is kept, true, taken or compared: never "held".
	others = strings.Fields(`lock locks mutex connection connections slot slots semaphore memory against together back open true fast`)
)

// wrongHold returns the first use of "hold" in another sense than waiting for approval,
// or "". After the verb there must be something that can wait. The word before tells a
// noun.
func wrongHold(sentence string) string {
	const near = 4
	words := word.FindAllString(strings.ToLower(strings.ReplaceAll(sentence, `"hold"`, "")), -1)
	for i, w := range words {
		if !slices.Contains([]string{"hold", "holds", "holding", "held"}, w) {
			continue
		}
		next := words[i+1 : min(len(words), i+1+near)]
		around := words[max(0, i-2):min(len(words), i+3)]
		in := func(list []string) func(string) bool {
			return func(w string) bool { return slices.Contains(list, w) }
		}
		switch {
		case w == "held" && len(next) > 0 && slices.Contains(held, next[0]):
		case slices.ContainsFunc(around, in(others)):
			return strings.Join(around, " ")
		case w == "held", i == 0, slices.Contains(articles, words[i-1]), strings.HasPrefix(words[i-1], "polic"):
			// Passive, the name that the comment is of, a noun, or what a policy does.
		case !slices.ContainsFunc(next, in(held)):
			return strings.Join(words[max(0, i-1):min(len(words), i+3)], " ")
		}
	}
	return ""
}

// firstUnreleased is the number of the first migration that may still be edited.
const firstUnreleased = "00012"

// texts reads the comments of all Go and SQL files, the messages of the product, the
// descriptions of the API and all pages, but what is generated and the migrations that are
// released.
func texts(t *testing.T) []text {
	t.Helper()
	var list []text
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		rel := strings.TrimPrefix(filepath.ToSlash(file), "../")
		if d.IsDir() {
			if name == "node_modules" || name == "testdata" || name == "bin" || rel == "db/dbsqlc" || len(name) > 2 && name[0] == '.' {
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(name) {
		case ".go":
			list = append(list, goTexts(t, file, rel)...)
		case ".sql":
			if !strings.HasPrefix(rel, "db/migrations/") || name >= firstUnreleased {
				list = append(list, sqlComments(t, file, rel)...)
			}
		case ".yaml":
			if strings.HasPrefix(rel, "api/openapi/") {
				list = append(list, descriptions(t, file, rel)...)
			}
		case ".md":
			list = append(list, text{path: rel, line: 1, text: withoutCode(read(t, file))})
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, list)
	return list
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(raw)
}

// goTexts returns the comments of a file, and its messages where it is no test.
func goTexts(t *testing.T, file, rel string) []text {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, nil, parser.ParseComments)
	require.NoError(t, err)
	if ast.IsGenerated(parsed) {
		return nil
	}
	var list []text
	for _, group := range parsed.Comments {
		list = append(list, text{path: rel, line: files.Position(group.Pos()).Line, text: group.Text(), opening: group == parsed.Doc})
	}
	if strings.HasSuffix(rel, "_test.go") {
		return list
	}
	tables := strings.HasPrefix(rel, "internal/agents/language/") // of words and codes of many languages
	ast.Inspect(parsed, func(n ast.Node) bool {
		if _, is := n.(*ast.CompositeLit); is && tables {
			return false
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			message, err := strconv.Unquote(lit.Value)
			require.NoError(t, err)
			list = append(list, text{path: rel, line: files.Position(lit.Pos()).Line, text: message})
		}
		return true
	})
	return list
}

// descriptions returns the summaries and descriptions in a part of the API's document.
func descriptions(t *testing.T, file, rel string) []text {
	t.Helper()
	var root yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(read(t, file)), &root))
	var list []text
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		for i, child := range n.Content {
			walk(child)
			if n.Kind != yaml.MappingNode || i%2 == 0 || child.Kind != yaml.ScalarNode {
				continue
			}
			if name := n.Content[i-1].Value; name == "summary" || name == "description" {
				list = append(list, text{path: rel, line: child.Line, text: withoutCode(child.Value)})
			}
		}
	}
	walk(&root)
	require.NotEmpty(t, list, rel)
	return list
}

// sqlComments joins comments on lines that follow each other.
func sqlComments(t *testing.T, file, rel string) []text {
	t.Helper()
	var list []text
	last := -1
	for i, line := range strings.Split(read(t, file), "\n") {
		_, comment, found := strings.Cut(line, "--")
		comment = strings.TrimSpace(comment)
		switch {
		case !found || strings.HasPrefix(comment, "+goose") || strings.HasPrefix(comment, "name:"):
			continue
		case last == i-1 && len(list) > 0:
			list[len(list)-1].text += "\n" + comment
		default:
			list = append(list, text{path: rel, line: i + 1, text: comment})
		}
		last = i
	}
	return list
}

func TestPlainWordsFindsWhatIsNot(t *testing.T) {
	t.Parallel()
	for sentence, want := range map[string]bool{
		"The policy holds the call until it is approved":        true,
		"A held run ends when its approval expires":             true,
		"Calls that are held wait for an hour":                  true,
		"The hold ends with the approval":                       true,
		"No more than ten calls run at once":                    true,
		"They wait no longer":                                   true,
		"The history has this in it":                            true,
		"He approves":                                           false,
		"Whoever asks gets an answer":                           false,
		"It is asked anew":                                      false,
		"The key is valid no more":                              false,
		"The call is held against the policy":                   false,
		"It holds the row against what was asked":               false,
		"The sealer holds the lock for a second":                false,
		"The lock is held by one process":                       false,
		"The name may hold anything":                            false,
		"All that it was bound to still holds":                  false,
		"The table holds a row for each":                        false,
		"What a condition says must hold for every value in it": false,
	} {
		require.Equal(t, want, len(faults(text{text: sentence})) == 0, "%s: %v", sentence, faults(text{text: sentence}))
	}
	require.NotEmpty(t, faults(text{text: strings.Repeat("word ", 41), opening: true}))
	require.Empty(t, faults(text{text: strings.Repeat("word ", 41)}))
	require.Empty(t, faults(text{text: strings.Repeat("word ", 40), opening: true}))
}
