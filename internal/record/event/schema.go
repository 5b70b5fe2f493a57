package event

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"time"
)

// A schema is the JSON Schema of a struct's fields, made of their tags: `json` has the name,
// and omitempty or omitzero means that the member may be absent; `about` is the description;
// `enum` lists the values of a text.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        string             `json:"type,omitempty"`
	Const       string             `json:"const,omitempty"`
	Format      string             `json:"format,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`

	order []string // the names of Properties
}

func schemaOf(s Spec) *schema {
	out := object(reflect.TypeFor[head]())
	body := object(reflect.TypeOf(s.sample.Body))
	maps.Copy(out.Properties, body.Properties)
	out.Required = append(out.Required, body.Required...)
	if s.Type == CustomAny {
		out.Properties["event"].Pattern = customType.String()
	} else {
		out.Properties["event"].Const = string(s.Type)
	}
	out.Schema, out.Title, out.Description = "https://json-schema.org/draft/2020-12/schema", string(s.Type), s.When
	return out
}

func object(t reflect.Type) *schema {
	out := &schema{Type: "object", Properties: map[string]*schema{}}
	out.add(t)
	return out
}

// add adds the fields of the struct, those of its embedded structs included.
func (o *schema) add(t reflect.Type) {
	for f := range t.Fields() {
		if f.Anonymous {
			o.add(f.Type)
			continue
		}
		if !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		member := value(f.Type)
		if _, may := f.Tag.Lookup("any"); may {
			member = &schema{} // it may be any JSON, and null
		}
		member.Description = f.Tag.Get("about")
		if list, has := f.Tag.Lookup("enum"); has {
			member.Enum = strings.Split(list, ",")
		}
		o.Properties[name] = member
		o.order = append(o.order, name)
		if options == "" {
			o.Required = append(o.Required, name)
		}
	}
}

func value(t reflect.Type) *schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &schema{Type: "string", Format: "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return &schema{Type: "object"}
	case t.Kind() == reflect.Pointer:
		return value(t.Elem())
	case t.Kind() == reflect.Slice:
		return &schema{Type: "array", Items: value(t.Elem())}
	case t.Kind() == reflect.Struct:
		return object(t)
	case t.Kind() == reflect.Bool:
		return &schema{Type: "boolean"}
	case t.Kind() == reflect.String:
		return &schema{Type: "string"}
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return &schema{Type: "integer"}
	}
	panic("event: no schema for " + t.String())
}

// Members returns the names of the members that are the type's own, in the order of an event.
func (s Spec) Members() []string { return object(reflect.TypeOf(s.sample.Body)).order }

// CommonMembers returns the names of the members of all types, in the order of an event.
func CommonMembers() []string { return object(reflect.TypeFor[head]()).order }
