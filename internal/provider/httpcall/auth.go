package httpcall

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/httpplan"
)

// errSecret says that a secret cannot be put into a request, without showing it.
var errSecret = errors.New("the credential cannot be put into a request: it has characters that a header cannot carry, or names a header that is not its to set")

// Apply puts the secret where the provider expects it. The kind of the credential counts more
// than what the document says: a bearer token is sent as one, also to a provider whose
// document names basic (Stripe takes both). An argument that was written under a name of the
// credential is INVALID_ARGS. An error never shows the secret.
func Apply(auth credential.Auth, secret credential.Secret, r *Request) error {
	if auth.Type == credential.None {
		return nil
	}
	switch secret.Kind() {
	case credential.Basic:
		username, password := secret.Basic()
		return setBasic(r, username, password)
	case credential.CustomHeader:
		return setHeaders(r, secret.Headers())
	case credential.Bearer:
		if auth.Type == credential.APIKey {
			return placeKey(auth, secret.Token(), r)
		}
		return setSecretHeader(r, "Authorization", "Bearer "+secret.Token())
	case credential.APIKey:
		switch auth.Type {
		case credential.APIKey:
			return placeKey(auth, secret.Key(), r)
		case credential.Basic:
			return setBasic(r, secret.Key(), "")
		default:
			return setSecretHeader(r, "Authorization", "Bearer "+secret.Key())
		}
	case credential.OAuth2, credential.WebhookSecret, credential.None, credential.Schemes: // stored by none, or one secret at a time
	}
	return fault.New(fault.CodeProviderNotConnected, "The credential's type cannot be used for calls.")
}

func placeKey(auth credential.Auth, key string, r *Request) error {
	switch auth.In {
	case httpplan.InQuery:
		if err := r.refuses(httpplan.InQuery, auth.Name); err != nil {
			return err
		}
		r.URL = replaceQuery(r.URL, auth.Name, key)
		return nil
	case httpplan.InCookie:
		if err := r.refuses(httpplan.InCookie, auth.Name); err != nil {
			return err
		}
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

// replaceQuery sets one query parameter, and removes what had its name.
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
		if httpfield.Forbidden(name) && http.CanonicalHeaderKey(name) != "Authorization" && http.CanonicalHeaderKey(name) != "Cookie" {
			return errSecret
		}
		if err := setSecretHeader(r, name, value); err != nil {
			return err
		}
	}
	return nil
}

func setSecretHeader(r *Request, name, value string) error {
	if !httpfield.IsToken(name) || !httpfield.ValidValue(value) {
		return errSecret
	}
	if err := r.refuses(httpplan.InHeader, name); err != nil {
		return err
	}
	r.Header.Set(name, value)
	return nil
}
