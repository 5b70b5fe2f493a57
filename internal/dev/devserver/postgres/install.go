package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// install is one set of Postgres binaries.
type install struct {
	bin   string // directory with initdb and postgres
	major int    // for example 15
}

// minMajor is the oldest release with everything the service's schema uses.
const minMajor = 14

// ErrNotInstalled says that no usable Postgres was found, and how to get one.
var ErrNotInstalled = errors.New("no Postgres server found")

// findInstall returns the install of the given major release, or the newest one
// where major is 0.
func findInstall(ctx context.Context, major int) (install, error) {
	var found []install
	for _, dir := range candidateDirs(ctx) {
		if in, ok := probe(ctx, dir); ok {
			found = append(found, in)
		}
	}
	slices.SortStableFunc(found, func(a, b install) int { return b.major - a.major })
	for _, in := range found {
		if in.major == major || major == 0 && in.major >= minMajor {
			return in, nil
		}
	}
	if major != 0 {
		return install{}, fmt.Errorf("%w of release %d, with which the data directory was made: install it, or delete the data directory to start again",
			ErrNotInstalled, major)
	}
	return install{}, fmt.Errorf("%w (release %d or later): install it with `%s`", ErrNotInstalled, minMajor, installCommand())
}

// candidateDirs lists the directories where packages put the server's binaries;
// some distributions keep them out of PATH.
func candidateDirs(ctx context.Context) []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real // initdb is beside the real file, not beside the link
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, string(bytes.TrimSpace(out)))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // RHEL, Fedora (PGDG)
		"/usr/libexec/postgresql*",  // Alpine
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
		"/usr/local/pgsql/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		matches, _ := filepath.Glob(pattern) // the only error is a bad pattern
		dirs = append(dirs, matches...)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// probe asks the server's binary for its release; initdb must be beside it.
func probe(ctx context.Context, dir string) (install, bool) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return install{}, false
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return install{}, false
	}
	major, ok := parseMajor(string(out))
	return install{bin: dir, major: major}, ok
}

// parseMajor reads "postgres (PostgreSQL) 15.14 (Debian …)" and "17beta1".
func parseMajor(version string) (int, bool) {
	_, rest, ok := strings.Cut(version, "(PostgreSQL) ")
	if !ok {
		return 0, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	major, err := strconv.Atoi(rest[:end])
	return major, err == nil
}

func installCommand() string {
	if runtime.GOOS == "darwin" {
		return "brew install postgresql@17"
	}
	for _, manager := range [][2]string{
		{"apt-get", "apt-get install postgresql"},
		{"dnf", "dnf install postgresql-server"},
		{"apk", "apk add postgresql"},
		{"pacman", "pacman -S postgresql"},
		{"zypper", "zypper install postgresql-server"},
	} {
		if _, err := exec.LookPath(manager[0]); err == nil {
			return manager[1]
		}
	}
	return "apt-get install postgresql"
}
