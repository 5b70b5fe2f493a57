package connectors

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode"

	"agentruntime/internal/kernel/fault"
)

// AuthType is how a provider wants to know its caller.
type AuthType string

// Kinds of authentication.
const (
	AuthBearer       AuthType = "bearer"
	AuthBasic        AuthType = "basic"
	AuthAPIKey       AuthType = "api_key"
	AuthOAuth2       AuthType = "oauth2"
	AuthCustomHeader AuthType = "custom_header"
	AuthNone         AuthType = "none"
)

// Auth is where a provider expects its credential. In ("header", "query",
// "cookie") and Name matter for api_key.
type Auth struct {
	Type AuthType `json:"type"`
	In   string   `json:"in,omitempty"`
	Name string   `json:"name,omitempty"`
}

// checked returns the auth with its defaults, or a VALIDATION_ERROR.
func (a Auth) checked() (Auth, error) {
	switch a.Type {
	case AuthBearer, AuthBasic, AuthOAuth2, AuthCustomHeader, AuthNone:
		return Auth{Type: a.Type}, nil
	case AuthAPIKey:
	default:
		return Auth{}, fault.Invalid("/auth/type", "enum", "auth.type is bearer, basic, api_key, oauth2, custom_header or none.")
	}
	if a.In == "" {
		a.In = inHeader
	}
	if a.In != inHeader && a.In != inQuery && a.In != inCookie {
		return Auth{}, fault.Invalid("/auth/in", "enum", "auth.in is header, query or cookie.")
	}
	if a.Name == "" && a.In == inHeader {
		a.Name = "X-API-Key"
	}
	nameOK := isToken(a.Name) || (a.In == inQuery && usableName(a.Name))
	if !nameOK || (a.In == inHeader && a.Name != "" && forbiddenHeader(a.Name) && !strings.EqualFold(a.Name, "Authorization")) {
		return Auth{}, fault.Invalid("/auth/name", "pattern", "auth.name is the name of a header, query parameter or cookie.")
	}
	return a, nil
}

// SecretType is the kind of a stored credential.
type SecretType string

// Kinds of secrets.
const (
	SecretAPIKey       SecretType = "api_key"
	SecretBearer       SecretType = "bearer"
	SecretBasic        SecretType = "basic"
	SecretCustomHeader SecretType = "custom_header"
)

// Secret is a credential in the clear. It lives as long as one attempt and is
// never logged.
type Secret struct {
	Type     SecretType
	Token    string            // bearer
	Key      string            // api_key
	Username string            // basic
	Password string            // basic
	Headers  map[string]string // custom_header
}

// String keeps a secret out of logs.
func (Secret) String() string { return "[secret]" }

// GoString keeps a secret out of logs.
func (Secret) GoString() string { return "[secret]" }

// errSecret says that a secret cannot be put into a request, without showing it.
var errSecret = errors.New("the credential cannot be put into a request: it has characters that a header cannot carry, or names a header that is not its to set")

// Apply puts the secret where the provider expects it. What the credential is
// decides over what the document says: a bearer token goes out as one to a
// provider that also takes basic (Stripe does). An error never shows the secret.
func Apply(auth Auth, secret Secret, r *Request) error {
	if auth.Type == AuthNone {
		return nil
	}
	switch secret.Type {
	case SecretBasic:
		return setBasic(r, secret.Username, secret.Password)
	case SecretCustomHeader:
		return setHeaders(r, secret.Headers)
	case SecretBearer:
		if auth.Type == AuthAPIKey {
			return placeKey(auth, secret.Token, r)
		}
		return setSecretHeader(r, "Authorization", "Bearer "+secret.Token)
	case SecretAPIKey:
		switch auth.Type {
		case AuthAPIKey:
			return placeKey(auth, secret.Key, r)
		case AuthBasic:
			return setBasic(r, secret.Key, "")
		default:
			return setSecretHeader(r, "Authorization", "Bearer "+secret.Key)
		}
	}
	return fault.New(fault.CodeProviderNotConnected, "The credential's type cannot be used for calls.")
}

func placeKey(auth Auth, key string, r *Request) error {
	switch auth.In {
	case inQuery:
		r.URL = replaceQuery(r.URL, auth.Name, key)
		return nil
	case inCookie:
		cookie := auth.Name + "=" + escape(key, false)
		if before := r.Header.Get("Cookie"); before != "" {
			cookie = before + "; " + cookie
		}
		r.Header.Set("Cookie", cookie)
		return nil
	default:
		return setSecretHeader(r, auth.Name, key)
	}
}

// replaceQuery sets one query parameter, whatever was there under its name.
func replaceQuery(rawURL, name, value string) string {
	base, query, _ := strings.Cut(rawURL, "?")
	escaped := escape(name, false)
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		if before, _, _ := strings.Cut(pair, "="); pair != "" && before != escaped {
			kept = append(kept, pair)
		}
	}
	return base + "?" + strings.Join(append(kept, escaped+"="+escape(value, false)), "&")
}

func setBasic(r *Request, user, password string) error {
	if strings.Contains(user, ":") || strings.ContainsFunc(user+password, unicode.IsControl) {
		return errSecret
	}
	r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	return nil
}

func setHeaders(r *Request, headers map[string]string) error {
	for name, value := range headers {
		if forbiddenHeader(name) && http.CanonicalHeaderKey(name) != "Authorization" && http.CanonicalHeaderKey(name) != "Cookie" {
			return errSecret
		}
		if err := setSecretHeader(r, name, value); err != nil {
			return err
		}
	}
	return nil
}

func setSecretHeader(r *Request, name, value string) error {
	if !isToken(name) || !headerValue(value) {
		return errSecret
	}
	r.Header.Set(name, value)
	return nil
}

// headerValue reports whether a header may carry s: no control characters
// besides tab (RFC 9110 section 5.5).
func headerValue(s string) bool {
	for i := range len(s) {
		if (s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f {
			return false
		}
	}
	return true
}
