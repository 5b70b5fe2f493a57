package credential

import (
	"strings"
	"unicode"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/base/near"
	"agentruntime/internal/provider/httpplan"
)

// Auth is where a provider expects its credential. In and Name matter for APIKey. The
// catalog stores it as JSON, so a field is never renamed.
type Auth struct {
	Type Kind   `json:"type"`
	In   string `json:"in,omitempty"` // httpplan.InHeader, InQuery or InCookie
	Name string `json:"name,omitempty"`
}

// maxName is the longest name of a header, query parameter or cookie.
const maxName = 255

// Checked returns the auth with its defaults, or a VALIDATION_ERROR.
func (a Auth) Checked() (Auth, error) {
	switch a.Type {
	case Bearer, Basic, OAuth2, CustomHeader, None:
		return Auth{Type: a.Type}, nil
	case APIKey:
	default:
		return Auth{}, fault.Invalid("/auth/type", "enum", near.Enum("auth.type", a.Type, Bearer, Basic, APIKey, OAuth2, CustomHeader, None))
	}
	if a.In == "" {
		a.In = httpplan.InHeader
	}
	if a.In != httpplan.InHeader && a.In != httpplan.InQuery && a.In != httpplan.InCookie {
		return Auth{}, fault.Invalid("/auth/in", "enum", near.Enum("auth.in", a.In, httpplan.InHeader, httpplan.InQuery, httpplan.InCookie))
	}
	if a.Name == "" && a.In == httpplan.InHeader {
		a.Name = "X-API-Key"
	}
	inQuery := a.In == httpplan.InQuery && a.Name != "" && len(a.Name) <= maxName && !strings.ContainsFunc(a.Name, unicode.IsControl)
	reserved := a.In == httpplan.InHeader && httpfield.Forbidden(a.Name) && !strings.EqualFold(a.Name, "Authorization")
	if reserved || !inQuery && !httpfield.IsToken(a.Name) {
		return Auth{}, fault.Invalid("/auth/name", "pattern", "auth.name is the name of a header, query parameter or cookie.")
	}
	return a, nil
}
