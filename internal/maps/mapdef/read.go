package mapdef

import (
	"encoding/json"
	"errors"
	"fmt"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/strictjson"
)

// Fault is one thing that is wrong with a definition, or a warning about it.
type Fault struct {
	// Path is the JSON Pointer of the place in the definition.
	Path string `json:"path"`
	// Rule is the name of the rule that is broken.
	Rule string `json:"rule"`
	// Message says what is expected. It repeats names at most, shortened.
	Message string `json:"message"`
}

// MaxJSONDepth is how deep a definition may nest as JSON: eight blocks take up to five levels
// each, and arguments have as many as those of a call.
const MaxJSONDepth = 128

// Read reads a definition from JSON of at most MaxBytes. It returns all that is wrong with
// its form at once: members, types, lengths, expressions that cannot be read. The definition
// is never nil, so that Check can go on with what could be read. It is whole only where there
// are no faults.
func Read(source []byte) (*Definition, []Fault) {
	f := &faults{}
	d := &Definition{source: source}
	if len(source) > MaxBytes {
		f.addf("", "maxLength", "a definition has at most %d bytes", MaxBytes)
		return d, f.list
	}
	if err := strictjson.Check(source, strictjson.Options{Free: []string{""}, MaxDepth: MaxJSONDepth}); err != nil {
		f.list = append(f.list, jsonFaults(err)...)
		return d, f.list
	}
	tree, err := exactjson.Tree(source)
	if err != nil {
		f.add("", "syntax", "is not JSON")
		return d, f.list
	}
	if tree.Kind != exactjson.ObjectNode {
		f.add("", ruleType, "must be an object")
		return d, f.list
	}
	checkFields(tree, "", definitionFields(), f)
	r := &builder{faults: f}
	r.definition(d, tree)
	d.zeros = r.zeros
	d.size = sizeOfText*len(source) + sizeOfExpressions*r.parsed
	return d, f.list
}

// How many bytes of memory a byte of the text takes, and one more of an expression: its parts, and
// what it is compiled to.
const (
	sizeOfText        = 12
	sizeOfExpressions = 150
)

// Size returns about how many bytes of memory the definition takes.
func (d *Definition) Size() int { return d.size }

// jsonFaults turns the refusal of the strict reader into faults.
func jsonFaults(err error) []Fault {
	refusal := fault.As(err)
	if refusal == nil || len(refusal.Details) == 0 {
		return []Fault{{"", "syntax", "is not JSON"}}
	}
	var list []Fault
	for _, d := range refusal.Details {
		list = append(list, Fault{d.Path, d.Rule, d.Message})
	}
	return list
}

// Source returns the text that the definition was read from, which nobody may change.
func (d *Definition) Source() json.RawMessage { return d.source }

// MarshalJSON returns the text that the definition was read from.
func (d *Definition) MarshalJSON() ([]byte, error) {
	if d.source == nil {
		return nil, errors.New("write a definition: it was not read from JSON")
	}
	return d.source, nil
}

// UnmarshalJSON reads a definition that was stored.
func (d *Definition) UnmarshalJSON(source []byte) error {
	read, list := Read(append(json.RawMessage(nil), source...))
	if len(list) > 0 {
		return fmt.Errorf("read a stored definition: %s %s", list[0].Path, list[0].Message)
	}
	*d = *read
	return nil
}
