package openapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/provider/httpplan"
)

// maxAllOf bounds how deep allOf may nest in a body that is taken apart.
const maxAllOf = 16

// addBody chooses a media type and makes arguments of the body.
func (o *operation) addBody() error {
	entry, has := o.node["requestBody"]
	if !has {
		return nil
	}
	node, err := o.im.doc.object(entry)
	if err != nil {
		return reason("its body cannot be read: " + err.Error())
	}
	content := field(node, "content")
	required, _ := flag(node, "required")
	if len(content) == 0 || !o.im.doc.spend(2*len(content)) {
		return o.im.doc.err
	}
	if o.method == http.MethodGet || o.method == http.MethodHead {
		return o.dropBody(content, required)
	}
	media, kind, other := chooseMedia(content)
	if kind == "" {
		if required {
			return reason("its body has no supported media type")
		}
		o.scratch.lose("the optional body has no supported media type and is not sent")
		return nil
	}
	if other {
		o.scratch.lose("a media type of the body is not supported; another is used")
	}
	o.plan.Body = &httpplan.Body{Type: sentType(media), Kind: kind, Required: required}
	err = o.takeApart(field(content, media))
	if err != nil && !required {
		o.plan.Body = nil
		o.scratch.lose("the optional body is not sent: " + err.Error())
		return nil
	}
	return err
}

// dropBody ignores the body of a GET, which HTTP gives no meaning.
func (o *operation) dropBody(content map[string]any, required bool) error {
	if required {
		return reason("a read with a required body is not supported")
	}
	for _, name := range sortedKeys(content) {
		schema, err := o.im.doc.object(field(content, name)["schema"])
		if err != nil || len(field(schema, "properties")) > 0 {
			o.scratch.lose("the optional body of a read is not sent")
		}
	}
	return nil
}

// chooseMedia picks the media type to send, by the order of preference of
// bodyKind, and reports whether there is one that could not be sent.
func chooseMedia(content map[string]any) (media, kind string, other bool) {
	best := len(bodyKinds())
	for _, name := range sortedKeys(content) {
		rank := slices.Index(bodyKinds(), bodyKind(name))
		if rank < 0 {
			other = true
			continue
		}
		if rank < best {
			best, media, kind = rank, name, bodyKinds()[rank]
		}
	}
	return media, kind, other
}

// bodyKinds lists how a body can be written, the preferred one first.
func bodyKinds() []string {
	return []string{httpplan.BodyJSON, httpplan.BodyForm, httpplan.BodyMultipart, httpplan.BodyText, httpplan.BodyBinary}
}

// bodyKind says how a body of the media type is written, "" if it cannot be.
func bodyKind(name string) string {
	media := httpfield.MediaType(name)
	switch {
	case httpfield.IsJSON(media), media == "*/*", media == "application/*":
		return httpplan.BodyJSON
	case media == "application/x-www-form-urlencoded":
		return httpplan.BodyForm
	case media == "multipart/form-data":
		return httpplan.BodyMultipart
	case media == "", isXML(media), strings.HasPrefix(media, "multipart/"):
		return ""
	case strings.HasPrefix(media, "text/"):
		return httpplan.BodyText
	}
	return httpplan.BodyBinary
}

// sentType is the Content-Type of a chosen media type.
func sentType(name string) string {
	media := httpfield.MediaType(name)
	switch {
	case bodyKind(name) == httpplan.BodyJSON && strings.Contains(media, "*"):
		return "application/json"
	case strings.Contains(media, "*"):
		return httpfield.Octets
	case strings.HasPrefix(media, "text/") && media != "text/json":
		return media + "; charset=utf-8"
	}
	return media
}

// takeApart makes an argument of each property of an object body. A body that is
// no such object, or has a property named like a parameter, becomes one argument.
func (o *operation) takeApart(media map[string]any) error {
	body := o.plan.Body
	schema, has := media["schema"]
	if !has {
		schema = map[string]any{}
	}
	if body.Kind == httpplan.BodyForm || body.Kind == httpplan.BodyMultipart {
		body.Fields = o.encodings(field(media, "encoding"))
	}
	taken, mayLack := o.takeMembers(schema)
	if taken {
		return nil
	}
	if body.Kind == httpplan.BodyMultipart {
		return reason("its multipart body is not an object whose properties can be arguments")
	}
	if n, err := o.im.doc.object(schema); err == nil {
		body.Names = o.formNames(sortedKeys(field(n, "properties")), false)
	}
	body.Arg = "body"
	for o.props[body.Arg] != nil {
		body.Arg = "request_" + body.Arg
	}
	if body.Kind == httpplan.BodyBinary {
		schema = o.takeBinary(schema)
	}
	converted := o.im.conv.value(schema, o.scratch)
	if body.Kind == httpplan.BodyForm {
		converted = o.formObject(converted, schema)
	}
	o.props[body.Arg] = converted
	if body.Required && !mayLack {
		o.required = append(o.required, body.Arg)
	}
	return nil
}

// takeMembers makes an argument of each property of a body, where these are known and have names of their
// own. mayLack: the body without an argument is {}.
func (o *operation) takeMembers(schema any) (taken, mayLack bool) {
	body := o.plan.Body
	if body.Kind != httpplan.BodyJSON && body.Kind != httpplan.BodyForm && body.Kind != httpplan.BodyMultipart {
		return false, false
	}
	ch := o.subtypesOfBody(schema)
	if ch != nil && o.takeSubtypes(ch) {
		return true, false
	}
	flat := &object{props: map[string]any{}}
	flat.read = ch == nil && o.readObject(schema, flat, 0)
	switch {
	case flat.read && len(flat.props) > 0 && !o.clashes(flat):
		if body.Kind == httpplan.BodyMultipart {
			o.takeFiles(flat)
		}
		o.withoutCredentials(flat)
		o.addObject(flat)
		body.Names = o.formNames(sortedKeys(flat.props), flat.closed || flat.extra == nil)
		return true, false
	case body.Kind == httpplan.BodyForm:
		return o.emptyForm(schema), false
	case body.Kind == httpplan.BodyJSON && flat.mayBeEmpty():
		return flat.closed, true // a closed one has {} as its only value, and is sent without an argument
	}
	return false, false
}

// emptyForm reports whether a form is declared to have no fields (Stripe's
// document has one on every operation that takes nothing).
func (o *operation) emptyForm(schema any) bool {
	n, err := o.im.doc.object(schema)
	if err != nil || n["additionalProperties"] != false || len(field(n, "properties")) > 0 {
		return false
	}
	if !o.plan.Body.Required {
		o.plan.Body = nil
	}
	return true
}

// object is a body's schema with its allOf branches merged.
type object struct {
	props    map[string]any
	required []string
	extra    any   // additionalProperties, nil where it is not said
	closed   bool  // additionalProperties is false somewhere
	choices  []any // anyOf and oneOf groups that only require properties
	atLeast  uint64
	lost     bool // minProperties or maxProperties could not be kept
	read     bool // the whole schema was read
	said     bool // it says somewhere that its value is an object: {} alone would be any value
}

// readObject merges node into flat and reports whether it can be taken apart.
func (o *operation) readObject(node any, flat *object, depth int) bool {
	n, err := o.im.doc.object(node)
	if ref, is := refOf(node); is && o.im.conv.subtypes(ref) != nil {
		n, _ = withoutForms(n).(map[string]any)
	}
	if err != nil || depth > maxAllOf || !saysObject(n) || !o.im.doc.spend(2+len(n)) {
		return false
	}
	flat.said = flat.said || onlyObject(n)
	for name, value := range n {
		switch name {
		case "properties":
			props, ok := value.(map[string]any)
			if !ok || !o.addProps(props, flat) {
				return false
			}
		case "required":
			flat.required = append(flat.required, o.im.conv.requiredNames(value, n)...)
		case "additionalProperties":
			flat.setExtra(value)
		case "anyOf", "oneOf":
			if !onlyRequires(value) {
				return false
			}
			flat.choices = append(flat.choices, map[string]any{name: value})
		case "allOf":
			list, _ := value.([]any)
			for _, branch := range list {
				if !o.readObject(branch, flat, depth+1) {
					return false
				}
			}
		case "minProperties":
			flat.setAtLeast(value)
		case "maxProperties":
			flat.lost = true
		case "not", "if", "patternProperties", "propertyNames", "dependentSchemas", "dependentRequired",
			"unevaluatedProperties", "enum", "const":
			return false
		}
	}
	return true
}

// mayBeEmpty reports whether {} is a value of an object that lists no properties.
func (f *object) mayBeEmpty() bool {
	return f.read && f.said && len(f.props) == 0 && len(f.required) == 0 && len(f.choices) == 0 && f.atLeast == 0
}

func (f *object) setExtra(value any) {
	if value == false {
		f.closed = true
		return
	}
	f.extra = value
}

func (f *object) setAtLeast(value any) {
	if n, ok := count(value); ok {
		least, err := strconv.ParseUint(n.String(), 10, 31)
		if err == nil {
			f.atLeast = max(f.atLeast, least)
		}
	}
}

// addProps merges properties; one that two branches describe must fit both.
func (o *operation) addProps(props map[string]any, flat *object) bool {
	for name, node := range props {
		if !usableName(name) || !o.im.doc.spend(1) {
			return false
		}
		if o.im.conv.readOnly(node) {
			continue
		}
		if before, twice := flat.props[name]; twice {
			node = map[string]any{"allOf": []any{before, node}}
		}
		flat.props[name] = node
	}
	return true
}

// saysObject reports whether a schema's type is object, or not said.
func saysObject(n map[string]any) bool {
	switch t := n["type"].(type) {
	case nil:
		return true
	case string:
		return t == "object"
	case []any:
		return slices.Contains(t[:min(len(t), maxTypes)], any("object"))
	}
	return false
}

// onlyObject reports whether a schema says that its value is an object, or null, and nothing else.
func onlyObject(n map[string]any) bool {
	switch t := n["type"].(type) {
	case nil:
		return n["properties"] != nil
	case []any:
		return len(t) <= maxTypes && !slices.ContainsFunc(t, func(name any) bool { return name != "object" && name != "null" })
	default:
		return true // saysObject has looked at it
	}
}

// onlyRequires reports whether each branch of anyOf or oneOf does nothing but
// require properties, so that it means the same among the arguments.
func onlyRequires(value any) bool {
	list, ok := value.([]any)
	for _, branch := range list {
		n, isObject := branch.(map[string]any)
		if !isObject || !saysObject(n) {
			return false
		}
		for key := range n {
			if key != "required" && key != "type" && key != "title" && key != "description" {
				return false
			}
		}
	}
	return ok
}

func (o *operation) clashes(flat *object) bool {
	for name := range flat.props {
		if o.props[name] != nil {
			return true
		}
	}
	return false
}

// addObject makes an argument of each property, and keeps what else the body requires of
// them.
func (o *operation) addObject(flat *object) {
	names := sortedKeys(flat.props)
	for _, name := range names {
		o.props[name] = o.im.conv.value(flat.props[name], o.scratch)
		if o.isForm() {
			enc, declared := o.plan.Body.Fields[name]
			o.props[name] = o.im.conv.limit(o.props[name], flat.props[name], sendableField(enc, declared))
		}
	}
	for _, name := range flat.required {
		if flat.props[name] != nil || flat.extra != nil {
			o.required = append(o.required, name)
		}
	}
	if flat.extra != nil && !flat.closed {
		extra := o.im.conv.value(flat.extra, o.scratch)
		if o.isForm() {
			extra = o.im.conv.limit(extra, flat.extra, sendableField(httpplan.Encoding{}, false))
		}
		o.extra["additionalProperties"] = extra
	}
	var all []any
	for _, choice := range flat.choices {
		all = append(all, o.im.conv.schema(choice, o.scratch, true))
	}
	if flat.atLeast == 1 && flat.extra == nil && len(flat.required) == 0 {
		all = append(all, anyOfThem(names))
	} else if flat.atLeast > uint64(len(flat.required)) {
		flat.lost = true
	}
	if len(all) > 0 {
		o.extra["allOf"] = all
	}
	if flat.lost {
		o.scratch.lose("how many properties the body has is not checked")
	}
}

// anyOfThem returns the schema of "at least one of these properties".
func anyOfThem(names []string) any {
	list := make([]any, len(names))
	for i, name := range names {
		list[i] = map[string]any{"required": []string{name}}
	}
	return map[string]any{"anyOf": list}
}

// encodings reads how a form's fields are written.
func (o *operation) encodings(node map[string]any) map[string]httpplan.Encoding {
	out := map[string]httpplan.Encoding{}
	for _, name := range sortedKeys(node) {
		if !o.im.doc.spend(2) {
			break
		}
		entry := field(node, name)
		enc := httpplan.Encoding{Style: text(entry, "style")}
		if enc.Style != "" && !slices.Contains(stylesOf(httpplan.InQuery), enc.Style) {
			o.scratch.lose("a form field has a style that is not known; the default is used")
			enc.Style = ""
		}
		explode, given := flag(entry, "explode")
		enc.Explode = explode || (!given && (enc.Style == httpplan.StyleForm || enc.Style == ""))
		enc.Reserved, _ = flag(entry, "allowReserved")
		if given && enc.Style == "" {
			enc.Style = httpplan.StyleForm
		}
		if enc.Style == "" && httpfield.IsJSON(httpfield.MediaType(text(entry, "contentType"))) {
			enc.Style = httpplan.StyleJSON
		}
		if o.plan.Body.Kind == httpplan.BodyMultipart {
			enc = httpplan.Encoding{Type: partType(text(entry, "contentType"))}
		}
		out[name] = enc
	}
	return out
}
