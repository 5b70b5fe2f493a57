package openapi

import (
	"net/url"
	"slices"
	"strings"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
)

// cleanBase checks a base URL and returns it without a trailing slash.
func cleanBase(raw string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		return "", reason("it is not a URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", reason("it is not an absolute http or https URL")
	case u.User != nil:
		return "", reason("it carries credentials")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", reason("it has a query or a fragment")
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return "", reason("it has a dot segment")
		}
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// auth is the given auth, else the first security requirement that can be met, else any scheme
// that can, else bearer. The scheme has its name, "" where the document has none.
func (im *importer) auth() (credential.Auth, verb.Scheme, error) {
	if im.in.Auth != nil {
		auth, err := im.in.Auth.Checked()
		return auth, namedScheme("", auth), err
	}
	schemes := field(field(im.doc.root, "components"), "securitySchemes")
	var order []string
	requirements, _ := im.doc.root["security"].([]any)
	for _, r := range requirements {
		alternative, _ := r.(map[string]any)
		order = append(order, sortedKeys(alternative)...)
	}
	for _, name := range slices.Concat(order, sortedKeys(schemes)) {
		scheme, err := im.doc.object(schemes[name])
		if err != nil {
			continue
		}
		if auth, ok := schemeAuth(scheme); ok && len(name) <= maxSchemeName {
			return auth, namedScheme(name, auth), nil
		}
	}
	bearer := credential.Auth{Type: credential.Bearer}
	return bearer, namedScheme("", bearer), nil
}

// schemeAuth reads a security scheme and reports whether it is supported.
func schemeAuth(scheme map[string]any) (credential.Auth, bool) {
	switch text(scheme, "type") {
	case "http":
		switch strings.ToLower(text(scheme, "scheme")) {
		case "basic":
			return credential.Auth{Type: credential.Basic}, true
		case "bearer":
			return credential.Auth{Type: credential.Bearer}, true
		}
	case "apiKey":
		auth, err := credential.Auth{Type: credential.APIKey, In: text(scheme, "in"), Name: text(scheme, "name")}.Checked()
		return auth, err == nil
	case "oauth2", "openIdConnect":
		return credential.Auth{Type: credential.OAuth2}, true
	}
	return credential.Auth{}, false
}
