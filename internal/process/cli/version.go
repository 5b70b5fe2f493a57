package cli

import (
	"cmp"
	"runtime/debug"
)

// commit is the commit of a build that has no repository beside it, as that of the image, or that may not
// look for it: the linker sets it.
//
//nolint:gochecknoglobals // the linker sets variables only
var commit string

const (
	unversioned = "(devel)" // what Go calls a module of which it knows no version
	shortCommit = 12        // letters, as in Go's own pseudo-versions
)

// Version returns what the build says of this binary: the version of the module, or the beginning of the
// commit where Go knows none, the commit, its time, whether files were changed since, and the version of Go.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	said := map[string]string{}
	for _, setting := range info.Settings {
		said[setting.Key] = setting.Value
	}
	version := info.Main.Version
	if version == "" || version == unversioned {
		version = cmp.Or(commit[:min(len(commit), shortCommit)], unversioned)
	}
	text := version + " " + info.GoVersion
	switch revision := said["vcs.revision"]; {
	case revision != "":
		text += " commit " + revision + " of " + said["vcs.time"]
	case commit != "":
		text += " commit " + commit
	}
	if said["vcs.modified"] == "true" {
		text += ", with changes"
	}
	return text
}
