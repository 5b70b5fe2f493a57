package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"agentruntime/internal/base/fault"
)

// Validation collects everything that is wrong with a request, so that the caller can
// correct it at once. The zero value is ready. Paths are "/member" in the body,
// "query.name" and "header.Name".
type Validation struct{ details []fault.Detail }

// Add notes that what stands at path breaks a rule. message is for the caller.
func (v *Validation) Add(path, rule, message string) {
	v.details = append(v.details, fault.Detail{Path: path, Rule: rule, Message: message})
}

// Err returns a VALIDATION_ERROR with all that was added, nil where nothing was.
func (v *Validation) Err() error {
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

// Required requires a text and leaves its form to the domain.
func (v *Validation) Required(path string, s *string) string {
	if s == nil {
		v.Add(path, "required", path[1:]+" is required.")
		return ""
	}
	return *s
}

// Text requires a text of 1 to most characters.
func (v *Validation) Text(path string, s *string, most int) string {
	if s == nil {
		return v.Required(path, nil)
	}
	return v.OptionalText(path, s, 1, most)
}

// OptionalText checks that a text, where it is given, has low to high characters.
func (v *Validation) OptionalText(path string, s *string, low, high int) string {
	if s == nil {
		return ""
	}
	if n := utf8.RuneCountInString(*s); n < low || n > high {
		v.Add(path, "length", fmt.Sprintf("%s has %d to %d characters.", path[1:], low, high))
	}
	return *s
}

// OptionalID checks an id that the caller chose: 1 to 255 visible ASCII characters.
func (v *Validation) OptionalID(path string, s *string) string {
	if s == nil {
		return ""
	}
	if !VisibleASCII(*s, 255) {
		v.Add(path, "format", path[1:]+" is 1 to 255 visible ASCII characters.")
	}
	return *s
}

// Object checks a JSON object. An absent or null one that is not required becomes {}.
func (v *Validation) Object(path string, raw json.RawMessage, required bool) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		if required {
			v.Add(path, "required", path[1:]+" is required: an object, {} where there is nothing to say.")
		}
		return json.RawMessage("{}")
	case raw[0] != '{':
		v.Add(path, "type", path[1:]+" is an object.")
	}
	return raw
}

// Time requires a time in the form of RFC 3339, and returns it in UTC.
func (v *Validation) Time(path string, s *string) time.Time {
	if s == nil {
		v.Add(path, "required", path[1:]+" is required.")
		return time.Time{}
	}
	return v.parseTime(path, path[1:], *s)
}

// The years that a caller may name, in UTC. JSON has those up to 9999 alone: an offset leads out of them, and
// so do the hours and days that we add to a time.
const firstYear, lastYear = 1, 9998

func (v *Validation) parseTime(path, name, text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	t = t.UTC()
	switch {
	case err != nil:
		v.Add(path, "format", name+" is a time as in RFC 3339, for example 2026-01-31T09:00:00Z.")
	case t.Year() < firstYear || t.Year() > lastYear:
		v.Add(path, "range", fmt.Sprintf("%s is in the years %d to %d in UTC.", name, firstYear, lastYear))
	}
	return t
}
