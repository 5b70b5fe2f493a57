package credential

import (
	"slices"
	"strings"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/httpplan"
)

// Keyring is what is known of a credential without its secrets. The zero Keyring is of no credential.
type Keyring struct {
	Kind Kind
	// Schemes has the kind of each secret of a credential of Schemes, by the scheme's name.
	Schemes map[string]Kind
}

// SecurityOf returns the security of a provider all of whose calls present the one credential.
func SecurityOf(a Auth) verb.Security {
	if a.Type == None {
		return verb.Security{{}}
	}
	return verb.Security{{{Type: string(a.Type), In: a.In, Wire: a.Name}}}
}

// AuthOf returns where the secret of a scheme is sent.
func AuthOf(s verb.Scheme) Auth { return Auth{Type: Kind(s.Type), In: s.In, Name: s.Wire} }

// Choose returns the alternative that a call with the credential presents, and whether there is
// one. That is the first of which the credential has the secrets, each of the scheme's own kind.
// Otherwise it is the first whose secrets it can be sent as: a token where a key is expected, or a
// key as a user name. An alternative without schemes counts as one of the first sort.
func (h Keyring) Choose(s verb.Security) (alternative []verb.Scheme, ok bool) {
	for _, fits := range []func(Kind, verb.Scheme) bool{isKind, standsFor} {
		for _, a := range s {
			if h.meets(a, fits) {
				return a, true
			}
		}
	}
	return nil, false
}

// meets reports whether the credential has a secret for each of the schemes. One of headers says
// itself what is sent, so it meets all.
func (h Keyring) meets(alternative []verb.Scheme, fits func(Kind, verb.Scheme) bool) bool {
	if len(alternative) == 0 {
		return true
	}
	if h.Kind == "" || h.Kind != Schemes && h.Kind != CustomHeader && len(alternative) > 1 {
		return false
	}
	for _, s := range alternative {
		kind := h.Kind
		if kind == Schemes {
			kind = h.Schemes[s.Name]
		}
		if !fits(kind, s) {
			return false
		}
	}
	return true
}

// Missing returns the schemes of an alternative for which the credential has no secret.
func (h Keyring) Missing(alternative []verb.Scheme) []verb.Scheme {
	var out []verb.Scheme
	for _, s := range alternative {
		if !standsFor(h.Schemes[s.Name], s) {
			out = append(out, s)
		}
	}
	return out
}

// isKind reports whether a secret of the kind is what the scheme asks for.
func isKind(k Kind, s verb.Scheme) bool {
	return k != "" && (Kind(s.Type) == k || k == CustomHeader || k == Bearer && Kind(s.Type) == OAuth2)
}

// standsFor reports whether a secret of the kind can be sent for the scheme. A user name with a
// password is no key, unless the key is the whole Authorization header.
func standsFor(k Kind, s verb.Scheme) bool {
	switch k {
	case APIKey, Bearer, CustomHeader:
		return true
	case Basic:
		return Kind(s.Type) != APIKey || s.In == httpplan.InHeader && strings.EqualFold(s.Wire, "Authorization")
	default:
		return false
	}
}

// SecurityText says in words what a call must present: "k1 (api_key, header X-K1) and k2 (basic), or
// nothing". Alternatives that differ in scopes only are one.
func SecurityText(s verb.Security) string {
	var alternatives []string
	for _, a := range s {
		schemes := make([]string, len(a))
		for i, scheme := range a {
			schemes[i] = SchemeText(scheme)
		}
		text := strings.Join(schemes, " and ")
		if len(a) == 0 {
			text = "nothing"
		}
		if !slices.Contains(alternatives, text) {
			alternatives = append(alternatives, text)
		}
	}
	return strings.Join(alternatives, ", or ")
}

// SchemeText names a scheme: "k1 (api_key, header X-K1)".
func SchemeText(s verb.Scheme) string {
	what := s.Type
	if s.Wire != "" {
		what += ", " + s.In + " " + s.Wire
	}
	if s.Name == "" {
		return "a credential of type " + what
	}
	return s.Name + " (" + what + ")"
}
