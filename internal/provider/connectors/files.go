package connectors

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strings"
)

const octets = "application/octet-stream"

// base64Pattern is what a file argument must look like, so that the schema
// refuses the rest before anything is sent.
const base64Pattern = `^[A-Za-z0-9+/]*={0,2}$`

// fileSchema describes a file as an argument: JSON carries it as base64.
func fileSchema(node map[string]any) map[string]any {
	description := strings.TrimSpace(text(node, "description") + " File content as base64.")
	return map[string]any{"type": "string", "contentEncoding": "base64", "pattern": base64Pattern, "description": description}
}

// isFile reports whether a schema stands for raw bytes: format binary in OpenAPI
// 3.0, a string with a media type of its own and no encoding in 3.1.
func (o *operation) isFile(node any) (map[string]any, bool) {
	n, err := o.im.doc.object(node)
	if err != nil {
		return nil, false
	}
	media := text(n, "contentMediaType")
	return n, text(n, "format") == "binary" || (media != "" && !isJSON(media) && text(n, "contentEncoding") == "")
}

// takeFiles rewrites the file fields of a multipart body.
func (o *operation) takeFiles(flat *object) {
	body := o.plan.Body
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
		body.Fields[name] = enc
		flat.props[name] = n
		o.scratch.lose("files of the body are given as base64")
	}
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

// binary decodes a base64 argument.
func binary(arg string, v any) ([]byte, error) {
	encoded, ok := v.(string)
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return nil, invalid(arg, "contentEncoding", "must be base64")
	}
	return raw, nil
}

// multipart writes the body's fields as multipart/form-data. The boundary is a
// hash of the fields: the same call makes the same bytes.
func (b *builder) multipart(names []string) ([]byte, error) {
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	if err := w.SetBoundary(boundary(names, b.values)); err != nil {
		return nil, fmt.Errorf("write a multipart body: %w", err)
	}
	for _, name := range names {
		v, _, err := b.value(name)
		if err != nil {
			return nil, err
		}
		values, repeated := v.([]any)
		if !repeated {
			values = []any{v}
		}
		for _, e := range values {
			if err := b.part(w, name, e); err != nil {
				return nil, err
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write a multipart body: %w", err)
	}
	b.header.Set("Content-Type", w.FormDataContentType())
	return out.Bytes(), nil
}

// part writes one field: a file, an object as JSON, or text.
func (b *builder) part(w *multipart.Writer, name string, v any) error {
	enc := b.plan.Body.Fields[name]
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", "%0D", "\n", "%0A").Replace(name)
	header := textproto.MIMEHeader{}
	disposition, media := `form-data; name="`+quoted+`"`, enc.Type
	content := []byte(scalar(v))
	if enc.File {
		var err error
		if content, err = binary(name, v); err != nil {
			return err
		}
		disposition += `; filename="` + quoted + `"`
		if media == "" {
			media = octets
		}
	} else if _, isObject := v.(map[string]any); isObject && media == "" {
		media = "application/json"
	}
	header.Set("Content-Disposition", disposition)
	if media != "" {
		header.Set("Content-Type", media)
	}
	part, err := w.CreatePart(header)
	if err == nil {
		_, err = part.Write(content)
	}
	if err != nil {
		return fmt.Errorf("write a multipart body: %w", err)
	}
	return nil
}

func boundary(names []string, values map[string]json.RawMessage) string {
	h := sha256.New()
	for _, name := range names {
		fmt.Fprintf(h, "%d:%s=%d:", len(name), name, len(values[name]))
		h.Write(values[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// partType is the media type of a multipart field that an encoding names, ""
// where it is a choice or malformed.
func partType(declared string) string {
	media := mediaType(declared)
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
