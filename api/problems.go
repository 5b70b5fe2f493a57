package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"agentruntime/internal/kernel/fault"
)

// problems gathers everything that is wrong with a request, so that a caller fixes
// it in one go.
type problems struct{ details []fault.Detail }

func (v *problems) add(path, rule, message string) {
	v.details = append(v.details, fault.Detail{Path: path, Rule: rule, Message: message})
}

// err returns the VALIDATION_ERROR, nil where nothing is wrong.
func (v *problems) err() error {
	if len(v.details) == 0 {
		return nil
	}
	f := fault.New(fault.CodeValidation, "")
	if len(v.details) == 1 {
		f.Message = v.details[0].Message
	}
	f.Details = v.details
	return f
}

// text requires a text of 1 to most characters.
func (v *problems) text(path string, s *string, most int) string {
	if s == nil {
		v.add(path, "required", path[1:]+" is required.")
		return ""
	}
	return v.optionalText(path, s, 1, most)
}

// optionalText checks a text of low to high characters where there is one.
func (v *problems) optionalText(path string, s *string, low, high int) string {
	if s == nil {
		return ""
	}
	if n := utf8.RuneCountInString(*s); n < low || n > high {
		v.add(path, "length", fmt.Sprintf("%s has %d to %d characters.", path[1:], low, high))
	}
	return *s
}

// queryText reads a query parameter that is compared with a stored text, which
// Postgres keeps as UTF-8 without NUL.
func (v *problems) queryText(c *call, name string) string {
	s, _ := c.query(name)
	if storable(s) != s {
		v.add("query."+name, "format", name+" is text in UTF-8 without NUL.")
	}
	return s
}

// optionalID checks an id of the caller's: 1 to 255 visible ASCII characters.
func (v *problems) optionalID(path string, s *string) string {
	if s == nil {
		return ""
	}
	if !wellFormedID(*s, 255) {
		v.add(path, "format", path[1:]+" is 1 to 255 visible ASCII characters.")
	}
	return *s
}

// object checks a JSON object; an absent or null one that is not required is {}.
func (v *problems) object(path string, raw json.RawMessage, required bool) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		if required {
			v.add(path, "required", path[1:]+" is required: an object, {} where there is nothing to say.")
		}
		return json.RawMessage("{}")
	case raw[0] != '{':
		v.add(path, "type", path[1:]+" is an object.")
	}
	return raw
}
