package cli

import (
	"cmp"
	"runtime/debug"
)

// commit is the commit of a build that has no repository beside it, as that of the image: the linker sets it.
//
//nolint:gochecknoglobals // the linker sets variables only
var commit string

// Version returns what the build says of this binary: the version of the module, the commit, its
// time, whether files were changed since, and the version of Go.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	said := map[string]string{}
	for _, setting := range info.Settings {
		said[setting.Key] = setting.Value
	}
	text := cmp.Or(info.Main.Version, "(devel)") + " " + info.GoVersion
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
