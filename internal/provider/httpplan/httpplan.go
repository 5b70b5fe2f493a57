// Package httpplan says how the call of a verb becomes one HTTP request. The importer of
// documents makes a Plan, the catalog stores it as JSON, and the caller reads it. It builds
// nothing and sends nothing.
package httpplan

import (
	"encoding/json"
	"errors"
	"fmt"

	"agentruntime/internal/base/verb"
)

// Plan says how the call of a verb becomes a request. It is stored as JSON beside the verb.
// The names of its JSON fields are part of what is stored: add, never rename. It names no
// kind, because a plan without one is verb.KindHTTP: approvals are bound to a plan's hash.
type Plan struct {
	Method string `json:"method"`
	// Path is the template, percent-encoded apart from its {names}.
	Path string `json:"path"`
	// Query is the part of the template after a question mark.
	Query string `json:"query,omitempty"`
	// BaseURL is set where the operation has a server of its own.
	BaseURL string  `json:"base_url,omitempty"`
	Params  []Param `json:"params,omitempty"`
	Body    *Body   `json:"body,omitempty"`
	// Accept is the request's Accept header.
	Accept string `json:"accept,omitempty"`
	// Headers lists the headers that the document declares of successful answers.
	Headers []string `json:"headers,omitempty"`
	verb.PlanHead
}

// Places and styles of a parameter, as OpenAPI names them.
const (
	InPath   = "path"
	InQuery  = "query"
	InHeader = "header"
	InCookie = "cookie"

	StyleSimple = "simple"
	StyleLabel  = "label"
	StyleMatrix = "matrix"
	StyleForm   = "form"
	StyleSpace  = "spaceDelimited"
	StylePipe   = "pipeDelimited"
	StyleTab    = "tabDelimited" // tsv of Swagger 2.0
	StyleDeep   = "deepObject"
	// StyleJSON is a parameter or form field whose value is sent as JSON text.
	StyleJSON = "json"
)

// Param takes one argument to its place in the request.
type Param struct {
	// Arg is the argument's name, Name the name on the wire ("" if the same).
	Arg      string `json:"arg"`
	Name     string `json:"name,omitempty"`
	In       string `json:"in"`
	Style    string `json:"style"`
	Explode  bool   `json:"explode,omitempty"`
	Reserved bool   `json:"reserved,omitempty"`
}

// Wire returns the parameter's name in the request.
func (p Param) Wire() string {
	if p.Name != "" {
		return p.Name
	}
	return p.Arg
}

// Separator returns the text that separates the values of a parameter, "" where each stands by
// itself. encoded says that it is written apart from the same text within an item: a comma in one
// becomes %2C. A space and a pipe become in an item what they are between items. Within the names
// and values of an object no separator can be told apart.
func (p Param) Separator() (sep string, encoded bool) {
	exploded := p.Explode && p.In != InHeader
	switch {
	case p.Style == StyleJSON || p.Style == StyleDeep:
		return "", false
	case p.Style == StyleSimple || p.Style == "" && !exploded:
	case exploded && p.Style == StyleLabel:
		return ".", false
	case exploded && p.Style == StyleMatrix:
		return ";", true
	case exploded:
		return "", false
	case p.Style == StyleSpace:
		return " ", false
	case p.Style == StylePipe:
		return "|", false
	case p.Style == StyleTab:
		return "\t", false
	}
	return ",", p.In != InHeader && (!p.Reserved || p.In == InPath)
}

// Body encodings.
const (
	BodyJSON      = "json"
	BodyForm      = "form"
	BodyText      = "text"
	BodyBinary    = "binary"
	BodyMultipart = "multipart"
)

// Body says how the arguments that are no parameters are sent.
type Body struct {
	Type string `json:"type"` // the Content-Type
	Kind string `json:"kind"` // json, form, text, binary or multipart
	// Arg names the one argument that contains the whole body. Where it is "",
	// every argument that is no parameter is a member of the body.
	Arg      string `json:"arg,omitempty"`
	Required bool   `json:"required,omitempty"`
	// Fields says how a form's fields are written. A field that is absent has the default:
	// values as they are, lists repeated, objects as JSON.
	Fields map[string]Encoding `json:"fields,omitempty"`
	// Names lists the declared fields of a form where arguments may add others, or where
	// declared names look alike. Any other name counts as chosen by the caller. Of a JSON
	// body it lists the declared members that choose a method.
	Names []string `json:"names,omitempty"`
}

// Encoding is how one field of a form is written.
type Encoding struct {
	Style    string `json:"style,omitempty"`
	Explode  bool   `json:"explode,omitempty"`
	Reserved bool   `json:"reserved,omitempty"`
	// File marks a multipart field that is a file, given as base64.
	File bool `json:"file,omitempty"`
	// NameArg is the argument that names the file; "" where none does. Then the field's name is sent.
	NameArg string `json:"name_arg,omitempty"`
	// Type is the media type of a multipart field, "" for the default.
	Type string `json:"type,omitempty"`
}

// Parse reads a stored plan.
func Parse(raw json.RawMessage) (Plan, error) {
	var p Plan
	if err := json.Unmarshal(raw, &p); err != nil {
		return Plan{}, fmt.Errorf("read a verb's plan: %w", err)
	}
	if p.Method == "" || p.Path == "" {
		return Plan{}, errors.New("read a verb's plan: method or path is missing")
	}
	return p, nil
}
