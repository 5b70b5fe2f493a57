// Package redact keeps secrets out of what is stored, logged or shown.
//
// Two jobs: a Scrubber removes secret values that are known (a credential that
// a provider echoes back, in whatever encoding), and a Masker hides values that
// look secret by their schema, their name or their form (arguments in audit
// records and approvals). Names decides what looks secret for headers, URLs and
// log attributes too.
//
// The package does no I/O. It never returns a secret in an error: it has none.
package redact

// Placeholders. Neither has a character that JSON or HTML escapes.
const (
	// Redacted stands where a Scrubber found a known secret.
	Redacted = "[redacted]"
	// Masked stands where a value looked secret.
	Masked = "[masked]"
)
