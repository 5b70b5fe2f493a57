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
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/openapi"
)

// input checks all of the body. file is the document that is a part of its own, nil where none is.
func (b importBody) input(file []byte) (openapi.ImportInput, error) {
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
	b.source(&v, &in, file)
	return in, v.Err()
}

// source checks that the request has one document, and gives it to the import. The one that
// openapi_url names is fetched later.
func (b importBody) source(v *wire.Validation, in *openapi.ImportInput, file []byte) {
	given := 0
	for _, has := range []bool{len(b.OpenAPI) > 0 && string(b.OpenAPI) != "null", b.OpenAPIURL != nil, file != nil} {
		if has {
			given++
		}
	}
	switch {
	case given > 1:
		v.Add("/openapi", "one", "Give one document: openapi, openapi_url, or the part document of a multipart body.")
	case b.OpenAPIURL != nil:
		v.OptionalText("/openapi_url", b.OpenAPIURL, 1, 2048)
	case file != nil:
		in.Document, in.Unchecked = file, true
	default:
		in.Document, in.Unchecked = documentOf(v, b.OpenAPI)
	}
	in.Root = v.OptionalText("/root", b.Root, 1, 500)
	if in.Root != "" && b.OpenAPIURL == nil && file == nil {
		v.Add("/root", "unknown", "root names a file of a zip archive. Send the archive as the part document of a multipart body.")
	}
}

// documentOf returns the bytes of a document, which are kept: those of an object, or of the text
// in a string, which nothing has checked.
func documentOf(v *wire.Validation, raw json.RawMessage) (document []byte, unchecked bool) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		v.Add("/openapi", "required", "openapi is required: an object, or a string with a document in JSON or YAML. Or give openapi_url.")
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

// importOptions says which members of an import are the provider's.
func importOptions() strictjson.Options {
	return strictjson.Options{Free: []string{"/openapi", "/overlay", "/server_variables", freeInRules}}
}

// importInput reads the body of an import, in JSON, YAML or parts, and fetches its document where
// it names an address.
func (h *providerHandlers) importInput(ctx context.Context, c *wire.Call) (openapi.ImportInput, error) {
	body, file := c.Body(), []byte(nil)
	var err error
	switch {
	case c.BodyType() == multipartType:
		body, file, err = parts(c)
	case slices.Contains(yamlTypes(), c.BodyType()):
		if len(body) > openapi.MaxYAML {
			return openapi.ImportInput{}, fault.Newf(fault.CodePayloadTooLarge, "A body in YAML may have at most %d bytes. Send a larger one as JSON.", openapi.MaxYAML)
		}
		body, err = h.importer.YAML(ctx, c.Actor, body)
	}
	if err != nil {
		return openapi.ImportInput{}, err
	}
	var b importBody
	if err := strictjson.Decode(body, &b, importOptions()); err != nil {
		return openapi.ImportInput{}, err
	}
	c.DropBody() // the document is a copy
	in, err := b.input(file)
	if err == nil && b.OpenAPIURL != nil {
		err = h.fetchDocument(ctx, c, &in, *b.OpenAPIURL)
	}
	return in, err
}

// fetchDocument fetches the document of an import. It takes the turn of a large upload once it knows
// that the document is large. A large body has the turn already, and would keep it for as long as a
// foreign server likes. So it is refused.
func (h *providerHandlers) fetchDocument(ctx context.Context, c *wire.Call, in *openapi.ImportInput, at string) error {
	if c.BodySize() > smallUpload {
		return fault.Newf(fault.CodePayloadTooLarge, "A request with openapi_url may have at most %d bytes.", smallUpload)
	}
	found, err := h.importer.Fetch(ctx, c.Actor, at, func(size int64) error { return h.uploads.room(ctx, c, size) })
	if err != nil {
		return err
	}
	in.Document, in.Unchecked = found.Document, true
	if found.Files.Root != "" {
		in.Files = found.Files
	}
	return nil
}

// documentFile returns the media type and the file name of a document in the form.
func documentFile(slug string, form openapi.Form) (media, name string) {
	switch form {
	case openapi.FormYAML:
		return "application/yaml", slug + ".yaml"
	case openapi.FormZip:
		return "application/zip", slug + ".zip"
	case openapi.FormJSON:
	}
	return "application/json", slug + ".json"
}

// getProviderDocument sends the document as it was imported, without an envelope.
func (h *providerHandlers) getProviderDocument(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	d, err := h.providers.Document(ctx, c.Actor.TenantID, c.Param("slug"))
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
