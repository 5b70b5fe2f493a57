package correction

import (
	"fmt"
	"slices"
	"strings"
)

// isSevere reports whether a word raises a write to high: what it names cannot be taken back, or
// moves money or rights. Beside each verb stands what resources of that kind are called, because
// creating a refund is refunding. Participles are missing: /orders/cancelled is a list.
func isSevere(word string) bool {
	switch word {
	case "delete", "deletes", "deletion", "deletions",
		"cancel", "cancels", "cancellation", "cancellations", "cancelation", "cancelations",
		"void", "voids",
		"refund", "refunds",
		"revoke", "revokes", "revocation", "revocations",
		"transfer", "transfers":
		return true
	}
	return false
}

// isReading reports whether a POST that begins with the word may only ask.
func isReading(word string) bool {
	switch word {
	case "get", "list", "search", "query", "find", "lookup", "count", "describe", "read", "fetch", "retrieve":
		return true
	}
	return false
}

// Severe returns why the name of a write says that its risk is high; "" where it does not. name
// is the verb's, and segment the last literal segment of its path, both in snake_case.
func Severe(name, segment string) string { return says(isSevere, name, segment) }

// Reads returns why the name of a write says that it only reads; "" where it does not.
func Reads(name, segment string) string { return says(isReading, name, segment) }

// says looks for a word at the beginning of a name, and at both ends of a segment: paths name
// what they do as cancel-order and as order-cancel.
func says(counts func(string) bool, name, segment string) string {
	if first, _, _ := strings.Cut(name, "_"); counts(first) {
		return fmt.Sprintf("its name begins with %q", first)
	}
	parts := strings.Split(segment, "_")
	for _, word := range []string{parts[0], parts[len(parts)-1]} {
		if counts(word) {
			return fmt.Sprintf("its path ends in %q", word)
		}
	}
	return ""
}

// LastSegment returns the last segment of a path that is no parameter, without an extension: of
// /orders/{id}/cancel it is cancel, of /orders/{id} orders, and of /{name}:cancel cancel.
func LastSegment(path string) string {
	path, _, _ = strings.Cut(path, "?")
	segments := strings.Split(path, "/")
	for _, s := range slices.Backward(segments) {
		if at := strings.LastIndexByte(s, '}'); at >= 0 {
			s = s[at+1:] // Google writes actions as {name}:cancel
		}
		s = s[strings.LastIndexByte(s, ':')+1:]
		if s, _, _ = strings.Cut(s, "."); s != "" {
			return s
		}
	}
	return ""
}

// Suggestion is a rule that a name suggests. It counts once an import has it. The catalog stores
// suggestions, so a JSON name is never renamed.
type Suggestion struct {
	Operation string `json:"operation"` // "POST /orders/search"
	Verb      string `json:"verb"`
	Rule      Rule   `json:"rule"`
	Reason    string `json:"reason"`
}

// SuggestRead returns the rule that makes a verb a read of low risk.
func SuggestRead(operation, name, why string) Suggestion {
	return Suggestion{Operation: operation, Verb: name, Reason: "It may only read: " + why + ".", Rule: Rule{
		Match: Match{Verb: &name}, Operation: new("read"), Risk: new("low"),
	}}
}

// SuggestHigh returns the rule that makes the risk of a verb high.
func SuggestHigh(operation, name, why string) Suggestion {
	return Suggestion{Operation: operation, Verb: name, Reason: "A new verb would be high: " + why + ".", Rule: Rule{Match: Match{Verb: &name}, Risk: new("high")}}
}
