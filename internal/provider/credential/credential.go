// Package credential has what several packages must name alike: the kinds of credentials,
// where a provider expects one, and a secret in the clear, which nothing can print. The
// vault stores credentials, a provider's call applies them, and the catalog says which kind
// a provider expects. The package opens and sends nothing.
package credential

// Kind is what a credential consists of. The vault and the catalog store it as text, so
// a value is never renamed.
type Kind string

// The kinds of credentials.
const (
	APIKey        Kind = "api_key"
	Bearer        Kind = "bearer"
	Basic         Kind = "basic"
	CustomHeader  Kind = "custom_header"
	OAuth2        Kind = "oauth2"
	WebhookSecret Kind = "webhook_secret"
	// Schemes is several secrets in one, each for a security scheme that it names.
	Schemes Kind = "schemes"
	// None is the kind of a provider that expects no credential. No credential has it.
	None Kind = "none"
)
