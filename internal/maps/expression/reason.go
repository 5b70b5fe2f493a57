package expression

import (
	"strings"

	"github.com/itchyny/gojq"
)

// reasonOf returns what jq says about a failure, without the values that its messages repeat:
// they can be secrets, and the reason is stored and shown. What an author's own error says is
// kept.
func reasonOf(err error) string {
	if _, own := err.(gojq.ValueError); own { //nolint:errorlint // jq returns it as it is
		return clip(err.Error(), maxDetail)
	}
	whole := err.Error()
	text := whole
	if i := strings.IndexAny(text, `("`); i >= 0 {
		text = text[:i]
	}
	const applied = " cannot be applied to"
	if name, _, found := strings.Cut(text, applied); found || strings.Contains(whole, applied) {
		return clip(strings.TrimRight(name, " :"), maxToken) + applied + " its input"
	}
	text = strings.TrimRight(text, " :")
	if head, rest, found := strings.Cut(text, ": "); found && !isType(rest) {
		text = head
	}
	return clip(text, maxDetail)
}

func isType(name string) bool {
	switch name {
	case "null", "boolean", "number", "string", "array", "object":
		return true
	}
	return false
}
