package openapi

import (
	"net/url"
	"slices"
	"strings"

	"agentruntime/internal/kernel/credential"
	"agentruntime/internal/kernel/fault"
)

// baseURL is the given base URL, else the document's first server.
func (im *importer) baseURL() (string, error) {
	if im.in.BaseURL != "" {
		base, err := cleanBase(im.in.BaseURL)
		if err != nil {
			return "", fault.Invalid("/base_url", "format", "base_url: "+err.Error()+".")
		}
		return base, nil
	}
	servers, _ := im.doc.root["servers"].([]any)
	if len(servers) == 0 {
		return "", fault.Invalid("/base_url", "required", "The document names no server; base_url is needed.")
	}
	base, err := serverURL(servers[0], "")
	if err != nil {
		return "", fault.Invalid("/openapi/servers/0", "format", "The document's server cannot be used ("+err.Error()+"); give base_url.")
	}
	return base, nil
}

// serverURL resolves a server object with the defaults of its variables, against
// base where it is relative.
func serverURL(entry any, base string) (string, error) {
	server, ok := entry.(map[string]any)
	if !ok {
		return "", reason("it is not an object")
	}
	variables := field(server, "variables")
	missing := false
	raw := templateName.ReplaceAllStringFunc(text(server, "url"), func(name string) string {
		variable := field(variables, name[1:len(name)-1])
		value, has := variable["default"].(string)
		missing = missing || !has
		return value
	})
	if missing {
		return "", reason("a variable of it has no default")
	}
	if strings.HasPrefix(raw, "/") && !strings.HasPrefix(raw, "//") && base != "" {
		u, err := url.Parse(base)
		if err != nil {
			return "", reason("it is not a URL")
		}
		raw = u.Scheme + "://" + u.Host + raw
	}
	return cleanBase(raw)
}

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

// auth is the given auth, else the first security requirement that can be met,
// else any scheme that can, else bearer.
func (im *importer) auth() (credential.Auth, error) {
	if im.in.Auth != nil {
		return im.in.Auth.Checked()
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
		if auth, ok := schemeAuth(scheme); ok {
			return auth, nil
		}
	}
	return credential.Auth{Type: credential.Bearer}, nil
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
