package arch

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostCodeLines bounds a Go file, tests included: beyond it a file does several things.
const mostCodeLines = 500

func TestFilesStayShort(t *testing.T) {
	t.Parallel()
	for _, file := range sourceFiles(t) {
		path := filepath.Join(root, file.path)
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		require.NoError(t, err)
		if ast.IsGenerated(parsed) {
			continue
		}
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		if n := codeLines(source); n > mostCodeLines {
			t.Errorf("%s has %d lines of code: split it by subject, at most %d", file.path, n, mostCodeLines)
		}
	}
}

// codeLines counts the lines that have code on them, without blank ones and comments.
func codeLines(source []byte) int {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	lines := map[int]bool{}
	for {
		pos, kind, text := s.Scan()
		if kind == token.EOF {
			return len(lines)
		}
		if kind == token.SEMICOLON && text == "\n" {
			continue // the scanner's own
		}
		first := file.Line(pos)
		for line := first; line <= file.Line(pos+token.Pos(len(text))); line++ {
			lines[line] = true
		}
	}
}

func TestCodeLinesLeaveBlanksAndCommentsOut(t *testing.T) {
	t.Parallel()
	source := "// Package p is short.\npackage p\n\n/* a\nb */\nvar x = `one\n\ntwo` // three\n\nfunc f() {\n\t// nothing\n}\n"
	require.Equal(t, 6, codeLines([]byte(source)))
}
