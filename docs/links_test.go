package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// pages lists all documents of the project, from this folder.
func pages(t *testing.T) []string {
	t.Helper()
	return append(pagesHere(t), "../README.md", "../ARCHITECTURE.md", "../CONTRIBUTING.md", "../test/README.md")
}

// pagesHere lists the pages of this folder and of those below it.
func pagesHere(t *testing.T) (list []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "*/*.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		list = append(list, found...)
	}
	return list
}

func TestLinksAllLeadToAPageAndItsHeading(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, match := range link.FindAllStringSubmatch(withoutCode(string(text)), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			target := page
			if match[1] != "" {
				target = filepath.Join(filepath.Dir(page), match[1])
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s: %s", page, match[1])
			if anchor := strings.TrimPrefix(match[2], "#"); anchor != "" {
				require.Contains(t, anchors(t, target), anchor, "%s: %s%s", page, match[1], match[2])
			}
		}
	}
}

// anchors lists the anchors of a page's headings, as GitHub makes them.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var list []string
	seen := map[string]int{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ +(.*)$`).FindAllStringSubmatch(withoutFences(string(text)), -1) {
		anchor := slug(heading[1])
		if n := seen[anchor]; n > 0 {
			list = append(list, anchor+"-"+strconv.Itoa(n))
		} else {
			list = append(list, anchor)
		}
		seen[anchor]++
	}
	return list
}

// slug keeps letters, digits, hyphens and underscores of a heading, in lower case, and
// turns blanks into hyphens.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, strings.TrimSpace(heading))
}

func TestSlugIsAsGitHubMakesIt(t *testing.T) {
	t.Parallel()
	for heading, want := range map[string]string{
		"What it costs":           "what-it-costs",
		"`POST /v1/x`, in short":  "post-v1x-in-short",
		"Snake_case - and dashes": "snake_case---and-dashes",
	} {
		require.Equal(t, want, slug(heading))
	}
}

func TestIndexNamesEveryPage(t *testing.T) {
	t.Parallel()
	index := read(t, "README.md")
	for _, page := range pagesHere(t) {
		if page != "README.md" {
			require.Contains(t, index, "("+page+")")
		}
	}
}

// fences is the fenced code of a page.
var fences = regexp.MustCompile("(?ms)^ *```.*?^ *```$")

// withoutFences removes the fenced code of a page.
func withoutFences(text string) string {
	return fences.ReplaceAllString(text, "")
}

// withoutCode removes the fenced code and the code within lines.
func withoutCode(text string) string {
	return regexp.MustCompile("`[^`]*`").ReplaceAllString(withoutFences(text), "CODE")
}
