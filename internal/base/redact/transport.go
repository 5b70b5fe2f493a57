package redact

import (
	"net/url"
	"slices"
	"strings"
)

// secretParameters are query parameters that are secret by convention, although no
// word of their names looks secret.
//
//nolint:gochecknoglobals // immutable table
var secretParameters = []string{"key", "sig", "signature", "code", "auth", "hmac", "x-amz-signature", "x-amz-credential", "x-goog-signature"}

// secretHeaders are header fields that are secret, although no word of their names
// looks secret.
//
//nolint:gochecknoglobals // immutable table
var secretHeaders = []string{"proxy-authenticate", "x-shop-key", "x-amz-security-token", "x-goog-iap-jwt-assertion", "x-hub-signature", "x-webhook-signature"}

// MaskURL returns an address for logs and records. The userinfo and the values of
// secret-looking query or fragment parameters become "[masked]"; the rest stays as
// it was written. What does not parse becomes "[masked]" as a whole.
func MaskURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return Masked
	}
	head, fragment, hasFragment := strings.Cut(address, "#")
	head, query, hasQuery := strings.Cut(head, "?")
	if u.User != nil {
		if start, at := strings.Index(head, "//"), strings.LastIndex(head, "@"); start >= 0 && at > start {
			head = head[:start+2] + Masked + head[at:]
		}
	}
	if hasQuery {
		head += "?" + maskQuery(query)
	}
	if hasFragment {
		head += "#" + maskQuery(fragment)
	}
	return head
}

// maskQuery masks values in a=b&c=d.
func maskQuery(query string) string {
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, value, ok := strings.Cut(part, "=")
		if !ok || value == "" {
			continue
		}
		plain, err := url.QueryUnescape(name)
		if err != nil || LooksSecret(plain) || slices.Contains(secretParameters, strings.ToLower(plain)) {
			parts[i] = name + "=" + Masked
		}
	}
	return strings.Join(parts, "&")
}

// MaskHeaders returns a copy of header fields (http.Header) in which the values
// of secret-looking ones are "[masked]".
func MaskHeaders(header map[string][]string) map[string][]string {
	out := make(map[string][]string, len(header))
	for name, values := range header {
		out[name] = slices.Clone(values)
		if !SecretHeader(name) {
			continue
		}
		for i := range out[name] {
			out[name][i] = Masked
		}
	}
	return out
}

// SecretHeader reports whether a header field of this name carries a secret:
// Authorization, cookies, and keys and tokens under any vendor's name.
func SecretHeader(name string) bool {
	lower := strings.ToLower(name)
	return LooksSecret(name) || slices.Contains(secretHeaders, lower) ||
		(strings.HasSuffix(lower, "-key") && lower != "idempotency-key") || strings.HasSuffix(lower, "-auth")
}
