package mapdef

import (
	"encoding/json"
	"slices"

	"agentruntime/internal/base/exactjson"
)

// Schema returns the JSON Schema (draft 2020-12) of definitions, for editors and for the
// reference in the docs. It is made of the table that Read checks against. What it accepts can
// still have faults: it does not know what an expression may read. id is the URL at which it
// is served.
func Schema(id string) json.RawMessage {
	defs := members{
		{"value", members{{"description", "Any JSON. Texts in it may contain expressions: ${ … }."}}},
		{"text", members{{"type", "string"}, {"description", "A text that may contain expressions: ${ … }."}}},
		{"condition", members{{"type", "string"}, {"pattern", `^\$\{[\s\S]*\}$`}, {"description", "One expression that results in true, false or null: ${ … }."}}},
		{"duration", members{{"type", "string"}, {"pattern", durationText}, {"description", "A whole number with a unit: 400ms, 30s, 5m, 2h, 7d. At most 366 days."}}},
		{"schema", members{{"type", []string{"object", "boolean"}}, {"description", "A JSON Schema (draft 2020-12), complete in itself."}}},
		{"steps", members{{"type", "array"}, {"items", reference("step")}}},
	}
	var anyOf []members
	for _, t := range Types() {
		anyOf = append(anyOf, reference("step_"+string(t)))
	}
	defs = append(defs, member{"step", members{{"type", "object"}, {"required", []string{"id", "type"}}, {"oneOf", anyOf}}})
	for _, t := range Types() {
		step := objectSchema(t.allFields())
		if t == TypeWait {
			step = append(step, member{"oneOf", []members{
				{{"required", []string{"for"}}}, {{"required", []string{"until"}}}, {{"required", []string{"event"}}},
			}})
		}
		defs = append(defs, member{"step_" + string(t), append(members{{"description", t.about()}}, step...)})
	}
	schema := members{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"$id", id}, {"title", "Map"}}
	schema = append(schema, objectSchema(definitionFields())...)
	raw, err := exactjson.Encode(append(schema, member{"$defs", defs}))
	if err != nil { // texts, numbers and lists are always JSON
		return json.RawMessage("true")
	}
	return raw
}

// allFields returns the members of steps of a type. A member of the type's own takes the place
// of one that all steps have: the timeout of an approval.
func (t Type) allFields() []field {
	own := t.fields()
	fields := slices.DeleteFunc(stepFields(), func(f field) bool {
		return slices.ContainsFunc(own, func(o field) bool { return o.name == f.name })
	})
	for i := range fields {
		if fields[i].name == "type" {
			fields[i].shape.enum = []string{string(t)}
		}
	}
	return append(fields, own...)
}

// members is a JSON object that keeps its order.
type members []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in their order.
func (m members) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, e := range m {
		if i > 0 {
			out = append(out, ',')
		}
		value, err := exactjson.Encode(e.value)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, exactjson.Text(e.name)...), ':'), value...)
	}
	return append(out, '}'), nil
}

func reference(name string) members { return members{{"$ref", "#/$defs/" + name}} }

func objectSchema(fields []field) members {
	properties, required := members{}, []string{}
	for _, f := range fields {
		properties = append(properties, member{f.name, append(members{{"description", f.about}}, f.shape.schema()...)})
		if f.required {
			required = append(required, f.name)
		}
	}
	schema := members{{"type", "object"}, {"properties", properties}}
	if len(required) > 0 {
		schema = append(schema, member{"required", required})
	}
	return append(schema, member{"additionalProperties", false})
}

// schema returns the keywords of a shape.
func (s shape) schema() members {
	m := s.keywords()
	if s.otherwise != "" {
		m = append(m, member{"default", json.RawMessage(s.otherwise)})
	}
	return m
}

func (s shape) keywords() members {
	switch s.kind {
	case templateShape:
		return append(reference("text"), member{"minLength", 1}, member{"maxLength", s.most})
	case conditionShape:
		return reference("condition")
	case durationShape:
		return reference("duration")
	case valueShape:
		return reference("value")
	case schemaShape:
		return reference("schema")
	case stepsShape:
		return reference("steps")
	case flagShape:
		return members{{"type", "boolean"}}
	case wholeShape:
		return s.bounded("integer", "minimum", "maximum")
	case numberShape:
		return s.bounded("number", "minimum", "maximum")
	case objectShape:
		return objectSchema(s.fields)
	case listShape:
		return append(s.bounded("array", "minItems", "maxItems"), member{"items", s.of.schema()})
	case namesShape:
		return append(s.bounded("object", "minProperties", "maxProperties"),
			member{"propertyNames", members{{"pattern", s.pattern}}}, member{"additionalProperties", reference("value")})
	default:
		return s.textKeywords()
	}
}

func (s shape) bounded(kind, least, most string) members {
	m := members{{"type", kind}}
	if s.least > 0 {
		m = append(m, member{least, s.least})
	}
	if s.most > 0 {
		m = append(m, member{most, s.most})
	}
	return m
}

func (s shape) textKeywords() members {
	switch {
	case len(s.enum) == 1:
		return members{{"const", s.enum[0]}}
	case len(s.enum) > 0:
		return members{{"type", "string"}, {"enum", s.enum}}
	case s.pattern != "":
		return members{{"type", "string"}, {"pattern", s.pattern}, {"maxLength", s.most}}
	default:
		return members{{"type", "string"}, {"minLength", 1}, {"maxLength", s.most}}
	}
}
