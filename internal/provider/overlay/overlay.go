// Package overlay reads OpenAPI Overlay documents, 1.0 and 1.1, and applies them to a document
// that is a tree of JSON values. The importer uses it. It does no I/O, and what it does is bounded.
package overlay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
)

// Bounds of an overlay.
const (
	// MaxBytes is the most bytes of an overlay as JSON.
	MaxBytes = 256 << 10
	// MaxActions is the most actions of an overlay.
	MaxActions = 1000
	// maxPath is the longest JSONPath, in bytes.
	maxPath = 2048
)

// Fault is what is wrong with an overlay. Path is a JSON pointer in it.
type Fault struct { //nolint:errname // named like the faults of rules
	Path, Rule, Message string
}

// Error implements error.
func (f *Fault) Error() string { return f.Path + ": " + f.Message }

// Overlay is an overlay that was checked.
type Overlay struct {
	// primitives: an update may replace texts, numbers and booleans. It is so from 1.1 on.
	primitives bool
	actions    []action
}

// action is one change. It has one of remove, update and copy; an earlier one counts.
type action struct {
	at     string // its JSON pointer in the overlay
	target string
	remove bool
	update any
	copy   string // "" where there is an update
}

// None reports whether raw is no overlay: absent or null.
func None(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// Read checks an overlay. It returns at least one fault, or the overlay.
func Read(raw json.RawMessage) (*Overlay, []Fault) {
	if len(raw) > MaxBytes {
		return nil, []Fault{{"", "size", fmt.Sprintf("An overlay has at most %d bytes.", MaxBytes)}}
	}
	tree, err := exactjson.Decode(raw)
	root, ok := tree.(map[string]any)
	if err != nil || !ok {
		return nil, []Fault{{"", "type", "An overlay is an object."}}
	}
	r := &reader{}
	o := r.overlay(root)
	if len(r.faults) > 0 {
		return nil, r.faults
	}
	return o, nil
}

type reader struct{ faults []Fault }

func (r *reader) fail(path, rule, format string, args ...any) {
	r.faults = append(r.faults, Fault{path, rule, fmt.Sprintf(format, args...)})
}

func (r *reader) overlay(root map[string]any) *Overlay {
	o := &Overlay{}
	version, _ := root["overlay"].(string)
	first := version == "1.0" || strings.HasPrefix(version, "1.0.")
	o.primitives = version == "1.1" || strings.HasPrefix(version, "1.1.")
	if !first && !o.primitives {
		r.fail("/overlay", "version", "overlay is the version of the overlay: 1.0.0 or 1.1.0.")
	}
	r.members("", root, "overlay", "info", "extends", "actions")
	info, _ := root["info"].(map[string]any)
	for _, name := range []string{"title", "version"} {
		if text, _ := info[name].(string); text == "" {
			r.fail("/info/"+name, "required", "An overlay names its %s.", name)
		}
	}
	actions, ok := root["actions"].([]any)
	switch {
	case !ok || len(actions) == 0:
		r.fail("/actions", "required", "actions is a list with at least one action.")
	case len(actions) > MaxActions:
		r.fail("/actions", "max_items", "actions has at most %d entries.", MaxActions)
		return o
	}
	for i, entry := range actions {
		o.actions = append(o.actions, r.action(fmt.Sprintf("/actions/%d", i), entry, o.primitives))
	}
	return o
}

// members refuses names that the object may not have. Those of extensions begin with x-.
func (r *reader) members(path string, object map[string]any, known ...string) {
	names := map[string]bool{}
	for _, name := range known {
		names[name] = true
	}
	for _, name := range sortedKeys(object) {
		if !names[name] && !strings.HasPrefix(name, "x-") {
			r.fail(path+"/"+fault.PointerToken(name), "unknown_field", "unknown field")
		}
	}
}

func (r *reader) action(path string, entry any, copies bool) action {
	a := action{at: path}
	object, ok := entry.(map[string]any)
	if !ok {
		r.fail(path, "type", "An action is an object.")
		return a
	}
	known := []string{"target", "description", "update", "remove"}
	if copies {
		known = append(known, "copy")
	} else if _, has := object["copy"]; has {
		r.fail(path+"/copy", "version", "copy needs an overlay of version 1.1.0.")
	}
	r.members(path, object, append(known, "copy")...)
	a.target = r.path(path+"/target", object["target"])
	if remove, given := object["remove"]; given {
		if a.remove, ok = remove.(bool); !ok {
			r.fail(path+"/remove", "type", "remove is true or false.")
		}
	}
	update, updates := object["update"]
	source, copying := object["copy"]
	switch {
	case a.remove:
	case updates:
		a.update = update
	case copying && copies:
		a.copy = r.path(path+"/copy", source)
	case !copying:
		r.fail(path, "required", "An action has update, remove or copy.")
	}
	return a
}

func (r *reader) path(at string, value any) string {
	text, ok := value.(string)
	switch {
	case !ok || text == "":
		r.fail(at, "required", "A JSONPath is required, for example $.paths['/orders'].get.")
		return ""
	case len(text) > maxPath:
		r.fail(at, "maxLength", "A JSONPath has at most %d bytes.", maxPath)
		return ""
	}
	if _, err := parsePath(text, nil); err != nil {
		r.fail(at, "jsonpath", "%s", sentence(err))
	}
	return text
}

// sentence returns an error as a message to users.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
