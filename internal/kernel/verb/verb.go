// Package verb holds the vocabulary of the catalog: what a verb is called, how
// risky it is, what kind of operation it is, and how a repeat of it behaves at
// the provider. Pure; every layer uses it.
package verb

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"agentruntime/internal/kernel/fault"
)

// Risk is a verb's risk level as the registry knows it.
type Risk string

// Risk levels (docs/governance.md).
const (
	RiskLow    Risk = "low"
	RiskMedium Risk = "medium"
	RiskHigh   Risk = "high"
)

// Operation is what a verb does to the provider's state.
type Operation string

// Operation types (docs/catalog-and-providers.md).
const (
	Read  Operation = "read"
	Write Operation = "write"
)

// Idempotency says what a second identical request does at the provider:
// "none" (a second effect), "intrinsic" (nothing new), or "header:<Name>" (the
// provider takes an idempotency key in that header).
type Idempotency string

// Fixed idempotency values; the header form is built with IdempotencyHeader.
const (
	IdempotencyNone      Idempotency = "none"
	IdempotencyIntrinsic Idempotency = "intrinsic"
	headerPrefix                     = "header:"
)

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$") // RFC 9110 token

// ParseIdempotency reads "none", "intrinsic" or "header:<Name>".
func ParseIdempotency(s string) (Idempotency, bool) {
	if s == string(IdempotencyNone) || s == string(IdempotencyIntrinsic) {
		return Idempotency(s), true
	}
	name, ok := strings.CutPrefix(s, headerPrefix)
	if !ok || !headerName.MatchString(name) {
		return "", false
	}
	return Idempotency(s), true
}

// Header returns the header that carries an idempotency key, "" if none does.
func (i Idempotency) Header() string {
	name, ok := strings.CutPrefix(string(i), headerPrefix)
	if !ok {
		return ""
	}
	return name
}

// Name is a verb's full name, written provider:verb_name.
type Name struct {
	Provider string
	Verb     string
}

// Limits on names. The verb's length leaves room for the provider and "__" in a
// tool name of at most 64 characters, see ToolName.
const (
	MaxSlug     = 40
	MaxToolName = 64
)

var (
	slugPattern = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]|_[a-z0-9-])*$`)
	verbPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
)

// ReservedSlug is the provider of our own platform tools.
const ReservedSlug = "tool"

// ValidSlug reports whether s can name a provider: lower-case letters, digits,
// hyphens and single underscores, at most MaxSlug long.
func ValidSlug(s string) bool {
	return len(s) <= MaxSlug && slugPattern.MatchString(s) && !strings.Contains(s, "__") && s != ReservedSlug
}

// Parse reads provider:verb_name; a malformed name is INVALID_VERB.
func Parse(s string) (Name, error) {
	provider, name, ok := strings.Cut(s, ":")
	if !ok || len(s) > 255 || len(provider) > MaxSlug || !slugPattern.MatchString(provider) || !verbPattern.MatchString(name) {
		return Name{}, fault.New(fault.CodeInvalidVerb, "")
	}
	return Name{Provider: provider, Verb: name}, nil
}

// String returns provider:verb_name.
func (n Name) String() string { return n.Provider + ":" + n.Verb }

// ToolName returns the function name of the verb in chat-model tool formats:
// the colon becomes a double underscore, as chat models need it.
func (n Name) ToolName() string { return n.Provider + "__" + n.Verb }

// Fit shortens a verb name so that the tool name of provider fits
// ^[A-Za-z0-9_-]{1,64}$. A shortened name ends in a hash of the whole, so that
// two long names stay apart.
func Fit(provider, name string) string {
	room := MaxToolName - len(provider) - len("__")
	if len(name) <= room {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:room-len(suffix)], "_-") + suffix
}
