// Package httpfield has the rules of HTTP header fields: which names and values there are,
// which names are not a caller's to set, and what a media type is. The importer, the
// building of requests and the vault use them.
package httpfield

import (
	"mime"
	"strings"
)

// Octets is the media type of bytes that nothing more is known of.
const Octets = "application/octet-stream"

// Forbidden reports whether a header belongs to the connection, the
// credential or the client (RFC 9110 section 7.6.1, and what net/http sets).
func Forbidden(name string) bool {
	lower := strings.ToLower(name)
	switch lower {
	case "host", "content-length", "content-type", "content-encoding", "authorization", "cookie", "accept",
		"accept-encoding", "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding",
		"upgrade", "expect", "http2-settings":
		return true
	}
	return strings.HasPrefix(lower, "proxy-")
}

// ForbiddenArg reports whether a caller's argument may not set a header. Those are the
// forbidden ones, and those that steer.
func ForbiddenArg(name string) bool {
	return Forbidden(Fold(name)) || Steers(name)
}

// Steers reports whether a header makes a server or a proxy take the request for another: for
// another method, address, host or sender. Servers that follow CGI read an underscore as a
// hyphen, so it counts as one.
func Steers(name string) bool {
	folded := Fold(name)
	if strings.HasPrefix(folded, "x-forwarded") {
		return true
	}
	switch folded {
	case "x-http-method-override", "x-http-method", "x-method-override", "x-method", "x-original-method",
		"x-original-url", "x-original-uri", "x-original-host", "x-rewrite-url", "x-rewrite-uri", "x-request-uri", "x-host", "x-http-host-override",
		"forwarded", "via", "max-forwards", "x-real-ip", "x-client-ip", "client-ip", "x-remote-ip", "x-remote-addr", "x-originating-ip",
		"x-cluster-client-ip", "true-client-ip", "cf-connecting-ip", "fastly-client-ip", "x-azure-clientip", "cookie2":
		return true
	}
	return false
}

// Fold returns the name of a header in the form in which servers compare it: in lower case,
// and with hyphens for underscores, which CGI cannot tell apart.
func Fold(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// IsToken reports whether s is an HTTP token (RFC 9110 section 5.6.2).
func IsToken(s string) bool {
	for i := range len(s) {
		if !IsAlnum(s[i]) && strings.IndexByte("!#$%&'*+-.^_`|~", s[i]) < 0 {
			return false
		}
	}
	return s != ""
}

// ValidValue reports whether a header may carry s: no control characters
// besides tab (RFC 9110 section 5.5).
func ValidValue(s string) bool {
	for i := range len(s) {
		if (s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// MediaType returns the type of a Content-Type in lower case without its
// parameters, "" where it is malformed.
func MediaType(s string) string {
	media, _, err := mime.ParseMediaType(s)
	if err != nil || !strings.Contains(media, "/") {
		return ""
	}
	return media
}

// IsJSON reports whether a media type is JSON (RFC 6839: or ends in +json).
func IsJSON(media string) bool {
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}

// IsText reports whether bodies of a media type are text for people or programs to read.
func IsText(media string) bool {
	kind, sub, _ := strings.Cut(media, "/")
	switch {
	case kind == "text", strings.HasSuffix(sub, "+xml"), strings.HasSuffix(sub, "+yaml"):
		return true
	case kind != "application":
		return false
	}
	switch sub {
	case "xml", "xhtml", "javascript", "ecmascript", "yaml", "x-yaml", "toml", "graphql", "sql", "x-www-form-urlencoded",
		"x-ndjson", "ndjson", "jsonl", "jsonlines", "x-jsonlines", "json-seq", "http":
		return true
	}
	return false
}

// IsAlnum reports whether b is an ASCII letter or digit.
func IsAlnum(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}
