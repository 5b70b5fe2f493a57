// Package credential names the kinds of credentials. The vault stores them, a provider's
// call applies them, and the catalog says which kind a provider expects; all three use
// these names. It contains no rule and opens nothing.
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
	// None is the kind of a provider that expects no credential. No credential has it.
	None Kind = "none"
)
