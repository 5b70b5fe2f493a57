package deploycheck

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/process/cli"
)

// instruction is a line of the Dockerfile, continuations joined.
type instruction struct{ name, args string }

func dockerfile(t *testing.T) []instruction {
	t.Helper()
	var all []instruction
	text := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(read(t, "Dockerfile"), " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		all = append(all, instruction{strings.ToUpper(name), strings.TrimSpace(args)})
	}
	require.NotEmpty(t, all)
	return all
}

// final returns the instructions of the last stage, its FROM included.
func final(t *testing.T) []instruction {
	t.Helper()
	all := dockerfile(t)
	last := 0
	for i, step := range all {
		if step.name == "FROM" {
			last = i
		}
	}
	return all[last:]
}

// only returns the arguments of the one instruction of that name in the last stage.
func only(t *testing.T, name string) string {
	t.Helper()
	var found []string
	for _, step := range final(t) {
		if step.name == name {
			found = append(found, step.args)
		}
	}
	require.Len(t, found, 1, name)
	return found[0]
}

// execForm decodes ["a", "b"]; the shell form needs a shell, and the image has none.
func execForm(t *testing.T, args string) []string {
	t.Helper()
	var words []string
	require.NoError(t, json.Unmarshal([]byte(args), &words), args)
	return words
}

func TestBaseImages(t *testing.T) {
	t.Parallel()
	goVersion := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, "go.mod"))
	require.NotNil(t, goVersion)
	require.Equal(t, "FROM golang:"+goVersion[1]+"-bookworm AS build", "FROM "+dockerfile(t)[0].args, "built with the Go of go.mod")
	require.Equal(t, "scratch", only(t, "FROM"))
}

func TestImageRunsAsUnprivilegedUser(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^[1-9]\d*:[1-9]\d*$`, only(t, "USER"), "by number: the image has no passwd file")
}

func TestImageHasNoSecretAndNoSource(t *testing.T) {
	t.Parallel()
	for _, step := range dockerfile(t) {
		if step.name == "ARG" && step.args == `COMMIT=""` {
			continue // what --version says
		}
		require.NotContains(t, []string{"ENV", "ARG", "ADD"}, step.name, "configuration comes when the container starts")
	}
	for _, step := range final(t) {
		if step.name == "COPY" {
			require.True(t, strings.HasPrefix(step.args, "--from=build "), "COPY %s", step.args)
		}
	}
}

func TestImageStartsAndProbesWithoutAShell(t *testing.T) {
	t.Parallel()
	var commands []string
	for _, command := range cli.Commands() {
		commands = append(commands, command.Name())
	}
	entrypoint := execForm(t, only(t, "ENTRYPOINT"))
	require.Len(t, entrypoint, 1)
	require.Subset(t, commands, execForm(t, only(t, "CMD")))
	_, probe, found := strings.Cut(only(t, "HEALTHCHECK"), " CMD ")
	require.True(t, found)
	words := execForm(t, probe)
	require.Equal(t, entrypoint[0], words[0])
	require.Subset(t, commands, words[1:])
}

func TestBinaryIsStatic(t *testing.T) {
	t.Parallel()
	require.True(t, slices.ContainsFunc(dockerfile(t), func(step instruction) bool {
		return step.name == "RUN" && strings.Contains(step.args, "CGO_ENABLED=0 go build")
	}))
}

// The build context is a list of what goes in, and a new top-level package must be
// on it.
func TestBuildContextHasEveryPackageOfTheBinary(t *testing.T) {
	t.Parallel()
	var admitted []string
	for line := range strings.Lines(read(t, ".dockerignore")) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			admitted = append(admitted, name)
		}
	}
	require.Contains(t, admitted, "go.mod")
	require.Contains(t, admitted, "go.sum")
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/agentruntime")
	command.Dir = root
	out, err := command.Output()
	require.NoError(t, err)
	for path := range strings.FieldsSeq(string(out)) {
		if local, ok := strings.CutPrefix(path, "agentruntime/"); ok {
			top, _, _ := strings.Cut(local, "/")
			require.Contains(t, admitted, top)
		}
	}
}
