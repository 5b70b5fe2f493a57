package httpcall

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"strings"

	"agentruntime/internal/kernel/httpfield"
	"agentruntime/internal/kernel/httpplan"
)

// binary decodes a base64 argument: in either alphabet, with or without padding, as the format byte of
// a schema has it.
func binary(arg string, v any) ([]byte, error) {
	encoded, ok := v.(string)
	raw, err := base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(encoded, "=")))
	if !ok || err != nil || strings.ContainsAny(encoded, "\r\n") {
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
		// A part of its own separates each item of a list, and an object is JSON.
		if err := b.field(name, httpplan.Encoding{Style: partStyle(v), Explode: true}, v); err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		if v, err = withoutNulls(b.fieldPointer(name), partStyle(v), v); err != nil {
			return nil, err
		}
		values, repeated := v.([]any)
		if !repeated {
			values = []any{v}
		}
		b.room.take(len(name) * len(values))
		if err := b.room.check(); err != nil {
			return nil, err
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

// partStyle returns the style by which a part is written: an object is JSON, which has null.
func partStyle(v any) string {
	if _, isObject := v.(map[string]any); isObject {
		return httpplan.StyleJSON
	}
	return httpplan.StyleForm
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
			media = httpfield.Octets
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
