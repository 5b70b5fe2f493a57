package cli

import (
	"cmp"
	"runtime/debug"
)

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
	if commit := said["vcs.revision"]; commit != "" {
		text += " commit " + commit + " of " + said["vcs.time"]
	}
	if said["vcs.modified"] == "true" {
		text += ", with changes"
	}
	return text
}
