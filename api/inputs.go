package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
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

// keyField reads an id of the fence's namespace where it is given.
func keyField(path string, s *string) (string, error) {
	if s == nil {
		return "", nil
	}
	return wire.IdempotencyKeyOf(path, *s)
}

// queryCaller reads a query parameter in the form of byCaller; nil where it is absent.
func queryCaller(v *wire.Validation, c *wire.Call, name string) *actor.Caller {
	raw, given := c.Query(name)
	if !given {
		return nil
	}
	who, is := actor.ParseCaller(raw)
	if !is {
		v.Add("query."+name, "format", name+" is key:<id> or user:<id>.")
		return nil
	}
	return &who
}

// optionalTime reads a time that may be left out.
func optionalTime(v *wire.Validation, path string, text *string) *time.Time {
	if text == nil {
		return nil
	}
	at := v.Time(path, text).UTC().Truncate(time.Microsecond)
	return &at
}
