package openapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"agentruntime/internal/base/httpfield"
)

// fileSchema describes a file as an argument: JSON carries it as base64, which the format byte checks
// before anything is sent.
func fileSchema(node map[string]any) map[string]any {
	description := strings.TrimSpace(text(node, "description") + " File content as base64.")
	return map[string]any{"type": "string", "contentEncoding": "base64", "format": "byte", "description": description}
}

// isFile reports whether a schema stands for raw bytes: format binary in OpenAPI
// 3.0, a string with a media type of its own and no encoding in 3.1.
func (o *operation) isFile(node any) (map[string]any, bool) {
	n, err := o.im.doc.object(node)
	if err != nil {
		return nil, false
	}
	media := text(n, "contentMediaType")
	return n, text(n, "format") == "binary" || (media != "" && !httpfield.IsJSON(media) && text(n, "contentEncoding") == "")
}

// takeFiles rewrites the file fields of a multipart body.
func (o *operation) takeFiles(flat *object) {
	body := o.plan.Body
	names := map[string]any{}
	for name, node := range flat.props {
		n, file := o.isFile(node)
		items, list := n["items"]
		if !file && list {
			if element, ok := o.isFile(items); ok {
				n, file = map[string]any{"type": "array", "items": fileSchema(element)}, true
			}
		} else if file {
			n = fileSchema(n)
		}
		if !file {
			continue
		}
		enc := body.Fields[name]
		enc.File = true
		if arg := name + "_filename"; usableName(arg) && flat.props[arg] == nil && o.props[arg] == nil {
			enc.NameArg, names[arg] = arg, nameSchema(name, n["type"] == "array")
		}
		body.Fields[name] = enc
		flat.props[name] = n
		o.scratch.lose("files of the body are given as base64")
	}
	maps.Copy(flat.props, names)
}

// nameSchema describes the argument that names a file, or the files of a list in their order.
func nameSchema(field string, list bool) map[string]any {
	one := map[string]any{"type": "string", "minLength": json.Number("1"), "maxLength": json.Number("200")}
	if list {
		return map[string]any{"type": "array", "items": one, "description": "Names of the files of " + field + ", in their order, such as invoice.pdf."}
	}
	one["description"] = "Name of the file " + field + ", such as invoice.pdf."
	return one
}

// takeBinary makes one base64 argument of a body of raw bytes.
func (o *operation) takeBinary(schema any) any {
	n, err := o.im.doc.object(schema)
	if err != nil {
		n = map[string]any{}
	}
	o.scratch.lose("the body is given as base64")
	return fileSchema(n)
}

// partType is the media type of a multipart field that an encoding names, ""
// where it is a choice or malformed.
func partType(declared string) string {
	media := httpfield.MediaType(declared)
	if media == "" || strings.ContainsAny(declared, ",*") {
		return ""
	}
	return media
}

// isXML reports whether a media type is XML, which arguments cannot be turned
// into without losing their names' meaning.
func isXML(media string) bool {
	return slices.Contains([]string{"application/xml", "text/xml"}, media) || strings.HasSuffix(media, "+xml")
}
