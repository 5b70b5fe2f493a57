package verb

import "encoding/json"

// LookState says what came of a look: a read-back that is made to see how things are, and compares
// nothing. Maps store it as text, and the API shows it.
type LookState string

// The states of a look. "" is that of none: there was nothing to read.
const (
	LookFound    LookState = "found"
	LookNotFound LookState = "not_found" // the provider says that there is nothing
	LookNotRead  LookState = "not_read"  // the read was not made or failed, so nobody knows
)

// Look is what a read-back reads now.
type Look struct {
	// Declared: the verb declares a read-back. The call may lack an argument of it: then nothing is read.
	Declared bool
	State    LookState
	// Value is what there is; nil in any other state than LookFound.
	Value json.RawMessage
	// Of is the read with its arguments: two calls with the same one are about the same thing. It is
	// "" where that is not known.
	Of string
	// Elsewhere: with other arguments than its own, the call is about another thing.
	Elsewhere bool
}
