package credential

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
)

// redacted is what every way of printing a Secret gives.
const redacted = "[redacted]"

// Secret is an opened credential. Its content is behind a function: fmt does not
// call the methods of an unexported field and follows pointers, so a struct that
// hides a Secret would print it under %s; a function prints as an address.
type Secret struct {
	content func() *content
}

func newSecret(c *content) Secret { return Secret{content: func() *content { return c }} }

// NewAPIKey returns the secret of an APIKey credential.
func NewAPIKey(key string) Secret { return newSecret(&content{Type: APIKey, Key: key}) }

// NewBearer returns the secret of a Bearer credential.
func NewBearer(token string) Secret { return newSecret(&content{Type: Bearer, Token: token}) }

// NewBasic returns the secret of a Basic credential.
func NewBasic(username, password string) Secret {
	return newSecret(&content{Type: Basic, Username: username, Password: password})
}

// NewCustomHeader returns the secret of a CustomHeader credential; the headers are copied.
func NewCustomHeader(headers map[string]string) Secret {
	return newSecret(&content{Type: CustomHeader, Headers: maps.Clone(headers)})
}

// NewSchemes returns the secret of a Schemes credential: one of another kind for each scheme.
func NewSchemes(secrets map[string]Secret) Secret {
	c := &content{Type: Schemes, Schemes: map[string]*content{}}
	for name, s := range secrets {
		c.Schemes[name] = s.get()
	}
	return newSecret(c)
}

// For returns the secret that is sent for a scheme: of a Schemes credential the one of its name,
// the zero Secret where there is none, and of any other credential itself.
func (s Secret) For(scheme string) Secret {
	c := s.get()
	if c.Type != Schemes {
		return s
	}
	if part := c.Schemes[scheme]; part != nil {
		return newSecret(part)
	}
	return Secret{}
}

// Parts returns the secrets by their schemes, nil where the credential is a single one.
func (s Secret) Parts() map[string]Secret {
	c := s.get()
	if c.Type != Schemes {
		return nil
	}
	parts := make(map[string]Secret, len(c.Schemes))
	for name, part := range c.Schemes {
		parts[name] = newSecret(part)
	}
	return parts
}

// ParseSecret reads what Plaintext wrote and checks that it is of the kind. The error never
// contains a part of the plaintext.
func ParseSecret(plaintext []byte, want Kind) (Secret, error) {
	var c content
	if err := json.Unmarshal(plaintext, &c); err != nil {
		return Secret{}, errors.New("the opened value is not a credential")
	}
	if c.Type != want {
		return Secret{}, errors.New("the opened value is of another kind than its row")
	}
	return newSecret(&c), nil
}

// Plaintext returns the secret in the clear, as the vault seals it. Only the vault calls it.
func (s Secret) Plaintext() ([]byte, error) {
	plaintext, err := json.Marshal(s.get()) //nolint:gosec // encoded here only to be sealed
	if err != nil {
		return nil, errors.New("a credential cannot be encoded")
	}
	return plaintext, nil
}

// content is the plaintext of a credential. The vault stores it sealed, so a field is never
// renamed.
type content struct {
	Type     Kind              `json:"type"`
	Key      string            `json:"key,omitempty"`
	Token    string            `json:"token,omitempty"`
	Username string            `json:"username,omitempty"`
	Password string            `json:"password,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`

	Schemes map[string]*content `json:"schemes,omitempty"`
}

// Kind returns what the secret consists of.
func (s Secret) Kind() Kind { return s.get().Type }

// Key returns the key of an APIKey credential.
func (s Secret) Key() string { return s.get().Key }

// Token returns the token of a Bearer credential.
func (s Secret) Token() string { return s.get().Token }

// Basic returns the user and password of a Basic credential.
func (s Secret) Basic() (username, password string) { return s.get().Username, s.get().Password }

// Headers returns a copy of the headers of a CustomHeader credential.
func (s Secret) Headers() map[string]string { return maps.Clone(s.get().Headers) }

// Values returns every non-empty string that must not appear in a log, a result
// or an error, longest first, for the scrubber. The user name of a basic
// credential counts: some providers take their secret key there. So does the
// pair as it stands in the Authorization header.
func (s Secret) Values() []string { return s.values(true) }

// Hidden is Values without the user names that stand beside a password. Those are often addresses of mail,
// which stand in many texts.
func (s Secret) Hidden() []string { return s.values(false) }

func (s Secret) values(names bool) []string {
	c := s.get()
	values := []string{c.Key, c.Token, c.Password}
	if names || c.Password == "" {
		values = append(values, c.Username)
	}
	if c.Type == Basic {
		values = append(values, base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password)))
	}
	for _, v := range c.Headers {
		values = append(values, v)
	}
	for _, part := range s.Parts() {
		values = append(values, part.values(names)...)
	}
	slices.SortFunc(values, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		if a < b {
			return -1
		}
		return 1
	})
	return slices.DeleteFunc(slices.Compact(values), func(v string) bool { return v == "" })
}

// String implements fmt.Stringer.
func (s Secret) String() string { return redacted }

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return redacted }

// Format implements fmt.Formatter, so that no verb (%d, %p) reaches the content.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalJSON implements json.Marshaler.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText implements encoding.TextMarshaler.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// get returns the content, an empty one for the zero Secret.
func (s Secret) get() *content {
	if s.content == nil {
		return &content{}
	}
	return s.content()
}
