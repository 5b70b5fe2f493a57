package mapdef

import (
	"encoding/json"

	"agentruntime/internal/base/yamljson"
)

// maxYAMLValues bounds the values of a definition in YAML, its lines and separators counted. The
// bytes allow for more than the parser has memory for.
const maxYAMLValues = 100_000

// FromYAML returns the JSON of a definition that was written in YAML, for Read. It takes the
// part of YAML that means the same as JSON: one document, without anchors, aliases, tags and
// merge keys. A plain scalar is null, true, false, a number as JSON writes it, or a text.
func FromYAML(source []byte) (json.RawMessage, []Fault) {
	out, wrong := yamljson.Convert(source, yamljson.Options{What: "a definition", MaxBytes: MaxBytes, MaxJSON: MaxBytes, MaxDepth: MaxJSONDepth, MaxValues: maxYAMLValues})
	f := &faults{}
	for _, w := range wrong {
		f.add(w.Path, w.Rule, w.Message)
	}
	return out, f.list
}
