package api

import (
	"bytes"
	"encoding/json"
	"strings"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
)

// dryRunFlag returns whether any of the accepted places asks for a dry run. Anything but a
// boolean is an error: "true" in quotes must not run for real, and we do not guess. In
// metadata, case, hyphens and underscores of the name do not count. A boolean there whose
// name begins with "dry" and is no flag is an error too, because it looks like one.
func dryRunFlag(v *wire.Validation, metadata, top, topSnake json.RawMessage) bool {
	on := readFlag(v, "/dryRun", top)
	on = readFlag(v, "/dry_run", topSnake) || on
	var members map[string]json.RawMessage
	_ = json.Unmarshal(metadata, &members) // Object has reported metadata that is no object
	for name, raw := range members {
		folded := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
		path := "/metadata/" + fault.PointerToken(name)
		switch value := string(bytes.TrimSpace(raw)); {
		case folded == "dryrun":
			on = readFlag(v, path, raw) || on
		case strings.HasPrefix(folded, "dry") && (value == "true" || value == "false"):
			v.Add(path, "unknown_field", "it looks like the dry-run flag; that is named dryRun.")
		}
	}
	return on
}

// readFlag reads one place of the flag; an absent one says no.
func readFlag(v *wire.Validation, path string, raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "true":
		return true
	case "", "false":
	default:
		v.Add(path, "type", "the dry-run flag is true or false.")
	}
	return false
}
