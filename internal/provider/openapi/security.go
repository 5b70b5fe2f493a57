package openapi

import (
	"slices"
	"strings"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/httpplan"
)

// Limits on the security of one operation. Documents in use have up to four alternatives.
const (
	maxAlternatives = 20
	maxTogether     = 10
	maxSchemeName   = 100     // bytes; a credential may name as much
	maxScopes       = 2048    // bytes of those of one scheme; a larger list is cut
	maxSecurity     = 8 << 10 // bytes of all alternatives of one operation; the catalog shows them
)

// setSecurity keeps what a call of the operation must present: what the operation says, otherwise
// what the document says. An auth given to the import takes the place of both, except where the
// operation itself says that nothing is needed. An error says that no credential can meet it.
func (o *operation) setSecurity() error {
	says := o.node["security"]
	own, has := says.([]any)
	if o.im.in.Auth != nil {
		o.im.doc.spend(len(own) / 8)
		o.plan.Security = givenSecurity(*o.im.in.Auth, own, has)
		return nil
	}
	if says == nil {
		says = o.im.doc.root["security"]
	}
	list, is := says.([]any)
	switch {
	case says == nil:
		o.plan.Security = verb.Security{{o.im.scheme}}
		return nil
	case !is:
		return reason("its security is not a list")
	case len(list) == 0:
		o.plan.Security = verb.Security{{}}
		return nil
	}
	return o.readSecurity(list)
}

// givenSecurity puts the auth given to the import in place of what an operation requires.
func givenSecurity(auth credential.Auth, own []any, has bool) verb.Security {
	given := credential.SecurityOf(auth)
	if has && len(own) == 0 {
		return verb.Security{{}}
	}
	at := slices.IndexFunc(own, func(entry any) bool {
		schemes, ok := entry.(map[string]any)
		return ok && len(schemes) == 0
	})
	switch {
	case at < 0 || given.Public():
		return given
	case len(own) == 1:
		return verb.Security{{}}
	case at == 0:
		return append(verb.Security{{}}, given...)
	default:
		return append(given, []verb.Scheme{})
	}
}

// readSecurity reads the alternatives in their order. One that cannot be met is reported and left
// out. An error says that none is left.
func (o *operation) readSecurity(list []any) error {
	var why error
	size := 0
	for _, entry := range list {
		if !o.im.doc.spend(2) {
			return o.im.doc.err
		}
		alternative, err := o.alternative(entry)
		size += sizeOf(alternative)
		if err == nil && (len(o.plan.Security) == maxAlternatives || size > maxSecurity) {
			err = reason("there are too many")
		}
		if err != nil {
			why = err
			o.scratch.lose("an alternative of its security is left out: " + err.Error())
			continue
		}
		if !slices.ContainsFunc(o.plan.Security, func(a []verb.Scheme) bool { return slices.Equal(a, alternative) }) {
			o.plan.Security = append(o.plan.Security, alternative)
		}
	}
	if len(o.plan.Security) == 0 {
		return reason("no credential can meet its security: " + why.Error())
	}
	return nil
}

// alternative reads the schemes that are needed together.
func (o *operation) alternative(entry any) (schemes []verb.Scheme, err error) {
	names, ok := entry.(map[string]any)
	if !ok {
		return nil, reason("it is not an object")
	}
	if len(names) > maxTogether {
		return nil, reason("it needs too many secrets together")
	}
	schemes = []verb.Scheme{}
	for _, name := range sortedKeys(names) {
		if !o.im.doc.spend(5 + len(name)/8) {
			return nil, o.im.doc.err
		}
		scheme, err := o.im.securityScheme(name)
		if err != nil {
			return nil, err
		}
		if isToken(scheme) {
			scheme.Scopes = o.scopes(names[name])
		}
		same := slices.IndexFunc(schemes, func(s verb.Scheme) bool { return samePlace(s, scheme) })
		if same >= 0 && isToken(scheme) && isToken(schemes[same]) {
			continue // two flows of which each gets the token: one is sent
		}
		if same >= 0 {
			return nil, reason("two of its schemes have the same place in a request")
		}
		schemes = append(schemes, scheme)
	}
	return schemes, nil
}

// scopes returns the scopes of a requirement, as many as fit.
func (o *operation) scopes(list any) string {
	var out strings.Builder
	entries, _ := list.([]any)
	for _, entry := range entries {
		scope, ok := entry.(string)
		if !o.im.doc.spend(1 + len(scope)/8) {
			break
		}
		if !ok || scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			continue // no scope (RFC 6749, section 3.3)
		}
		if out.Len()+1+len(scope) > maxScopes {
			o.scratch.lose("some scopes of its security are left out: there are too many")
			break
		}
		if out.Len() > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(scope)
	}
	return out.String()
}

// isToken reports whether the secret of a scheme is a bearer token.
func isToken(s verb.Scheme) bool {
	return s.Type == string(credential.Bearer) || s.Type == string(credential.OAuth2)
}

// sizeOf returns about how many bytes an alternative takes.
func sizeOf(alternative []verb.Scheme) int {
	n := 0
	for _, s := range alternative {
		n += 50 + len(s.Name) + len(s.Wire) + len(s.Scopes)
	}
	return n
}

// securityScheme reads a scheme that the document declares. A call cannot present one that it does not
// declare: nobody knows what that is.
func (im *importer) securityScheme(name string) (s verb.Scheme, err error) {
	shown := argschema.Shorten(name, maxSchemeName)
	node, unread := im.doc.object(field(field(im.doc.root, "components"), "securitySchemes")[name])
	if unread != nil {
		return s, reason("the scheme " + shown + " is not declared")
	}
	if !im.doc.spend((len(text(node, "type")) + len(text(node, "scheme"))) / bytesPerUnit) {
		return s, im.doc.err
	}
	auth, ok := schemeAuth(node)
	switch {
	case !ok:
		return s, reason("the scheme " + shown + " is not supported" + schemeKind(node))
	case shown != name:
		return s, reason("the name of the scheme " + shown + " is too long")
	}
	return namedScheme(name, auth), nil
}

func namedScheme(name string, auth credential.Auth) verb.Scheme {
	return verb.Scheme{Name: name, Type: string(auth.Type), In: auth.In, Wire: auth.Name}
}

// schemeKind names the kind of a scheme for a report.
func schemeKind(node map[string]any) string {
	kind := text(node, "type")
	if kind == "http" {
		kind += " " + text(node, "scheme")
	}
	if kind == "" {
		return ""
	}
	return " (" + argschema.Shorten(kind, maxSchemeName) + ")"
}

// samePlace reports whether two schemes are sent in the same place of a request, so that a call
// has only one of them.
func samePlace(a, b verb.Scheme) bool {
	return schemePlace(a) == schemePlace(b)
}

func schemePlace(s verb.Scheme) string {
	switch {
	case s.Type != string(credential.APIKey):
		return "header authorization"
	case s.In == httpplan.InHeader:
		return "header " + strings.ToLower(s.Wire)
	default:
		return s.In + " " + s.Wire
	}
}

// isSecrets reports whether a call may send a secret in the place, under a name for which the
// given one could be taken.
func (o *operation) isSecrets(in string, same func(name string) bool) bool {
	for _, alternative := range o.plan.Security {
		o.im.doc.spend(len(alternative))
		for _, s := range alternative {
			if s.Type == string(credential.APIKey) && s.In == in && same(s.Wire) {
				return true
			}
		}
	}
	return false
}
