// Package redact keeps secrets out of what is stored, logged or shown.
//
// A Scrubber removes secret values that are known, in any encoding: a credential that a
// provider echoes. A Masker hides values that look secret by their schema, name or form:
// arguments in audit records and approvals. The same names look secret in headers, URLs
// and log attributes. Text does so with what people write, such as reasons.
//
// The package does no I/O and returns no errors.
package redact

// The placeholders. Neither has a character that JSON or HTML escapes.
const (
	// Redacted replaces a known secret that a Scrubber found.
	Redacted = "[redacted]"
	// Masked replaces a value that looked secret.
	Masked = "[masked]"
)
