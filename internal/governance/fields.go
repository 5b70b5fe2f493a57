package governance

import "encoding/json"

// Fields knows which argument paths a schema has.
type Fields struct{}

// NewFields reads a verb's JSON Schema.
func NewFields(json.RawMessage) *Fields { return &Fields{} }

func (f *Fields) find([]segment) (bool, kind) { return false, kindAny }

func (f *Fields) secret([]segment) bool { return false }
