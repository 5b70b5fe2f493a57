package mapdef

import "encoding/json"

// Fault is one thing that is wrong with a definition, or a warning about it.
type Fault struct {
	// Path is the JSON Pointer of the place in the definition.
	Path string `json:"path"`
	// Rule is the name of the rule that is broken.
	Rule string `json:"rule"`
	// Message says what is expected. It never repeats more than names.
	Message string `json:"message"`
}

// Read reads a definition from JSON. It returns all structural faults at once; the definition
// is nil where there are any.
func Read(source json.RawMessage) (*Definition, []Fault) { panic("not yet") }

// MarshalJSON returns the text that the definition was read from.
func (d *Definition) MarshalJSON() ([]byte, error) { return d.source, nil }

// UnmarshalJSON reads a stored definition.
func (d *Definition) UnmarshalJSON(source []byte) error { panic("not yet") }
