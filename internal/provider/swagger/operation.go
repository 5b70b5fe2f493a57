package swagger

import (
	"fmt"
	"slices"
	"strings"

	"agentruntime/internal/provider/httpplan"
)

// Media types of forms.
const (
	formType      = "application/x-www-form-urlencoded"
	multipartType = "multipart/form-data"
	jsonType      = "application/json"
)

// operation is one operation on its way to OpenAPI 3.0.
type operation struct {
	*converter

	out      map[string]any
	consumes []string
	notes    Notes
	bodies   []map[string]any
	fields   []map[string]any // of a form
}

func (o *operation) lose(format string, args ...any) {
	o.notes.Lost = append(o.notes.Lost, fmt.Sprintf(format, args...))
}

func (o *operation) reject(why string) {
	if o.notes.Rejected == "" {
		o.notes.Rejected = why
	}
}

// setServers keeps the schemes of an operation that the document's first server does not have.
func (o *operation) setServers(schemes []string) {
	own, whole := o.servers(schemes), o.servers(texts(o.Root["schemes"]))
	if len(own) == 0 || len(whole) > 0 && text(object(own[0]), "url") == text(object(whole[0]), "url") {
		return
	}
	o.out["servers"] = own
}

// parameters converts the parameters of the path and of the operation, which override them by
// name and place.
func (o *operation) parameters(item, node map[string]any) {
	var list []map[string]any
	at := map[string]int{}
	var broken []any
	for _, owner := range []map[string]any{item, node} {
		entries, _ := owner["parameters"].([]any)
		for _, entry := range entries {
			if !o.Spend(3) {
				return
			}
			p, err := o.resolve(entry)
			if !o.Spend(parameterWork + memberWork*len(p)) {
				return
			}
			if err != nil {
				broken = append(broken, o.kept(entry)) // the importer says what is wrong
				continue
			}
			key := text(p, "in") + " " + text(p, "name")
			if text(p, "in") == "body" {
				key = "body"
			}
			if i, again := at[key]; again {
				list[i] = p
				continue
			}
			at[key] = len(list)
			list = append(list, p)
		}
	}
	out := broken
	for _, p := range list {
		switch text(p, "in") {
		case "body":
			o.bodies = append(o.bodies, p)
		case "formData":
			o.fields = append(o.fields, p)
		default:
			if converted := o.parameter(p); converted != nil {
				out = append(out, converted)
			}
		}
	}
	if len(out) > 0 {
		o.out["parameters"] = out
	}
	o.setBody()
}

// ofParameter are the members of a parameter that are not about its values.
func ofParameter(key string) bool {
	return slices.Contains([]string{"name", "in", "description", "required", "allowEmptyValue", "collectionFormat", "schema"}, key)
}

// parameter converts a parameter that is no body; nil where it cannot be sent.
func (o *operation) parameter(p map[string]any) map[string]any {
	out := map[string]any{}
	for _, key := range []string{"name", "in", "description", "required"} {
		if p[key] != nil {
			out[key] = p[key]
		}
	}
	for key, value := range p {
		if strings.HasPrefix(key, "x-") {
			out[key] = value
		}
	}
	schema := o.valuesOf(p)
	out["schema"] = schema
	if text(schema, "type") != "array" {
		return out
	}
	in := text(p, "in")
	style, explode, known := styleOf(text(p, "collectionFormat"))
	switch {
	case !known:
		o.lose("the parameter %s has a collectionFormat that is not known; commas separate its items", clip(text(p, "name")))
		style, explode, _ = styleOf("")
		fallthrough
	case in == "query":
		out["style"], out["explode"] = style, explode
	case style != httpplan.StyleForm || explode:
		why := fmt.Sprintf("the items of its %s parameter %s are separated by no comma, which no style can say", in, clip(text(p, "name")))
		if required, _ := p["required"].(bool); required || in == "path" {
			o.reject(why)
		}
		o.lose("a parameter is dropped: %s", why)
		return nil
	}
	if in != "query" {
		delete(out, "style")
		delete(out, "explode")
	}
	o.checkInner(p)
	return out
}

// checkInner reports a list inside of a list that is not written as OpenAPI 3.0 writes it.
func (o *operation) checkInner(p map[string]any) {
	items := object(p["items"])
	if text(items, "type") == "array" {
		o.lose("the parameter %s is a list of lists, whose inner lists have no separator of their own", clip(text(p, "name")))
	}
}

// styleOf returns the style of a collectionFormat.
func styleOf(format string) (style string, explode, known bool) {
	switch format {
	case "", "csv":
		return httpplan.StyleForm, false, true
	case "multi":
		return httpplan.StyleForm, true, true
	case "ssv":
		return httpplan.StyleSpace, false, true
	case "pipes":
		return httpplan.StylePipe, false, true
	case "tsv":
		return httpplan.StyleTab, false, true
	default:
		return "", false, false
	}
}

// valuesOf returns the schema of a parameter's values.
func (o *operation) valuesOf(p map[string]any) map[string]any {
	if schema, ok := p["schema"].(map[string]any); ok && p["type"] == nil {
		o.schema(schema)
		return schema
	}
	schema := map[string]any{}
	for key, value := range p {
		if !ofParameter(key) {
			schema[key] = value
		}
	}
	o.schema(schema)
	return schema
}

// setBody makes the body of a parameter in body, or of the fields of a form.
func (o *operation) setBody() {
	switch {
	case len(o.bodies) > 0 && len(o.fields) > 0:
		o.reject("it has a body and fields of a form, and a request has one of them")
	case len(o.bodies) > 0:
		o.setJSON(o.bodies[0])
	case len(o.fields) > 0:
		o.setForm()
	}
}

// content has the same entry for each media type. What is made here is larger than what the document says
// in one list for all operations, so it counts as work.
func (o *operation) content(media []string, entry map[string]any) map[string]any {
	content := map[string]any{}
	for _, name := range media {
		if !o.Spend(1) {
			break
		}
		content[name] = entry
	}
	return content
}

func (o *operation) setJSON(p map[string]any) {
	media := o.consumes
	if len(media) == 0 {
		media = []string{jsonType}
	}
	schema, ok := p["schema"]
	if !ok {
		schema = map[string]any{}
	}
	o.schema(schema)
	body := map[string]any{"content": o.content(media, map[string]any{"schema": schema})}
	for key, value := range p {
		if key == "description" || key == "required" || strings.HasPrefix(key, "x-") {
			body[key] = value
		}
	}
	o.out["requestBody"] = body
}

// setForm makes an object of the fields. With a file it is multipart. Otherwise the operation
// says what it is, and a plain form is preferred.
func (o *operation) setForm() {
	file := slices.ContainsFunc(o.fields, func(p map[string]any) bool { return text(p, "type") == "file" })
	media := formType
	if file || slices.Contains(o.consumes, multipartType) && !slices.Contains(o.consumes, formType) {
		media = multipartType
	}
	props, encoding, required := map[string]any{}, map[string]any{}, []any{}
	for _, p := range o.fields {
		name := text(p, "name")
		schema := o.valuesOf(p)
		if d := text(p, "description"); d != "" {
			schema["description"] = d
		}
		props[name] = schema
		if needed, _ := p["required"].(bool); needed {
			required = append(required, name)
		}
		if text(schema, "type") != "array" {
			continue
		}
		style, explode, known := styleOf(text(p, "collectionFormat"))
		switch {
		case !known:
			o.lose("the field %s has a collectionFormat that is not known; commas separate its items", clip(name))
			style, explode, _ = styleOf("")
		case media == multipartType && !explode:
			o.lose("the list %s of a multipart body is sent as one part for each item", clip(name))
		}
		encoding[name] = map[string]any{"style": style, "explode": explode}
		o.checkInner(p)
	}
	schema := map[string]any{"type": "object", "properties": props}
	if len(required) > 0 {
		schema["required"] = required
	}
	entry := map[string]any{"schema": schema}
	if len(encoding) > 0 {
		entry["encoding"] = encoding
	}
	o.out["requestBody"] = map[string]any{"required": len(required) > 0, "content": map[string]any{media: entry}}
}

// responses keeps what the answers are made of. Nothing else of them counts for calls.
func (o *operation) responses(node map[string]any) map[string]any {
	media, own := o.produces, false
	if list, has := node["produces"]; has {
		media, own = mediaTypes(list), true
	}
	if len(media) == 0 {
		media = []string{jsonType}
	}
	var content map[string]any // of all answers
	out := map[string]any{}
	for status, value := range object(node["responses"]) {
		if !o.Spend(responseWork) {
			break
		}
		response, err := o.resolve(value)
		if err != nil {
			out[status] = o.kept(value)
			continue
		}
		converted := map[string]any{"description": text(response, "description")}
		if response["schema"] != nil || own {
			if content == nil {
				content = o.content(media, map[string]any{})
			}
			converted["content"] = content
		}
		out[status] = converted
	}
	return out
}
