package vault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/base/near"
	"agentruntime/internal/provider/credential"
)

// Limits on what a credential may contain, in bytes.
const (
	maxSecret  = 8 << 10 // a key, token, password or header value; common servers refuse longer header lines
	maxUser    = 1 << 10
	maxHeaders = 20
	maxName    = 64 // a header's name
)

// ParseType reads a type without regard to case.
func ParseType(s string) (credential.Kind, error) {
	t := credential.Kind(strings.ToLower(s))
	switch t {
	case credential.APIKey, credential.Bearer, credential.Basic, credential.CustomHeader, credential.Schemes:
		return t, nil
	case credential.OAuth2, credential.WebhookSecret:
		return "", fault.Invalid("/type", "enum", "Credentials of this type are not supported yet; use api_key, bearer, basic, custom_header or schemes.")
	default:
		return "", fault.Invalid("/type", "enum", near.Enum("type", t, credential.APIKey, credential.Bearer, credential.Basic, credential.CustomHeader, credential.Schemes))
	}
}

// dataFields says which fields `data` has for each type; all are required.
//
//nolint:gochecknoglobals // an immutable table
var dataFields = map[credential.Kind][]string{
	credential.APIKey:       {"key"},
	credential.Bearer:       {"token"},
	credential.Basic:        {"username", "password"},
	credential.CustomHeader: {"headers"},
	credential.Schemes:      {"schemes"},
}

// parseData reads `data` of a request for a credential of type t. Field names
// are exact, unknown ones are refused, and no message repeats a value.
func parseData(t credential.Kind, data json.RawMessage) (credential.Secret, error) {
	none := credential.Secret{}
	fields, err := objectFields("/data", t, data)
	if err != nil {
		return none, err
	}
	if t == credential.Schemes {
		return schemeSecrets(fields["schemes"])
	}
	return single("/data", t, fields)
}

// single reads the fields of a credential of one secret, which stand at path.
func single(path string, t credential.Kind, fields map[string]json.RawMessage) (credential.Secret, error) {
	none := credential.Secret{}
	switch t {
	case credential.APIKey:
		key, err := headerText(path+"/key", fields["key"])
		if err != nil {
			return none, err
		}
		return credential.NewAPIKey(key), nil
	case credential.Bearer:
		token, err := headerText(path+"/token", fields["token"])
		if err != nil {
			return none, err
		}
		return credential.NewBearer(token), nil
	case credential.Basic:
		username, password, err := basicPair(path, fields)
		if err != nil {
			return none, err
		}
		return credential.NewBasic(username, password), nil
	case credential.CustomHeader:
		headers, err := customHeaders(fields["headers"])
		if err != nil {
			return none, err
		}
		return credential.NewCustomHeader(headers), nil
	default:
		return none, fmt.Errorf("vault: no data of type %q", t)
	}
}

// objectFields splits data, which stands at path, into its fields and checks that they are those of t.
func objectFields(path string, t credential.Kind, data json.RawMessage) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fault.Invalid(path, "required", "data is required.")
	}
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		return nil, fault.Invalid(path, "type", "data is an object.")
	}
	want := dataFields[t]
	for _, name := range want {
		if _, ok := fields[name]; !ok {
			return nil, fault.Invalid(path+"/"+name, "required", "A credential of type "+string(t)+" needs data."+name+".")
		}
	}
	for name := range fields {
		if !slices.Contains(want, name) {
			return nil, fault.Invalid(path, "unknown_field", "data of a "+string(t)+" credential has only: "+strings.Join(want, ", ")+".")
		}
	}
	return fields, nil
}

// headerText reads a string that becomes (part of) a header value: printable
// ASCII without blanks at either end.
func headerText(path string, raw json.RawMessage) (string, error) {
	s, err := text(path, raw, 1, maxSecret)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(s) != s {
		return "", fault.Invalid(path, "pattern", "The value begins or ends with a blank.")
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return "", fault.Invalid(path, "pattern", "The value may contain printable ASCII characters only.")
		}
	}
	return s, nil
}

// basicPair reads user name and password (RFC 7617: no colon in the name, no
// control characters). Either may be empty, not both.
func basicPair(path string, fields map[string]json.RawMessage) (user, password string, err error) {
	if user, err = text(path+"/username", fields["username"], 0, maxUser); err != nil {
		return "", "", err
	}
	if password, err = text(path+"/password", fields["password"], 0, maxSecret); err != nil {
		return "", "", err
	}
	switch {
	case user == "" && password == "":
		return "", "", fault.Invalid(path+"/username", "minLength", "username and password are both empty.")
	case strings.Contains(user, ":"):
		return "", "", fault.Invalid(path+"/username", "pattern", "username must not contain a colon.")
	case strings.ContainsFunc(user, unicode.IsControl):
		return "", "", fault.Invalid(path+"/username", "pattern", "username must not contain control characters.")
	case strings.ContainsFunc(password, unicode.IsControl):
		return "", "", fault.Invalid(path+"/password", "pattern", "password must not contain control characters.")
	}
	return user, password, nil
}

// customHeaders reads {name: value}. Names that the transport or the service
// sets are refused, and so are two that differ only in case.
func customHeaders(raw json.RawMessage) (map[string]string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, fault.Invalid("/data/headers", "type", "headers is an object of header names and values.")
	}
	if len(fields) == 0 || len(fields) > maxHeaders {
		return nil, fault.Invalid("/data/headers", "maxProperties", fmt.Sprintf("headers must have 1 to %d entries.", maxHeaders))
	}
	headers := make(map[string]string, len(fields))
	seen := make(map[string]bool, len(fields))
	for name, value := range fields {
		lower := strings.ToLower(name)
		path := "/data/headers/" + strings.ReplaceAll(name, "~", "~0") // JSON Pointer; a token has no slash
		switch {
		case len(name) > maxName || !httpfield.IsToken(name):
			return nil, fault.Invalid("/data/headers", "propertyNames", "A header name is an HTTP token of at most 64 characters.")
		case reservedHeader(lower):
			return nil, fault.Invalid(path, "propertyNames", "This header is set by the service and cannot be a credential.")
		case httpfield.Steers(name):
			return nil, fault.Invalid(path, "propertyNames", "This header makes another request of a call and cannot be a credential.")
		case seen[lower]:
			return nil, fault.Invalid(path, "propertyNames", "Two header names differ only in case.")
		}
		seen[lower] = true
		s, err := headerText(path, value)
		if err != nil {
			return nil, err
		}
		headers[name] = s
	}
	return headers, nil
}

// text reads a JSON string of minLen to maxLen bytes of valid UTF-8 without NUL.
func text(path string, raw json.RawMessage, minLen, maxLen int) (string, error) {
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", fault.Invalid(path, "type", "The value is a string.")
	}
	if len(*s) < minLen || len(*s) > maxLen {
		return "", fault.Invalid(path, "length", fmt.Sprintf("The value is %d to %d bytes long.", minLen, maxLen))
	}
	if !utf8.ValidString(*s) || strings.ContainsRune(*s, 0) {
		return "", fault.Invalid(path, "pattern", "The value is UTF-8 without NUL.")
	}
	return *s, nil
}

// reservedHeader reports whether a lower-case header name is not for
// credentials: framing and routing of the message, hop-by-hop headers (RFC 9110,
// part 7.6.1), the body's own description, and the idempotency key, which is
// derived from each run.
func reservedHeader(lower string) bool {
	switch lower {
	case "host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade",
		"expect", "content-type", "content-encoding", "accept-encoding", "idempotency-key":
		return true
	}
	return strings.HasPrefix(lower, "proxy-")
}
