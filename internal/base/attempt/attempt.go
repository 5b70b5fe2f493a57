// Package attempt says how far one attempt at a provider got. The callers of providers
// report it, and the run domain decides by it whether the call may be repeated.
package attempt

// Phase is how far an attempt got. Only NotSent proves that the provider saw nothing. The
// zero Phase is none of them.
type Phase string

// The phases.
const (
	// NotSent: provably no byte of the request left (DNS, dial, TLS, no header written).
	NotSent Phase = "not_sent"
	// Sent: some or all of it may have left, and no status came back.
	Sent Phase = "sent"
	// Answered: a status arrived. Its body may still be cut.
	Answered Phase = "answered"
)
