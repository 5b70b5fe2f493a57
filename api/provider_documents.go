package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"agentruntime/api/wire"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/strictjson"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/provider/openapi"
)

// input checks all of the body but the document.
func (b importBody) input() (openapi.ImportInput, error) {
	var v wire.Validation
	in := openapi.ImportInput{
		Slug: v.Text("/slug", b.Slug, verb.MaxSlug), Name: v.OptionalText("/name", b.Name, 1, 255),
		Domain: v.OptionalText("/domain", b.Domain, 1, 64), BaseURL: v.OptionalText("/base_url", b.BaseURL, 1, 2048),
	}
	if b.Slug != nil && !verb.ValidSlug(*b.Slug) {
		v.Add("/slug", "pattern", `slug has lower-case letters, digits, hyphens and single underscores, and is not "tool".`)
	}
	in.Auth, in.Loose = b.Auth.input(&v), b.Strict != nil && !*b.Strict
	in.Servers, in.ServerVariables = b.where(&v)
	in.Rules, in.Overlay = b.Rules, b.Overlay
	in.Document, in.Unchecked = documentOf(&v, b.OpenAPI)
	return in, v.Err()
}

// documentOf returns the bytes of a document, which are kept: those of an object, or of the text
// in a string, which nothing has checked.
func documentOf(v *wire.Validation, raw json.RawMessage) (document []byte, unchecked bool) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		v.Add("/openapi", "required", "openapi is required: an object, or a string with a document in JSON or YAML.")
	case raw[0] == '{':
		return raw, false
	case raw[0] == '"':
		var text string
		if err := json.Unmarshal(raw, &text); err == nil {
			return []byte(text), true
		}
		fallthrough
	default:
		v.Add("/openapi", "type", "openapi is an object, or a string with a document in JSON or YAML.")
	}
	return nil, false
}

// freeInRules is where rules contain what is the provider's.
const freeInRules = "/rules/*/read_back"

// importInput reads the body of an import, in JSON or YAML.
func (s *Server) importInput(ctx context.Context, c *wire.Call) (openapi.ImportInput, error) {
	body := c.Body()
	if slices.Contains(yamlTypes(), c.BodyType()) {
		if len(body) > openapi.MaxYAML {
			return openapi.ImportInput{}, fault.Newf(fault.CodePayloadTooLarge, "A body in YAML may have at most %d bytes. Send a larger one as JSON.", openapi.MaxYAML)
		}
		var err error
		if body, err = s.deps.Importer.YAML(ctx, c.Actor, body); err != nil {
			return openapi.ImportInput{}, err
		}
	}
	var b importBody
	if err := strictjson.Decode(body, &b, strictjson.Options{Free: []string{"/openapi", "/overlay", "/server_variables", freeInRules}}); err != nil {
		return openapi.ImportInput{}, err
	}
	return b.input()
}

// documentFile returns the media type and the file name of a document in the form.
func documentFile(slug string, form openapi.Form) (media, name string) {
	if form == openapi.FormYAML {
		return "application/yaml", slug + ".yaml"
	}
	return "application/json", slug + ".json"
}

// getProviderDocument sends the document as it was imported, without an envelope.
func (s *Server) getProviderDocument(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	d, err := s.deps.Providers.Document(ctx, c.Actor.TenantID, c.Param("slug"))
	if err != nil {
		return wire.Reply{}, err
	}
	media, file := documentFile(c.Param("slug"), openapi.Form(d.Form))
	header := http.Header{
		"Content-Type": {media}, "Content-Length": {strconv.FormatInt(d.Size, 10)},
		"Content-Disposition": {fmt.Sprintf(`attachment; filename="%s"`, file)}, // a slug needs no escaping
	}
	return wire.Reply{}, c.StreamObject(wire.HashTag(d.Hash[:]), header, func(w io.Writer) error { return d.WriteTo(ctx, w) })
}
